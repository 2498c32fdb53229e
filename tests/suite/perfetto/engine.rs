//! The traces and the JSON as Perfetto's real trace processor imports them: nothing is dropped, and slices, nesting, flows and
//! counters are those of the XSpace.

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_tests::make::{Plane, space};
use zprof_tests::viewers::{LOSSES, query};

use super::{check, convert, events, json as trace_json};
use crate::json::fixture_bytes;
use crate::json::parity::space as generated;

/// Process, thread, times, name and parent of each slice.
const SLICES: &str = "select pid, tid, s.ts, s.dur, s.name, p.name as parent from slice s left join slice p on p.id = s.parent_id \
                      left join thread_track t on t.id = s.track_id left join thread using (utid) left join process using (upid) \
                      order by s.ts, s.dur desc, s.name, tid";
/// Names of the slices at both ends of each arrow.
const FLOWS: &str = "select o.name as sender, i.name as receiver from flow f join slice o on o.id = f.slice_out join slice i \
                     on i.id = f.slice_in order by i.ts, i.name";
const COUNTERS: &str =
    "select t.name, unit, ts, value from counter c join counter_track t on t.id = c.track_id order by ts, unit";

/// The trace and the JSON of a space, as [`query`] takes them.
fn both(space: &XSpace) -> (Vec<u8>, Vec<u8>) {
    let bytes = space.encode_to_vec();
    (convert(&bytes).expect("is an XSpace").0, trace_json(&bytes).into_bytes())
}

/// The answers to queries about the trace of one space.
fn ask(space: &XSpace, queries: &[&str]) -> Vec<Vec<Json>> {
    query([(both(space).0.as_slice(), "pftrace")], queries).remove(0)
}

/// The answers to queries about the JSON of one space.
fn ask_json(space: &XSpace, queries: &[&str]) -> Vec<Vec<Json>> {
    query([(both(space).1.as_slice(), "json")], queries).remove(0)
}

fn with(plane: Plane, stats: &[(&str, i64)]) -> Plane {
    stats.iter().fold(plane, |plane, (name, value)| plane.stat(name, Value::Int64Value(*value)))
}

#[test]
fn every_receiver_of_a_flow_is_joined_with_its_sender() {
    let mut plane = with(Plane::new("/host:CPU").line(1, "main", 0).event("send", 0, 9_000), &[("_pt", 0), ("_p", 7)]);
    plane = with(plane.event("launch", 20_000, 5_000), &[("correlation_id", 3)]);
    plane = plane.line(2, "worker", 0);
    for number in 0..3 {
        let start = 10_000 + 2_000 * number;
        plane = with(plane.event(&format!("receive {number}"), start, 1_000), &[("_ct", 0), ("_c", 7)]);
    }
    // Who hands a flow on gets an arrow, and sends the next one.
    plane = with(plane.event("on", 30_000, 2_000), &[("_ct", 0), ("_c", 7), ("_pt", 0), ("_p", 7)]);
    plane = with(plane.event("last", 40_000, 0), &[("_ct", 0), ("_c", 7)]);
    let mut device = Plane::new("/device:GPU:0").line(1, "stream", 0);
    for number in 0..4 {
        device =
            with(device.event(&format!("kernel {number}"), 50_000 + 2_000 * number, 1_000), &[("correlation_id", 3)]);
    }
    let answers = ask(&space([plane, device]), &[FLOWS, LOSSES]);
    let arrow = |sender: &str, receiver: String| json!({"sender": sender, "receiver": receiver});
    let mut expected: Vec<Json> = (0..3).map(|number| arrow("send", format!("receive {number}"))).collect();
    expected.extend([arrow("send", "on".to_owned()), arrow("on", "last".to_owned())]);
    expected.extend((0..4).map(|number| arrow("launch", format!("kernel {number}"))));
    assert_eq!(answers, [expected, vec![]]);
}

#[test]
fn two_units_of_one_counter_name_are_two_tracks() {
    let mut plane = Plane::new("/host:CPU").line(1, "_counters_", 0);
    for number in 0..3 {
        let start = 1_000 * number;
        plane = with(plane.event("mem", start, 0), &[("bytes", 1_000_000 * number)]);
        plane = with(plane.event("mem", start, 0), &[("pages", number)]);
    }
    let sample =
        |unit: &str, ts: u32, value: u32| json!({"name": "mem", "unit": unit, "ts": ts, "value": f64::from(value)});
    let expected =
        (0..3).flat_map(|number| [sample("bytes", number, 1_000_000 * number), sample("pages", number, number)]);
    assert_eq!(ask(&space([plane]), &[COUNTERS, LOSSES]), [expected.collect(), vec![]]);
}

