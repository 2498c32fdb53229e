//! One rule a test, each on a small space written down whole.

use serde_json::{Value as Json, json};
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::PerfettoOptions;
use zprof_tests::make::Plane;

use super::{check, convert, convert_with, events, json as trace_json, lines, read};

fn space(planes: impl IntoIterator<Item = Plane>) -> XSpace {
    XSpace { planes: planes.into_iter().map(Plane::build).collect(), ..XSpace::default() }
}

fn host() -> Plane {
    Plane::new("/host:CPU").line(7, "main", 0)
}

#[test]
fn arguments_keep_their_types_and_the_last_of_a_name_counts() {
    let plane = host()
        .event("e", 1_500, 2_000)
        .stat("int", Value::Int64Value(-5))
        .stat("uint", Value::Uint64Value(u64::MAX))
        .stat("double", Value::DoubleValue(0.1))
        .text("ref", "007")
        .stat("text", Value::StrValue("é".into()))
        .stat("long", Value::StrValue("x".repeat(3_000)))
        .stat("bytes", Value::BytesValue(vec![0, 0xab, 0xff]))
        .stat("many", Value::BytesValue(vec![7; 5_000]))
        .stat("twice", Value::Int64Value(1))
        .stat("twice", Value::StrValue("two".into()))
        .stat("program_id", Value::Int64Value(1))
        .event("e", 9_000, 500)
        .stat("text", Value::StrValue("é".into()));
    let report = read(&space([plane]));
    let expected = json!({
        "int": ["int", "-5"],
        "uint": ["uint", u64::MAX.to_string()],
        "double": ["double", "0.1"],
        "ref": ["string", "007"],
        "text": ["string", "é"],
        "long": ["string", "x".repeat(3_000)],
        "bytes": ["string", "00abff"],
        "many": ["string", "<5000 opaque bytes>"],
        "twice": ["string", "two"],
    });
    assert_eq!(events(&report)[0]["args"], expected);
    assert_eq!(lines(&report)[1], "701/7 slice `e` 9..9 text=string:é");
}

#[test]
fn names_come_from_where_the_json_has_them() {
    let stat = |plane: Plane, value| plane.stat("step_name", value);
    let plane = host()
        .kind("full", |kind| kind.display_name = "short".into())
        .kind(&"n".repeat(20_000), |_| ())
        .event("full", 0, 1_000)
        .event(&"n".repeat(20_000), 1_000, 1_000);
    let plane = stat(plane.event("stepped", 2_000, 1_000), Value::StrValue("step 5".into()));
    let plane = stat(plane.event("stepped", 3_000, 1_000), Value::DoubleValue(1.5));
    let space = space([plane]);
    let expected = [
        "701/7 slice `short` 0..1 long_name=string:full".to_owned(),
        format!("701/7 slice `{}` 1..2", "n".repeat(20_000)),
        "701/7 slice `step 5` 2..3 step_name=string:step 5".to_owned(),
        "701/7 slice `1.5` 3..4 step_name=double:1.5".to_owned(),
    ];
    assert_eq!(lines(&read(&space)), expected);
}

#[test]
fn what_overlaps_goes_to_lanes_and_what_nests_goes_to_the_tightest() {
    let plane = host()
        .event("a", 0, 10_000)
        .event("in a", 0, 4_000)
        .event("across", 5_000, 10_000)
        .event("in both", 6_000, 1_000)
        .event("third", 9_000, 20_000)
        .event("after", 10_000, 1_000)
        .event("now", 10_000, 0)
        .event("short", 30_000, 1);
    let expected = [
        "701/7 slice `a` 0..10",
        "701/7 slice `in a` 0..4",
        "701/7 `main (2)` slice `across` 5..15",
        "701/7 slice `in both` 6..7",
        "701/7 `main (3)` slice `third` 9..29",
        "701/7 `main (2)` slice `after` 10..11",
        "701/7 `main (2)` instant `now` 10..10",
        "701/7 slice `short` 30..30",
    ];
    let space = space([plane]);
    assert_eq!(lines(&read(&space)), expected);
    assert_eq!(convert(&space.encode_to_vec()).expect("is an XSpace").1.lanes, 2);
}

#[test]
fn events_are_sorted_and_lines_of_one_id_are_one_thread() {
    let plane = Plane::new("/host:CPU")
        .line(7, "main", 1)
        .event("late", 20_000, 1_000)
        .event("child", 1_000, 2_000)
        .event("parent", 1_000, 5_000)
        .line(9, "other", 0)
        .line(7, "renamed", 0)
        .event("first", 0, 1_999);
    let report = read(&space([plane]));
    let expected = [
        "701/7 slice `first` 0..1",
        "701/7 slice `parent` 2..7",
        "701/7 slice `child` 2..4",
        "701/7 slice `late` 21..22",
    ];
    assert_eq!(lines(&report), expected);
    let threads = json!([
        {"pid": 701, "tid": 7, "name": "renamed", "rank": 1},
        {"pid": 701, "tid": 9, "name": "other", "rank": 0},
    ]);
    assert_eq!(report["threads"], threads);
}

