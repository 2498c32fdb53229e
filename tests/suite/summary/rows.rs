//! Summaries of spaces small enough to work out by hand.

use prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_runtime::export::{AsyncSummary, FoldedOptions, StackTree, SummaryOptions, summarise, write_folded};
use zprof_tests::make::{Plane, space};

use super::summary;

/// Scopes of the first plane: name, count, total, own time, mean.
fn scopes(plane: Plane) -> Vec<(String, u64, u128, u128, f64)> {
    let found = summary(&space([plane]).encode_to_vec());
    let scopes = found.planes[0].scopes.iter();
    scopes.map(|scope| (scope.name.clone(), scope.count, scope.total_ps, scope.self_ps, scope.mean_ps())).collect()
}

/// Asynchronous spans of the first plane: name, count, total, count and total of the polls.
type Waited = (String, u64, u128, Option<(u64, u128)>);

fn async_spans(plane: Plane) -> Vec<Waited> {
    let found = summary(&space([plane]).encode_to_vec());
    let spans = found.planes[0].async_spans.iter();
    let polls = |spans: &AsyncSummary| spans.polls.as_ref().map(|polls| (polls.count, polls.total_ps));
    spans.map(|spans| (spans.name.clone(), spans.count, spans.total_ps, polls(spans))).collect()
}

fn waited(name: &str, count: u64, total: u128, polls: Option<(u64, u128)>) -> Waited {
    (name.to_owned(), count, total, polls)
}

fn row(name: &str, count: u64, total: u128, own: u128, mean: f64) -> (String, u64, u128, u128, f64) {
    (name.to_owned(), count, total, own, mean)
}

#[test]
fn childrens_time_is_subtracted_once() {
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("outer", 0, 100)
        .event("inner", 10, 30)
        .event("leaf", 15, 5)
        .event("inner", 50, 10);
    let expected = [row("outer", 1, 100, 60, 100.0), row("inner", 2, 40, 35, 20.0), row("leaf", 1, 5, 5, 5.0)];
    assert_eq!(scopes(plane), expected);
}

#[test]
fn a_total_is_the_time_in_the_outermost_runs() {
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("fib", 0, 100)
        .event("fib", 10, 50)
        .event("add", 15, 20)
        .event("fib", 20, 5)
        .event("fib", 200, 30)
        // Another thread has outermost runs of its own.
        .line(2, "worker", 0)
        .event("fib", 0, 100);
    assert_eq!(scopes(plane), [row("fib", 5, 230, 215, 285.0 / 5.0), row("add", 1, 20, 15, 20.0)]);
}

#[test]
fn mutual_recursion_does_not_add_to_totals() {
    let mut plane = Plane::new("/host:CPU").line(1, "main", 0);
    for depth in 0..1_000 {
        plane = plane.event(if depth % 2 == 0 { "even" } else { "odd" }, depth, 2_000 - 2 * depth);
    }
    let mean = |first: i64| (0..500).map(|n| (2_000 - 2 * (2 * n + first)) as f64).sum::<f64>() / 500.0;
    assert_eq!(scopes(plane), [row("even", 500, 2_000, 1_000, mean(0)), row("odd", 500, 1_998, 1_000, mean(1))]);
}

fn flow(number: u64) -> Value {
    Value::Uint64Value(number << 2 | 3)
}

#[test]
fn polled_time_is_the_union_of_the_slices_of_each_thread() {
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 0)
        // Entered again inside its own poll, twice.
        .event("fetch", 0, 100)
        .stat("flow", flow(7))
        .event("fetch", 10, 80)
        .stat("flow", flow(7))
        .event("fetch", 20, 30)
        .stat("flow", flow(7))
        .event("fetch", 500, 10)
        .stat("flow", flow(7))
        // Another span of the same name, at the same time.
        .line(2, "worker", 0)
        .event("fetch", 50, 100)
        .stat("flow", flow(8))
        // A slice of the first span that crossed a scope of its thread, and one on a third thread meanwhile.
        .line(1 << 30, "main (overlap)", 0)
        .event("fetch", 505, 10)
        .stat("flow", flow(7))
        .stat("tid", Value::Int64Value(1))
        .line(3, "third", 0)
        .event("fetch", 505, 30)
        .stat("flow", flow(7))
        .line(1 << 30 | 1, "async", 0)
        .event("fetch", 0, 1_000)
        .stat("_a", Value::Int64Value(1))
        .stat("flow", flow(7))
        .line(1 << 30 | 2, "async 2", 0)
        .event("fetch", 50, 200)
        .stat("_a", Value::Int64Value(1))
        .stat("flow", flow(8));
    assert_eq!(async_spans(plane.clone()), [waited("fetch", 2, 1_200, Some((5, 100 + 15 + 30 + 100)))]);
    let found = summary(&space([plane]).encode_to_vec());
    assert_eq!(found.planes[0].async_spans[0].waiting_ps(), Some(1_000 - 100 - 35 + 200 - 100));
}