#[test]
fn instants_of_one_nanosecond_are_all_shown_however_many_there_are() {
    let mut plane = Plane::new("/host:CPU").line(1, "main", 0).event("around", 0, 1_000_000);
    for _ in 0..3_000 {
        plane = plane.event("crowd", 5_000, 0);
    }
    plane = plane.event("later", 6_000, 0);
    let space = space([plane]);
    let count = "select s.name, count(*) as count, max(s.depth) < 255 as is_flat from slice s group by 1 order by 1";
    let row = |name: &str, count: u32| json!({"name": name, "count": count, "is_flat": 1});
    let expected = [vec![row("around", 1), row("crowd", 3_000), row("later", 1)], vec![]];
    assert_eq!(ask(&space, &[count, LOSSES]), expected);
    assert_eq!(ask_json(&space, &[count, LOSSES]), expected);
    // What has room in the slice around it is inside.
    let later = "select p.name as parent from slice s left join slice p on p.id = s.parent_id where s.name = 'later'";
    assert_eq!(ask(&space, &[later]), [[json!({"parent": "around"})]]);
}

#[test]
fn an_event_is_inside_the_tightest_event_around_it() {
    let nested = "select p.name as parent, count(*) as count from slice s left join slice p on p.id = s.parent_id \
                  where s.name = 'fwd' group by 1";
    let own = "include perfetto module slices.self_dur; select sum(s.dur) > sum(self_dur) as is_less from slice s join \
               slice_self_dur using (id) where s.name = 'train'";
    let bytes = fixture_bytes("jax_cpu_small.xplane.pb");
    let space = XSpace::decode(bytes.as_slice()).expect("is an XSpace");
    for answers in [ask(&space, &[nested, own, LOSSES]), ask_json(&space, &[nested, own, LOSSES])] {
        let [nested, own, losses] = answers.as_slice() else { panic!("three queries: {answers:?}") };
        assert!(!nested.is_empty() && nested.iter().all(|row| row["parent"] == "train"), "{nested:?}");
        assert_eq!((own.as_slice(), losses.as_slice()), ([json!({"is_less": 1})].as_slice(), [].as_slice()));
    }
}

#[test]
fn overlapping_slices_of_the_json_get_lanes() {
    let us = 1_000_000;
    let device = Plane::new("/device:GPU:0")
        .line(14, "Stream #14", 0)
        .event("gemm", 0, 100 * us)
        .event("copy", 50 * us, 100 * us)
        .event("in copy", 60 * us, 80 * us)
        .event("next", 200 * us, us);
    let host = Plane::new("/host:CPU").line(5, "", 0).event("a", 0, 2 * us).event("b", us, 2 * us);
    let mut space = space([host, device]);
    space.planes[1].id = 1;
    let slice = |pid: u32, tid: u32, ts: u32, dur: u32, name: &str, parent: Option<&str>| json!({"pid": pid, "tid": tid, "ts": ts * 1_000, "dur": dur * 1_000, "name": name, "parent": parent});
    let expected = [
        slice(2, 14, 0, 100, "gemm", None),
        slice(701, 5, 0, 2, "a", None),
        slice(701, 2_000_000_001, 1, 2, "b", None),
        slice(2, 2_000_000_001, 50, 100, "copy", None),
        slice(2, 2_000_000_001, 60, 80, "in copy", Some("copy")),
        slice(2, 14, 200, 1, "next", None),
    ];
    let names = "select pid, tid, thread.name from thread join process using (upid) where tid != pid order by pid, tid";
    let thread = |pid: u32, tid: u32, name: Option<&str>| json!({"pid": pid, "tid": tid, "name": name});
    let threads = [
        thread(2, 14, Some("Stream #14")),
        thread(2, 2_000_000_001, Some("Stream #14 (2)")),
        thread(701, 5, None),
        thread(701, 2_000_000_001, Some("(2)")),
    ];
    let answers = ask_json(&space, &[SLICES, names, LOSSES]);
    assert_eq!(answers, [expected.to_vec(), threads.to_vec(), vec![]]);
}

#[test]
fn planes_of_one_id_are_processes_of_their_own_in_the_json() {
    let plane = |name: &str, event: &str, start| Plane::new(name).line(1, "XLA Ops", 0).event(event, start, 10_000_000);
    let space = space([plane("/device:TPU:0", "a", 0), plane("/device:TPU:1", "b", 5_000_000)]);
    let processes = "select pid, process.name from process where pid != 0 order by pid";
    let slice = |pid: u32, ts: u32, name: &str| json!({"pid": pid, "tid": 1, "ts": ts, "dur": 10_000, "name": name, "parent": null});
    let expected = [
        vec![slice(1, 0, "a"), slice(10_001, 5_000, "b")],
        vec![json!({"pid": 1, "name": "/device:TPU:0"}), json!({"pid": 10_001, "name": "/device:TPU:1"})],
        vec![],
    ];
    assert_eq!(ask_json(&space, &[SLICES, processes, LOSSES]), expected);
}

#[test]
fn what_nests_in_picoseconds_nests_in_the_json_too() {
    // Readers round start and duration by themselves: to the nearest ns, the inner event would end after the outer one.
    let plane = Plane::new("/host:CPU").line(1, "main", 0).event("outer", 400, 3_000).event("inner", 500, 2_900);
    let slice = |tid: u32, name: &str, parent: Option<&str>| json!({"pid": 701, "tid": tid, "ts": 0, "dur": 3, "name": name, "parent": parent});
    let expected = [vec![slice(1, "inner", Some("outer")), slice(1, "outer", None)], vec![]];
    assert_eq!(ask_json(&space([plane]), &[SLICES, LOSSES]), expected);
}

