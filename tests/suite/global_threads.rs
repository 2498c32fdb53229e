//! Threads: their names and ids, their ends and what runs after, thousands of them, and those that meet start and stop.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use zprof::{ProfilerOptions, Span};
use zprof_tests::profile::{Recorded, Session, Stat, record, recorded, stats, tid};

/// Line ids that zprof gives out itself begin here.
const OWN_IDS: i64 = 1 << 30;

/// Runs `body` to its end, destructors included, on a thread of this name; gives the thread's id.
fn on_thread(name: &str, body: impl FnOnce() + Send) -> i64 {
    let mut id = 0;
    thread::scope(|scope| {
        let id = &mut id;
        let thread = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, move || {
            *id = tid();
            body();
        });
        // Unlike the end of the scope, a join waits for the thread's destructors.
        thread.expect("a thread can be had").join().expect("the thread ends well");
    });
    id
}

/// Opens a scope when it is dropped.
struct Farewell(Cell<Option<&'static str>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(name) = self.0.get() {
            zprof::scope!("farewell", name);
            zprof::scope!("inner", {});
        }
    }
}

thread_local! {
    static EARLY: Farewell = const { Farewell(Cell::new(None)) };
    static LATE: Farewell = const { Farewell(Cell::new(None)) };
    static HELD: RefCell<Option<Span>> = const { RefCell::new(None) };
}

#[test]
fn the_line_is_the_threads_id_and_whole_name() {
    let long = "a name of far more than the fifteen bytes that the kernel keeps";
    let fifteen = "fifteen bytes..";
    /// A thread for each name, one within another, so that no id comes again.
    fn nested<'n>(names: &[&'n str]) -> Vec<(&'n str, i64)> {
        let [name, rest @ ..] = names else { return Vec::new() };
        let mut threads = Vec::new();
        let id = on_thread(name, || {
            zprof::scope!("named", {});
            threads = nested(rest);
        });
        threads.push((name, id));
        threads
    }
    let recorded = recorded(|| nested(&[long, fifteen, "short", "Grüße"]));
    let mut expected = recorded.value.clone();
    expected.sort_unstable();
    let found: Vec<(&str, i64)> = recorded.lines.iter().map(|line| (line.name.as_str(), line.id)).collect();
    assert_eq!(found, expected);
    assert_eq!(recorded.profile.threads, 4);
}

#[test]
fn a_thread_that_ends_keeps_its_events() {
    let recorded = recorded(|| {
        on_thread("ended", || {
            zprof::scope!("outer");
            for i in 0..3000_u32 {
                zprof::scope!("inner", i);
            }
            std::mem::forget(zprof::span!("leaked inside"));
        });
        on_thread("leaver", || std::mem::forget(zprof::span!("left open")));
        zprof::scope!("later", {});
    });
    let line = recorded.line("ended");
    assert_eq!(line.events.len(), 3002);
    assert!(line.events.iter().all(|event| event.is_inside(line.event("outer"))));
    // What a thread leaves open ends with the thread, not with the session.
    let left = recorded.line("leaver").event("left open");
    assert_eq!(left.stats, stats([("unfinished", 1.into())]));
    assert!(left.end_ps <= recorded.own_line().event("later").start_ps);
}

#[test]
fn destructors_of_a_thread_that_run_before_the_recorders_are_recorded() {
    let recorded = recorded(|| {
        on_thread("t", || {
            zprof::scope!("first", {});
            // What is touched last is dropped first.
            LATE.with(|late| late.0.set(Some("late")));
        });
    });
    let line = recorded.line("t");
    assert_eq!(line.tree(), "first farewell(inner)");
    assert_eq!(line.event("farewell").stats, stats([("name", "late".into())]));
    assert_eq!((recorded.profile.dropped_scopes, recorded.warnings), (0, vec![]));
}

#[test]
fn destructors_of_a_thread_that_run_after_the_recorders_are_counted() {
    let recorded = recorded(|| {
        on_thread("t", || {
            EARLY.with(|early| early.0.set(Some("early")));
            HELD.with(|held| *held.borrow_mut() = Some(zprof::span!("held")));
        });
        on_thread("a name of more than fifteen bytes", || {
            EARLY.with(|early| early.0.set(Some("early")));
            HELD.with(|held| drop(held.borrow_mut().take()));
            zprof::scope!("scope", {});
        });
    });
    // `held` is dropped before the recorder ends: it was touched between the first scope and `EARLY`.
    assert_eq!(recorded.line("t").names(), ["held"]);
    assert_eq!(recorded.line("a name of more than fifteen bytes").names(), ["scope"]);
    let warning = "4 scopes were dropped: they came from destructors of threads that had ended";
    assert_eq!((recorded.profile.dropped_scopes, recorded.warnings), (4, vec![warning.to_owned()]));
    assert_eq!(recorded.environment["dropped_scopes"], Stat::Uint(4));
}

