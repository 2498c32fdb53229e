//! Scopes at the edges: open at start or at stop, ended by a panic or an early return, leaked, dropped out of order,
//! and nested very deep.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use zprof::{ProfilerOptions, Span};
use zprof_tests::profile::{Line, Recorded, Session, Stat, Stats, recorded, stats};

/// Line ids that zprof gives out itself begin here.
const OWN_IDS: i64 = 1 << 30;

fn session() -> Session {
    Session::new(ProfilerOptions::default())
}

fn early() -> Stats {
    stats([("started_before", 1.into())])
}

/// The ends of what is open at stop are the session's, to the nanosecond.
fn lasts_to_the_stop<T>(recorded: &Recorded<T>, end_ps: i64) {
    let missing = recorded.length_ps() - end_ps;
    assert!((0..1000).contains(&missing), "{missing} ps missing");
}

#[test]
fn a_scope_from_before_the_start_begins_with_the_session() {
    let mut session = session();
    zprof::scope!("whole", n = 0);
    let outer = zprof::span!("outer", n = 1);
    let inner = zprof::span!("inner", n = 2);
    session.start();
    {
        zprof::scope!("inside", n = 3);
    }
    drop(inner);
    {
        zprof::scope!("between");
    }
    drop(outer);
    let recorded = session.stop();
    let line = recorded.own_line();
    let told =
        [("outer", &early()), ("inner", &early()), ("inside", &stats([("n", 3.into())])), ("between", &stats([]))];
    assert_eq!(line.told(), told);
    assert_eq!((line.events[0].start_ps, line.events[1].start_ps), (0, 0));
    assert_eq!(line.tree(), "outer(inner(inside) between)");
    assert_eq!(line.event("outer").site[0], ("module_path".to_owned(), module_path!().into()));
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn a_scope_that_is_open_at_the_stop_is_unfinished() {
    let mut session = session();
    session.start();
    let outer = zprof::span!("outer", n = 1);
    let inner = zprof::span!("inner", n = "x");
    {
        zprof::scope!("done");
    }
    let recorded = session.stop();
    drop(inner);
    drop(outer);
    let line = recorded.own_line();
    let open = |n: Stat| stats([("n", n), ("unfinished", 1.into())]);
    assert_eq!(line.told(), [("outer", &open(1.into())), ("inner", &open("x".into())), ("done", &stats([]))]);
    assert_eq!(line.tree(), "outer(inner(done))");
    lasts_to_the_stop(&recorded, line.event("outer").end_ps);
    lasts_to_the_stop(&recorded, line.event("inner").end_ps);
    assert_eq!(recorded.profile.scopes, 3);

    session.start();
    assert_eq!(session.stop().lines, [], "the ends after the stop wrote something");
}

#[test]
fn one_scope_over_four_sessions() {
    let mut session = session();
    let long = zprof::span!("long", n = 7);
    session.start();
    let first = zprof::span!("first", n = 8);
    let one = session.stop();
    session.start();
    {
        zprof::scope!("second");
    }
    let two = session.stop();
    session.start();
    drop(first);
    let three = session.stop();
    session.start();
    let mut late = long;
    // There is no begin to add this to.
    late.record("late", 1);
    drop(late);
    let four = session.stop();

    let unfinished = stats([("n", 8.into()), ("unfinished", 1.into())]);
    assert_eq!(one.own_line().told(), [("first", &unfinished)]);
    assert_eq!(two.own_line().told(), [("second", &stats([]))]);
    assert_eq!(three.own_line().told(), [("first", &early())]);
    assert_eq!(four.own_line().told(), [("long", &early())]);
}

#[test]
fn scopes_between_sessions_leave_nothing() {
    let mut session = session();
    for round in 0..20 {
        {
            zprof::scope!("before");
        }
        session.start();
        {
            zprof::scope!("inside", round);
        }
        let recorded = session.stop();
        {
            zprof::scope!("after");
        }
        assert_eq!(recorded.own_line().told(), [("inside", &stats([("round", round.into())]))]);
    }
}

#[test]
fn a_panic_ends_scopes_from_inside_out() {
    let recorded = recorded(|| {
        zprof::scope!("outer");
        let result = catch_unwind(AssertUnwindSafe(|| {
            zprof::scope!("a");
            let _span = zprof::span!("b");
            zprof::scope!("c", {
                zprof::scope!("d");
                // Unlike `panic!` it says nothing on standard error.
                resume_unwind(Box::new("on purpose"));
            })
        }));
        assert!(result.is_err());
        zprof::scope!("after");
    });
    let line = recorded.own_line();
    assert_eq!(line.tree(), "outer(a(b(c(d))) after)");
    assert!(line.events.iter().all(|event| event.stats.is_empty()), "{line:?}");
}

#[zprof::trace]
fn fails_at(step: u32, limit: u32) -> Result<u32, u32> {
    zprof::scope!("body");
    let step = zprof::scope!("check", { if step == limit { Err(step)? } else { step } });
    zprof::scope!("passed");
    Ok(step)
}

#[test]
fn early_exits_end_the_scopes_they_leave() {
    let recorded = recorded(|| {
        assert_eq!((fails_at(1, 1), fails_at(1, 2)), (Err(1), Ok(1)));
        for i in 0..3 {
            zprof::scope!("turn");
            zprof::scope!("inner", {
                if i == 0 {
                    continue;
                }
                if i == 1 {
                    break;
                }
            });
        }
        zprof::scope!("after");
    });
    let expected = "fails_at(body(check)) fails_at(body(check passed)) turn(inner) turn(inner) after";
    assert_eq!(recorded.own_line().tree(), expected);
}

#[test]
fn a_leaked_guard_closes_with_the_scope_around_it() {
    let recorded = recorded(|| {
        zprof::scope!("outer");
        zprof::scope!("parent", {
            std::mem::forget(zprof::span!("lost", n = 1));
            zprof::scope!("child", n = 2);
        });
        zprof::scope!("next", {
            std::mem::forget(zprof::span!("far"));
            // The end of `next` stands in another chunk than its begin.
            for i in 0..2000_u32 {
                zprof::scope!("filler", i);
            }
        });
        zprof::scope!("last");
    });
    let line = recorded.own_line();
    let fillers = vec!["filler"; 2000].join(" ");
    assert_eq!(line.tree(), format!("outer(parent(lost(child)) next(far({fillers})) last)"));
    assert_eq!(line.event("lost").stats, stats([("n", 1.into()), ("leaked", 1.into())]));
    assert_eq!(line.event("lost").end_ps, line.event("parent").end_ps);
    assert_eq!(line.event("far").stats, stats([("leaked", 1.into())]));
    assert_eq!(line.event("far").end_ps, line.event("next").end_ps);
    for name in ["outer", "parent", "next", "last"] {
        assert_eq!(line.event(name).stats, stats([]), "{name}");
    }
}

#[test]
fn a_leaked_guard_with_nothing_around_it_is_unfinished() {
    let recorded = recorded(|| {
        std::mem::forget(zprof::span!("lost"));
        zprof::scope!("next");
    });
    let line = recorded.own_line();
    assert_eq!(line.told(), [("lost", &stats([("unfinished", 1.into())])), ("next", &stats([]))]);
    assert_eq!(line.tree(), "lost(next)");
    lasts_to_the_stop(&recorded, line.event("lost").end_ps);
}

#[test]
fn thousands_of_leaked_guards() {
    const LEAKS: usize = 10_000;
    let recorded = recorded(|| {
        zprof::scope!("outer");
        for _ in 0..LEAKS {
            std::mem::forget(zprof::span!("lost"));
        }
        zprof::scope!("inner");
    });
    let line = recorded.own_line();
    let [outer, lost @ .., inner] = line.events.as_slice() else { panic!("no events") };
    assert_eq!((outer.name.as_str(), lost.len(), inner.name.as_str()), ("outer", LEAKS, "inner"));
    let leaked = stats([("leaked", 1.into())]);
    assert!(lost.iter().all(|event| event.name == "lost" && event.end_ps == outer.end_ps && event.stats == leaked));
    assert_eq!((&outer.stats, &inner.stats), (&stats([]), &stats([])));
}

#[test]
fn guards_dropped_out_of_order_keep_their_spans() {
    let place = line!() + 3;
    let recorded = recorded(|| {
        let first = zprof::span!("first", n = 1);
        let second = zprof::span!("second", n = 2);
        let inner = zprof::span!("inner");
        drop(inner);
        drop(first);
        zprof::scope!("under second", {});
        drop(second);
        zprof::scope!("after", {});
    });
    let own = recorded.own_line();
    assert_eq!(own.tree(), "first(inner) under second after");
    let other = recorded.line(&format!("{} (overlap)", own.name));
    let second = stats([("n", 2.into()), ("tid", recorded.tid.into())]);
    assert_eq!(other.told(), [("second", &second)]);
    assert!(other.id >= OWN_IDS, "{}", other.id);
    assert_eq!(own.event("first").stats, stats([("n", 1.into())]));

    let (first, second) = (own.event("first"), other.event("second"));
    assert!(first.start_ps < second.start_ps && second.start_ps < own.event("inner").start_ps);
    assert!(first.end_ps < own.event("under second").start_ps);
    assert!(own.event("under second").is_inside(second) && second.end_ps <= own.event("after").start_ps);

    let warning = format!(
        "scope `second` ({}:{place}) ended out of order or was held across an await; it is on a line of its own, \
         `… (overlap)`",
        file!()
    );
    assert_eq!(recorded.warnings, [warning]);
    assert_eq!(recorded.profile.warnings, recorded.warnings);
}

/// Lines whose name says that they hold what overlaps.
fn overlap_lines<T>(recorded: &Recorded<T>) -> Vec<&Line> {
    recorded.lines.iter().filter(|line| line.name.contains(" (overlap")).collect()
}

#[test]
fn each_lane_of_overlaps_nests() {
    const SPANS: usize = 500;
    let recorded = recorded(|| {
        // A vector drops its elements from the first to the last.
        let spans: Vec<Span> = (0..SPANS).map(|n| zprof::span!("span", n)).collect();
        drop(spans);
        let again: Vec<Span> = (0..SPANS).map(|n| zprof::span!("again", n)).collect();
        drop(again);
    });
    let own = recorded.own_line();
    assert_eq!(own.tree(), "span again");
    let lanes = overlap_lines(&recorded);
    assert_eq!(lanes.len(), SPANS - 1);
    let mut seen: Vec<(String, Stats)> = Vec::new();
    for lane in &lanes {
        assert_eq!(lane.tree(), "span again");
        seen.extend(lane.events.iter().map(|event| (event.name.clone(), event.stats.clone())));
    }
    let key = |(name, stats): &(String, Stats)| format!("{name} {stats:?}");
    seen.sort_by_key(key);
    let mut expected: Vec<(String, Stats)> = ["span", "again"]
        .iter()
        .flat_map(|name| (1..SPANS).map(move |n| (*name, i64::try_from(n).expect("a small number"))))
        .map(|(name, n)| (name.to_owned(), stats([("n", n.into()), ("tid", recorded.tid.into())])))
        .collect();
    expected.sort_by_key(key);
    assert_eq!(seen, expected);
    assert_eq!(recorded.warnings.len(), 2, "one warning a site: {:?}", recorded.warnings);
}

#[test]
fn what_crosses_a_scope_from_before_the_session_overlaps() {
    let mut session = session();
    let before = zprof::span!("before");
    session.start();
    let crossing = zprof::span!("crossing");
    drop(before);
    drop(crossing);
    let recorded = session.stop();
    assert_eq!(recorded.own_line().told(), [("before", &early())]);
    let lanes = overlap_lines(&recorded);
    assert_eq!(lanes.len(), 1);
    assert_eq!(lanes[0].told(), [("crossing", &stats([("tid", recorded.tid.into())]))]);
}

fn descend(depth: u32) -> u32 {
    zprof::scope!("deep", depth);
    if depth == 0 { 0 } else { descend(depth - 1) + 1 }
}

#[test]
fn a_hundred_thousand_nested_scopes() {
    const DEPTH: u32 = 100_000;
    let recorded = recorded(|| {
        let deep = thread::Builder::new().name("deep".to_owned()).stack_size(1 << 30).spawn(|| descend(DEPTH - 1));
        deep.expect("a thread with a large stack can be had").join().expect("the thread ends well")
    });
    assert_eq!(recorded.value, DEPTH - 1);
    let events = &recorded.line("deep").events;
    let depths: Vec<Stats> = (0..DEPTH).rev().map(|depth| stats([("depth", i64::from(depth).into())])).collect();
    assert!(events.iter().map(|event| &event.stats).eq(&depths), "{} scopes, or others", events.len());
    assert!(events.iter().zip(&events[1..]).all(|(outer, inner)| inner.is_inside(outer)));
    assert_eq!(recorded.profile.dropped_scopes, 0);
}
