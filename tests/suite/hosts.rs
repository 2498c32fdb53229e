//! One axis of time: hosts of a run that started at different times, and events that lie outside of their session. And the
//! program whose threads a trace shows.

use serde_json::{Value, json};
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value as Stat;
use zprof_runtime::export::{
    FoldedOptions, Host, JsonOptions, PerfettoOptions, SummaryOptions, host_starts, summarise, write_folded,
    write_json_hosts, write_perfetto_hosts,
};
use zprof_tests::make::{Plane, space};
use zprof_tests::viewers::read_traces;

/// When the first session of these tests started, in nanoseconds since the Unix epoch.
const START: u64 = 1_796_058_477_750_453_923;
const MS: i64 = 1_000_000_000;

/// The plane `Task Environment` of a session with these times.
fn environment(times: Option<(u64, u64)>) -> Plane {
    let plane = Plane::new("Task Environment");
    let Some((start, stop)) = times else { return plane };
    plane
        .plane_stat("profile_start_time", Stat::Uint64Value(start))
        .plane_stat("profile_stop_time", Stat::Uint64Value(stop))
}

/// A session of two seconds, with one event of the host.
fn session(start_ns: u64, event: &str, offset_ps: i64, duration_ps: i64) -> XSpace {
    let host = Plane::new("/host:CPU").line(7, "main", 0).event(event, offset_ps, duration_ps);
    space([host, environment(Some((start_ns, start_ns + 2_000_000_000)))])
}

/// What traces of these hosts hold.
struct Traces {
    /// Name, start and end in ns of each event, as trace-viewer JSON and Perfetto's format have them.
    json: Vec<(String, f64, f64)>,
    perfetto: Vec<(String, f64, f64)>,
    /// Id and name of each process.
    json_processes: Vec<(u64, String)>,
    perfetto_processes: Vec<(u64, String)>,
    /// What was told of both.
    notes: Vec<String>,
}

