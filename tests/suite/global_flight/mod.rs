//! The flight recorder: the latest records of each thread, written while recording goes on.

mod callers;
#[cfg(target_os = "linux")]
mod pauses;
mod rings;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zprof::{ErrorKind, Profile, ProfilerOptions};
use zprof_runtime::export::{CheckOptions, Finding, FindingKind, check};
use zprof_tests::profile::{Event, Line, Recorded, Session, Stat, line, stats};

fn options() -> ProfilerOptions {
    ProfilerOptions::default()
}

fn written(profile: zprof::Result<Option<Profile>>) -> Recorded {
    let recorded = Recorded::of(profile.expect("it is written").expect("zprof is enabled"));
    let checked = check(&recorded.space.as_slice(), &CheckOptions::default()).expect("memory can be read");
    // What the profiler itself warned of is no fault of the file; tests that mean it look at it.
    let faults: Vec<_> = checked.findings.iter().filter(|finding| finding.kind != FindingKind::Reported).collect();
    assert_eq!(faults, [] as [&Finding; 0]);
    recorded
}

fn stat(event: &Event, name: &str) -> Option<Stat> {
    event.stats.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

fn number(event: &Event) -> i64 {
    match stat(event, "n") {
        Some(Stat::Int(n)) => n,
        other => panic!("`n` is {other:?} in {event:?}"),
    }
}

/// The numbers of the events of this name, which must follow one another without a gap.
fn run_of(line: &Line, name: &str) -> (i64, i64) {
    let numbers: Vec<i64> = line.events.iter().filter(|event| event.name == name).map(number).collect();
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { panic!("no `{name}` on {}", line.name) };
    let whole: Vec<i64> = (first..=last).collect();
    assert_eq!(numbers, whole, "`{name}` on {}", line.name);
    (first, last)
}

/// Threads that record as fast as they can until this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    /// What each has begun at last.
    begun: Vec<Arc<AtomicI64>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(prefix: &str, count: usize) -> Self {
        let (stop, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(count + 1)));
        let begun: Vec<_> = (0..count).map(|_| Arc::new(AtomicI64::new(-1))).collect();
        let spawn = |(index, begun): (usize, &Arc<AtomicI64>)| {
            let (stop, begun, ready) = (Arc::clone(&stop), Arc::clone(begun), Arc::clone(&ready));
            let work = move || {
                let mut server = zprof::span!("server", index);
                server.record("port", 8000 + index);
                zprof::scope!("main loop", text = "as long as the thread");
                ready.wait();
                let mut n = 0_i64;
                while !stop.load(Ordering::Relaxed) {
                    zprof::scope!("item", n);
                    begun.store(n, Ordering::Release);
                    zprof::scope!("inner", n, {});
                    if n % 1000 == 0 {
                        server.record("seen", n);
                    }
                    n += 1;
                }
            };
            thread::Builder::new().name(format!("{prefix} {index}")).spawn(work).expect("a thread can be had")
        };
        let threads = begun.iter().enumerate().map(spawn).collect();
        ready.wait();
        Self { stop, begun, threads }
    }

    fn begun(&self) -> Vec<i64> {
        self.begun.iter().map(|begun| begun.load(Ordering::Acquire)).collect()
    }

    /// Waits until each thread has begun that many items.
    fn wait_for(&self, items: i64) {
        while self.begun().iter().any(|&begun| begun < items) {
            thread::yield_now();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a thread ends well");
        }
    }
}

/// The line of one thread of a load is whole from somewhere on to the moment; gives the first item.
fn is_whole(recorded: &Recorded, name: &str, index: usize, at_least: i64) -> i64 {
    let line = line(&recorded.lines, name);
    // This fails where something crosses or stands in a wrong place.
    assert!(!line.tree().is_empty());
    let (server, main_loop) = (line.event("server"), line.event("main loop"));
    assert_eq!(stat(server, "index"), Some(Stat::Int(i64::try_from(index).expect("small"))));
    assert_eq!(stat(server, "port"), Some(Stat::Int(8000 + i64::try_from(index).expect("small"))));
    assert!(matches!(stat(server, "seen"), Some(Stat::Int(seen)) if seen % 1000 == 0), "{server:?}");
    assert_eq!(stat(main_loop, "text"), Some("as long as the thread".into()));
    assert!(main_loop.is_inside(server));
    let (first, last) = run_of(line, "item");
    let inner = run_of(line, "inner");
    assert!(last >= at_least, "{last} of {at_least} on {name}");
    assert!((first..=first + 1).contains(&inner.0) && (last - 1..=last).contains(&inner.1), "{inner:?}");
    for event in &line.events {
        assert!(event.is_inside(server), "{event:?} outside of {server:?}");
    }
    first
}

