//! One small space a row: what TSL was measured to write for it, and what zprof writes instead where that differs.

use serde_json::{Value, json};
use zprof_runtime::export::JsonOptions;

use super::wire::{bytes, double, event_metadata, int, message, stat_metadata};
use super::{convert, convert_with, elements};

const STATS: [&str; 11] =
    ["", "k_int", "k_ref", "k_bytes", "step_name", "reftext", "k_str", "k_dbl", "k_uint", "_pt", "_a"];

/// The plane `/host:CPU` with these lines; event 1 is called `plain`, and stat n is called `STATS[n]`.
fn host(lines: &[Vec<u8>]) -> Vec<u8> {
    let stats: Vec<_> = (1_i64..).zip(&STATS[1..]).map(|(id, name)| stat_metadata(id, name)).collect();
    let events = event_metadata(1, &[bytes(2, "plain")]);
    message(1, &[bytes(2, "/host:CPU"), lines.concat(), events, stats.concat()])
}

/// A line that starts at 1000 ns, with id 7 and the name `thread-a`.
fn line(events: &[Vec<u8>]) -> Vec<u8> {
    message(3, &[int(1, 7), bytes(2, "thread-a"), int(3, 1_000), events.concat()])
}

fn event(fields: &[Vec<u8>]) -> Vec<u8> {
    message(4, &[int(1, 1), fields.concat()])
}