#[test]
fn what_is_too_deep_or_too_crowded_gets_tracks_of_its_own() {
    let mut plane = host();
    for _ in 0..600 {
        plane = plane.event("deep", 5_000, 9_000);
    }
    for _ in 0..800 {
        plane = plane.event("crowd", 20_000, 0);
    }
    let report = read(&space([plane]));
    let lanes = |name: &str| {
        let own = events(&report).iter().filter(|event| event["name"] == name);
        own.map(|event| event["lane"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let count = |lanes: &[String], lane: &str| lanes.iter().filter(|found| *found == lane).count();
    let deep = lanes("deep");
    assert_eq!(["", "main (2)", "main (3)"].map(|lane| count(&deep, lane)), [250, 250, 100]);
    let crowd = lanes("crowd");
    let counts = ["", "main (2)", "main (3)", "main (4)"].map(|lane| count(&crowd, lane));
    assert_eq!((crowd.len(), counts), (800, [250, 250, 250, 50]));
}

#[test]
fn lines_called_counters_are_counter_tracks() {
    let plane = Plane::new("/device:GPU:0")
        .line(i64::MAX, "_counters_", 0)
        .event("memory", 1_000, 0)
        .stat("bytes", Value::Uint64Value(5))
        .event("load", 1_000, 0)
        .stat("share", Value::DoubleValue(0.25))
        .text("why", "test")
        .event("memory", 3_000, 0)
        .stat("bytes", Value::Int64Value(-7))
        .event("no number", 4_000, 0);
    let report = read(&space([plane]));
    let counters = json!([
        {"pid": 1, "name": "memory", "unit": "bytes"},
        {"pid": 1, "name": "load", "unit": "share"},
    ]);
    assert_eq!(report["counters"], counters);
    let expected = [
        "1/null counter `memory` 1..1 = int:5",
        "1/null counter `load` 1..1 = double:0.25 why=string:test",
        "1/null counter `memory` 3..3 = int:-7",
        "1/4294967295 instant `no number` 4..4",
    ];
    assert_eq!(lines(&report), expected);
}

#[test]
fn arrows_join_producers_with_consumers() {
    let with = |plane: Plane, stats: &[(&str, i64)]| {
        stats.iter().fold(plane, |plane, (name, value)| plane.stat(name, Value::Int64Value(*value)))
    };
    let plane = with(host().event("produce", 0, 1_000), &[("_pt", 9), ("_p", 4)]);
    let plane = with(plane.event("consume", 2_000, 1_000), &[("_ct", 9), ("_c", 4)]);
    let plane = with(plane.event("launch", 4_000, 1_000), &[("correlation_id", 3)]);
    let plane = with(plane.event("flow", 6_000, 1_000), &[("flow", 5 << 2 | 2)]);
    let gpu = Plane::new("/device:GPU:0").line(1, "stream", 0);
    let gpu = with(gpu.event("kernel", 5_000, 1_000), &[("correlation_id", 3)]);
    let gpu = with(gpu.event("flowed", 8_000, 0), &[("flow", 5 << 2 | 1)]);
    let report = read(&space([plane, gpu]));
    let find = |name: &str, key: &str| {
        let event = events(&report).iter().find(|event| event["name"] == name).expect("is there");
        event[key].as_array().expect("is a list").clone()
    };
    for (from, to) in [("produce", "consume"), ("launch", "kernel"), ("flow", "flowed")] {
        assert_eq!((find(from, "out").len(), find(from, "in").len()), (1, 0), "{from}");
        assert_eq!((find(to, "in"), find(to, "out")), (find(from, "out"), Vec::<Json>::new()), "{to}");
    }
    assert_ne!(find("produce", "out"), find("launch", "out"));
}

#[test]
fn all_planes_with_lines_are_shown_under_ids_of_their_own() {
    let line = |name: &str| Plane::new(name).line(1, "line", 0).event("e", 0, 1_000);
    let planes = ["/device:CUSTOM:x", "#Chip 0", "/device:GPU:0", "/host:CPU", "/host:CPU"].map(line);
    let report = read(&space(planes.into_iter().chain([Plane::new("Task Environment")])));
    let expected = json!([
        {"pid": 701, "name": "/host:CPU", "rank": 0},
        {"pid": 1, "name": "/device:CUSTOM:x", "rank": 1},
        {"pid": 10_001, "name": "#Chip 0", "rank": 2},
        {"pid": 10_002, "name": "/device:GPU:0", "rank": 3},
        {"pid": 10_003, "name": "/host:CPU", "rank": 4},
    ]);
    assert_eq!(report["processes"], expected);
}

#[test]
fn many_texts_and_many_lines_begin_new_sequences() {
    let mut plane = host();
    for number in 0..70_000 {
        plane = plane.event("e", number * 1_000, 900).stat("text", Value::StrValue(number.to_string()));
    }
    for line in 0..70 {
        plane = plane.line(100 + line, "line", 0).event("e", line, 900);
    }
    let space = space([plane]).encode_to_vec();
    let (trace, _) = convert(&space).expect("is an XSpace");
    let report = check([(trace.as_slice(), Some(trace_json(&space).as_str()))]).remove(0);
    assert_eq!(report["sequences"], 3);
}

#[test]
fn filter_and_limit_leave_out_and_count() {
    let plane = host()
        .event("a", 0, 5_000)
        .event("MemoryAllocation", 500, 5)
        .event("b", 1_000, 10)
        .event("c", 2_000, 1_000)
        .event("d", 9_000, 1_000);
    let space = space([plane, Plane::new("/device:GPU:0").line(1, "s", 0).event("e", 0, 9_000)]).encode_to_vec();
    let mut options = PerfettoOptions::default();
    options.filter.planes = vec!["CPU".into()];
    options.filter.min_duration_ps = 100;
    options.max_events = Some(2);
    let (trace, summary) = convert_with(&space, &options).expect("is an XSpace");
    let report = check([(trace.as_slice(), None)]).remove(0);
    assert_eq!(lines(&report), ["701/7 slice `a` 0..5", "701/7 slice `c` 2..3"]);
    assert_eq!((summary.planes, summary.lines, summary.events, summary.events_hidden), (1, 1, 2, 1));
    // Of the plane left out, too.
    assert_eq!((summary.planes_filtered, summary.events_filtered), (1, 1 + 1));
    assert_eq!((summary.events_over_limit, summary.lanes), (1, 0));
}

#[test]
fn a_device_with_the_id_of_the_host_has_its_threads_in_order_of_place() {
    let plane = Plane::new("/device:GPU:0").line(9, "nine", 0).event("a", 0, 1_000).line(5, "five", 0);
    let mut space = space([plane]);
    space.planes[0].id = 700;
    let space = space.encode_to_vec();
    let (trace, _) = convert(&space).expect("is an XSpace");
    let report = check([(trace.as_slice(), Some(trace_json(&space).as_str()))]).remove(0);
    let expected = json!([
        {"pid": 701, "tid": 5, "name": "five", "rank": 1},
        {"pid": 701, "tid": 9, "name": "nine", "rank": 0},
    ]);
    assert_eq!(report["threads"], expected);
}

#[test]
fn times_at_the_edge_are_cut_and_bytes_that_are_no_text_are_replaced() {
    /// More than a day before the session, where an event has no place.
    const BEFORE_PS: i64 = -90_000_000_000_000_000;
    let plane = Plane::new("/host:CPU")
        .line(1, "edge", 0)
        .event("negative", BEFORE_PS, 100_000_000_000_000_000)
        .event("huge", 10, i64::MIN)
        .event("endless", 20, -1);
    let mut space = space([plane]).encode_to_vec();
    let place = space.windows(4).position(|part| part == b"huge").expect("is there");
    space[place] = 0xff;
    let (trace, _) = convert(&space).expect("is an XSpace");
    let report = check([(trace.as_slice(), Some(trace_json(&space).as_str()))]).remove(0);
    let last = u64::MAX / 1_000;
    let expected = [
        format!("701/1 slice `\u{fffd}uge` 0..{}", (1_u64 << 63) / 1_000),
        format!("701/1 `edge (2)` slice `endless` 0..{last}"),
        format!("701/1 `edge (2)` slice `negative` {}..{last}", last - BEFORE_PS.unsigned_abs() / 1_000),
    ];
    assert_eq!(lines(&report), expected);
}

#[test]
fn bytes_that_are_no_space_are_refused_as_the_json_refuses_them() {
    for bytes in [&b"\x0a\x7fplane"[..], b"text", b"\x22\x01x\x0a\x02\x1a\x05"] {
        let error = convert(bytes).expect_err("is no XSpace");
        let theirs = crate::json::convert(bytes).expect_err("is no XSpace");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidData, theirs.to_string()));
    }
    let fine = space([host()]).encode_to_vec();
    let error = super::convert_hosts(&[("red", &fine), ("blue", b"text")]).expect_err("blue is no XSpace");
    assert!(error.to_string().starts_with("host `blue`: not an XSpace: "), "{error}");
}
