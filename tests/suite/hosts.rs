//! One axis of time: hosts of a run that started at different times, and events that lie outside of their session. And the
//! program whose threads a trace shows.

use std::fs;
use std::process::Command;

use serde_json::Value;
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value as Stat;
use zprof_runtime::export::{
    FoldedOptions, Host, JsonOptions, PerfettoOptions, SummaryOptions, host_starts, summarise, write_folded,
    write_json_hosts, write_perfetto_hosts,
};
use zprof_tests::make::{Plane, space};
use zprof_tests::viewers::run;

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

/// What Perfetto's trace processor finds in the traces of some hosts.
struct Traces {
    /// Trace-viewer JSON, and Perfetto's own format.
    formats: [Imported; 2],
    /// What was told of both.
    notes: Vec<String>,
}

/// What Perfetto's trace processor finds in a trace.
#[derive(Debug, PartialEq)]
struct Imported {
    /// Name, start and end in ns of each slice, sorted.
    slices: Vec<(String, i64, i64)>,
    /// Id and name of each process, sorted.
    processes: Vec<(i64, String)>,
}

impl Imported {
    fn of(report: &Value) -> Self {
        let rows = |query: usize| report[query].as_array().expect("the rows of a query").iter();
        let number = |value: &Value| value.as_i64().expect("is a number");
        let name = |value: &Value| value.as_str().expect("is a text").to_owned();
        let slices = rows(0).map(|row| (name(&row["name"]), number(&row["ts"]), number(&row["end"])));
        let processes = rows(1).map(|row| (number(&row["pid"]), name(&row["name"])));
        assert_eq!(rows(2).collect::<Vec<_>>(), [] as [&Value; 0], "nothing is lost or refused");
        Self { slices: slices.collect(), processes: processes.collect() }
    }
}

/// Converts the hosts to both formats, and imports what comes of it.
fn traces(hosts: &[(&str, &XSpace)], options: &JsonOptions) -> Traces {
    let bytes: Vec<Vec<u8>> = hosts.iter().map(|(_, space)| space.encode_to_vec()).collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let hosts: Vec<Host<'_>> = hosts.iter().zip(&bytes).map(|((name, _), source)| Host { name, source }).collect();
    let (mut json, mut trace, mut own) = (Vec::new(), Vec::new(), PerfettoOptions::default());
    own.filter = options.filter.clone();
    let summary = write_json_hosts(&hosts, &mut json, options).expect("are XSpaces");
    let written = write_perfetto_hosts(&hosts, &mut trace, &own).expect("are XSpaces");
    assert_eq!(written.notes, summary.notes, "both formats say the same");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = [("trace.json", json), ("trace.pftrace", trace)].map(|(name, bytes)| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("the temporary folder is writable");
        path
    });
    let mut query = Command::new("scripts/perfetto-query");
    query.args(paths).arg("--").args([
        "select name, ts, ts + dur as end from slice order by name, ts, end",
        "select pid, name from process where pid != 0 order by pid",
        "select name, value from stats where severity in ('error', 'data_loss') and value != 0",
    ]);
    let reports = run(&mut query);
    let mut reports = reports.lines().map(|line| Imported::of(&serde_json::from_str(line).expect("is JSON")));
    let formats = [reports.next(), reports.next()].map(|report| report.expect("one for each trace"));
    Traces { formats, notes: summary.notes }
}

/// Asserts that both formats have these events: name, start and end in milliseconds.
fn assert_events(traces: &Traces, expected: &[(&str, f64, f64)]) {
    let ns = |ms: f64| (ms * 1e6).round() as i64;
    let expected: Vec<_> =
        expected.iter().map(|(name, start, end)| ((*name).to_owned(), ns(*start), ns(*end))).collect();
    let [json, perfetto] = &traces.formats;
    assert_eq!((&json.slices, &perfetto.slices), (&expected, &expected));
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
    let first = session(START, "a", MS, 2 * MS);
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
    for format in &found.formats {
        assert_eq!(
            format.slices.iter().find(|slice| slice.0 == "host"),
            Some(&("host".to_owned(), 10_000_000, 15_000_000))
        );
    }
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
        let mut expected = vec![host, device.clone()];
        expected.sort();
        for format in traces(&[("", &space)], &JsonOptions::default()).formats {
            assert_eq!(format.processes, expected);
        }
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
    for format in found.formats {
        assert_eq!(format.processes, expected);
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
