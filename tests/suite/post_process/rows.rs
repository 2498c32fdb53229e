//! One rule of post-processing a test, each with the values that TSL gives.

use super::{by_name, processed};
use zprof_proto::x_stat::Value;
use zprof_proto::{XSpace, XStat};
use zprof_tests::make::{Plane, space};

/// Asserts what the tree of the processed space is.
#[track_caller]
fn assert_tree(space: &XSpace, start_ns: u64, stop_ns: u64, expected: &str) {
    let tree = by_name(space, start_ns, stop_ns).to_string();
    assert!(tree == expected, "got\n{tree}\nexpected\n{expected}");
}

/// The tree of one merge: `target` and `source` are planes of one name on a device; sessions start at 0.
#[track_caller]
fn assert_merged(target: Plane, source: Plane, expected: &str) {
    assert_tree(&space([target, source]), 0, 0, &format!("{expected}plane \"/host:CPU\" id 0\n"));
}

/// What becomes of a line's timestamp.
fn normalised(timestamp_ns: i64, start_ns: u64) -> i64 {
    let space = space([Plane::new("/device:GPU:0").line(1, "", timestamp_ns)]);
    processed(&space, start_ns, 0).planes[0].lines[0].timestamp_ns
}

/// The order of events given as (offset, duration) in picoseconds.
fn sorted(events: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let plane = Plane::new("/device:GPU:0").line(1, "", 0);
    let plane = events.iter().fold(plane, |plane, &(offset, duration)| plane.event("e", offset, duration));
    let space = by_name(&space([plane]), 0, 0);
    space.plane("/device:GPU:0").lines[0].events.iter().map(|event| event.span).collect()
}

#[test]
fn lines_count_from_the_session() {
    assert_eq!(normalised(1000, 400), 600);
    assert_eq!(normalised(400, 400), 0);
}

#[test]
fn smaller_timestamps_are_relative_already() {
    assert_eq!(normalised(399, 400), 399);
    assert_eq!(normalised(-5, 400), -5);
}

#[test]
fn a_second_pass_is_harmless_only_to_small_timestamps() {
    assert_eq!(normalised(600, 400), 200);
}

#[test]
fn the_largest_starts_wrap() {
    assert_eq!(normalised(5, u64::MAX), 6);
    assert_eq!(normalised(i64::MAX, u64::MAX), i64::MIN);
    assert_eq!(normalised(i64::MIN, 1 << 63), 0);
}

#[test]
fn a_session_without_a_start_or_a_stop_has_no_times() {
    let space = space([Plane::new("/device:GPU:0").line(1, "", 7)]);
    let expected = "plane \"/device:GPU:0\" id 0\n  line \"\" id 1 at 7 ns\nplane \"/host:CPU\" id 0\n";
    assert_tree(&space, 0, 5, expected);
    let expected = "plane \"/device:GPU:0\" id 0\n  line \"\" id 1 at 2 ns\nplane \"/host:CPU\" id 0\n";
    assert_tree(&space, 5, 0, expected);
}

#[test]
fn the_times_of_the_session_are_written_down_at_each_pass() {
    let first = "\
plane \"/host:CPU\" id 0
plane \"Task Environment\" id 0
  stat profile_start_time=u64:7
  stat profile_stop_time=u64:9
  stat name \"profile_start_time\" described \"\"
  stat name \"profile_stop_time\" described \"\"
";
    assert_tree(&XSpace::default(), 7, 9, first);
    let again = "\
plane \"Task Environment\" id 0
  stat profile_start_time=u64:7
  stat profile_stop_time=u64:9
  stat profile_start_time=u64:7
  stat profile_stop_time=u64:9
  stat name \"profile_start_time\" described \"\"
  stat name \"profile_stop_time\" described \"\"
plane \"/host:CPU\" id 0
";
    assert_tree(&processed(&XSpace::default(), 7, 9), 7, 9, again);
}

