//! XSpace to Perfetto's native trace beside XSpace to JSON, both zprof's: time and size, of the exporters alone, whose output is
//! thrown away, and of `zprof convert` from file to file, which packs Perfetto's.
//!
//! Arguments are XSpace files beside the recorded one.

mod repeated;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zprof_proto::prost::Message as _;
use zprof_runtime::export::{JsonOptions, PerfettoOptions, write_json, write_perfetto};

use crate::repeated::repeated;

/// Counts what is written.
#[derive(Default)]
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The least time of a way, and the bytes that it writes.
struct Way {
    name: &'static str,
    run: Run,
    least: Duration,
    bytes: u64,
}

#[derive(Clone, Copy)]
enum Run {
    /// Gives the number of events, and of bytes.
    Export(fn(&File) -> (u64, u64)),
    /// The command, to a file with this ending.
    Command(&'static str),
}

fn json(file: &File) -> (u64, u64) {
    let mut out = Counted::default();
    let summary = write_json(file, &mut out, &JsonOptions::default()).expect("it is a space");
    (summary.events, out.0)
}

fn pftrace(file: &File) -> (u64, u64) {
    let mut out = Counted::default();
    let summary = write_perfetto(file, &mut out, &PerfettoOptions::default()).expect("it is a space");
    (summary.events, out.0)
}

/// The command, from file to file as people use it; gives the bytes of the trace.
fn command(path: &Path, out: &Path) -> u64 {
    let words = ["zprof", "convert"].map(OsString::from).into_iter();
    let arguments = words.chain([path.into(), "-o".into(), out.into()]);
    assert_eq!(format!("{:?}", zprof_cli::main(arguments)), format!("{:?}", ExitCode::SUCCESS));
    out.metadata().expect("it is there").len()
}

fn main() {
    let (flags, files): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let rounds = if flags.iter().any(|flag| flag == "--quick") { 5 } else { 40 };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/jax_cpu_mid.xplane.pb");
    let longer = folder.path().join("jax_cpu_mid, longer");
    fs::write(&longer, repeated(&recorded).encode_to_vec()).expect("the temporary folder is writable");
    println!("{:<24}{:>14}{:>10}{:>14}{:>10}", "", "ns/event", "ratio", "bytes/event", "size");
    for path in [recorded, longer].into_iter().chain(files.into_iter().map(PathBuf::from)) {
        let way = |name, run| Way { name, run, least: Duration::MAX, bytes: 0 };
        let mut ways = [
            way("json", Run::Export(json)),
            way("pftrace", Run::Export(pftrace)),
            way("convert, .json", Run::Command(".json")),
            way("convert, .json.gz", Run::Command(".json.gz")),
            way("convert, .pftrace", Run::Command(".pftrace")),
        ];
        let mut events = 0;
        for _ in 0..rounds {
            for way in &mut ways {
                let file = File::open(&path).expect("the file is there");
                let start = Instant::now();
                way.bytes = match way.run {
                    Run::Export(export) => {
                        let (count, bytes) = export(&file);
                        events = count;
                        bytes
                    }
                    Run::Command(ending) => command(&path, &folder.path().join(format!("out{ending}"))),
                };
                way.least = way.least.min(start.elapsed());
            }
        }
        println!("{}: {events} events", path.file_name().unwrap_or_default().to_string_lossy());
        // Each beside the JSON that is made in the same way.
        for (place, way) in ways.iter().enumerate() {
            let base = &ways[if place < 2 { 0 } else { 2 }];
            let (ns, bytes) = (way.least.as_nanos() as f64, way.bytes as f64);
            let per = |value: f64| value / events as f64;
            println!(
                "  {:<22}{:>14.0}{:>10.2}{:>14.1}{:>10}",
                way.name,
                per(ns),
                ns / base.least.as_nanos() as f64,
                per(bytes),
                format!("1/{:.1}", base.bytes as f64 / bytes)
            );
        }
    }
}
