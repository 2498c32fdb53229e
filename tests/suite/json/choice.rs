//! What a filter leaves out, and several hosts in one document.

use serde_json::Value;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{Filter, Host, JsonOptions, JsonSummary, write_json_hosts};

use super::wire::{bytes, event_metadata, int, message};
use super::{convert, convert_with, elements, fixture_bytes, without_lanes};

fn plane(name: &str, id: i64, events: &[(i64, i64)]) -> Vec<u8> {
    let events: Vec<_> =
        events.iter().map(|(start, duration)| message(4, &[int(1, 1), int(2, *start), int(3, *duration)])).collect();
    let line = message(3, &[int(1, 7), bytes(2, "line"), events.concat()]);
    message(1, &[int(1, id), bytes(2, name), line, event_metadata(1, &[bytes(2, "e")])])
}

fn with_filter(space: &[u8], filter: Filter) -> (Vec<Value>, JsonSummary) {
    let mut options = JsonOptions::default();
    options.filter = filter;
    let (json, summary) = convert_with(space, &options).expect("is an XSpace");
    (elements(&json), summary)
}

fn is_event(element: &Value) -> bool {
    element["ph"] == "X"
}

/// What a document says in one line: pid and name of processes, then start of events, in µs.
fn told(elements: &[Value]) -> String {
    let names = elements.iter().filter(|element| element["name"] == "process_name");
    let names = names.map(|element| format!("{}={}", element["pid"], element["args"]["name"].as_str().unwrap_or("?")));
    let events = elements.iter().filter(|element| is_event(element));
    let events = events.map(|element| format!("{}@{}", element["pid"], element["ts"]));
    names.chain(events).collect::<Vec<_>>().join(" ")
}

#[test]
fn planes_that_are_filtered_leave_no_row() {
    let space = [
        plane("/host:CPU", 0, &[(0, 1)]),
        plane("/device:GPU:0", 0, &[(1_000_000, 1), (2_000_000, 1)]),
        plane("/device:TPU:0", 4, &[(3_000_000, 1)]),
        plane("Task Environment", 9, &[(0, 1)]),
    ]
    .concat();
    let only = |pattern: &str| {
        let mut filter = Filter::default();
        filter.planes = vec![pattern.to_owned()];
        with_filter(&space, filter)
    };
    let (elements, summary) = only("");
    assert_eq!(told(&elements), "1=/device:GPU:0 701=/host:CPU 701@0 1@1 1@2");
    assert_eq!((summary.planes, summary.planes_filtered, summary.events_filtered), (2, 0, 0));
    let (elements, summary) = only("GPU");
    assert_eq!(told(&elements), "1=/device:GPU:0 1@1 1@2");
    assert!(elements.iter().all(|element| element["pid"] == 1));
    assert_eq!((summary.planes, summary.planes_filtered, summary.events_filtered, summary.events), (1, 2, 2, 2));
    // Devices of another kind are not in the way of those asked for.
    let (elements, summary) = only("/device:TPU:?");
    assert_eq!(told(&elements), "5=/device:TPU:0 5@3");
    assert_eq!((summary.planes_filtered, summary.events_filtered), (2, 3));

    let mut options = JsonOptions::default();
    options.filter.planes = vec!["gpu".to_owned(), "x*".to_owned()];
    let error = convert_with(&space, &options).expect_err("matches none");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "no plane that a trace shows matches `gpu`, `x*`; there are `/host:CPU`, `/device:GPU:0`, `/device:TPU:0`"
    );
}

