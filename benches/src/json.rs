//! XSpace to trace-viewer JSON, beside TSL's own converter on the same files: time, and peak memory of a process that
//! does nothing else.
//!
//! TSL's side is `zprof_tj`, which `scripts/get-tsl-oracle` builds: parse, convert and to JSON, without reading and
//! writing the files. zprof's reads the file and writes the JSON to the null device. `json --huge` converts 4 GiB, which TSL
//! cannot read; `json --convert FILE` is the process that is measured.

mod repeated;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use zprof_proto::prost::Message as _;
use zprof_runtime::export::{JsonOptions, write_json};
use zprof_tests::oracle;

use crate::repeated::repeated;

/// Bytes of the huge space; more than a protobuf library reads.
const HUGE: u64 = 4 << 30;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [command, path] = arguments.as_slice() {
        assert_eq!(command, "--convert");
        convert(Path::new(path));
        return;
    }
    let asked = |option: &str| arguments.iter().any(|argument| argument == option);
    let rounds = if asked("--quick") { 2 } else { 10 };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/jax_cpu_mid.xplane.pb");
    if asked("--huge") {
        huge(&recorded, &folder.path().join("huge.xplane.pb"));
        return;
    }
    let large = folder.path().join("large.xplane.pb");
    fs::write(&large, repeated(&recorded).encode_to_vec()).expect("the temporary folder is writable");
    println!(
        "{:<20}{:>10}{:>16}{:>16}{:>10}{:>12}{:>12}",
        "", "events", "zprof ns/event", "TSL ns/event", "ratio", "zprof peak", "TSL peak"
    );
    for (name, path) in [("jax_cpu_mid", recorded), ("jax_cpu_mid, longer", large)] {
        row(name, &path, &folder.path().join("out.json"), rounds);
    }
}

/// Converts to the null device; gives the number of events.
fn convert(xspace: &Path) -> u64 {
    let file = File::open(xspace).expect("the file is there");
    let mut null = File::options().write(true).open("/dev/null").expect("there is a null device");
    write_json(&file, &mut null, &JsonOptions::default()).expect("it is a space").events
}

/// Converts a space that is larger than memory should be.
fn huge(recorded: &Path, path: &Path) {
    let mut space = repeated(recorded);
    space.planes.retain(|plane| plane.name == "/host:CPU");
    let mut file = BufWriter::new(File::create(path).expect("the temporary folder is writable"));
    let mut size = 0;
    for id in 0.. {
        // Devices, as there is one host in a space.
        space.planes[0].name = format!("/device:GPU:{id}");
        space.planes[0].id = id;
        let bytes = space.encode_to_vec();
        file.write_all(&bytes).expect("the disk has room");
        size += bytes.len() as u64;
        if size >= HUGE {
            break;
        }
    }
    file.flush().expect("the disk has room");
    let start = Instant::now();
    let events = convert(path);
    let took = start.elapsed();
    let peak = peak(Command::new(env::current_exe().expect("this program")).arg("--convert").arg(path));
    println!(
        "{:.1} GiB, {events} events: {:.1} s, {:.0} ns an event, {:.0} MB/s; peak {:.1} MiB",
        size as f64 / (1_u64 << 30) as f64,
        took.as_secs_f64(),
        took.as_nanos() as f64 / events as f64,
        size as f64 / 1e6 / took.as_secs_f64(),
        mebibytes(peak),
    );
}

/// The most memory that a command had, in bytes, to a millisecond before its end.
fn peak(command: &mut Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).spawn().expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("it is our child").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) << 10);
        thread::sleep(Duration::from_millis(1));
    }
    peak
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// The least time of each, over rounds in which they take turns.
fn row(name: &str, xspace: &PathBuf, json: &Path, rounds: usize) {
    let mut events = 0;
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        let start = Instant::now();
        events = convert(xspace);
        ours = ours.min(start.elapsed());
        theirs = theirs.min(tsl(xspace, json));
    }
    let text = std::fs::read(json).expect("TSL wrote it");
    let complete = text.windows(8).filter(|part| part == br#""ph":"X""#).count();
    assert_eq!(complete as u64, events, "events that TSL wrote, and zprof");
    let ns = |time: Duration| time.as_nanos() as f64 / events as f64;
    let own = peak(Command::new(env::current_exe().expect("this program")).arg("--convert").arg(xspace));
    let theirs_peak = peak(Command::new(oracle::program("zprof_tj")).arg(xspace).arg(json));
    println!(
        "{name:<20}{events:>10}{:>16.0}{:>16.0}{:>9.1}x{:>8.1} MiB{:>8.1} MiB",
        ns(ours),
        ns(theirs),
        ns(theirs) / ns(ours),
        mebibytes(own),
        mebibytes(theirs_peak)
    );
}

/// What TSL's converter takes, by its own clock; the least of a few in one process, which is warm then as ours is.
fn tsl(xspace: &Path, json: &Path) -> Duration {
    let arguments = [[xspace, json]; 3];
    let output = Command::new(oracle::program("zprof_tj")).args(arguments.as_flattened()).output();
    let output = output.expect("the oracle runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let times = text.lines().filter_map(|line| line.parse().ok()).min();
    Duration::from_nanos(times.expect("it prints its times; run scripts/get-tsl-oracle again"))
}
