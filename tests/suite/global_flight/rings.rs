//! What rings keep: scopes that are open for long, whatever order they end in; metadata; tasks; threads that end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use zprof::TraceFuture as _;
use zprof_tests::profile::{Line, Session, Stat, line};

use super::{Load, is_whole, number, options, run_of, stat, written};

/// A generator of numbers that need not be good, only the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A span of the random program.
struct Held {
    n: i64,
    span: zprof::Span,
    note: Option<i64>,
}

#[test]
fn a_ring_of_little_memory_keeps_the_last_records_too() {
    for bytes in [64 << 10, 100_000, 200_000, 400_000] {
        let mut session = Session::new(options().keep_last(Duration::from_secs(1000)).max_buffer_bytes(bytes));
        session.start();
        for n in 0..20_000 {
            zprof::scope!("item", n);
        }
        let snapshot = written(zprof::snapshot());
        session.stop();
        let events = &snapshot.lines[0].events;
        assert_eq!(snapshot.profile.dropped_scopes, 0, "{bytes}");
        assert_eq!(events.last().map(number), Some(19_999), "{bytes}");
        // A quarter of the memory at least, at some 32 bytes each.
        assert!(events.len() >= bytes / 4 / 32, "{bytes}: {}", events.len());
    }
}

#[test]
fn a_bound_as_large_as_can_be_makes_rings_as_any_other() {
    let bounds = [options().keep_last(Duration::MAX), options().keep_last_bytes(usize::MAX)];
    for options in bounds {
        let mut session = Session::new(options.max_buffer_bytes(200_000));
        session.start();
        for n in 0..20_000 {
            zprof::scope!("item", n);
        }
        let snapshot = written(zprof::snapshot());
        session.stop();
        assert_eq!(snapshot.profile.dropped_scopes, 0);
        assert_eq!(snapshot.lines[0].events.last().map(number), Some(19_999));
    }
}

#[test]
fn whatever_order_scopes_end_in_the_ring_knows_what_is_open() {
    for seed in 0..12 {
        let mut session = Session::new(options().keep_last_bytes(8 << 10));
        session.start();
        let mut numbers = Numbers(seed);
        let (mut held, mut closed): (Vec<Held>, Vec<i64>) = (Vec::new(), Vec::new());
        let (mut next, mut shots) = (0_i64, 0);
        for step in 0..12_000 {
            let most = 1 + seed % 4 * 40;
            match numbers.below(8) {
                0..=2 if held.len() < usize::try_from(most).expect("small") || held.is_empty() => {
                    held.push(Held { n: next, span: zprof::span!("held", n = next, text = "metadata"), note: None });
                    next += 1;
                }
                // Mostly the innermost, sometimes any, sometimes the oldest.
                0..=5 if !held.is_empty() => {
                    let last = u64::try_from(held.len()).expect("small") - 1;
                    let at = match numbers.below(8) {
                        0 => 0,
                        1 => numbers.below(last + 1),
                        _ => last,
                    };
                    let Held { n, span, .. } = held.remove(usize::try_from(at).expect("small"));
                    span.end();
                    closed.push(n);
                }
                6 if !held.is_empty() => {
                    let at = numbers.below(u64::try_from(held.len()).expect("small"));
                    let held = &mut held[usize::try_from(at).expect("small")];
                    held.span.record("note", step);
                    held.note = Some(step);
                }
                _ => zprof::instant!("instant", step),
            }
            if step % 4_000 == 3_999 {
                shots += 1;
                let snapshot = written(zprof::snapshot());
                assert_eq!(snapshot.profile.dropped_scopes, 0);
                is_known(&snapshot.lines, &held, &closed, seed);
            }
        }
        drop(held);
        session.stop();
        assert_eq!(shots, 3);
    }
}

/// All that is open is there, with what was added to it; of what has ended, all from some end on.
fn is_known(lines: &[Line], held: &[Held], closed: &[i64], seed: u64) {
    let mut found: BTreeMap<i64, (bool, Option<Stat>)> = BTreeMap::new();
    for event in lines.iter().flat_map(|line| &line.events).filter(|event| event.name == "held") {
        assert_eq!(stat(event, "text"), Some("metadata".into()));
        let last_note = event.stats.iter().rfind(|(key, _)| key == "note").map(|(_, value)| value.clone());
        // What has outlived a scope around it may be held, as here, or have been forgotten.
        let is_open = ["unfinished", "leaked"].iter().any(|mark| stat(event, mark).is_some());
        assert!(found.insert(number(event), (is_open, last_note)).is_none(), "twice: {event:?}");
    }
    for Held { n, note, .. } in held {
        assert_eq!(found.remove(n), Some((true, note.map(Stat::from))), "open: {n} of seed {seed}");
    }
    let there: Vec<bool> = closed.iter().map(|n| found.remove(n).is_some()).collect();
    let from = there.iter().position(|&is| is).expect("some of what has ended is kept");
    assert!(there[from..].iter().all(|&is| is), "a gap behind {from} of seed {seed}");
    assert!(from > 0, "nothing has gone");
    assert_eq!(found, BTreeMap::new());
}

