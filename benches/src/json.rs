//! XSpace to trace-viewer JSON, beside TSL's own converter on the same files.
//!
//! TSL's side is `zprof_tj`, which `scripts/get-tsl-oracle` builds: parse, convert and to JSON, without reading and
//! writing the files. zprof's reads the file and throws the JSON away.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_runtime::export::{JsonOptions, write_json};
use zprof_tests::oracle;

const EVENTS: usize = 200_000;

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 2 } else { 10 };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/jax_cpu_mid.xplane.pb");
    let large = folder.path().join("large.xplane.pb");
    std::fs::write(&large, repeated(&recorded)).expect("the temporary folder is writable");
    println!("{:<20}{:>10}{:>16}{:>16}{:>10}", "", "events", "zprof ns/event", "TSL ns/event", "ratio");
    for (name, path) in [("jax_cpu_mid", recorded), ("jax_cpu_mid, longer", large)] {
        row(name, &path, &folder.path().join("out.json"), rounds);
    }
}

/// The least time of each, over rounds in which they take turns.
fn row(name: &str, xspace: &PathBuf, json: &Path, rounds: usize) {
    let mut events = 0;
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        let start = Instant::now();
        let file = File::open(xspace).expect("the file is there");
        events = write_json(&file, &mut io::sink(), &JsonOptions::default()).expect("it is a space").events;
        ours = ours.min(start.elapsed());
        theirs = theirs.min(tsl(xspace, json));
    }
    let text = std::fs::read(json).expect("TSL wrote it");
    let complete = text.windows(8).filter(|part| part == br#""ph":"X""#).count();
    assert_eq!(complete as u64, events, "events that TSL wrote, and zprof");
    let ns = |time: Duration| time.as_nanos() as f64 / events as f64;
    println!("{name:<20}{events:>10}{:>16.0}{:>16.0}{:>9.1}x", ns(ours), ns(theirs), ns(theirs) / ns(ours));
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

/// A recorded space with its events again and again, one repetition after the other.
fn repeated(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("the fixture is there");
    let mut space = XSpace::decode(bytes.as_slice()).expect("it is a space");
    let lines = || space.planes.iter().flat_map(|plane| &plane.lines);
    let once: usize = lines().map(|line| line.events.len()).sum();
    let offset = |data: Option<Data>| if let Some(Data::OffsetPs(offset)) = data { offset } else { 0 };
    let ends = lines().flat_map(|line| line.events.iter().map(|event| offset(event.data) + event.duration_ps));
    let length = ends.max().expect("it has events") + 1;
    for line in space.planes.iter_mut().flat_map(|plane| &mut plane.lines) {
        let events = std::mem::take(&mut line.events);
        for (repetition, _) in (0_i64..).zip(0..EVENTS.div_ceil(once)) {
            let shift = repetition * length;
            line.events.extend(events.iter().cloned().map(|mut event| {
                event.data = Some(Data::OffsetPs(offset(event.data) + shift));
                event
            }));
        }
    }
    space.encode_to_vec()
}