#[test]
fn an_asynchronous_function_that_awaits_itself_counts_once() {
    let mut plane = Plane::new("/host:CPU").line(1, "main", 0);
    for (begin, length) in [(0_i64, 30), (1_000, 60)] {
        for depth in 0..3_i64 {
            plane = plane.event("walk", begin + depth, length - 2 * depth).stat("flow", flow(depth.unsigned_abs()));
        }
    }
    plane = plane.line(2, "async", 0);
    for depth in 0..3_i64 {
        plane = plane
            .event("walk", depth, 1_060 - 2 * depth)
            .stat("_a", Value::Int64Value(1))
            .stat("flow", flow(depth.unsigned_abs()));
    }
    assert_eq!(async_spans(plane.clone()), [waited("walk", 3, 1_060, Some((2, 90)))]);
    let found = summary(&space([plane.clone()]).encode_to_vec());
    let spans = &found.planes[0].async_spans[0];
    assert_eq!((spans.waiting_ps(), spans.mean_ps()), (Some(970), 1_058.0));
    assert_eq!(scopes(plane), [row("walk", 6, 90, 90, 258.0 / 6.0)]);
}

#[test]
fn what_the_profiler_says_is_in_the_summary() {
    let mut space = space([Plane::new("/host:CPU").line(1, "main", 0).event("work", 0, 1)]);
    space.errors = vec!["no device".to_owned()];
    space.warnings = (0..101).map(|n| format!("warning {n}")).collect();
    let (errors, mut warnings) = (space.errors.clone(), space.warnings.clone());
    warnings.truncate(100);
    // The planes are those of one without, and what is said may stand before them as well as behind.
    let bytes = space.encode_to_vec();
    space.errors.clear();
    space.warnings.clear();
    let mut plain = summary(&space.encode_to_vec());
    assert_eq!((&plain.errors, &plain.warnings), (&Vec::new(), &Vec::new()));
    (plain.errors, plain.warnings) = (errors, warnings);
    assert_eq!(summary(&bytes), plain);
}

#[test]
fn threads_share_no_time() {
    let plane =
        Plane::new("/host:CPU").line(1, "main", 0).event("wait", 0, 100).line(2, "worker", 0).event("work", 10, 80);
    assert_eq!(scopes(plane), [row("wait", 1, 100, 100, 100.0), row("work", 1, 80, 80, 80.0)]);
}

#[test]
fn a_line_in_parts_is_one() {
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 1)
        .event("inner", 9_000, 500)
        .line(1, "main", 0)
        .event("outer", 5_000, 10_000);
    assert_eq!(scopes(plane), [row("outer", 1, 10_000, 9_500, 10_000.0), row("inner", 1, 500, 500, 500.0)]);
}

#[test]
fn aggregated_events_count_as_they_say() {
    let plane = Plane::new("/device:GPU:0")
        .line(1, "XLA Ops", 0)
        .aggregated("matmul", 10, 1_000)
        .stat("self_duration_ps", Value::Int64Value(700))
        .aggregated("add", 4, 100);
    let found = summary(&space([plane.clone()]).encode_to_vec());
    assert!(found.planes[0].scopes.iter().all(|scope| scope.runs.is_none()));
    assert_eq!(found.planes[0].span_ps(), None);
    assert_eq!(scopes(plane), [row("matmul", 10, 1_000, 700, 100.0), row("add", 4, 100, 100, 25.0)]);
}