fn descend(depth: i64, at_the_bottom: &mut dyn FnMut()) {
    zprof::scope!("level", n = depth);
    if depth == 0 { at_the_bottom() } else { descend(depth - 1, at_the_bottom) }
}

#[test]
fn a_deep_stack_outlasts_the_ring() {
    // Deeper is more than Perfetto shows.
    const DEPTH: i64 = 500;
    let mut session = Session::new(options().keep_last_bytes(4 << 10));
    session.start();
    let worker = thread::Builder::new().name("deep".to_owned()).stack_size(64 << 20).spawn(|| {
        let mut at_the_bottom = || {
            for n in 0..20_000 {
                zprof::scope!("work", n, {});
            }
            let snapshot = written(zprof::snapshot());
            let own = line(&snapshot.lines, "deep");
            let levels: Vec<i64> = own.events.iter().filter(|event| event.name == "level").map(number).collect();
            assert_eq!(levels, (0..=DEPTH).rev().collect::<Vec<_>>());
            assert_eq!(run_of(own, "work").1, 19_999);
        };
        descend(DEPTH, &mut at_the_bottom);
        for n in 0..20_000 {
            zprof::scope!("after", n, {});
        }
        let snapshot = written(zprof::snapshot());
        let names = line(&snapshot.lines, "deep").names();
        assert!(names.iter().all(|&name| name == "after"), "what has ended goes: {names:?}");
    });
    worker.expect("a thread can be had").join().expect("the thread ends well");
    assert_eq!(session.stop().profile.dropped_scopes, 0);
}

#[test]
fn the_memory_limit_bounds_the_ring_and_drops_nothing() {
    const LIMIT: usize = 2 << 20;
    let options = options().keep_last(Duration::from_secs(3600)).max_buffer_bytes(LIMIT).prefault_bytes(0);
    let mut session = Session::new(options);
    session.start();
    zprof::scope!("server");
    let mut lasts = Vec::new();
    for round in 0..3 {
        for n in 0..100_000_i64 {
            zprof::scope!("item", n = round * 100_000 + n, {});
        }
        let snapshot = written(zprof::snapshot());
        let (first, last) = run_of(snapshot.own_line(), "item");
        assert!(first > 0 && snapshot.own_line().event("server").start_ps == 0);
        assert_eq!((snapshot.profile.dropped_scopes, &snapshot.warnings), (0, &Vec::new()));
        lasts.push(last);
        let allocated = zprof_runtime::__test::recorder_bytes();
        assert!(allocated <= LIMIT, "{allocated} bytes");
    }
    assert_eq!(lasts, [99_999, 199_999, 299_999]);
    session.stop();
}

#[test]
fn what_snapshots_hold_costs_the_threads_that_go_on_nothing() {
    const THREADS: usize = 8;
    // More than all threads write while the system puts the snapshot aside.
    const LIMIT: usize = 32 << 20;
    // Rings have all that they may, and go round while a snapshot holds all of it.
    let options = options().keep_last(Duration::from_secs(3600)).max_buffer_bytes(LIMIT).prefault_bytes(0);
    let mut session = Session::new(options);
    session.start();
    let load = Load::start("limit", THREADS);
    load.wait_for(80_000);
    let begun = load.begun();
    let profile = zprof::snapshot().expect("it is written").expect("zprof is enabled");
    assert_eq!(profile.dropped_scopes, 0);
    assert!(profile.released_bytes > 0);
    let allocated = zprof_runtime::__test::recorder_bytes();
    assert!(allocated <= LIMIT, "{allocated} bytes");
    // All rings have gone round meanwhile, most of them while the snapshot was being converted.
    load.wait_for(begun.iter().max().expect("there are threads") + 40_000);
    let begun = load.begun();
    let snapshot = written(zprof::snapshot());
    assert_eq!(snapshot.profile.dropped_scopes, 0);
    // Where the system puts the snapshot aside, rings may go round before it reaches them, and are shown all the same.
    let has_own_window = |warning: &&String| warning.contains(" threads are shown up to a moment of their own, ");
    assert_eq!(snapshot.warnings.iter().filter(has_own_window).count(), snapshot.warnings.len());
    for (index, begun) in begun.iter().enumerate() {
        assert!(is_whole(&snapshot, &format!("limit {index}"), index, *begun) > 0);
    }
    drop(load);
    assert_eq!(session.stop().profile.dropped_scopes, 0);
}

