//! The export beside TSL's own: on every fixture, and on generated spaces with the real converter.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_runtime::export::JsonOptions;
use zprof_tests::oracle::program;

use super::wire::{Kind, Random, bytes, double, event_metadata, int, message, respell, stat_metadata};
use super::{convert, convert_with, elements, fixture_bytes, without_lanes};

/// Stands in generated texts where others may want a NUL.
pub(super) const MARK: &str = "\u{e000}\u{e001}";

/// The text of a fixture's JSON by TSL.
pub(super) fn tsl_json(name: &str) -> String {
    let bytes = fixture_bytes(name);
    let mut text = String::new();
    if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("is gzip of UTF-8");
    } else {
        text.push_str(std::str::from_utf8(&bytes).expect("is UTF-8"));
    }
    text
}

/// Microseconds from which on our document has no nanoseconds.
const READABLE_MICROS: f64 = 4_398_046_511_104.0;

/// Thread, name and arguments of an event, without its times and its process.
fn content(event: &Value) -> String {
    let mut event = event.clone();
    for key in ["pid", "ts", "dur"] {
        event[key] = Value::Null;
    }
    event.to_string()
}

/// Starts and durations of the events of one content that begin below or beyond [`READABLE_MICROS`], both sorted.
type Times = BTreeMap<(String, bool), [Vec<f64>; 2]>;

fn times(elements: &[Value]) -> Times {
    let mut times = Times::new();
    for event in elements.iter().filter(|element| element["ph"] == "X") {
        let number = |key: &str| event[key].as_f64().expect("is a number");
        let (start, duration) = (number("ts"), number("dur"));
        let is_beyond = start >= READABLE_MICROS;
        let [starts, durations] = times.entry((content(event), is_beyond)).or_default();
        starts.push(start);
        // In our document, an event that begins below and reaches beyond ends there, and none ends after 2^64 ps.
        let latest = if is_beyond { 18_446_744_073_709.55 } else { READABLE_MICROS };
        durations.push(duration.min(latest - start));
    }
    for list in times.values_mut().flatten() {
        list.sort_by(f64::total_cmp);
    }
    times
}

/// Compares all that both documents have: each event with its thread, name and arguments, and its times as exactly as ours has
/// them. Metadata is compared where no process had to give way to another one with its id.
fn assert_same(ours: &str, theirs: &str, what: &str) {
    assert!(ours.ends_with("]}") && !ours.ends_with(",{}]}"), "{what}: the list ends properly");
    let (ours, theirs) = (without_lanes(elements(ours)), elements(theirs));
    let metadata =
        |elements: &[Value]| elements.iter().filter(|element| element["ph"] == "M").cloned().collect::<Vec<_>>();
    let is_renumbered = ours.iter().any(|element| element["pid"].as_u64().is_some_and(|pid| pid > 10_000));
    if !is_renumbered {
        assert_eq!(metadata(&ours), metadata(&theirs), "{what}: metadata against TSL's");
    }
    let (ours, theirs) = (times(&ours), times(&theirs));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{what}: events against TSL's");
    for (event, (ours, theirs)) in ours.keys().zip(ours.values().zip(theirs.values())) {
        // Rounding keeps the order, so numbers at one place of the sorted lists belong together.
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours.len(), theirs.len(), "{what}: {event:?}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                // Below, a nanosecond, and what a double of that size cannot tell apart.
                let unit = if event.1 { 1.01 } else { 0.001_001 + theirs * f64::EPSILON };
                assert!((ours - theirs).abs() < unit, "{what}: {event:?}: {ours} against TSL's {theirs}");
            }
        }
    }
}

#[test]
fn fixtures_read_as_tsl_wrote_them() {
    for (xspace, json, events) in [
        ("jax_cpu_small.xplane.pb", "jax_cpu_small.trace.json.gz", 903),
        ("jax_cpu_mid.xplane.pb", "jax_cpu_mid.trace.json.gz", 13_491),
        ("raw_host_planes.post.xplane.pb", "raw_host_planes.post.trace.json", 10),
    ] {
        let (ours, summary) = convert(&fixture_bytes(xspace)).expect("is an XSpace");
        assert_same(&ours, &tsl_json(json), xspace);
        assert_eq!((summary.events, summary.events_hidden, summary.events_over_limit), (events, 0, 0), "{xspace}");
    }
}

#[test]
fn every_spelling_of_a_fixture_gives_the_same_document() {
    for (name, spellings) in [("jax_cpu_small.xplane.pb", 3), ("raw_host_planes.post.xplane.pb", 60)] {
        let bytes = fixture_bytes(name);
        let (expected, _) = convert(&bytes).expect("is an XSpace");
        for seed in 0..spellings {
            let other = respell(Kind::Space, &bytes, &mut Random(seed));
            assert_ne!(other, bytes);
            let (json, _) = convert(&other).unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
            assert!(json == expected, "{name}, seed {seed}");
        }
    }
}