#[test]
fn a_destructor_may_open_the_first_scope_of_its_thread() {
    let names = ["t", "a name of more than fifteen bytes"];
    let recorded = recorded(|| {
        for name in names {
            on_thread(name, || EARLY.with(|early| early.0.set(Some("first"))));
        }
    });
    for name in names {
        assert_eq!(recorded.line(name).tree(), "farewell(inner)");
    }
    assert_eq!(recorded.profile.dropped_scopes, 0);
}

#[test]
fn a_scope_from_before_the_session_that_ends_after_its_thread_is_counted() {
    let mut session = Session::new(ProfilerOptions::default());
    let (ready, is_ready) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            // Dropped after the recorder's own destructor, which the first scope of the session registers.
            HELD.with(|held| *held.borrow_mut() = Some(zprof::span!("held")));
            ready.send(()).expect("the test waits");
            may_go.recv().expect("the test sends");
            zprof::scope!("inside", {});
        });
        is_ready.recv().expect("the thread sends");
        session.start();
        go.send(()).expect("the thread waits");
        thread.join().expect("the thread ends well");
    });
    let recorded = session.stop();
    let names: Vec<Vec<&str>> = recorded.lines.iter().map(|line| line.names()).collect();
    assert_eq!((names, recorded.profile.dropped_scopes), (vec![vec!["inside"]], 1));
}

#[test]
fn thousands_of_short_threads_with_ids_that_come_again() {
    const THREADS: i64 = 5000;
    let recorded = recorded(|| {
        let mut ids: Vec<i64> = Vec::new();
        for n in 0..THREADS {
            // Where it may be told, the kernel gives the next thread the id of one that is gone.
            if n % 10 == 9 {
                let _ = std::fs::write("/proc/sys/kernel/ns_last_pid", (ids[0] - 1).to_string());
            }
            ids.push(on_thread("churn", || {
                zprof::scope!("work", n);
            }));
        }
        ids
    });
    assert_eq!(recorded.lines.len(), 5000);
    let own_ids = recorded.lines.iter().map(|line| line.id).collect::<BTreeSet<_>>();
    assert_eq!(own_ids.len(), 5000, "ids of lines are unique");
    let mut seen = BTreeSet::new();
    let mut found: BTreeMap<i64, i64> = BTreeMap::new();
    // Lines of one name stay in the order of their threads.
    for line in &recorded.lines {
        assert_eq!((line.name.as_str(), line.names()), ("churn", vec!["work"]));
        let (n, tid) = match line.events[0].stats.as_slice() {
            [(_, Stat::Int(n))] => (*n, line.id),
            [(_, Stat::Int(n)), (name, Stat::Int(tid))] if name == "tid" && line.id >= OWN_IDS => (*n, *tid),
            other => panic!("line {} has {other:?}", line.id),
        };
        assert_eq!(line.id >= OWN_IDS, !seen.insert(tid), "id {tid} of thread {n}");
        found.insert(n, tid);
    }
    let expected = (0..).zip(recorded.value).collect();
    assert_eq!(found, expected, "every thread's event, under the thread's id");
}