/// What `snapshots` prints: it fails where a profile lacks a thread, a scope that is open, or a scope that is not counted.
fn checked(threads: &str, snapshots: &str, kib: &str) {
    let mut command = zprof_tests::program(env!("CARGO_BIN_EXE_snapshots"));
    let output = command.args([threads, snapshots, kib]).output().expect("the program can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{threads} threads, {kib} KiB each:\n{stdout}\n{stderr}");
    assert!(stdout.starts_with(&format!("{threads} threads, {kib} KiB each: ")), "{stdout}");
}

#[test]
fn snapshots_of_threads_that_overrun_them_have_every_thread() {
    checked("1", "3", "256");
    checked("8", "4", "256");
    // Few chunks for each, so that scopes find no memory.
    checked("8", "8", "32");
    checked("64", "1", "64");
}

#[test]
fn threads_that_end_have_as_many_rings_as_there_were_threads_at_once() {
    const BYTES: usize = 16 << 10;
    const SHORT: i64 = 3_000;
    /// A scope with one number, in memory.
    const SCOPE: i64 = 32;
    let mut session = Session::new(options().keep_last_bytes(BYTES));
    session.start();
    zprof::scope!("server");
    for n in 0..SHORT {
        let work = move || {
            zprof::scope!("request", n);
        };
        thread::spawn(work).join().expect("ends well");
    }
    let snapshot = written(zprof::snapshot());
    let mut requests = of_all_lines(&snapshot.lines, "request");
    // Lines are in the order of their ids, which a system may use again.
    requests.sort_unstable();
    let first = *requests.first().expect("the last threads are there");
    assert_eq!(requests, (first..SHORT).collect::<Vec<_>>());
    // This one and one other, each time.
    let most = 2 * i64::try_from(BYTES).expect("small") / SCOPE;
    let count = SHORT - first;
    assert!((most - 2..=most).contains(&count), "{count} requests, {most} at most");
    assert!(snapshot.profile.released_bytes > 0);

    // Workers that end together are all there.
    const WORKERS: i64 = 8;
    let together = Barrier::new(8);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let together = &together;
            scope.spawn(move || {
                zprof::scope!("worker", n = worker);
                together.wait();
                for n in 0..4_000_i64 {
                    zprof::scope!("item", n, {});
                }
            });
        }
    });
    let snapshot = written(zprof::snapshot());
    let mut workers = of_all_lines(&snapshot.lines, "worker");
    workers.sort_unstable();
    assert_eq!(workers, (0..WORKERS).collect::<Vec<_>>());
    let items = of_all_lines(&snapshot.lines, "item").len();
    assert!(items >= BYTES / 32 * 8, "{items} items");
    session.stop();
}

/// The numbers of all events of this name, line by line.
fn of_all_lines(lines: &[Line], name: &str) -> Vec<i64> {
    lines.iter().flat_map(|line| &line.events).filter(|event| event.name == name).map(number).collect()
}

#[test]
fn threads_that_end_go_when_there_are_too_many() {
    const LIMIT: usize = 16 << 20;
    const THREADS: i64 = 4_000;
    let mut session = Session::new(options().keep_last_bytes(1 << 20).max_buffer_bytes(LIMIT).prefault_bytes(0));
    session.start();
    zprof::scope!("server", port = 80);
    for n in 0..THREADS {
        let work = move || {
            zprof::scope!("request", n);
        };
        thread::Builder::new().name("short".to_owned()).spawn(work).expect("a thread").join().expect("ends well");
    }
    let snapshot = written(zprof::snapshot());
    assert_eq!((snapshot.profile.dropped_scopes, &snapshot.warnings), (0, &Vec::new()));
    assert!(snapshot.profile.released_bytes > 0);
    let requests = of_all_lines(&snapshot.lines, "request");
    let first = *requests.first().expect("the last threads are there");
    assert!(first > 0 && requests.len() > 200, "{} from {first} on", requests.len());
    assert_eq!(requests, (first..THREADS).collect::<Vec<_>>());
    let Some(Stat::Uint(gone)) = snapshot.environment.get("released_threads") else { panic!("threads are counted") };
    assert_eq!(i64::try_from(*gone).expect("few"), first);
    assert_eq!(stat(snapshot.own_line().event("server"), "port"), Some(80.into()));
    let allocated = zprof_runtime::__test::recorder_bytes();
    assert!(allocated <= LIMIT, "{allocated} bytes");
    session.stop();
}

