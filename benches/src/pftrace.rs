//! XSpace to Perfetto's native trace beside XSpace to JSON, both zprof's: time and size, and the trace packed with gzip too.
//!
//! Arguments are XSpace files beside the recorded one. Both formats read the file; what they write is thrown away.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use zprof_runtime::export::{JsonOptions, PerfettoOptions, write_json, write_perfetto};

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
    run: fn(&File) -> (u64, u64),
    least: Duration,
    bytes: u64,
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

fn packed(file: &File) -> (u64, u64) {
    let mut out = GzEncoder::new(Counted::default(), Compression::fast());
    let summary = write_perfetto(file, &mut out, &PerfettoOptions::default()).expect("it is a space");
    (summary.events, out.finish().expect("it cannot fail").0)
}

fn packed_json(file: &File) -> (u64, u64) {
    let mut out = GzEncoder::new(Counted::default(), Compression::fast());
    let summary = write_json(file, &mut out, &JsonOptions::default()).expect("it is a space");
    (summary.events, out.finish().expect("it cannot fail").0)
}

fn main() {
    let (flags, files): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let rounds = if flags.iter().any(|flag| flag == "--quick") { 5 } else { 40 };
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/jax_cpu_mid.xplane.pb");
    println!("{:<24}{:>14}{:>10}{:>14}{:>10}", "", "ns/event", "ratio", "bytes/event", "size");
    for path in std::iter::once(recorded).chain(files.into_iter().map(PathBuf::from)) {
        let way = |name, run| Way { name, run, least: Duration::MAX, bytes: 0 };
        let mut ways =
            [way("json", json), way("pftrace", pftrace), way("pftrace, gzip", packed), way("json, gzip", packed_json)];
        let mut events = 0;
        for _ in 0..rounds {
            for way in &mut ways {
                let file = File::open(&path).expect("the file is there");
                let start = Instant::now();
                (events, way.bytes) = (way.run)(&file);
                way.least = way.least.min(start.elapsed());
            }
        }
        println!("{}: {events} events", path.file_name().unwrap_or_default().to_string_lossy());
        let (base_ns, base_bytes) = (ways[0].least.as_nanos() as f64, ways[0].bytes as f64);
        for way in &ways {
            let (ns, bytes) = (way.least.as_nanos() as f64, way.bytes as f64);
            let per = |value: f64| value / events as f64;
            println!(
                "  {:<22}{:>14.0}{:>10.2}{:>14.1}{:>9.3}",
                way.name,
                per(ns),
                ns / base_ns,
                per(bytes),
                bytes / base_bytes
            );
        }
    }
}
