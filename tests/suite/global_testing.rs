//! Sessions for the tests of programs: exact times, plain values, and only what the test's own threads did.

use std::future::{pending, poll_fn, ready};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use zprof::testing::{Arg, Clock, Mark, Recorded, Session, record, record_all};
use zprof::{ErrorKind, Platform, ProfilerOptions, TraceFuture as _};
use zprof_tests::profile::exclusive;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn recorded(body: impl FnOnce(&Clock)) -> Recorded {
    record(body).expect("the session starts")
}

#[derive(Clone, Copy, zprof::Value)]
enum Mode {
    Fast,
}

#[zprof::trace(n, ret)]
fn doubled(n: u32, clock: &Clock) -> u32 {
    clock.advance(ms(2));
    2 * n
}

#[test]
fn times_are_exact_and_values_are_plain() {
    let (mut first_line, mut before) = (0, Duration::MAX);
    let recorded = recorded(|clock| {
        before = clock.now();
        clock.advance(Duration::from_nanos(1));
        first_line = line!() + 1;
        zprof::scope!("outer", {
            clock.advance(ms(3));
            assert_eq!(doubled(7, clock), 14);
            zprof::instant!("hit", key = "a \"b\"", mode = Mode::Fast);
            zprof::scope!("short", nothing = None::<u8>, {});
        });
        let mut span = zprof::span!("span", big = u64::MAX, ratio = 0.5, yes = true, c = 'c');
        clock.advance(Duration::from_secs(7200));
        span.record("late", -1);
        span.end();
        zprof::counter!("queue", 3);
        clock.advance(ms(1));
        zprof::counter!("queue", 4.5);
        zprof::counter!("heap", bytes = 1);
        assert_eq!(clock.now(), Duration::from_secs(7200) + ms(6) + Duration::from_nanos(1));
    });
    assert_eq!(before, Duration::ZERO);
    assert_eq!(
        recorded.tree(),
        "outer 5ms\n  doubled n=7 return=14 2ms\n  hit key=\"a \\\"b\\\"\" mode=\"Fast\" @5.000001ms\n  short\n\
         span big=18446744073709551615 ratio=0.5 yes=1 c=\"c\" late=-1 7200s\n\
         counters\n  queue value=3 @7200.005000001s\n  queue value=4.5 @7200.006000001s\n  heap bytes=1 @7200.006000001s"
    );
    let own = &recorded.threads[0];
    assert_eq!(
        (recorded.threads.len(), own.is_own, &own.name),
        (1, true, &thread::current().name().expect("a name").to_owned())
    );
    let outer = recorded.scope("outer").expect("it is there");
    assert_eq!((outer.start, outer.duration, outer.depth), (Duration::from_nanos(1), ms(5), 0));
    assert_eq!((outer.module_path.as_str(), outer.file.as_str(), outer.line), (module_path!(), file!(), first_line));
    let doubled = recorded.scope("doubled").expect("it is there");
    assert_eq!((doubled.start, doubled.duration, doubled.depth), (ms(3) + Duration::from_nanos(1), ms(2), 1));
    assert_eq!(doubled.args, [("n".to_owned(), 7.into()), ("return".to_owned(), Arg::Int(14))]);
    let hit = recorded.scope("hit").expect("it is there");
    assert_eq!((hit.is_instant, hit.duration, hit.arg("mode")), (true, Duration::ZERO, Some(&"Fast".into())));
    let span = recorded.scope("span").expect("it is there");
    let args = [Some(&u64::MAX.into()), Some(&0.5.into()), Some(&true.into()), None];
    assert_eq!(["big", "ratio", "yes", "other"].map(|key| span.arg(key)), args);
    assert_eq!((&recorded.warnings, recorded.dropped_scopes, recorded.tasks.len()), (&vec![], 0, 0));
}