/// The JSON that the real TSL makes of a space.
pub(super) fn tsl_convert(xspace: &[u8], max_events: Option<u64>) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.pb"), folder.path().join("out.json"));
    fs::write(&input, xspace).expect("is written");
    let mut command = Command::new(program("zprof_tj"));
    if let Some(max_events) = max_events {
        command.env("TF_PROFILER_TRACE_VIEWER_MAX_EVENTS", max_events.to_string());
    }
    let done = command.arg(&input).arg(&output).output().expect("the oracle starts");
    assert!(done.status.success(), "zprof_tj: {}", String::from_utf8_lossy(&done.stderr));
    fs::read_to_string(&output).expect("is UTF-8")
}

#[test]
fn a_limit_keeps_the_events_that_tsl_keeps() {
    let xspace = fixture_bytes("jax_cpu_small.xplane.pb");
    for max_events in [0, 1, 500] {
        let mut options = JsonOptions::default();
        options.max_events = Some(max_events);
        let (ours, summary) = convert_with(&xspace, &options).expect("is an XSpace");
        assert_eq!((summary.events, summary.events_over_limit), (max_events, 903 - max_events));
        assert_same(&ours, &tsl_convert(&xspace, Some(max_events)), &format!("{max_events} events"));
    }
}

#[test]
fn generated_spaces_read_as_tsl_converts_them() {
    let config = Config { cases: 24, max_shrink_iters: 40, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let events = Cell::new(0);
    let result = runner.run(&space(), |space| {
        let (ours, summary) = convert(&space).map_err(|error| TestCaseError::fail(error.to_string()))?;
        events.set(events.get() + summary.events);
        let is_early = summary.notes.iter().any(|note| note.contains(" before the session: "));
        let theirs = match XSpace::decode(space.as_slice()) {
            Ok(decoded) if is_early => tsl_convert(&later(&decoded), None),
            // With other spellings, which this decoder does not know.
            Err(_) if is_early => return Ok(()),
            _ => tsl_convert(&space, None),
        };
        assert_same(&ours, &theirs, "generated");
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(events.get() > 1_000, "the spaces should not be as good as empty: {} events in all", events.get());
}

/// The space with all lines so much later that no event begins less than a day before 0, as the trace has it. TSL leaves such
/// events where they wrap to.
fn later(space: &XSpace) -> Vec<u8> {
    let mut space = space.clone();
    let lines = || space.planes.iter().flat_map(|plane| &plane.lines);
    let starts = lines().flat_map(|line| {
        let start = |offset| i128::from(line.timestamp_ns) * 1_000 + i128::from(offset);
        line.events.iter().filter_map(move |event| match event.data {
            Some(Data::NumOccurrences(_)) => None,
            Some(Data::OffsetPs(offset)) => Some(start(offset)),
            None => Some(start(0)),
        })
    });
    let placed = starts.filter(|start| *start >= -86_400_000_000_000_000);
    let early_ns = i64::try_from(-placed.min().unwrap_or(0).min(0).div_euclid(1_000)).expect("is below a day");
    for line in space.planes.iter_mut().flat_map(|plane| &mut plane.lines) {
        line.timestamp_ns = line.timestamp_ns.wrapping_add(early_ns);
    }
    space.encode_to_vec()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{1,2}",
        1 => Just(String::new()),
        2 => prop::sample::select(vec![
            "q\"uote\\back", "nl\n\t\r\u{8}\u{c}", "\u{1}\u{1f}\u{7f}", "é日本😀", "<&>\u{2028}/", "007", "#k=v#", "a:b",
            "a\u{e000}\u{e001}b", "a\u{e000}\u{e001}", MARK,
        ])
        .prop_map(str::to_owned),
    ]
}

fn time_ns() -> impl Strategy<Value = i64> {
    prop_oneof![5 => 0_i64..100_000, 2 => any::<i64>(), 1 => Just(1_700_000_000_000_000_000), 1 => -1_000_i64..0]
}

fn time_ps() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0_i64..10_000_000, 1 => any::<i64>(), 1 => Just(0), 1 => -1_000_i64..0]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => any::<u64>().prop_map(f64::from_bits),
        3 => (-20_000_000_i32..20_000_000, -9_i32..9).prop_map(|(digits, scale)| f64::from(digits) * 10_f64.powi(scale)),
        1 => (100_000_u32..1_000_000).prop_map(|six| f64::from(six) * 10.0 + 5.0),
        1 => prop::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN]),
    ]
}