#[test]
fn threads_that_hammer_through_starts_and_stops() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 25;
    // So that a round which takes long, since the machine is busy, records no more than others.
    let mut session = Session::new(ProfilerOptions::default().max_buffer_bytes(1 << 18).prefault_bytes(0));
    let over = AtomicBool::new(false);
    let turns: [AtomicU64; THREADS] = std::array::from_fn(|_| AtomicU64::new(0));
    let sessions: Vec<Recorded> = thread::scope(|scope| {
        for worker in 0..THREADS {
            let (over, turns) = (&over, &turns[worker]);
            let work = move || {
                while !over.load(Ordering::Relaxed) {
                    zprof::scope!("outer", worker);
                    zprof::scope!("middle", text = "some text", {
                        zprof::scope!("inner", a = 1, b = 2);
                    });
                    turns.fetch_add(1, Ordering::Relaxed);
                    // Else one processor's turn would be a long session.
                    thread::yield_now();
                }
            };
            thread::Builder::new()
                .name(format!("worker {worker}"))
                .spawn_scoped(scope, work)
                .expect("a thread can be had");
        }
        let mut round = || {
            session.start();
            // Long enough for a thread to record, and as short as that.
            let turn = || turns.iter().map(|turns| turns.load(Ordering::Relaxed)).sum::<u64>();
            let first = turn();
            while turn() < first + 20 {
                thread::yield_now();
            }
            session.stop()
        };
        let sessions = (0..ROUNDS).map(|_| round()).collect();
        over.store(true, Ordering::Relaxed);
        sessions
    });
    let mut scopes = 0;
    for recorded in &sessions {
        let length = recorded.length_ps() + 1000;
        assert_eq!(recorded.profile.dropped_scopes == 0, recorded.warnings.is_empty(), "{:?}", recorded.warnings);
        for line in &recorded.lines {
            assert!(!line.tree().is_empty());
            for event in &line.events {
                let inside = 0 <= event.start_ps && event.start_ps <= event.end_ps && event.end_ps <= length;
                assert!(inside, "{event:?} in a session of {length} ps");
                let expected: &[&str] = match event.name.as_str() {
                    "outer" => &["worker"],
                    "middle" => &["text"],
                    "inner" => &["a", "b"],
                    other => panic!("nobody opened `{other}`"),
                };
                let mut keys: Vec<&str> = event.stats.iter().map(|(name, _)| name.as_str()).collect();
                if keys == ["started_before"] {
                    assert_eq!(event.start_ps, 0);
                    continue;
                }
                if keys.last() == Some(&"unfinished") {
                    keys.pop();
                }
                assert_eq!(keys, expected, "{event:?}");
            }
            scopes += line.events.len();
        }
    }
    assert!(scopes > 10 * ROUNDS, "only {scopes} scopes were recorded");
}

fn at_level(level: u32) -> Vec<String> {
    let recorded = record(ProfilerOptions::default().host_tracer_level(level), || {
        zprof::scope!("usual");
        zprof::scope!("critical", level = critical);
        zprof::scope!("info", level = info);
        zprof::scope!("verbose", level = verbose);
        let mut span = zprof::span!("span", level = info);
        span.record("n", 1);
    });
    let lines = recorded.lines.iter();
    lines.flat_map(|line| line.names()).map(str::to_owned).collect()
}

#[test]
fn levels_above_the_sessions_are_not_recorded() {
    assert_eq!(at_level(0), Vec::<String>::new());
    assert_eq!(at_level(1), ["usual", "critical"]);
    assert_eq!(at_level(2), ["usual", "critical", "info", "span"]);
    let all = ["usual", "critical", "info", "verbose", "span"];
    assert_eq!(at_level(3), all);
    assert_eq!(at_level(255), all);
}

#[test]
fn a_filter_lets_through_what_shares_a_bit() {
    let with = |mask: Option<u64>| {
        let options = ProfilerOptions::default();
        let options = match mask {
            Some(mask) => options.host_traceme_filter_mask(mask),
            None => options,
        };
        let recorded = record(options, || {
            zprof::scope!("any");
            zprof::scope!("zero", filter = 0);
            zprof::scope!("three", filter = 3);
            zprof::scope!("last", filter = 31);
        });
        let lines = recorded.lines.iter();
        lines.flat_map(|line| line.names()).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(with(None), ["any", "zero", "three", "last"]);
    assert_eq!(with(Some(u64::MAX)), ["any", "zero", "three", "last"]);
    assert_eq!(with(Some(1 << 3)), ["any", "three"]);
    assert_eq!(with(Some(1 << 31 | 1)), ["any", "zero", "last"]);
    assert_eq!(with(Some(1 << 5)), ["any"]);
    assert_eq!(with(Some(0)), [""; 0]);
}

#[test]
fn a_scope_that_the_last_session_did_not_hear_started_before_this_one() {
    let mut session = Session::new(ProfilerOptions::default().host_tracer_level(1));
    session.start();
    let unheard = zprof::span!("unheard", level = verbose);
    assert_eq!(session.stop().lines, []);
    drop(session);
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    drop(unheard);
    assert_eq!(session.stop().own_line().told(), [("unheard", &stats([("started_before", 1.into())]))]);
}