/// The text of the only event.
fn shown(space: &[u8]) -> String {
    let (json, summary) = convert(space).expect("is an XSpace");
    assert_eq!(summary.events, 1, "{json}");
    let start = json.find(r#"{"ph":"X""#).expect("there is one event");
    json[start..json.len() - 2].to_owned()
}

/// Names and values of the arguments of the only event.
fn args(stats: &[Vec<u8>]) -> Value {
    let space = host(&[line(&[event(stats)])]);
    let event: Value = serde_json::from_str(&shown(&space)).expect("is JSON");
    event.get("args").cloned().unwrap_or(Value::Null)
}

fn stat(id: i64, value: Vec<u8>) -> Vec<u8> {
    message(4, &[int(1, id), value])
}

#[test]
fn times_are_whole_nanoseconds_and_tsl_s_doubles_in_its_style() {
    /// Text of ts and dur.
    type Times = [&'static str; 2];
    // Line ns, event fields, what we write, what TSL writes.
    let rows: [(i64, Vec<u8>, Times, Times); 8] = [
        (
            1_000,
            [int(2, 1_000), int(3, 0)].concat(),
            ["1.001", "0.000001"],
            ["1.0009999999999999", "9.9999999999999995e-07"],
        ),
        (1_000, [int(2, 2_000), int(3, 666)].concat(), ["1.002", "0.000001"], ["1.002", "0.00066600000000000003"]),
        (1_000, [int(2, 3_600), int(3, 999)].concat(), ["1.003", "0.001"], ["1.0036", "0.0009990000000000001"]),
        (1_000, [int(2, 10_000), int(3, 3_330)].concat(), ["1.01", "0.003"], ["1.01", "0.0033300000000000001"]),
        (0, int(3, 1_000_001), ["0", "1"], ["0", "1.0000009999999999"]),
        (1_000, [int(5, 4), int(3, 5)].concat(), ["1", "0.000001"], ["1", "5.0000000000000004e-06"]),
        // Beyond 2^42 us there are no nanoseconds, and what begins before ends there.
        (
            0,
            [int(2, 7_000), int(3, i64::MAX)].concat(),
            ["0.007", "4398046511103.993"],
            ["0.0070000000000000001", "9223372036854.7754"],
        ),
        (
            0,
            // More than a day before the session.
            [int(2, -90_000_000_000_000_500), int(3, -3)].concat(),
            ["18356744073709", "90000000000"],
            ["18356744073709.551", "18446744073709.551"],
        ),
    ];
    for (timestamp_ns, fields, ours, theirs) in rows {
        let line = message(3, &[int(1, 7), int(3, timestamp_ns), event(&[fields])]);
        let mut tsl = JsonOptions::default();
        tsl.tsl = true;
        for (options, [ts, dur]) in [(JsonOptions::default(), ours), (tsl, theirs)] {
            let (json, _) = convert_with(&host(std::slice::from_ref(&line)), &options).expect("is an XSpace");
            let expected = format!(r#"{{"ph":"X","pid":701,"tid":7,"ts":{ts},"dur":{dur},"name":"plain"}}"#);
            assert!(json.contains(&expected), "{expected} in {json}");
        }
    }
}

#[test]
fn a_line_days_before_the_session_wraps_and_its_id_keeps_32_bits() {
    let line = message(3, &[int(1, (1 << 32) + 9), int(3, -86_400_000_000_010), event(&[int(3, 1)])]);
    assert_eq!(
        shown(&host(&[line])),
        r#"{"ph":"X","pid":701,"tid":9,"ts":18360344073709,"dur":0.000001,"name":"plain"}"#
    );
}

#[test]
fn names_are_escaped_where_json_asks_for_it() {
    let rows: [(&[u8], &str); 7] = [
        (b"q\"uote\\back", r#""q\"uote\\back""#),
        (b"nl\n\t\r\x08\x0c", r#""nl\n\t\r\b\f""#),
        (b"ctl\x01\x1f\x7f", "\"ctl\\u0001\\u001f\x7f\""),
        ("é 日本 😀".as_bytes(), r#""é 日本 😀""#),
        ("<&>\u{2028}/".as_bytes(), "\"<&>\u{2028}/\""),
        // TSL cuts the name here.
        (b"a\0b", r#""a\u0000b""#),
        // TSL takes no such file.
        (b"bad\xc3(\xf0\x9f", "\"bad\u{fffd}(\u{fffd}\""),
    ];
    for (name, expected) in rows {
        let metadata = event_metadata(1, &[bytes(2, name)]);
        let space = message(1, &[bytes(2, "/host:CPU"), line(&[event(&[])]), metadata]);
        let name = shown(&space).split_once(r#""name":"#).expect("has a name").1.to_owned();
        assert_eq!(name, format!("{expected}}}"));
        // The same as a value and as the name of a stat.
        let stats = [stat_metadata(1, name.as_bytes()), stat_metadata(2, [b"2", name.as_bytes()].concat())].concat();
        let own = event(&[stat(1, bytes(5, &name)), stat(2, int(7, 1))]);
        let space = message(1, &[bytes(2, "/host:CPU"), line(&[own]), stats]);
        let event: Value = serde_json::from_str(&shown(&space)).expect("is JSON");
        assert_eq!(event["args"], json!({ name.clone(): name, format!("2{name}"): name }));
    }
}

#[test]
fn what_is_missing_reads_as_empty() {
    let nameless = shown(&host(&[line(&[message(4, &[int(1, 99)])])]));
    assert_eq!(nameless, r#"{"ph":"X","pid":701,"tid":7,"ts":1,"dur":0.000001,"name":""}"#);
    assert_eq!(args(&[stat(1, Vec::new())]), Value::Null);
    assert_eq!(args(&[stat(99, int(4, 1))]), json!({"": "1"}));
    assert_eq!(args(&[stat(2, int(7, 99))]), json!({"k_ref": ""}));
}

#[test]
fn arguments_are_text_and_the_last_of_a_name_counts() {
    assert_eq!(args(&[stat(1, int(4, 1)), stat(1, int(4, 2))]), json!({"k_int": "2"}));
    assert_eq!(args(&[stat(1, int(4, 1)), stat(1, Vec::new())]), json!({"k_int": "1"}));
    assert_eq!(args(&[stat(3, bytes(6, "\0"))]), json!({"k_bytes": "<opaque bytes>"}));
    assert_eq!(args(&[stat(8, int(3, -1))]), json!({"k_uint": "18446744073709551615"}));
    assert_eq!(args(&[stat(1, int(4, -5))]), json!({"k_int": "-5"}));
    assert_eq!(args(&[stat(2, int(7, 5))]), json!({"k_ref": "reftext"}));
    assert_eq!(args(&[stat(6, bytes(5, ""))]), json!({"k_str": ""}));
    // The last member of a oneof counts.
    assert_eq!(args(&[stat(1, [int(4, 1), bytes(5, "x"), double(2, 0.5)].concat())]), json!({"k_int": "0.5"}));
    for (value, text) in [
        (0.1, "0.1"),
        (1e6, "1e+06"),
        (1e20, "1e+20"),
        (123_456_789.0, "1.23457e+08"),
        (1.0 / 3.0, "0.333333"),
        (f64::INFINITY, "inf"),
        (f64::NAN, "nan"),
        (-0.0, "-0"),
        (100_000.0, "100000"),
        (1_234_567.0, "1.23457e+06"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
    ] {
        assert_eq!(args(&[stat(7, double(2, value))]), json!({"k_dbl": text}));
    }
}

#[test]
fn a_step_name_is_also_the_name() {
    assert_eq!(
        shown(&host(&[line(&[event(&[stat(4, bytes(5, "step 5"))])])])),
        r#"{"ph":"X","pid":701,"tid":7,"ts":1,"dur":0.000001,"name":"step 5","args":{"step_name":"step 5"}}"#
    );
}

#[test]
fn bookkeeping_is_hidden_and_counted() {
    let hidden = event_metadata(2, &[bytes(2, "PrefetchProduce")]);
    let lines = [line(&[event(&[]), message(4, &[int(1, 2)])])];
    let space = message(1, &[bytes(2, "/host:CPU"), lines.concat(), hidden]);
    let (_, summary) = convert(&space).expect("is an XSpace");
    assert_eq!((summary.planes, summary.lines, summary.events, summary.events_hidden), (1, 1, 1, 1));
    for name in ["_pt", "_p", "_ct", "_c", "_r", "flops", "program_id", "symbol_id"] {
        let own = event(&[stat(1, int(4, 1))]);
        let space = message(1, &[bytes(2, "/host:CPU"), line(&[own]), stat_metadata(1, name)]);
        assert!(!shown(&space).contains("args"), "{name}");
    }
}

/// Everything but X events, as one text a row.
fn metadata(space: &[u8]) -> Vec<String> {
    let (json, _) = convert(space).expect("is an XSpace");
    elements(&json).iter().filter(|element| element["ph"] == "M").map(Value::to_string).collect()
}

fn named(number: i64, name: &str, more: Vec<u8>) -> Vec<u8> {
    message(3, &[int(1, number), bytes(2, name), more])
}

#[test]
fn lines_of_one_id_are_one_thread_with_the_last_name() {
    let lines = [
        named(1, "first", Vec::new()),
        named(5, "zz", bytes(11, "AA")),
        named(5, "dup", Vec::new()),
        named(4, "four", Vec::new()),
        named(0, "", Vec::new()),
    ];
    let threads = |tid: u32, name: &str, index: u32| {
        [
            json!({"ph": "M", "pid": 701, "tid": tid, "name": "thread_name", "args": {"name": name}}),
            json!({"ph": "M", "pid": 701, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": index}}),
        ]
    };
    let mut expected = vec![
        json!({"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}}),
        json!({"ph": "M", "pid": 701, "name": "process_sort_index", "args": {"sort_index": 701}}),
        // Without a name there is only the index. Readers would take a thread 0 for 701.
        json!({"ph": "M", "pid": 701, "tid": 2_000_000_000, "name": "thread_sort_index", "args": {"sort_index": 5}}),
    ];
    expected.extend([threads(1, "first", 1), threads(4, "four", 4), threads(5, "dup", 3)].concat());
    assert_eq!(metadata(&host(&lines)), expected.iter().map(Value::to_string).collect::<Vec<_>>());
}

#[test]
fn lines_with_a_special_name() {
    let of = |name, id| host(&[message(3, &[int(1, id), bytes(2, name), event(&[])])]);
    let (json, summary) = convert(&of("Async XLA Ops", 7)).expect("is an XSpace");
    assert_eq!((elements(&json).len(), summary.events, summary.events_hidden), (4, 0, 1));
    assert!(json.contains(r#""args":{"name":"Async XLA Ops"}"#));
    assert!(shown(&of("_counters_", i64::MAX)).starts_with(r#"{"ph":"X","pid":701,"tid":4294967295,"#));
}

#[test]
fn only_the_first_kind_of_device_is_shown() {
    let plane = |name: &str, id| {
        let line = named(3, "l", [int(10, 9), bytes(11, "disp"), event(&[])].concat());
        message(1, &[int(1, id), bytes(2, name), line])
    };
    let [custom, tpu, gpu] = ["/device:CUSTOM:x", "/device:TPU:0", "/device:GPU:0"].map(|name| plane(name, 1));
    for (space, name) in [
        ([custom.clone(), tpu.clone(), gpu.clone()].concat(), "/device:GPU:0"),
        ([custom.clone(), tpu].concat(), "/device:TPU:0"),
        (custom, "/device:CUSTOM:x"),
    ] {
        let expected = [
            json!({"ph": "M", "pid": 2, "name": "process_name", "args": {"name": name}}),
            json!({"ph": "M", "pid": 2, "name": "process_sort_index", "args": {"sort_index": 2}}),
            json!({"ph": "M", "pid": 2, "tid": 9, "name": "thread_name", "args": {"name": "disp"}}),
            json!({"ph": "M", "pid": 2, "tid": 9, "name": "thread_sort_index", "args": {"sort_index": 9}}),
        ];
        assert_eq!(metadata(&space), expected.iter().map(Value::to_string).collect::<Vec<_>>());
    }
}

#[test]
fn a_whole_event() {
    let names = [
        "Zed",
        "_a",
        "_pid",
        "aed",
        "flow",
        "group_id",
        "k_bytes",
        "k_dbl",
        "k_int",
        "k_ref",
        "k_str",
        "k_uint",
        "process_id",
        "reftext",
        "_pt",
        "_p",
        "_ct",
        "_c",
        "_r",
        "flops",
        "program_id",
        "symbol_id",
    ];
    let id = |name: &str| (1_i64..).zip(names).find(|(_, known)| *known == name).expect("is in the list").0;
    let of = |name: &str, value: Vec<u8>| stat(id(name), value);
    let hidden = ["_pt", "_p", "_ct", "_c", "_r", "flops", "program_id", "symbol_id"].map(|name| of(name, int(4, 8)));
    let shown_stats = [
        of("k_str", bytes(5, "s\"x")),
        of("k_int", int(4, -5)),
        of("k_uint", int(3, -1)),
        of("k_dbl", double(2, 1.5)),
        of("k_bytes", bytes(6, "\u{1}")),
        of("k_ref", int(7, id("reftext"))),
        of("group_id", int(4, 3)),
        of("flow", int(3, 9)),
        of("_a", int(4, 1)),
        of("_pid", int(4, 77)),
        of("process_id", int(4, 78)),
        of("Zed", int(4, 1)),
    ];
    // One of the stats is the metadata's, shared by all its events.
    let shared = message(5, &[int(1, id("aed")), int(4, 2)]);
    let metadata = event_metadata(1, &[bytes(2, "Model/MatMul_1:MatMul"), bytes(4, "MatMul"), shared]);
    let stats: Vec<_> = names.iter().map(|name| stat_metadata(id(name), name)).collect();
    let own = event(&[int(2, 123_456_789), int(3, 1_500_000), shown_stats.concat(), hidden.concat()]);
    let space = message(1, &[bytes(2, "/host:CPU"), line(&[own]), metadata, stats.concat()]);
    assert_eq!(
        shown(&space),
        concat!(
            r#"{"ph":"X","pid":701,"tid":7,"ts":124.456,"dur":1.5,"name":"MatMul","args":{"Zed":"1","_a":"1","#,
            r#""_pid":"77","aed":"2","flow":"9","group_id":"3","k_bytes":"<opaque bytes>","k_dbl":"1.5","k_int":"-5","#,
            r#""k_ref":"reftext","k_str":"s\"x","k_uint":"18446744073709551615","long_name":"Model/MatMul_1:MatMul","#,
            r#""process_id":"78"}}"#
        )
    );
}

#[test]
fn a_whole_document() {
    let event = |ps: i64, dur: i64| message(4, &[int(1, 1), int(2, ps), int(3, dur)]);
    let lines =
        [named(1, "b", [event(50_000, 50_000), event(10_000, 10_000)].concat()), named(2, "a", event(5_000, 6_000))];
    let space = message(1, &[bytes(2, "/host:CPU"), lines.concat(), event_metadata(1, &[bytes(2, "e")])]);
    let (json, summary) = convert(&space).expect("is an XSpace");
    assert_eq!(
        json,
        concat!(
            r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#,
            r#"{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},"#,
            r#"{"ph":"M","pid":701,"name":"process_sort_index","args":{"sort_index":701}},"#,
            r#"{"ph":"M","pid":701,"tid":1,"name":"thread_name","args":{"name":"b"}},"#,
            r#"{"ph":"M","pid":701,"tid":1,"name":"thread_sort_index","args":{"sort_index":1}},"#,
            r#"{"ph":"M","pid":701,"tid":2,"name":"thread_name","args":{"name":"a"}},"#,
            r#"{"ph":"M","pid":701,"tid":2,"name":"thread_sort_index","args":{"sort_index":2}},"#,
            r#"{"ph":"X","pid":701,"tid":1,"ts":0.01,"dur":0.01,"name":"e"},"#,
            r#"{"ph":"X","pid":701,"tid":1,"ts":0.05,"dur":0.05,"name":"e"},"#,
            r#"{"ph":"X","pid":701,"tid":2,"ts":0.005,"dur":0.006,"name":"e"}]}"#
        )
    );
    assert_eq!((summary.planes, summary.lines, summary.events), (1, 2, 3));
    let empty = r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[]}"#;
    assert_eq!(convert(&[]).expect("an empty file is an empty XSpace").0, empty);
}