#[test]
fn asynchronous_events_nest_in_nothing() {
    let plane = Plane::new("/device:TPU:0")
        .line(1, "Async XLA Ops", 0)
        .event("copy", 0, 100)
        .event("copy", 50, 100)
        .line(2, "XLA Ops", 0)
        .event("op", 0, 100)
        .event("send", 10, 500)
        .stat("_a", Value::Int64Value(1));
    assert_eq!(async_spans(plane.clone()), [waited("send", 1, 500, None), waited("copy", 2, 200, None)]);
    assert_eq!(scopes(plane), [row("op", 1, 100, 100, 100.0)]);
}

#[test]
fn wholes_of_futures_are_no_work_but_their_polls_are() {
    let whole = Value::Int64Value(1);
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("fetch", 0, 10)
        .stat("flow", flow(7))
        .event("parse", 4, 5)
        .event("fetch", 80, 20)
        .stat("flow", flow(7))
        .event("fetch", 102, 8)
        .stat("flow", flow(8))
        // Neither a call of that name nor a user's arrow is a poll.
        .event("fetch", 200, 1)
        .event("send", 300, 1)
        .stat("flow", Value::Uint64Value(9 << 2 | 2))
        .line(2, "async", 0)
        .event("fetch", 0, 100)
        .stat("_a", whole.clone())
        .stat("flow", flow(7))
        .line(3, "async 2", 0)
        .event("fetch", 50, 60)
        .stat("_a", whole.clone())
        .stat("flow", flow(8))
        .line(4, "others", 0)
        .event("send", 0, 400)
        .stat("_a", whole);
    let found = summary(&space([plane.clone()]).encode_to_vec());
    let spans = &found.planes[0].async_spans;
    assert_eq!(async_spans(plane.clone()), [waited("send", 1, 400, None), waited("fetch", 2, 160, Some((3, 38)))]);
    assert_eq!(
        spans.iter().map(|spans| (spans.mean_ps(), spans.waiting_ps())).collect::<Vec<_>>(),
        [(400.0, None), (80.0, Some(122))]
    );
    let longest = spans.iter().map(|spans| spans.runs.as_ref().expect("single runs").max_ps).collect::<Vec<_>>();
    assert_eq!(longest, [400, 100]);
    let expected = [row("fetch", 4, 39, 34, 39.0 / 4.0), row("parse", 1, 5, 5, 5.0), row("send", 1, 1, 1, 1.0)];
    assert_eq!(scopes(plane), expected);
}

#[test]
fn bookkeeping_and_counters_are_no_scopes() {
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("MemoryAllocation", 3, 0)
        .event("work", 0, 10)
        .line(i64::MAX, "_counters_", 0)
        .event("power", 5, 0)
        .event("power", 6, 0);
    let found = summary(&space([plane.clone()]).encode_to_vec());
    assert_eq!((found.planes[0].events_hidden, found.planes[0].counter_samples), (1, 2));
    assert_eq!(scopes(plane), [row("work", 1, 10, 10, 10.0)]);
}

#[test]
fn counters_have_the_values_of_their_samples_by_name_and_unit() {
    let (int, double) = (Value::Int64Value, Value::DoubleValue);
    let plane = |timestamp| Plane::new("/host:CPU").line(i64::MAX, "_counters_", timestamp);
    // The file is in no order, a sample of no number is none, and the last number is the sample.
    let first = plane(0)
        .event("heap", 9_000, 0)
        .stat("bytes", Value::Uint64Value(30))
        .event("heap", 2_000, 0)
        .stat("bytes", int(-10))
        .event("heap", 2_000, 0)
        .stat("blocks", int(1))
        .event("heap", 3_000, 0)
        .event("heap", 4_000, 0)
        .text("bytes", "many")
        .event("empty", 0, 0)
        .stat("value", double(f64::NAN));
    // Planes of one name are one; this one begins later.
    let second = plane(1)
        .event("heap", 8_500, 0)
        .stat("node", int(7))
        .stat("bytes", double(0.5))
        .event("heap", 8_100, 0)
        .stat("bytes", double(f64::NAN));
    let found = summary(&space([first, second]).encode_to_vec());
    let [plane] = found.planes.as_slice() else { panic!("{found:?}") };
    let counters = plane.counters.iter().map(|counter| {
        let numbers = [counter.min, counter.mean, counter.max, counter.last];
        (counter.name.as_str(), counter.unit.as_str(), counter.samples, numbers)
    });
    let expected = [
        ("empty", "value", 1, [None; 4]),
        ("heap", "blocks", 1, [Some(1.0); 4]),
        ("heap", "bytes", 4, [Some(-10.0), Some(20.5 / 3.0), Some(30.0), Some(0.5)]),
    ];
    assert_eq!(counters.collect::<Vec<_>>(), expected);
    assert_eq!(plane.scopes, []);
}