#[test]
fn tasks_and_counters_go_on_over_the_ring() {
    let mut session = Session::new(options().keep_last_bytes(8 << 10));
    session.start();
    let mut polled = 0;
    let work = std::future::poll_fn(move |_| {
        polled += 1;
        if polled < 3 { Poll::Pending } else { Poll::Ready(()) }
    });
    let mut task = pin!(work.traced(zprof::task!("task", id = 7)));
    let mut poll = || task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!poll());
    for n in 0..5_000_i64 {
        zprof::scope!("item", n, {});
        zprof::counter!("load", n);
    }
    assert!(!poll());
    let snapshot = written(zprof::snapshot());
    let whole = line(&snapshot.lines, "async").event("task");
    let marks = [stat(whole, "unfinished"), stat(whole, "started_before"), stat(whole, "polls")];
    assert_eq!(marks, [1, 1, 1].map(|mark| Some(Stat::Int(mark))), "{whole:?}");
    assert_eq!((stat(whole, "id"), stat(whole, "first_poll_released")), (Some(7.into()), None));
    // As with any task, its metadata is not shown at later polls.
    assert_eq!(stat(snapshot.own_line().event("task"), "id"), None);
    let loads: Vec<_> =
        line(&snapshot.lines, "_counters_").events.iter().map(|event| event.stats[0].1.clone()).collect();
    let Some(Stat::Int(first)) = loads.first() else { panic!("no samples") };
    assert!(*first > 0);
    assert_eq!(loads, (*first..5_000).map(Stat::Int).collect::<Vec<_>>());
    assert!(poll());
    let stopped = session.stop();
    let whole = line(&stopped.lines, "async").event("task");
    assert_eq!((stat(whole, "unfinished"), stat(whole, "polls")), (None, Some(Stat::Int(2))));
    assert_eq!(stat(whole, "id"), Some(7.into()));
}

#[zprof::trace(id)]
async fn waits(id: u64) {
    let mut polled = 0;
    std::future::poll_fn(|_| {
        polled += 1;
        if polled < 3 { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

#[test]
fn a_task_says_that_its_metadata_has_gone() {
    let mut session = Session::new(options().keep_last_bytes(8 << 10));
    session.start();
    let mut task = pin!(waits(7));
    let mut poll = || task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!poll());
    let early = written(zprof::snapshot());
    for n in 0..5_000_i64 {
        zprof::scope!("item", n, {});
    }
    assert!(!poll());
    let late = written(zprof::snapshot());
    let known = |lines: &[Line]| {
        let whole = line(lines, "async").event("waits");
        [stat(whole, "id"), stat(whole, "started_before"), stat(whole, "first_poll_released")]
    };
    assert_eq!(known(&early.lines), [Some(7.into()), None, None]);
    assert_eq!(known(&late.lines), [None, Some(1.into()), Some(1.into())]);
    assert!(poll());
    session.stop();
}

#[test]
fn the_curve_of_a_counter_begins_with_its_last_value() {
    let mut session = Session::new(options().keep_last_bytes(8 << 10));
    session.start();
    zprof::counter!("limit", 10);
    zprof::counter!("limit", 11);
    zprof::counter!("limit", bytes = 2.5);
    let (sampled, taken) = (&Barrier::new(2), &Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(move || {
            zprof::counter!("limit", 12);
            zprof::counter!("open", 1_u64);
            for n in 0..5_000_i64 {
                zprof::scope!("other", n, {});
            }
            sampled.wait();
            taken.wait();
        });
        sampled.wait();
        for n in 0..5_000_i64 {
            zprof::scope!("item", n, {});
        }
        zprof::counter!("open", 2_u64);
        let snapshot = written(zprof::snapshot());
        let counters = line(&snapshot.lines, "_counters_");
        let mut first: Vec<_> = counters.events[..3].iter().map(|event| (event.name.as_str(), &event.stats)).collect();
        first.sort_by_key(|(name, stats)| (*name, stats[0].0.clone()));
        let before = |key, value: Stat| zprof_tests::profile::stats([(key, value)]);
        let (bytes, limit, open) = (before("bytes", 2.5.into()), before("value", 12.into()), before("value", 1.into()));
        assert_eq!(first, [("limit", &bytes), ("limit", &limit), ("open", &open)]);
        assert!(counters.events[..3].iter().all(|event| event.start_ps == 0));
        let last = &counters.events[3..];
        assert_eq!(last.len(), 1, "{last:?}");
        assert!(last[0].name == "open" && last[0].start_ps > 0 && stat(&last[0], "value") == Some(2.into()));
        taken.wait();
    });
    session.stop();
}