/// A stat, as the field `field` of its owner.
fn stat(field: u64) -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        1 => Just(Vec::new()),
        3 => number().prop_map(|value| double(2, value)),
        2 => any::<i64>().prop_map(|value| int(3, value)),
        3 => prop_oneof![any::<i64>(), -9_i64..9].prop_map(|value| int(4, value)),
        3 => text().prop_map(|text| bytes(5, text)),
        1 => text().prop_map(|text| bytes(6, text)),
        3 => (0_i64..20).prop_map(|id| int(7, id)),
    ];
    (0_i64..20, value).prop_map(move |(id, value)| message(field, &[int(1, id), value]))
}

fn event() -> impl Strategy<Value = Vec<u8>> {
    let when = prop_oneof![
        8 => time_ps().prop_map(|offset| int(2, offset)),
        1 => any::<i64>().prop_map(|count| int(5, count)),
        1 => time_ps().prop_map(|offset| [int(2, offset), int(5, 3)].concat()),
        1 => time_ps().prop_map(|offset| [int(5, 3), int(2, offset)].concat()),
    ];
    (0_i64..14, when, time_ps(), vec(stat(4), 0..6))
        .prop_map(|(id, when, duration, stats)| message(4, &[int(1, id), when, int(3, duration), stats.concat()]))
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let id = || prop_oneof![3 => 0_i64..6, 1 => any::<i64>(), 1 => Just((1_i64 << 32) + 3)];
    let name = || prop_oneof![8 => text(), 1 => Just("Async XLA Ops".to_owned()), 1 => Just("_counters_".to_owned())];
    let display = prop_oneof![2 => Just(Vec::new()), 1 => name().prop_map(|name| bytes(11, name))];
    let display_id = prop_oneof![2 => Just(Vec::new()), 1 => id().prop_map(|id| int(10, id))];
    (id(), name(), time_ns(), vec(event(), 0..50), display_id, display).prop_map(
        |(id, name, timestamp, events, display_id, display)| {
            message(3, &[int(1, id), bytes(2, name), int(3, timestamp), events.concat(), display_id, display])
        },
    )
}

fn plane() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec![
        "/host:CPU",
        "/host:CPU",
        "/host:CPU",
        "/device:GPU:0",
        "/device:GPU:1",
        "/device:GPU:",
        "/device:TPU:0",
        "/device:TPU:1 SparseCore 0",
        "/device:CUSTOM:x",
        "/host:metadata",
        "/host:CPU 2",
        "Task Environment",
        "",
    ]);
    let id =
        prop_oneof![6 => 0_i64..3, 1 => Just(700_i64), 1 => Just(-1_i64), 1 => Just(1_i64 << 32), 1 => any::<i64>()];
    let event_name = prop_oneof![
        6 => text(),
        1 => prop::sample::select(vec!["PrefetchProduce", "MemoryAllocation", "ParseExampleConsume"])
            .prop_map(str::to_owned),
    ];
    let display = prop_oneof![2 => Just(Vec::new()), 1 => text().prop_map(|name| bytes(4, name))];
    let event_metadatum = (0_i64..12, event_name, display, vec(stat(5), 0..4))
        .prop_map(|(id, name, display, stats)| event_metadata(id, &[bytes(2, name), display, stats.concat()]));
    let stat_name = prop_oneof![
        6 => text(),
        3 => prop::sample::select(vec![
            "_pt", "_p", "_ct", "_c", "_r", "flops", "program_id", "symbol_id", "_a", "_pid", "_src", "group_id",
            "step_name", "long_name", "process_id", "flow",
        ])
        .prop_map(str::to_owned),
    ];
    let stat_metadatum = (0_i64..18, stat_name).prop_map(|(id, name)| stat_metadata(id, name));
    (id, name, vec(line(), 0..7), vec(event_metadatum, 0..14), vec(stat_metadatum, 0..20)).prop_map(
        |(id, name, lines, events, stats)| {
            message(1, &[int(1, id), bytes(2, name), lines.concat(), events.concat(), stats.concat()])
        },
    )
}

pub(crate) fn space() -> impl Strategy<Value = Vec<u8>> {
    (vec(plane(), 0..8), vec(text(), 1..3), any::<u64>()).prop_map(|(planes, hostnames, seed)| {
        let hostnames: Vec<_> = hostnames.iter().map(|name| bytes(4, name)).collect();
        let plain = [planes.concat(), hostnames.concat()].concat();
        if seed % 2 == 0 { plain } else { respell(Kind::Space, &plain, &mut Random(seed)) }
    })
}