#[test]
fn where_time_stands_still_what_is_inside_what_is_seen_all_the_same() {
    let run = || {
        recorded(|_| {
            zprof::scope!("a", {
                zprof::scope!("b", { zprof::scope!("c", {}) });
                zprof::scope!("b", {});
            });
            zprof::step!("step", 4, { zprof::scope!("root", root = true, {}) });
            let flow = zprof::flow();
            zprof::scope!("sender", sends = flow, {});
            zprof::instant!("receiver", receives = flow);
        })
    };
    let (first, second) = (run(), run());
    assert_eq!(first.tree(), "a\n  b\n    c\n  b\nstep step_num=4\n  root\nsender sends=#1\nreceiver receives=#1 @0ns");
    assert!(first.scopes().filter(|scope| scope.is_root).map(|scope| scope.name.as_str()).eq(["step", "root"]));
    assert_eq!(first, second, "numbers do not depend on what ran before");
}

/// Ready at the second poll.
async fn once_more() {
    let mut first = true;
    poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[zprof::trace(n)]
async fn inner(n: u8, clock: &Clock) {
    clock.advance(ms(1));
    once_more().await;
    clock.advance(ms(2));
}

#[test]
fn a_future_has_its_polls_and_a_whole() {
    let recorded = recorded(|clock| {
        let mut context = Context::from_waker(Waker::noop());
        let mut outer = Box::pin(async { inner(1, clock).await }.traced(zprof::task!("outer", text = "t")));
        assert!(outer.as_mut().poll(&mut context).is_pending());
        clock.advance(ms(4));
        let mut other = Box::pin(pending::<()>().traced(zprof::task!("other")));
        assert!(other.as_mut().poll(&mut context).is_pending());
        assert!(outer.as_mut().poll(&mut context).is_ready());
        drop(other);
        let panics = async { panic!("alone") }.traced(zprof::task!("panics"));
        let caught = catch_unwind(AssertUnwindSafe(|| pin!(panics).poll(&mut Context::from_waker(Waker::noop()))));
        assert!(caught.is_err());
        // Left open by the end.
        let mut last = ManuallyDrop::new(pending::<()>().traced(zprof::task!("last")));
        assert!(Pin::new(&mut *last).poll(&mut context).is_pending());
    });
    assert_eq!(
        recorded.tree(),
        "outer text=\"t\" task=#1 1ms\n  inner n=1 task=#2 1ms\nother task=#3\nouter task=#1 2ms\n  inner task=#2 2ms\n\
         panics task=#4\nlast task=#5\n\
         tasks\n  outer text=\"t\" task=#1 7ms\n    inner n=1 task=#2 7ms\n  other task=#3 [cancelled] 2ms\n\
         \u{20}\u{20}panics task=#4 [panicked]\n  last task=#5 [unfinished]"
    );
    assert_eq!(recorded.tasks[2].marks, [Mark::Cancelled]);
}

#[test]
fn a_panic_ends_the_session_and_goes_on() {
    let caught = catch_unwind(|| {
        record(|_| {
            zprof::scope!("before");
            panic!("of the test");
        })
    });
    let payload = caught.expect_err("the panic goes on");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"of the test"));
    assert_eq!(recorded(|_| zprof::scope!("after", {})).tree(), "after");
    // Dropped without a stop, it leaves nothing either.
    drop(Session::start().expect("the place is free"));
    assert_eq!(recorded(|_| ()), Recorded::default());
}

#[test]
fn a_session_inside_a_session_is_refused() {
    let recorded = recorded(|_| {
        let error = record(|_| panic!("it is not called")).expect_err("it would wait for itself");
        assert_eq!(error.kind(), ErrorKind::WrongState);
        assert_eq!(
            error.to_string(),
            "failed to start a session for a test: this thread has one already; stop that first, or record both parts in it"
        );
        let mut profiler = Platform::host().profiler(ProfilerOptions::default()).expect("the options can work");
        assert_eq!(profiler.start().expect_err("there is a session").kind(), ErrorKind::AlreadyActive);
        zprof::scope!("goes on", {});
    });
    assert_eq!(recorded.tree(), "goes on");
}