#[test]
fn an_earlier_line_moves_the_target() {
    assert_merged(
        Plane::new("d").line(3, "l", 400).event("a", 15_000, 1).event("b", 16_000, 1),
        Plane::new("d").line(3, "l", 200).event("c", 1, 1).event("d", 300_000, 1),
        "\
plane \"d\" id 0
  event kind \"a\"
  event kind \"b\"
  event kind \"c\"
  event kind \"d\"
  line \"l\" id 3 at 200 ns
    at 1 ps for 1 ps of \"c\"
    at 215000 ps for 1 ps of \"a\"
    at 216000 ps for 1 ps of \"b\"
    at 300000 ps for 1 ps of \"d\"
",
    );
}

#[test]
fn a_later_line_is_moved() {
    assert_merged(
        Plane::new("d").line(4, "l", 300).event("a", 0, 1),
        Plane::new("d").line(4, "other", 700).event("b", 9_000, 1).event("c", 11_000, 1),
        "\
plane \"d\" id 0
  event kind \"a\"
  event kind \"b\"
  event kind \"c\"
  line \"l\" id 4 at 300 ns
    at 0 ps for 1 ps of \"a\"
    at 409000 ps for 1 ps of \"b\"
    at 411000 ps for 1 ps of \"c\"
",
    );
}

#[test]
fn moves_of_one_line_add_up() {
    let one = |timestamp_ns, name: &str| Plane::new("d").line(1, "l", timestamp_ns).event(name, 0, 1);
    let space = space([one(500, "a"), one(400, "b"), one(450, "c"), one(100, "d"), one(100, "e")]);
    let expected = "\
plane \"d\" id 0
  event kind \"a\"
  event kind \"b\"
  event kind \"c\"
  event kind \"d\"
  event kind \"e\"
  line \"l\" id 1 at 100 ns
    at 0 ps for 1 ps of \"d\"
    at 0 ps for 1 ps of \"e\"
    at 300000 ps for 1 ps of \"b\"
    at 350000 ps for 1 ps of \"c\"
    at 400000 ps for 1 ps of \"a\"
plane \"/host:CPU\" id 0
";
    assert_tree(&space, 0, 0, expected);
}

#[test]
fn a_new_line_shows_its_name() {
    assert_merged(
        Plane::new("d"),
        Plane::new("d").line(9, "t", 5).event("a", 0, 1),
        "\
plane \"d\" id 0
  event kind \"a\"
  line \"t\" id 9 at 5 ns shown \"t\"
    at 0 ps for 1 ps of \"a\"
",
    );
}

#[test]
fn stats_of_the_plane_are_overwritten() {
    let plane = |value| Plane::new("d").plane_stat("x", Value::Int64Value(value));
    assert_merged(plane(1), plane(2), "plane \"d\" id 0\n  stat x=i64:2\n  stat name \"x\" described \"\"\n");
}

#[test]
fn a_value_that_says_nothing_overwrites_nothing() {
    let target = Plane::new("d").plane_stat("x", Value::Int64Value(1)).plane_stat("y", Value::Int64Value(2));
    let source = Plane::new("d").plane_stat("x", Value::RefValue(99)).plane_stat("z", Value::RefValue(99));
    let mut space = space([target, source.plane_stat("y", Value::Int64Value(3))]);
    space.planes[1].stats[2].value = None;
    assert_tree(
        &space,
        0,
        0,
        "\
plane \"d\" id 0
  stat x=i64:1
  stat y=i64:2
  stat z=unset
  stat name \"x\" described \"\"
  stat name \"y\" described \"\"
  stat name \"z\" described \"\"
plane \"/host:CPU\" id 0
",
    );
}