/// Process, begin, duration and name of each slice, sorted.
fn sorted(mut slices: Vec<Json>) -> Vec<String> {
    let mut texts: Vec<String> = slices.drain(..).map(|slice| slice.to_string()).collect();
    texts.sort_unstable();
    texts
}

/// The slices that the JSON should have, from its text, in whole nanoseconds.
fn slices_of_json(json: &[u8]) -> Vec<String> {
    let document: Json = serde_json::from_slice(json).expect("is JSON");
    let slices = document["traceEvents"].as_array().expect("is a list").iter().filter(|event| event["ph"] == "X");
    let ns = |event: &Json, key: &str| (event[key].as_f64().expect("is a number") * 1e3).round() as u64;
    // The importer leaves the escapes of control characters as they are.
    let escaped = |character: char| match character {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\0'..' ' => format!("\\u{:04x}", u32::from(character)),
        _ => character.to_string(),
    };
    let name = |event: &Json| match event["name"].as_str().expect("is a text") {
        "" => "[No name]".to_owned(),
        name => name.chars().map(escaped).collect(),
    };
    let of = |event: &Json| json!([event["pid"], ns(event, "ts"), ns(event, "dur"), name(event)]);
    sorted(slices.map(of).collect())
}

/// The slices that a trace should have, as Perfetto's protos read it.
fn slices_of_trace(report: &Json) -> Vec<String> {
    let of = |event: &Json| {
        let ns = |key: &str| event[key].as_u64().expect("is a number");
        json!([event["pid"], ns("ts"), ns("end") - ns("ts"), event["name"]])
    };
    sorted(events(report).iter().filter(|event| event["type"] != "counter").map(of).collect())
}

/// Compares sorted lists, and shows where they begin to differ.
fn assert_same(shown: &[String], expected: &[String], number: usize) {
    let differs = shown.iter().zip(expected).position(|(left, right)| left != right);
    let place = differs.unwrap_or(shown.len().min(expected.len()));
    assert_eq!((shown.get(place), shown.len()), (expected.get(place), expected.len()), "space {number}");
}

/// The profiles that the examples write which people look at first.
fn profiles_of_examples() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let run = |name: &str| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join(format!("zprof-{name}"));
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--release", "-p", "zprof-examples", "--example", name]).current_dir(root);
        // They write to the temporary folder, but for the larger one, which is told where.
        command.env("TMPDIR", folder.path());
        if name == "llm" {
            command.args(["--", "--tokens", "8", "--output"]).arg(&logs);
        }
        let output = command.output().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        fs::read(logs.join("plugins/profile/profiling/profiling.xplane.pb")).expect("the example writes a profile")
    };
    ["llm", "runtimes", "bridge"].map(run).into()
}

#[test]
fn all_of_fixtures_of_examples_and_of_generated_spaces_is_imported() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let fixtures = ["jax_cpu_small", "jax_cpu_mid", "raw_host_planes", "raw_host_planes.post", "host_events"];
    let mut spaces: Vec<Vec<u8>> = fixtures.iter().map(|name| fixture_bytes(&format!("{name}.xplane.pb"))).collect();
    spaces.extend(profiles_of_examples());
    spaces.extend((0..50).map(|_| generated().new_tree(&mut runner).expect("is generated").current()));
    let traces: Vec<(Vec<u8>, Vec<u8>)> =
        spaces.iter().map(|space| (convert(space).expect("is an XSpace").0, trace_json(space).into_bytes())).collect();
    let each = "select pid, s.ts, s.dur, s.name from slice s left join thread_track t on t.id = s.track_id left join track on \
                track.id = s.track_id left join thread_track p on p.id = track.parent_id left join thread on thread.utid = \
                coalesce(t.utid, p.utid) left join process using (upid)";
    let samples = "select count(*) as count from counter";
    let slices = |rows: &[Json]| {
        sorted(rows.iter().map(|row| json!([row["pid"], row["ts"], row["dur"], row["name"]])).collect())
    };
    let of_traces = query(traces.iter().map(|(trace, _)| (trace.as_slice(), "pftrace")), &[each, samples, LOSSES]);
    let of_jsons = query(traces.iter().map(|(_, json)| (json.as_slice(), "json")), &[each, LOSSES]);
    let reports = check(traces.iter().map(|(trace, _)| (trace.as_slice(), None)));
    for (number, (((_, json), report), (of_trace, of_json))) in
        traces.iter().zip(&reports).zip(of_traces.iter().zip(&of_jsons)).enumerate()
    {
        assert_eq!((&of_trace[2], &of_json[1]), (&vec![], &vec![]), "space {number}");
        let counters = events(report).iter().filter(|event| event["type"] == "counter").count();
        assert_eq!(of_trace[1], [json!({"count": counters})], "space {number}");
        assert_same(&slices(&of_trace[0]), &slices_of_trace(report), number);
        assert_same(&slices(&of_json[0]), &slices_of_json(json), number);
    }
}