#[test]
fn a_profiler_that_runs_is_an_error() {
    let _place = exclusive();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let mut profiler = Platform::host().profiler(options).expect("the options can work");
    profiler.start().expect("no other session");
    assert_eq!(Session::start().expect_err("there is a session").kind(), ErrorKind::AlreadyActive);
    profiler.stop().expect("it is written");
    assert_eq!(recorded(|_| zprof::scope!("next", {})).tree(), "next");
}

#[test]
fn tests_at_once_get_what_is_their_own() {
    const TESTS: usize = 6;
    let start = Barrier::new(TESTS);
    let tree = |number: usize| {
        start.wait();
        // Some without a session run all the while.
        for n in 0..500_u32 {
            zprof::scope!("noise", n);
        }
        let recorded = recorded(|clock| {
            zprof::scope!("own", number, { clock.advance(ms(number as u64)) });
        });
        for n in 0..500_u32 {
            zprof::instant!("noise", n);
        }
        recorded.tree()
    };
    thread::scope(|threads| {
        let tests: Vec<_> = (1..=TESTS).map(|number| (number, threads.spawn(move || tree(number)))).collect();
        for (number, test) in tests {
            assert_eq!(test.join().expect("it does not panic"), format!("own number={number} {number}ms"));
        }
    });
}

#[test]
fn threads_are_included_where_they_say_so() {
    let work = |clock: &Clock, include: bool, name: &str| {
        thread::scope(|threads| {
            let work = || {
                zprof::scope!("job", { clock.advance(ms(1)) });
                if include {
                    clock.include_thread();
                }
                zprof::counter!("jobs", 1);
            };
            thread::Builder::new().name(name.to_owned()).spawn_scoped(threads, work).expect("a thread starts");
        });
    };
    let body = |clock: &Clock| {
        zprof::scope!("around", {
            work(clock, true, "in");
            work(clock, false, "out");
        });
    };
    let included = recorded(body);
    assert_eq!(included.tree(), "around 2ms\nthread in\n  job 1ms\ncounters\n  jobs value=1 @1ms");
    let others = included.others.expect("`out` is another");
    assert_eq!(others.tree(), "thread out\n  job 1ms\ncounters\n  jobs value=1 @2ms");
    let all = record_all(body).expect("the session starts");
    assert_eq!(all.thread("out").expect("it is there").tree(), "job 1ms");
    let counted = all.counters.iter().map(|sample| (sample.at, &sample.value)).collect::<Vec<_>>();
    assert_eq!(counted, [(ms(1), &1.into()), (ms(2), &1.into())]);
}

#[test]
fn what_other_threads_did_is_apart_and_not_lost() {
    let recorded = recorded(|clock| {
        let flow = zprof::flow();
        zprof::scope!("asks", sends = flow, {});
        let mut context = Context::from_waker(Waker::noop());
        let mut moved = Box::pin(inner(1, clock));
        assert!(moved.as_mut().poll(&mut context).is_pending());
        thread::scope(|threads| {
            let work = || {
                let mut context = Context::from_waker(Waker::noop());
                zprof::scope!("answers", receives = flow, {
                    assert!(moved.as_mut().poll(&mut context).is_ready());
                });
                zprof::counter!("answers", 1);
                clock.advance(ms(1));
                zprof::scope!("last", {});
            };
            thread::Builder::new().name("pool".to_owned()).spawn_scoped(threads, work).expect("a thread starts");
        });
    });
    assert_eq!(recorded.tree(), "asks sends=#1\ninner n=1 task=#1 1ms\ntasks\n  inner n=1 task=#1 [unfinished] 4ms");
    let others = recorded.others.as_deref().expect("another thread recorded");
    assert_eq!(
        others.tree(),
        "thread pool\n  answers receives=#1 2ms\n    inner task=#1 2ms\n  last\n\
         tasks\n  inner task=#1 [started_before] 3ms\ncounters\n  answers value=1 @3ms"
    );
    assert!(others.others.is_none() && others.threads.iter().all(|thread| !thread.is_own));
    // Nothing of it is part of what a test compares.
    let mut alone = recorded.clone();
    alone.others = None;
    assert_eq!(recorded, alone);
    let all = record_all(|_| thread::spawn(|| zprof::scope!("far", {})).join().expect("it does not panic"));
    assert!(all.expect("the session starts").others.is_none());
}

