//! What is left out when asked, and what is said of it.

use serde_json::Value;

use super::space::{bytes, event_metadata, int, message};
use super::{arguments, convert, convert_input, elements, fixture};

/// Starts of the events, in microseconds, by process.
fn events(json: &[u8]) -> Vec<(u64, f64)> {
    let number = |value: &Value| value.as_f64().expect("is a number");
    let elements = elements(json);
    let events = elements.iter().filter(|element| element["ph"] == "X");
    events.map(|event| (event["pid"].as_u64().expect("is a number"), number(&event["ts"]))).collect()
}

fn plane(name: &str, events: &[(i64, i64)]) -> Vec<u8> {
    let event = |(start, duration): &(i64, i64)| message(4, &[int(1, 1), int(2, *start), int(3, *duration)]);
    let line = message(3, &[int(1, 7), events.iter().flat_map(event).collect()]);
    message(1, &[bytes(2, name), line, event_metadata(1, &[bytes(2, "e")])])
}

/// A host with events at 1, 2 and 3 ms of 1, 10 and 100 us, and a device with one at 2.5 ms of 1 ms.
fn space() -> Vec<u8> {
    const MS: i64 = 1_000_000_000;
    let host = [(MS, MS / 1_000), (2 * MS, MS / 100), (3 * MS, MS / 10)];
    [plane("/host:CPU", &host), plane("/device:GPU:0", &[(5 * MS / 2, MS)])].concat()
}

#[test]
fn what_is_left_out_is_counted() {
    let all = [(701, 1_000.0), (701, 2_000.0), (701, 3_000.0), (1, 2_500.0)];
    let rows: [(&[&str], &[usize], &str); 9] = [
        (&["--min-duration", "10us"], &[1, 2, 3], "1 event, as asked for"),
        (&["--min-duration", "0.5ms"], &[3], "3 events, as asked for"),
        (&["--time-range", "2ms..3ms"], &[1, 3], "2 events, as asked for"),
        (&["--time-range", "2.05ms.."], &[2, 3], "2 events, as asked for"),
        (&["--time-range", "..1500us"], &[0], "3 events, as asked for"),
        (&["--planes", "host"], &[0, 1, 2], "1 plane and 1 event, as asked for"),
        (&["--planes", "/device:*,nothing"], &[3], "1 plane and 3 events, as asked for"),
        (&["--max-events", "2"], &[0, 1], "2 events after the first 2 (--max-events)"),
        (
            &["--max-events", "1", "--time-range", "2.2ms.."],
            &[3],
            "2 events, as asked for\nzprof: left out 1 event after the first 1 (--max-events)",
        ),
    ];
    for (options, kept, said) in rows {
        let done = convert_input(space(), &[&["-"], options].concat());
        let json = done.quiet(&format!("zprof: left out {said}\n"));
        assert_eq!(events(&json), kept.iter().map(|place| all[*place]).collect::<Vec<_>>(), "{options:?}");
    }
    for options in
        [&["--max-events", "4"][..], &["--min-duration", "0s"], &["--planes", "/"], &["--time-range", "0s..1s"]]
    {
        assert_eq!(events(&convert_input(space(), &[&["-"], options].concat()).quiet("")), all, "{options:?}");
    }
}

#[test]
fn planes_that_are_not_there_are_an_error() {
    assert_eq!(
        convert_input(space(), &["-", "--planes", "TPU,x"]).refused(),
        "failed to convert standard input to standard output: no plane that a trace shows matches `TPU`, `x`; \
         there are `/host:CPU`, `/device:GPU:0`"
    );
    let message = convert_input(space(), &["-", "--planes", "TPU,x", "--format", "pftrace"]).refused();
    assert!(message.ends_with("no plane matches `TPU`, `x`"), "{message}");
}

#[test]
fn what_the_format_hides_is_counted() {
    let hidden = message(
        1,
        &[
            bytes(2, "/host:CPU"),
            message(3, &[message(4, &[int(1, 1)]), message(4, &[int(1, 2)])]),
            event_metadata(1, &[bytes(2, "PrefetchProduce")]),
        ],
    );
    let json = convert_input(hidden, &["-"]).quiet("zprof: left out 1 event: trace viewers hide their kind\n");
    assert_eq!(events(&json).len(), 1);
    let environment = message(1, &[bytes(2, "Task Environment")]);
    let said = "zprof: standard input has no plane that a trace shows, neither a host nor a device\n";
    assert_eq!(elements(&convert_input(environment, &["-"]).quiet(said)), Vec::<Value>::new());
}

#[test]
fn tsl_s_own_limit_is_a_million() {
    let event = message(4, &[int(1, 1), int(2, 5), int(3, 1)]);
    let line = message(3, &[event.repeat(1_000_001)]);
    let space = message(1, &[bytes(2, "/host:CPU"), line]);
    let json = convert_input(space, &["-", "--tsl"])
        .quiet("zprof: left out 1 event after the first 1,000,000 (--max-events)\n");
    assert!(json.ends_with(br#","dur":9.9999999999999995e-07,"name":""},{}]}"#));
    assert_eq!(json.windows(9).filter(|part| part == br#"{"ph":"X""#).count(), 1_000_000);
    // And less where it is asked for.
    let small = fixture("jax_cpu_small.xplane.pb");
    let small = arguments([&small, &"-o", &"-", &"--tsl", &"--max-events", &"900"]);
    let json = convert(small).quiet("zprof: left out 3 events after the first 900 (--max-events)\n");
    assert_eq!(events(&json).len(), 900);
    assert!(events(&json).is_sorted_by(|left, right| left.1 <= right.1));
}