#[test]
fn events_of_a_real_profile_are_filtered_as_if_afterwards() {
    let space = fixture_bytes("jax_cpu_small.xplane.pb");
    let all = without_lanes(elements(&convert(&space).expect("is an XSpace").0));
    let number = |value: &Value| value.as_f64().expect("is a number");
    let middle = {
        let mut starts: Vec<_> = all.iter().filter(|element| is_event(element)).map(|e| number(&e["ts"])).collect();
        starts.sort_by(f64::total_cmp);
        starts[starts.len() / 2]
    };
    let ps = |micros: f64| (micros * 1e6).round() as u64;
    let rows: [(f64, f64, f64); 5] =
        [(10.0, 0.0, 1e12), (0.0, middle, 1e12), (0.0, 0.0, middle), (5.0, middle, middle + 2_000.0), (1e9, 0.0, 1e12)];
    for (shortest, from, until) in rows {
        let mut filter = Filter::default();
        filter.min_duration_ps = ps(shortest);
        filter.from_ps = (from > 0.0).then(|| ps(from));
        filter.until_ps = (until < 1e12).then(|| ps(until));
        let (kept, summary) = with_filter(&space, filter);
        let mut expected = all.clone();
        expected.retain(|element| {
            if !is_event(element) {
                return true;
            }
            let (start, duration) = (ps(number(&element["ts"])), ps(number(&element["dur"])));
            duration >= ps(shortest) && start + duration > ps(from) && start < ps(until)
        });
        assert!(without_lanes(kept) == expected, "{shortest} {from} {until}");
        assert_eq!(summary.events_filtered + summary.events, 903);
        assert_eq!(summary.events, expected.iter().filter(|element| is_event(element)).count() as u64);
    }
}

#[test]
fn hosts_stand_beside_each_other() {
    let first = [plane("/host:CPU", 0, &[(5_000_000, 1)]), plane("/device:GPU:0", 0, &[(1_000_000, 1)])].concat();
    let second = [plane("/host:CPU", 0, &[(2_000_000, 1)]), plane("/device:GPU:9", 2_000, &[(9_000_000, 1)])].concat();
    let (first, second) = (first.as_slice(), second.as_slice());
    let hosts = [Host { name: "a\"b", source: &first }, Host { name: "c", source: &second }];
    let convert = |options: &JsonOptions| {
        let mut json = Vec::new();
        let summary = write_json_hosts(&hosts, &mut json, options).expect("are XSpaces");
        (elements(std::str::from_utf8(&json).expect("is UTF-8")), summary)
    };
    let (elements, summary) = convert(&JsonOptions::default());
    assert_eq!(
        told(&elements),
        "1001=a\"b /device:GPU:0 1701=a\"b /host:CPU 2701=c /host:CPU 3000=c /device:GPU:9 1701@5 1001@1 2701@2 3000@9"
    );
    assert_eq!((summary.planes, summary.lines, summary.events), (4, 4, 4));
    // The earliest of all hosts, not of each.
    let mut options = JsonOptions::default();
    options.max_events = Some(2);
    let (elements, summary) = convert(&options);
    assert!(told(&elements).ends_with(" 1001@1 2701@2"), "{}", told(&elements));
    assert_eq!((summary.events, summary.events_over_limit), (2, 2));
}

#[test]
fn a_bad_host_is_named_and_checked_before_anything_is_written() {
    let good = plane("/host:CPU", 0, &[(5, 1)]);
    let good = good.as_slice();
    // An event whose stat is cut: found only when the events are read.
    let event = message(4, &[int(1, 1), bytes(4, [8])]);
    let bad = message(1, &[bytes(2, "/host:CPU"), message(3, &[event])]);
    let bad = bad.as_slice();
    let hosts = [Host { name: "good", source: &good }, Host { name: "bad", source: &bad }];
    let mut options = JsonOptions::default();
    options.validate_first = true;
    let mut json = Vec::new();
    let error = write_json_hosts(&hosts, &mut json, &options).expect_err("one is bad");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().starts_with("host `bad`: not an XSpace: "), "{error}");
    assert_eq!(json, b"");
    // What is checked first is the same document.
    let mut checked = Vec::new();
    write_json_hosts(&hosts[..1], &mut checked, &options).expect("is an XSpace");
    assert_eq!(String::from_utf8(checked).expect("is UTF-8"), convert(good).expect("is an XSpace").0);
}
