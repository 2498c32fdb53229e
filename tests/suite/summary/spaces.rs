//! Made-up spaces whose events nest, overlap, repeat, and are of every kind that a summary tells apart.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zprof_proto::XSpace;
use zprof_proto::x_stat::Value;
use zprof_tests::make::{Plane, space};

const PLANES: [&str; 5] = ["/host:CPU", "/device:GPU:0", "/device:TPU:1", "/custom:x", "odd"];
const LINES: [&str; 9] =
    ["", "main", "main (overlap)", "async", "Steps", "XLA Modules", "Async XLA Ops", "_counters_", "XLA Ops"];
const NAMES: [&str; 8] = ["a", "b", "c;d", "12", "", "shown", "TraceContext", "MemoryAllocation"];

/// What is said of an event beside its name and time.
#[derive(Clone, Debug)]
enum Said {
    Nothing,
    Stat(&'static str, i64),
    Step(i64, &'static str, i64),
    /// The number of an asynchronous span, whether it is the span and not a slice of it, and the thread.
    Link(u64, bool, i64),
    Aggregated(i64, Option<i64>),
}

type Event = (usize, i64, i64, Said);
type Line = (i64, usize, i64, Vec<Event>);

/// Spaces of a few planes, whose lines are crowded.
pub(super) fn spaces() -> impl Strategy<Value = XSpace> {
    vec((0..PLANES.len(), vec(line(), 0..4)), 0..4).prop_map(|planes| {
        let mut space = space(planes.into_iter().map(|(name, lines)| plane(PLANES[name], lines)));
        // One kind is shown by another name, and one id has no metadata.
        for plane in &mut space.planes {
            for kind in plane.event_metadata.values_mut().filter(|kind| kind.name == "shown") {
                kind.display_name = "a".into();
            }
            plane.event_metadata.retain(|_, kind| !kind.name.is_empty());
        }
        space
    })
}

fn line() -> impl Strategy<Value = Line> {
    (1_i64..4, 0..LINES.len(), -3_i64..3, vec(event(), 0..14))
}

fn event() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![12 => 0_i64..60, 1 => select(vec![-7, i64::MAX, i64::MIN, 5_000_000])];
    let duration = prop_oneof![12 => 0_i64..40, 1 => select(vec![-1, 700, 1_000_000, i64::MAX])];
    let said = prop_oneof![
        6 => Just(Said::Nothing),
        1 => (select(vec!["_r", "_a", "flow", "other", "step_num"]), -1_i64..4).prop_map(|(name, value)| Said::Stat(name, value)),
        1 => (0_i64..2, select(vec!["step_num", "iter_num"]), 0_i64..9)
            .prop_map(|(root, name, number)| Said::Step(root, name, number)),
        4 => (0_u64..3, proptest::bool::weighted(0.3), 1_i64..4).prop_map(|(number, is_span, tid)| Said::Link(number, is_span, tid)),
        1 => (-1_i64..5, proptest::option::of(0_i64..20)).prop_map(|(count, own)| Said::Aggregated(count, own)),
    ];
    (0..NAMES.len(), offset, duration, said)
}

fn plane(name: &str, lines: Vec<Line>) -> Plane {
    let mut plane = Plane::new(name);
    for (id, line_name, timestamp_ns, events) in lines {
        plane = plane.line(id, LINES[line_name], timestamp_ns);
        for (event, offset_ps, duration_ps, said) in events {
            let event = NAMES[event];
            plane = match said {
                Said::Nothing => plane.event(event, offset_ps, duration_ps),
                Said::Stat(stat, value) => {
                    plane.event(event, offset_ps, duration_ps).stat(stat, Value::Int64Value(value))
                }
                Said::Step(root, stat, number) => plane
                    .event(event, offset_ps, duration_ps)
                    .stat("_r", Value::Int64Value(root))
                    .stat(stat, Value::Int64Value(number)),
                Said::Link(number, is_span, tid) => plane
                    .event(event, offset_ps, duration_ps)
                    .stat("flow", Value::Uint64Value(number << 2 | 3))
                    .stat(if is_span { "_a" } else { "tid" }, Value::Int64Value(if is_span { 1 } else { tid })),
                Said::Aggregated(count, own) => {
                    let plane = plane.aggregated(event, count, duration_ps);
                    match own {
                        Some(own) => plane.stat("self_duration_ps", Value::Int64Value(own)),
                        None => plane,
                    }
                }
            };
        }
    }
    plane
}