/// Converts the hosts to both formats.
fn traces(hosts: &[(&str, &XSpace)], options: &JsonOptions) -> Traces {
    let bytes: Vec<Vec<u8>> = hosts.iter().map(|(_, space)| space.encode_to_vec()).collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let hosts: Vec<Host<'_>> = hosts.iter().zip(&bytes).map(|((name, _), source)| Host { name, source }).collect();
    let mut document = Vec::new();
    let summary = write_json_hosts(&hosts, &mut document, options).expect("are XSpaces");
    let document: Value = serde_json::from_slice(&document).expect("is JSON");
    let elements = document["traceEvents"].as_array().expect("is a list");
    let ns = |micros: &Value| (micros.as_f64().expect("is a number") * 1e3).round();
    let events = elements.iter().filter(|element| element["ph"] == "X");
    let name = |value: &Value| value.as_str().expect("is a text").to_owned();
    let json = events.map(|event| (name(&event["name"]), ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"])));
    let processes = elements.iter().filter(|element| element["name"] == "process_name");
    let json_processes =
        processes.map(|process| (process["pid"].as_u64().expect("is an id"), name(&process["args"]["name"])));

    let mut own = PerfettoOptions::default();
    own.filter = options.filter.clone();
    let mut trace = Vec::new();
    let written = write_perfetto_hosts(&hosts, &mut trace, &own).expect("are XSpaces");
    assert_eq!(written.notes, summary.notes, "both formats say the same");
    let report = read_traces([(trace.as_slice(), None)]).remove(0);
    let events = report["events"].as_array().expect("is a list").iter();
    let number = |value: &Value| value.as_f64().expect("is a number");
    let perfetto = events.map(|event| (name(&event["name"]), number(&event["ts"]), number(&event["end"])));
    let processes = report["processes"].as_array().expect("is a list").iter();
    let perfetto_processes =
        processes.map(|process| (process["pid"].as_u64().expect("is an id"), name(&process["name"])));
    let mut traces = Traces {
        json: json.collect(),
        perfetto: perfetto.collect(),
        json_processes: json_processes.collect(),
        perfetto_processes: perfetto_processes.collect(),
        notes: summary.notes,
    };
    for events in [&mut traces.json, &mut traces.perfetto] {
        events.sort_by(|left, right| left.partial_cmp(right).expect("are numbers"));
    }
    traces
}

/// Asserts that both formats have these events: name, start and end in milliseconds.
fn assert_events(traces: &Traces, expected: &[(&str, f64, f64)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, start, end)| ((*name).to_owned(), start * 1e6, end * 1e6)).collect();
    assert_eq!((&traces.json, &traces.perfetto), (&expected, &expected));
}

#[test]
fn hosts_are_apart_as_the_starts_of_their_sessions_are() {
    // What both did at one moment: 1.4 s after the start of the one, and 0.9 s after that of the other.
    let first = session(START, "barrier", 1_400 * MS, 20 * MS);
    let second = session(START + 500_000_000, "barrier", 900 * MS, 25 * MS);
    let found = traces(&[("rank0", &first), ("rank1", &second)], &JsonOptions::default());
    assert_events(&found, &[("barrier", 1_400.0, 1_420.0), ("barrier", 1_400.0, 1_425.0)]);
    assert_eq!(found.notes, [] as [&str; 0]);
    // Whatever their order.
    let found = traces(&[("a", &second), ("b", &first)], &JsonOptions::default());
    assert_events(&found, &[("barrier", 1_400.0, 1_420.0), ("barrier", 1_400.0, 1_425.0)]);
    // A host alone counts from its own start.
    assert_events(&traces(&[("", &second)], &JsonOptions::default()), &[("barrier", 900.0, 925.0)]);
    // A range of time is one of the axis.
    let mut options = JsonOptions::default();
    (options.filter.from_ps, options.filter.until_ps) = (Some(1_422 * MS as u64), Some(2_000 * MS as u64));
    let found = traces(&[("rank0", &first), ("rank1", &second)], &options);
    assert_events(&found, &[("barrier", 1_400.0, 1_425.0)]);
}

#[test]
fn clocks_that_cannot_be_compared_are_told() {
    const DAY_NS: u64 = 86_400_000_000_000;
    let first = session(START, "a", 1 * MS, 2 * MS);
    let unknown = space([Plane::new("/host:CPU").line(7, "main", 0).event("b", 3 * MS, MS), environment(None)]);
    let found = traces(&[("x", &first), ("y", &unknown), ("z", &unknown)], &JsonOptions::default());
    assert_events(&found, &[("a", 1.0, 3.0), ("b", 3.0, 4.0), ("b", 3.0, 4.0)]);
    let own = "each host counts from its own start, so events of different hosts cannot be compared in time";
    assert_eq!(found.notes, [format!("host `y` and one more host do not say when the session started: {own}")]);
    let other = session(START + 2 * DAY_NS, "b", 3 * MS, MS);
    let found = traces(&[("x", &first), ("y", &other)], &JsonOptions::default());
    assert_events(&found, &[("a", 1.0, 3.0), ("b", 3.0, 4.0)]);
    assert_eq!(
        found.notes,
        [format!(
            "the session of host `y` started 2 days after that of host `x`, so their clocks differ or they are of different runs: \
             {own}"
        )]
    );
    // Sessions of two seconds.
    let later = session(START + 12_000_000_000, "b", 3 * MS, MS);
    let found = traces(&[("x", &first), ("y", &later)], &JsonOptions::default());
    assert_events(&found, &[("a", 1.0, 3.0), ("b", 12_003.0, 12_004.0)]);
    assert_eq!(
        found.notes,
        [
            "the session of host `y` started 10 s after that of host `x` had ended: the clocks of their machines differ, or they \
          are of different runs"
        ]
    );
}

#[test]
fn summaries_of_hosts_are_on_one_axis_where_the_starts_are_known() {
    let (first, second) = (session(START + 250_000_000, "a", 0, MS), session(START, "b", 0, MS));
    let (first, second) = (first.encode_to_vec(), second.encode_to_vec());
    let (first, second) = (first.as_slice(), second.as_slice());
    let hosts = [Host { name: "x", source: &first }, Host { name: "y", source: &second }];
    let starts = host_starts(&hosts).expect("are XSpaces");
    assert_eq!((starts.later_ps, starts.notes), (vec![250 * i128::from(MS), 0], vec![]));
    let mut summary = summarise(&first, &SummaryOptions::default()).expect("is an XSpace");
    summary.delay(250 * i128::from(MS));
    assert_eq!(summary.planes[0].span_ps(), Some((250 * i128::from(MS), 251 * i128::from(MS))));
}

/// A session of 2 s whose device has these events.
fn with_device(timestamp_ns: i64, events: &[(&str, i64, i64)]) -> XSpace {
    let mut space = session(START, "host", 10 * MS, 5 * MS);
    let line = Plane::new("/device:GPU:0").line(1, "stream", timestamp_ns);
    let plane = events.iter().fold(line, |line, (name, offset, duration)| line.event(name, *offset, *duration));
    space.planes.insert(1, plane.build());
    space
}

fn told(space: &XSpace) -> Vec<String> {
    summarise(&space.encode_to_vec().as_slice(), &SummaryOptions::default()).expect("is an XSpace").warnings
}

#[test]
fn events_before_the_session_are_where_they_were_and_told() {
    let early = with_device(0, &[("first", -3 * MS, 2 * MS), ("across", -MS, 4 * MS), ("inside", 6 * MS, MS)]);
    let found = traces(&[("", &early)], &JsonOptions::default());
    // All is later by what the first needs.
    let expected = [("across", 2.0, 6.0), ("first", 0.0, 2.0), ("host", 13.0, 18.0), ("inside", 9.0, 10.0)];
    assert_events(&found, &expected);
    let cure = "wait for the device before the session starts, or set its clock";
    let begin = "2 events of `/device:GPU:0` begin up to 3 ms before the session";
    assert_eq!(
        found.notes,
        [format!("{begin}: the trace begins there; {cure}, or leave them out by `--time-range 0..`")]
    );
    assert_eq!(told(&early), [format!("{begin}: {cure}")]);
    // The cure, by which one that reaches into the session stays.
    let mut options = JsonOptions::default();
    options.filter.from_ps = Some(0);
    let found = traces(&[("", &early)], &options);
    assert_events(&found, &[("across", 0.0, 4.0), ("host", 11.0, 16.0), ("inside", 7.0, 8.0)]);
    // Lines that begin before, and hosts that start later.
    let (early, late) = (with_device(-2_000_000, &[("e", 0, MS)]), session(START + 1_000_000, "later", 0, MS));
    let found = traces(&[("x", &early), ("y", &late)], &JsonOptions::default());
    assert_events(&found, &[("e", 0.0, 1.0), ("host", 12.0, 17.0), ("later", 3.0, 4.0)]);
}

#[test]
fn events_after_the_session_and_without_a_place_are_told() {
    let late =
        with_device(0, &[("within", 0, 2_000 * MS), ("beyond", 1_999 * MS, 4 * MS), ("after", 2_005 * MS, MS / 2)]);
    let found = traces(&[("", &late)], &JsonOptions::default());
    let cure = "wait for the device before the session stops, or set its clock";
    // The end of the session may be recorded itself, so that it is no news if an event ends after it.
    let expected = [format!("1 event of `/device:GPU:0` begins up to 5 ms after the session: {cure}")];
    assert_eq!((found.notes.as_slice(), told(&late).as_slice()), (expected.as_slice(), expected.as_slice()));
    let lost = with_device(-90_000_000_000_000, &[("lost", -5, MS)]);
    let expected =
        ["1 event of `/device:GPU:0` begins more than a day before the session or ages after it, and is shown at a \
                     wrong time: the times in the file are wrong; `zprof check` lists them"];
    let found = traces(&[("", &lost)], &JsonOptions::default());
    assert_eq!(
        (found.notes.as_slice(), told(&lost)),
        (expected.map(str::to_owned).as_slice(), expected.map(str::to_owned).to_vec())
    );
    assert_eq!(found.json.iter().find(|event| event.0 == "host"), Some(&("host".to_owned(), 1e7, 1.5e7)));
}

#[test]
fn a_line_at_the_time_of_day_is_put_into_its_session() {
    let far = with_device(i64::try_from(START).expect("is before 2262") + 4_000_000, &[("kernel", MS, MS)]);
    let found = traces(&[("", &far)], &JsonOptions::default());
    assert_events(&found, &[("host", 10.0, 15.0), ("kernel", 5.0, 6.0)]);
    let expected = |taken| {
        format!(
            "1 line of `/device:GPU:0` counts from 1970 and not from the session's start, which {taken}; other viewers show such \
             lines decades away, so report it to the maker of the profiler"
        )
    };
    assert_eq!(found.notes, [expected("is taken off here")]);
    assert_eq!(told(&far), [expected("was not taken off")]);
}

#[test]
fn tsl_s_document_has_neither_axis_nor_program() {
    let mut early = with_device(0, &[("first", -3 * MS, 2 * MS)]);
    early.planes.last_mut().expect("the environment").stats.clear();
    let plain = tsl(&early);
    let named = environment(Some((START, START + 1))).plane_stat("process_name", Stat::StrValue("p".into()));
    *early.planes.last_mut().expect("the environment") = named.plane_stat("process_id", Stat::Int64Value(5)).build();
    assert_eq!(tsl(&early), plain);
}

fn tsl(space: &XSpace) -> String {
    let (bytes, mut out, mut options) = (space.encode_to_vec(), Vec::new(), JsonOptions::default());
    options.tsl = true;
    let summary = write_json_hosts(&[Host { name: "", source: &bytes.as_slice() }], &mut out, &options);
    assert_eq!(summary.expect("is an XSpace").notes, [] as [&str; 0]);
    String::from_utf8(out).expect("is UTF-8")
}

/// A session of a program, with a plane of a device.
fn of_program(name: &str, id: Option<i64>) -> XSpace {
    let mut space = with_device(0, &[("kernel", MS, MS)]);
    space.planes[1].id = 2;
    let mut named = environment(Some((START, START + 2_000_000_000)));
    named = named.plane_stat("process_name", Stat::StrValue(name.to_owned()));
    if let Some(id) = id {
        named = named.plane_stat("process_id", Stat::Int64Value(id));
    }
    *space.planes.last_mut().expect("the environment") = named.build();
    space
}

#[test]
fn a_process_has_the_name_and_the_id_of_its_program() {
    let device = (3, "/device:GPU:0".to_owned());
    let rows = [
        (of_program("llm", Some(4_711)), (4_711, "llm".to_owned())),
        (of_program("llm", None), (701, "llm".to_owned())),
        // An id that a device has, and one that viewers cannot hold.
        (of_program("llm", Some(3)), (701, "llm (pid 3)".to_owned())),
        (of_program("", Some(4_711)), (701, "/host:CPU".to_owned())),
    ];
    for (space, host) in rows {
        let found = traces(&[("", &space)], &JsonOptions::default());
        assert_eq!(found.json_processes, [device.clone(), host.clone()]);
        assert_eq!(found.perfetto_processes, [host, device.clone()]);
    }
}

#[test]
fn processes_of_several_hosts_with_one_id_stay_apart() {
    // As in containers, where each program may have the same id.
    let (first, second) = (of_program("llm", Some(4_711)), of_program("loader", Some(4_711)));
    let found = traces(&[("a", &first), ("b", &second)], &JsonOptions::default());
    let expected =
        [(1_003, "a /device:GPU:0"), (2_003, "b /device:GPU:0"), (2_701, "b loader (pid 4711)"), (4_711, "a llm")];
    let expected = expected.map(|(id, name)| (id, name.to_owned()));
    for mut processes in [found.json_processes, found.perfetto_processes] {
        processes.sort();
        assert_eq!(processes, expected);
    }
}

#[test]
fn stacks_and_summaries_name_the_program() {
    let space = of_program("llm", Some(4_711)).encode_to_vec();
    let summary = summarise(&space.as_slice(), &SummaryOptions::default()).expect("is an XSpace");
    let process = summary.process.expect("the space has its name");
    assert_eq!((process.name.as_str(), process.id, process.label().as_str()), ("llm", Some(4_711), "llm (pid 4711)"));
    let mut stacks = Vec::new();
    write_folded(&space.as_slice(), &mut stacks, &FoldedOptions::default()).expect("is an XSpace");
    let stacks = String::from_utf8(stacks).expect("is UTF-8");
    assert_eq!(stacks, "llm (pid 4711);host 5000000\n/device:GPU:0;stream;kernel 1000000\n");
}