#[test]
fn strings_that_stats_refer_to_move_along() {
    let target = Plane::new("d").line(1, "l", 5).event("a", 0, 1).text("k", "v");
    let source = Plane::new("d").plane_stat("first", Value::BytesValue(vec![7])).line(1, "l", 5);
    let source = source.event("a", 1, 1).text("k", "w").text("v", "k").stat("n", Value::RefValue(99));
    assert_merged(
        target,
        source,
        "\
plane \"d\" id 0
  stat first=bytes:[07]
  event kind \"a\"
  stat name \"first\" described \"\"
  stat name \"k\" described \"\"
  stat name \"n\" described \"\"
  stat name \"v\" described \"\"
  stat name \"w\" described \"\"
  line \"l\" id 1 at 5 ns
    at 0 ps for 1 ps k=ref:\"v\" of \"a\"
    at 1 ps for 1 ps k=ref:\"w\" v=ref:\"k\" n=unset of \"a\"
",
    );
}

#[test]
fn metadata_is_completed_and_never_overwritten() {
    let target = Plane::new("d").kind("e", |_| {}).kind("f", |kind| kind.display_name = "E".into());
    let source = Plane::new("d")
        .kind("e", |kind| {
            kind.display_name = "D".into();
            kind.metadata = vec![1];
            kind.child_id = vec![5];
        })
        .kind("f", |kind| {
            kind.display_name = "D".into();
            kind.metadata = vec![2];
        });
    let expected =
        "plane \"d\" id 0\n  event kind \"e\" shown \"D\" bytes [01]\n  event kind \"f\" shown \"E\" bytes [02]\n";
    assert_merged(target, source, expected);
}

#[test]
fn stats_of_metadata_are_taken_only_where_there_are_none() {
    let stat = |metadata_id, value| vec![XStat { metadata_id, value: Some(value) }];
    let named = |plane: Plane| plane.plane_stat("x", Value::Int64Value(0)).plane_stat("y", Value::Int64Value(0));
    let target = named(Plane::new("d")).kind("e", |kind| kind.stats = stat(1, Value::Int64Value(1))).kind("f", |_| {});
    let source = Plane::new("d").plane_stat("y", Value::Int64Value(0));
    let source = source
        .kind("e", |kind| kind.stats = stat(1, Value::Int64Value(2)))
        .kind("f", |kind| kind.stats = stat(1, Value::RefValue(1)));
    assert_merged(
        target,
        source,
        "\
plane \"d\" id 0
  stat x=i64:0
  stat y=i64:0
  event kind \"e\" x=i64:1
  event kind \"f\" y=ref:\"y\"
  stat name \"x\" described \"\"
  stat name \"y\" described \"\"
",
    );
}

#[test]
fn an_aggregated_event_that_is_moved_loses_its_count() {
    let target = Plane::new("d").line(3, "l", 400).aggregated("a", 4, 9);
    assert_merged(
        target.clone(),
        Plane::new("d").line(3, "l", 200).event("b", 0, 1),
        "\
plane \"d\" id 0
  event kind \"a\"
  event kind \"b\"
  line \"l\" id 3 at 200 ns
    at 0 ps for 1 ps of \"b\"
    at 200000 ps for 9 ps of \"a\"
",
    );
    assert_merged(
        target,
        Plane::new("d").line(3, "l", 400).event("b", 0, 1).aggregated("c", 5, 0),
        "\
plane \"d\" id 0
  event kind \"a\"
  event kind \"b\"
  event kind \"c\"
  line \"l\" id 3 at 400 ns
    4 times for 9 ps of \"a\"
    at 0 ps for 1 ps of \"b\"
    5 times for 0 ps of \"c\"
",
    );
}

#[test]
fn empty_lines_survive_only_from_the_last_source() {
    assert_merged(
        Plane::new("d").line(10, "gone", 1),
        Plane::new("d").line(11, "kept", 2),
        "plane \"d\" id 0\n  line \"kept\" id 11 at 2 ns shown \"kept\"\n",
    );
    let space = space([10, 11, 12].map(|id| Plane::new("d").line(id, "l", id)));
    assert_tree(&space, 0, 0, "plane \"d\" id 0\n  line \"l\" id 12 at 12 ns shown \"l\"\nplane \"/host:CPU\" id 0\n");
}

