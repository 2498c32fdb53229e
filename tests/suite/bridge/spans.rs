//! Spans that are entered, exited and closed in every order, on every thread.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tracing::Dispatch;
use tracing::dispatcher::{get_default, with_default};
use tracing::field::Empty;
use zprof::ProfilerOptions;
use zprof_tests::profile::{Event, Line, Session, Stat, Stats, recorded, stats};

use super::{dispatch, flow, told, wholes};

/// What a whole has besides its own stats.
fn whole<const N: usize>(own: [(&str, Stat); N], polls: i64) -> Stats {
    let mut all = stats(own);
    all.extend(stats([("polls", polls.into()), ("_a", 1.into())]));
    all
}

#[tracing::instrument(ret)]
fn traced(n: u64) -> u64 {
    if n == 0 { 0 } else { traced(n - 1) + 1 }
}

#[test]
fn functions_nest_as_they_call() {
    let recorded = told(|| {
        zprof::scope!("ours", {
            assert_eq!(traced(2), 2);
        });
    });
    let event = "INFO suite::bridge::spans";
    assert_eq!(recorded.own_line().tree(), format!("ours(traced(traced(traced({event}) {event}) {event}))"));
    let numbers: Vec<&Stats> = recorded.own_line().events.iter().map(|event| &event.stats).collect();
    assert_eq!(
        numbers[1..5],
        [
            &stats([("n", 2.into())]),
            &stats([("n", 1.into())]),
            &stats([("n", 0.into())]),
            &stats([("return", "0".into())]),
        ]
    );
    assert_eq!(wholes(&recorded), Vec::<&Event>::new());
}

/// Runs `body` in a thread called `worker`, which tells `dispatch`.
fn in_worker(dispatch: &Dispatch, body: impl FnOnce() + Send) {
    let worker = thread::Builder::new().name("worker".to_owned());
    thread::scope(|scope| {
        let worker = worker.spawn_scoped(scope, || with_default(dispatch, body));
        worker.expect("a thread").join().expect("no panic");
    });
}

#[test]
fn a_span_that_one_thread_enters_again_has_no_line_of_its_own() {
    let recorded = told(|| {
        let span = tracing::info_span!("again", n = 1, later = Empty);
        // Within itself, and twice more.
        span.in_scope(|| span.in_scope(|| ()));
        span.record("later", "then");
        span.in_scope(|| tracing::info_span!("once").in_scope(|| ()));
        span.in_scope(|| ());
        drop(span);
    });
    let [own] = &recorded.lines[..] else { panic!("{recorded:?}") };
    assert_eq!(own.tree(), "again(again) again(once) again");
    let told: Vec<(Option<u64>, Stats)> = own.events.iter().map(flow).collect();
    let later = || stats([("n", 1.into()), ("later", "then".into())]);
    let all = [stats([("n", 1.into())]), stats([("n", 1.into())]), later(), stats([]), later()];
    assert_eq!(told, all.map(|stats| (None, stats)));
}

#[test]
fn a_span_that_several_threads_enter_is_a_whole_too() {
    let dispatch = dispatch();
    let recorded = recorded(|| {
        with_default(&dispatch, || {
            let span = tracing::info_span!("again", n = 1, later = Empty);
            // Within itself, and once more.
            span.in_scope(|| span.in_scope(|| ()));
            span.record("later", "then");
            in_worker(&dispatch, || span.in_scope(|| tracing::info_span!("once").in_scope(|| ())));
            span.in_scope(|| ());
            drop(span);
            tracing::info_span!("after").in_scope(|| ());
        });
    });
    let (line, worker) = (recorded.own_line(), recorded.line("worker"));
    assert_eq!((line.tree().as_str(), worker.tree().as_str()), ("again(again) again after", "again(once)"));
    let [span] = wholes(&recorded)[..] else { panic!("{recorded:?}") };
    let (number, own) = flow(span);
    assert_eq!(own, whole([("n", 1.into()), ("later", "then".into())], 4));
    assert!(number.is_some());
    let told = |line: &Line| line.events.iter().map(flow).collect::<Vec<_>>();
    let first = stats([("n", 1.into())]);
    assert_eq!(told(line), [(number, first.clone()), (number, first), (number, stats([])), (None, stats([]))]);
    let told_again = stats([("n", 1.into()), ("later", "then".into())]);
    assert_eq!(told(worker), [(number, told_again), (None, stats([]))]);
    assert!(line.events[..3].iter().chain(&worker.events).all(|event| event.is_inside(span)));
    assert!(!line.events[3].is_inside(span));
}

#[test]
fn exits_out_of_order_keep_their_spans() {
    let recorded = told(|| {
        let first = tracing::info_span!("first").entered();
        let second = tracing::info_span!("second").entered();
        drop(first);
        tracing::info_span!("third").in_scope(|| ());
        drop(second);
    });
    let line = recorded.own_line();
    assert_eq!(line.tree(), "first third");
    let overlap = recorded.line(&format!("{} (overlap)", line.name));
    assert_eq!(overlap.told(), [("second", &stats([("tid", recorded.tid.into())]))]);
    assert!(line.event("third").is_inside(overlap.event("second")));
}

/// Calls `with` of the calling thread's subscriber.
fn subscriber<T>(with: impl FnOnce(&Dispatch) -> T) -> T {
    let mut with = Some(with);
    get_default(|dispatch| with.take().expect("called once")(dispatch))
}