#[test]
fn snapshots_under_full_load_are_whole() {
    const THREADS: usize = 8;
    const BYTES: usize = 128 << 10;
    let mut session = Session::new(options().keep_last_bytes(BYTES));
    session.start();
    let load = Load::start("full load", THREADS);
    // Each ring has come round several times.
    load.wait_for(10_000);
    let mut before = [0; THREADS];
    for round in 1..=3 {
        let begun = load.begun();
        let snapshot = written(zprof::snapshot());
        let folder = snapshot.profile.protobuf_path.parent().expect("it has a folder").to_owned();
        assert!(folder.ends_with(format!("profiling-snapshot-{round}")), "{}", folder.display());
        assert!(snapshot.profile.released_bytes > 0);
        assert_eq!((snapshot.profile.dropped_scopes, &snapshot.warnings), (0, &Vec::new()));
        for (index, begun) in begun.iter().enumerate() {
            let first = is_whole(&snapshot, &format!("full load {index}"), index, *begun);
            assert!(first > before[index], "the ring stands still");
            before[index] = first;
            // An item takes eight words with what is in it, a little more where a chunk ends.
            let items = snapshot.line(&format!("full load {index}")).events.iter().filter(|event| event.name == "item");
            let least = i64::try_from(BYTES / 64).expect("small");
            assert!(i64::try_from(items.count()).expect("small") >= least - least / 20);
            let server = snapshot.line(&format!("full load {index}")).event("server");
            assert_eq!(stat(server, "unfinished"), Some(Stat::Int(1)));
        }
        let unit = 2 * THREADS * (BYTES + ((3 * 64) << 10));
        let allocated = zprof_runtime::__test::recorder_bytes();
        // The helper keeps some ready, and rings grow while the system puts a snapshot aside that is about to hold them.
        assert!(allocated <= unit + (96 << 20), "{allocated} bytes for rings of {BYTES}");
        load.wait_for(begun.iter().max().expect("there are threads") + 10_000);
    }
    let begun = load.begun();
    drop(load);
    let stopped = session.stop();
    assert_eq!((stopped.profile.dropped_scopes, &stopped.warnings), (0, &Vec::new()));
    for (index, begun) in begun.iter().enumerate() {
        is_whole(&stopped, &format!("full load {index}"), index, *begun);
        assert_eq!(stat(stopped.line(&format!("full load {index}")).event("server"), "unfinished"), None);
    }
}

#[test]
fn without_a_bound_a_snapshot_has_all_from_the_start_on() {
    let mut session = Session::new(options());
    session.start();
    zprof::scope!("outer", key = 7);
    zprof::scope!("first", {});
    let early = written(session.profiler.snapshot());
    zprof::scope!("second", {});
    let late = written(zprof::snapshot());
    let whole = session.stop();
    let unfinished = stats([("key", 7.into()), ("unfinished", 1.into())]);
    let none = stats([]);
    assert_eq!(early.own_line().told(), [("outer", &unfinished), ("first", &none)]);
    assert_eq!(late.own_line().told(), [("outer", &unfinished), ("first", &none), ("second", &none)]);
    assert_eq!(whole.own_line().told(), [("outer", &unfinished), ("first", &none), ("second", &none)]);
    assert!(early.length_ps() <= late.length_ps() && late.length_ps() <= whole.length_ps());
    let names = ["profiling", "profiling-snapshot-1", "profiling-snapshot-2"];
    let mut found: Vec<_> = fs::read_dir(session.folder().join("plugins/profile"))
        .expect("the runs")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn snapshots_need_a_session() {
    let mut session = Session::new(options());
    let kind = |profile: zprof::Result<Option<Profile>>| {
        let error = profile.expect_err("there is no session");
        (error.kind(), error.to_string())
    };
    let none = "failed to take a snapshot: no session runs; start a profiler first".to_owned();
    assert_eq!(kind(zprof::snapshot()), (ErrorKind::WrongState, none.clone()));
    let idle = "failed to take a snapshot: this profiler is not running; start it first".to_owned();
    assert_eq!(kind(session.profiler.snapshot()), (ErrorKind::WrongState, idle));
    session.start();
    zprof::scope!("something", {});
    written(zprof::snapshot());
    session.stop();
    assert_eq!(kind(zprof::snapshot()), (ErrorKind::WrongState, none));
}

/// Unix time in nanoseconds.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_nanos()).expect("this century")
}

#[test]
fn what_is_older_than_the_time_is_gone() {
    const KEPT: Duration = Duration::from_millis(60);
    const NS: i64 = 60_000_000;
    /// The profile's times are the wall clock's but for its slewing and the width of the anchors.
    const NEAR: i64 = 2_000_000;
    let mut session = Session::new(options().keep_last(KEPT));
    session.start();
    zprof::scope!("server", port = 80);
    // The wall clock before and after each item. Its end lies between, however long the thread is put aside there.
    let mut around: Vec<(i64, i64)> = Vec::new();
    let mut tries = 0;
    let (snapshot, stop) = loop {
        let begun = Instant::now();
        while begun.elapsed() < 4 * KEPT {
            let before = now_ns();
            zprof::scope!("item", n = around.len(), {});
            around.push((before, now_ns()));
        }
        let snapshot = written(zprof::snapshot());
        let Some(Stat::Uint(stop)) = snapshot.environment.get("profile_stop_time") else { panic!("a time") };
        let stop = i64::try_from(*stop).expect("this century");
        // On a busy machine the whole time may pass between the last of them and the snapshot.
        if stop - around[around.len() - 1].0 < NS / 2 {
            break (snapshot, stop);
        }
        tries += 1;
        assert!(tries < 1000, "no snapshot comes within {KEPT:?}");
    };
    let own = snapshot.own_line();
    let server = stats([("port", 80.into()), ("unfinished", 1.into()), ("started_before", 1.into())]);
    assert_eq!(own.event("server").stats, server);
    let length = snapshot.length_ps() / 1000;
    assert!((length - NS).abs() < 10_000, "{length}");
    // What ended within the time is there, and nothing else.
    let oldest = stop - NS;
    let (first, last) = run_of(own, "item");
    assert_eq!(usize::try_from(last).expect("positive"), around.len() - 1);
    let first = usize::try_from(first).expect("positive");
    assert!(first > 0, "nothing is gone");
    let (gone, shown) = (around[first - 1], around[first]);
    assert!(gone.0 < oldest + NEAR && shown.1 > oldest - NEAR, "{gone:?} and {shown:?} around {oldest}");
    session.stop();
}