#[test]
fn what_is_excluded_is_in_no_table_and_its_time_stays_where_it_was() {
    let root = Value::Int64Value(1);
    let plane = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("train", 0, 100)
        .stat("_r", root.clone())
        .event("wait", 0, 60)
        .event("work", 60, 30)
        .event("idle", 200, 50)
        .stat("_r", root.clone())
        .line(2, "async", 0)
        .event("waiter", 0, 500)
        .stat("_a", root)
        .line(i64::MAX, "_counters_", 0)
        .event("waits", 0, 0)
        .stat("value", Value::Int64Value(1));
    let bytes = space([plane]).encode_to_vec();
    let mut options = SummaryOptions::default();
    options.exclude = vec!["wait".to_owned(), "id*".to_owned()];
    let found = summarise(&bytes.as_slice(), &options).expect("is an XSpace");
    let plane = &found.planes[0];
    let names: Vec<_> = plane.scopes.iter().map(|scope| (scope.name.as_str(), scope.total_ps, scope.self_ps)).collect();
    assert_eq!(names, [("work", 30, 30), ("train", 100, 10)]);
    assert_eq!((&plane.async_spans, &plane.counters), (&vec![], &vec![]));
    let [steps] = plane.steps.as_slice() else { panic!("{:?}", plane.steps) };
    assert_eq!((steps.name.as_str(), &steps.steps[0].largest), ("train", &Some(("work".to_owned(), 30))));
    assert_eq!(plane.lines[0].busy_ps, 150);
}

#[test]
fn steps_are_found_on_hosts_and_devices() {
    let root = Value::Int64Value(1);
    let host = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("train", 0, 100)
        .stat("_r", root.clone())
        .stat("step_num", Value::Int64Value(7))
        .event("forward", 10, 60)
        .event("backward", 70, 10)
        // A root within a step is part of it.
        .event("inner", 80, 5)
        .stat("_r", root.clone())
        .event("train", 200, 50)
        .stat("_r", root)
        .stat("step_num", Value::Int64Value(8));
    let device =
        Plane::new("/device:TPU:0").line(1, "Steps", 0).event("7", 5, 90).line(2, "XLA Modules", 0).event("m", 5, 9);
    let modules = Plane::new("/device:TPU:1").line(2, "XLA Modules", 0).event("m", 5, 9).event("m", 20, 9);
    let found = summary(&space([host, device, modules]).encode_to_vec());
    let steps = |plane: usize| {
        let series = found.planes[plane].steps.iter().flat_map(|series| {
            series.steps.iter().map(|step| {
                let largest = step.largest.as_ref().map(|(name, own)| (name.as_str(), *own));
                (series.name.as_str(), step.number, step.start_ps, step.duration_ps, step.self_ps, largest)
            })
        });
        series.collect::<Vec<_>>()
    };
    let expected = [("train", Some(7), 0, 100, 25, Some(("forward", 60))), ("train", Some(8), 200, 50, 50, None)];
    assert_eq!(steps(0), expected);
    assert_eq!(found.planes[0].steps[0].all.count, 2);
    assert_eq!(steps(1), [("Steps", Some(7), 5, 90, 90, None)]);
    assert_eq!(steps(2), [("m", None, 5, 9, 9, None), ("m", None, 20, 9, 9, None)]);
    // A device's steps are no scopes.
    assert_eq!(found.planes[1].scopes.iter().map(|scope| scope.name.as_str()).collect::<Vec<_>>(), ["m"]);
}