#[test]
fn host_planes_become_one_and_keep_nvtx_lines_apart() {
    let of = |name: &str, event: &str, ids: [i64; 2]| {
        ids.iter().fold(Plane::new(name), |plane, &id| plane.line(id, &format!("{id}"), 100).event(event, 0, 1))
    };
    let space = space([
        of("/host:python-tracer", "python", [10, 15]),
        of("/host:CUPTI", "cupti", [10, 20]),
        of("/host:NVTX-CUPTI", "nvtx", [10, 50]),
    ]);
    let expected = "\
plane \"/host:CPU\" id 0
  event kind \"cupti\"
  event kind \"nvtx\"
  event kind \"python\"
  line \"10\" id 10 at 100 ns shown \"10\"
    at 0 ps for 1 ps of \"python\"
    at 0 ps for 1 ps of \"cupti\"
  line \"10\" id 4294967296 at 100 ns shown \"10\"
    at 0 ps for 1 ps of \"nvtx\"
  line \"15\" id 15 at 100 ns shown \"15\"
    at 0 ps for 1 ps of \"python\"
  line \"20\" id 20 at 100 ns shown \"20\"
    at 0 ps for 1 ps of \"cupti\"
  line \"50\" id 50 at 100 ns shown \"50\"
    at 0 ps for 1 ps of \"nvtx\"
";
    assert_tree(&space, 0, 0, expected);
}

#[test]
fn planes_of_one_name_become_one() {
    let first = Plane::new("/device:GPU:0").line(1, "s1", 100).event("a", 0, 1);
    let second = Plane::new("/device:GPU:0").line(1, "s1b", 90).event("b", 0, 2).line(2, "s2", 90);
    let expected = "\
plane \"/device:GPU:0\" id 0
  event kind \"a\"
  event kind \"b\"
  line \"s1\" id 1 at 40 ns
    at 0 ps for 2 ps of \"b\"
    at 10000 ps for 1 ps of \"a\"
  line \"s2\" id 2 at 40 ns shown \"s2\"
plane \"/host:CPU\" id 0
";
    assert_tree(&space([first, second]), 50, 0, expected);
}

#[test]
fn parents_come_before_their_children() {
    let expected = [(100, 100), (120, 50), (120, 30), (200, 100)];
    assert_eq!(sorted(&[(200, 100), (100, 100), (120, 50), (120, 30)]), expected);
}

#[test]
fn negative_times_count_as_the_largest() {
    assert_eq!(sorted(&[(-1, 1), (0, 1), (5, 1)]), [(0, 1), (5, 1), (-1, 1)]);
    assert_eq!(sorted(&[(7, 10), (7, -1)]), [(7, -1), (7, 10)]);
}

#[test]
fn aggregated_events_come_first_and_equal_ones_keep_their_order() {
    let plane = Plane::new("d").line(1, "", 0).event("a", 100, 1).event("b", 100, 1).aggregated("c", 3, 1);
    let expected = "\
plane \"d\" id 0
  event kind \"a\"
  event kind \"b\"
  event kind \"c\"
  line \"\" id 1 at 0 ns
    3 times for 1 ps of \"c\"
    at 100 ps for 1 ps of \"a\"
    at 100 ps for 1 ps of \"b\"
plane \"/host:CPU\" id 0
";
    assert_tree(&space([plane]), 0, 0, expected);
}

#[test]
fn lines_of_the_host_are_in_order_of_what_they_show() {
    let lines = [(1, "b"), (2, "a"), (3, "B"), (4, ""), (5, "a")];
    let order = |name: &str| {
        let plane = lines.iter().fold(Plane::new(name), |plane, &(id, text)| plane.line(id, text, 0));
        let space = by_name(&space([plane]), 0, 0);
        space.plane(name).lines.iter().map(|line| line.shown.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order("/host:CPU"), ["", "B", "a", "a", "b"]);
    assert_eq!(order("/device:GPU:0"), ["b", "a", "B", "", "a"]);
}