#[test]
fn time_moves_for_all_threads() {
    let recorded = recorded(|clock| {
        let mover = clock.clone();
        zprof::scope!("waits", {
            thread::spawn(move || (0..100).for_each(|_| mover.advance(ms(1)))).join().expect("it does not panic");
        });
        assert_eq!(clock.now(), ms(100));
    });
    assert_eq!(recorded.tree(), "waits 100ms");
}

#[test]
fn what_is_not_whole_is_marked() {
    let before = zprof::span!("before");
    let session = Session::start().expect("the session starts");
    session.clock().advance(ms(1));
    drop(before);
    let (first, second) = (zprof::span!("first"), zprof::span!("second"));
    session.clock().advance(ms(1));
    drop(first);
    session.clock().advance(ms(1));
    drop(second);
    let around = zprof::span!("around");
    std::mem::forget(zprof::span!("forgotten"));
    session.clock().advance(ms(1));
    drop(around);
    let open = zprof::span!("open");
    session.clock().advance(ms(1));
    let recorded = session.stop().expect("it can be read");
    drop(open);
    let name = thread::current().name().expect("a name").to_owned();
    assert_eq!(
        recorded.tree(),
        format!(
            "before [started_before] 1ms\nfirst 1ms\naround 1ms\n  forgotten [leaked] 1ms\nopen [unfinished] 1ms\n\
             thread {name} (overlap)\n  second 2ms"
        )
    );
    assert_eq!(recorded.warnings.len(), 1, "{:?}", recorded.warnings);
    assert!(recorded.warnings[0].starts_with("scope `second` ("), "{:?}", recorded.warnings);
}

#[test]
fn options_choose_what_is_recorded() {
    let of = |options: ProfilerOptions| {
        let session = Session::start_with(&options).expect("the options can work");
        zprof::scope!("critical", {});
        zprof::scope!("verbose", level = verbose, filter = 2, {});
        session.stop().expect("it can be read").tree()
    };
    assert_eq!(of(ProfilerOptions::default()), "critical\nverbose");
    assert_eq!(of(ProfilerOptions::default().host_tracer_level(1)), "critical");
    assert_eq!(of(ProfilerOptions::default().directives(concat!(module_path!(), "=off"))), "");
    let error = Session::start_with(&ProfilerOptions::default().directives("loud")).expect_err("no level");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);

    let session = Session::start_with(&ProfilerOptions::default().max_buffer_bytes(64 << 10)).expect("it starts");
    (0..5_000_u32).for_each(|n| zprof::instant!("many", n));
    let recorded = session.stop().expect("it can be read");
    assert!(recorded.dropped_scopes > 0);
    assert_eq!(recorded.scopes().count() as u64 + recorded.dropped_scopes, 5_000);
    assert_eq!(recorded.warnings.len(), 1, "{:?}", recorded.warnings);

    // What is for snapshots does not thin out a test.
    let session = Session::start_with(&ProfilerOptions::default().keep_last_bytes(1)).expect("it starts");
    (0..5_000_u32).for_each(|n| zprof::instant!("many", n));
    assert_eq!(session.stop().expect("it can be read").scopes().count(), 5_000);
}

#[test]
fn a_traced_future_on_its_own_is_one_poll() {
    let recorded = recorded(|_| {
        let mut context = Context::from_waker(Waker::noop());
        assert!(
            pin!(ready(()).traced(zprof::task!("polls", polls = 9, flow = 8, tid = 7))).poll(&mut context).is_ready()
        );
    });
    let args = "polls=9 flow=8 tid=7 task=#1";
    assert_eq!(recorded.tree(), format!("polls {args}\ntasks\n  polls {args}"));
}