#[test]
fn planes_are_chosen_by_name() {
    let plane = |name| Plane::new(name).line(1, "l", 0).event(name, 0, 5_000);
    let bytes = space([plane("/host:CPU"), plane("/device:GPU:0"), plane("/device:GPU:1")]).encode_to_vec();
    let source = bytes.as_slice();
    for (pattern, expected) in
        [("GPU", &["/device:GPU:0", "/device:GPU:1"][..]), ("*:1", &["/device:GPU:1"]), ("none", &[])]
    {
        let mut options = SummaryOptions::default();
        options.planes = vec![pattern.to_owned()];
        let found = summarise(&source, &options).expect("is an XSpace");
        assert_eq!(found.planes.iter().map(|plane| plane.name.as_str()).collect::<Vec<_>>(), expected);
        let mut options = FoldedOptions::default();
        options.planes = vec![pattern.to_owned()];
        let mut out = Vec::new();
        write_folded(&source, &mut out, &options).expect("is an XSpace");
        assert_eq!(String::from_utf8_lossy(&out).lines().count(), expected.len(), "{pattern}");
    }
}

#[test]
fn stacks_begin_with_what_tells_them_apart() {
    let host = Plane::new("/host:CPU")
        .line(1, "main", 0)
        .event("a;b", 0, 5_000)
        .event("c\nd", 0, 2_000)
        .line(2, "", 0)
        .event("e", 0, 600);
    let device = Plane::new("/device:GPU:0").line(7, "stream", 0).event("k", 0, 400).event("k", 500, 1_100);
    let text = |planes: Vec<Plane>, by_line: bool| {
        let mut options = FoldedOptions::default();
        options.by_line = by_line;
        let mut out = Vec::new();
        write_folded(&space(planes).encode_to_vec().as_slice(), &mut out, &options).expect("is an XSpace");
        String::from_utf8(out).expect("is UTF-8")
    };
    assert_eq!(text(vec![host.clone()], false), "a,b 3\na,b;c d 2\ne 1\n");
    assert_eq!(text(vec![host.clone()], true), "main;a,b 3\nmain;a,b;c d 2\n2;e 1\n");
    let both = "/host:CPU;a,b 3\n/host:CPU;a,b;c d 2\n/host:CPU;e 1\n/device:GPU:0;stream;k 2\n";
    assert_eq!(text(vec![host, device], false), both);
}

#[test]
fn a_number_at_the_end_of_a_name_is_no_time_of_a_stack() {
    let names = ["layer 1", "layer 2.5", "layer\n3", "layer  4", "layer x 5y", "6", "layer", "layer 7 \u{a0}\n"];
    let mut host = Plane::new("/host:CPU").line(1, "main", 0);
    for (place, name) in (0..).zip(names) {
        host = host.event(name, 10_000 * place, 5_000);
    }
    let mut out = Vec::new();
    write_folded(&space([host]).encode_to_vec().as_slice(), &mut out, &FoldedOptions::default()).expect("is an XSpace");
    let expected = "layer_1 5\nlayer_2.5 5\nlayer_3 5\nlayer _4 5\nlayer x 5y 5\n6 5\nlayer 5\nlayer_7 5\n";
    assert_eq!(String::from_utf8(out).expect("is UTF-8"), expected);
}

#[test]
fn a_tree_of_stacks_says_what_the_stacks_do() {
    let host = Plane::new("/host:CPU").line(1, "main", 0).event("a", 0, 5_000).event("b", 1_000, 2_000);
    let bytes = space([host]).encode_to_vec();
    let mut tree = StackTree::default();
    assert!(tree.is_empty());
    for host in ["one", "two"] {
        tree.add(&bytes.as_slice(), Some(host), &FoldedOptions::default()).expect("is an XSpace");
    }
    let frames: Vec<_> = (0..tree.len())
        .map(|frame| (tree.names()[tree.name_of(frame)].as_str(), tree.below(frame), tree.own_ns(frame)))
        .collect();
    assert_eq!(
        frames,
        [
            ("one", None, 0),
            ("a", Some(0), 3),
            ("b", Some(1), 2),
            ("two", None, 0),
            ("a", Some(3), 3),
            ("b", Some(4), 2)
        ]
    );
    let mut out = Vec::new();
    tree.write_folded(&mut out).expect("memory takes everything");
    assert_eq!(String::from_utf8(out).expect("is UTF-8"), "one;a 3\none;a;b 2\ntwo;a 3\ntwo;a;b 2\n");
}

#[test]
fn an_empty_space_has_nothing() {
    assert_eq!(summary(&[]).planes, []);
}