#[test]
fn what_is_exited_elsewhere_stays_open_where_it_was_entered() {
    let dispatch = dispatch();
    let recorded = recorded(|| {
        with_default(&dispatch, || {
            let span = tracing::info_span!("moved", n = 1);
            let id = span.id().expect("it is recorded");
            let worker = thread::Builder::new().name("enters".to_owned());
            let enters = || with_default(&dispatch, || subscriber(|dispatch| dispatch.enter(&id)));
            thread::scope(|scope| worker.spawn_scoped(scope, enters).expect("a thread").join().expect("no panic"));
            subscriber(|dispatch| dispatch.exit(&id));
            subscriber(|dispatch| dispatch.exit(&id));
            drop(span);
            tracing::info_span!("after").in_scope(|| ());
        });
    });
    assert_eq!(recorded.line("enters").told(), [("moved", &stats([("n", 1.into()), ("unfinished", 1.into())]))]);
    assert_eq!(recorded.own_line().told(), [("after", &stats([]))]);
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn a_span_that_is_closed_while_entered_ends_there() {
    let recorded = told(|| {
        let span = tracing::info_span!("closed");
        let id = span.id().expect("it is recorded");
        subscriber(|dispatch| dispatch.enter(&id));
        drop(span);
        tracing::info_span!("after").in_scope(|| ());
        subscriber(|dispatch| dispatch.exit(&id));
        tracing::info_span!("last").in_scope(|| ());
    });
    let plain = stats([]);
    assert_eq!(recorded.own_line().told(), ["closed", "after", "last"].map(|name| (name, &plain)));
    assert_eq!(recorded.own_line().tree(), "closed after last");
}

/// Ends in a panic when it is printed.
struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("as it must")
    }
}

/// Tells of itself when it is printed.
struct Tells;

impl fmt::Debug for Tells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tracing::info_span!("inner", text = "of another").in_scope(|| tracing::info!("while printed"));
        f.write_str("told")
    }
}

#[test]
fn panics_and_fields_that_use_tracing_do_no_harm() {
    // Only a global subscriber hears of what is told while it is told of something.
    tracing::dispatcher::set_global_default(dispatch()).expect("no other test sets one");
    let recorded = recorded(|| {
        let panics = || tracing::info_span!("panics").in_scope(|| panic!("as it must"));
        assert!(catch_unwind(panics).is_err());
        let span = tracing::info_span!("around", tells = Empty);
        let _entered = span.enter();
        assert!(catch_unwind(|| tracing::info!(text = "lost", field = ?Panics)).is_err());
        assert!(catch_unwind(|| tracing::info_span!("never", field = ?Panics)).is_err());
        let record = AssertUnwindSafe(|| span.record("tells", tracing::field::debug(Panics)));
        assert!(catch_unwind(record).is_err());
        tracing::info!(text = "before", tells = ?Tells);
        span.record("tells", tracing::field::debug(Tells));
    });
    let event = "INFO suite::bridge::spans";
    let inner = format!("inner({event})");
    assert_eq!(recorded.own_line().tree(), format!("panics around({inner} {event} {inner})"));
    let events = &recorded.own_line().events;
    assert_eq!(events[1].stats, stats([("tells", "told".into())]));
    assert_eq!(events[4].stats, stats([("text", "before".into()), ("tells", "told".into())]));
}

#[test]
fn spans_outlive_sessions() {
    let dispatch = dispatch();
    with_default(&dispatch, || {
        let mut session = Session::new(ProfilerOptions::default());
        session.start();
        let (across, later) = (tracing::info_span!("across", n = 1), tracing::info_span!("later", n = 2));
        let entered = across.enter();
        let first = session.stop();
        session.start();
        later.in_scope(|| ());
        drop(entered);
        in_worker(&dispatch, || later.in_scope(|| ()));
        drop(later);
        let second = session.stop();
        assert_eq!(first.own_line().told(), [("across", &stats([("n", 1.into()), ("unfinished", 1.into())]))]);
        let [early, slice] = &second.own_line().events[..] else { panic!("{second:?}") };
        assert_eq!((early.name.as_str(), flow(early)), ("across", (None, stats([("started_before", 1.into())]))));
        let [span] = wholes(&second)[..] else { panic!("{second:?}") };
        let (number, n) = (flow(span).0, stats([("n", 2.into())]));
        assert_eq!((flow(slice), flow(second.line("worker").event("later"))), ((number, n.clone()), (number, n)));
        // It was made in the session before.
        assert_eq!(flow(span).1, whole([("n", 2.into()), ("started_before", 1.into())], 2));
    });
}

#[test]
fn an_arrow_leads_to_what_follows() {
    let dispatch = dispatch();
    let recorded = recorded(|| {
        with_default(&dispatch, || {
            let cause = tracing::info_span!("cause").entered();
            let effect = tracing::info_span!("effect");
            effect.follows_from(cause.id());
            let worker = thread::Builder::new().name("worker".to_owned());
            let work = || with_default(&dispatch, || effect.in_scope(|| ()));
            thread::scope(|scope| worker.spawn_scoped(scope, work).expect("a thread").join().expect("no panic"));
            // What is not open here leaves none.
            let lone = tracing::info_span!("lone");
            lone.follows_from(effect.id());
            lone.in_scope(|| ());
        });
    });
    let [("_pt", Stat::Int(0)), ("_p", Stat::Int(number))] = recorded
        .own_line()
        .event("cause")
        .stats
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect::<Vec<_>>()[..]
    else {
        panic!("{recorded:?}")
    };
    let effect = recorded.line("worker").event("effect");
    assert_eq!(effect.stats, stats([("_ct", 0.into()), ("_c", number.into())]));
    assert_eq!(recorded.own_line().event("lone").stats, stats([]));
}
