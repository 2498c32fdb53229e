//! Names that scopes bring along, as they stand in the XSpace.

use std::borrow::Cow;
use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use serde_json::{Value, json};
use zprof::{ProfilerOptions, TraceFuture as _};
use zprof_tests::profile::{Line, Recorded, Session, Stats, recorded, stats};
use zprof_tests::viewers::{Shown, events, perfetto, set, typed};

fn poll<F: Future>(task: &mut Pin<Box<F>>) -> Poll<F::Output> {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// How many names a session keeps.
const MOST_NAMES: usize = 16_384;

#[test]
fn each_scope_has_the_name_that_it_was_given() {
    let recorded = recorded(|| {
        for (i, name) in ["conv", "add", "conv", "a#b,c=d\n", ""].into_iter().enumerate() {
            zprof::scope!(dyn name, i, last = i == 4);
            zprof::instant!(dyn format!("{name}.mark"));
        }
        let owned = String::from("a name that is longer than any word");
        let value = zprof::scope!(dyn &owned, level = info, { owned.len() });
        assert_eq!(value, 35);
        let mut span = zprof::span!(dyn Cow::Borrowed("span"), none = None::<u8>);
        span.record("late", 1);
        span.end();
        zprof::step!(dyn Arc::<str>::from("train"), 7, {});
    });
    let pair = |i: usize, name: &str| {
        let stats = stats([("i", (i as i64).into()), ("last", i64::from(i == 4).into())]);
        [(name.to_owned(), stats), (format!("{name}.mark"), Default::default())]
    };
    let mut expected: Vec<_> =
        ["conv", "add", "conv", "a#b,c=d\n", ""].iter().enumerate().flat_map(|(i, name)| pair(i, name)).collect();
    expected.push(("a name that is longer than any word".to_owned(), stats([])));
    expected.push(("span".to_owned(), stats([("late", 1.into())])));
    expected.push(("train".to_owned(), stats([("step_num", 7.into()), ("_r", 1.into())])));
    let told: Vec<_> =
        recorded.own_line().events.iter().map(|event| (event.name.clone(), event.stats.clone())).collect();
    assert_eq!(told, expected);
    assert_eq!(
        recorded.own_line().event("add").site,
        stats([("module_path", module_path!().into()), ("source", format!("{}:26", file!()).as_str().into()),])
    );
    assert_eq!(recorded.warnings, [""; 0]);
}

#[test]
fn a_task_has_its_name_at_each_poll_on_each_thread() {
    let once_more = || {
        let mut first = true;
        poll_fn(move |_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) })
    };
    let recorded = recorded(|| {
        let make = |name: String, n: i32| once_more().traced(zprof::task!(dyn name, n, text = "a"));
        let mut tasks: Vec<_> =
            [("first", 1), ("second", 2)].map(|(name, n)| Box::pin(make(name.to_owned(), n))).into();
        assert!(tasks.iter_mut().all(|task| poll(task).is_pending()));
        // Their ends are on a thread whose line is read before or after the other's.
        thread::spawn(move || assert!(tasks.iter_mut().all(|task| poll(task).is_ready()))).join().expect("no panic");
        drop(make("never polled".to_owned(), 3));
    });
    let told = |line: &Line| -> Vec<(String, Stats)> {
        let stats = |stats: &Stats| stats.iter().filter(|stat| stat.0 != "flow").cloned().collect();
        line.events.iter().map(|event| (event.name.clone(), stats(&event.stats))).collect()
    };
    let of = |name: &str, n: i64, polls: i64| {
        let mut all = stats([("n", n.into()), ("text", "a".into())]);
        all.extend(stats([("polls", polls.into()), ("_a", 1.into())]));
        (name.to_owned(), if polls == 0 { all[..2].to_vec() } else { all })
    };
    assert_eq!(told(recorded.own_line()), [of("first", 1, 0), of("second", 2, 0)]);
    let other = recorded.lines.iter().find(|line| !line.name.starts_with("async") && line.id != recorded.own_line().id);
    let later = ["first", "second"].map(|name| (name.to_owned(), stats([])));
    assert_eq!(told(other.expect("the other thread's")), later);
    assert_eq!(told(recorded.line("async")), [of("first", 1, 2)]);
    assert_eq!(told(recorded.line("async 2")), [of("second", 2, 2)]);
    assert_eq!(recorded.line("async").events[0].site, recorded.own_line().events[0].site);
}

#[test]
fn a_task_described_before_the_session_is_called_by_the_expression() {
    let mut session = Session::new(ProfilerOptions::default());
    let ops = [String::from("conv#1")];
    let early = ready(()).traced(zprof::task!(dyn ops[0].as_str(), n = 1));
    session.start();
    assert!(pin!(early).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    let recorded = session.stop();
    assert_eq!(recorded.own_line().names(), ["ops[0].as_str()"]);
    assert_eq!(recorded.line("async").names(), ["ops[0].as_str()"]);
}

#[test]
fn a_name_is_asked_for_only_where_something_listens() {
    let name = || -> String { panic!("nobody listens") };
    zprof::scope!(dyn name());
    zprof::instant!(dyn name());
    let session = Session::new(ProfilerOptions::default().host_tracer_level(1));
    let mut session = session;
    session.start();
    zprof::scope!(dyn name(), level = verbose);
    assert_eq!(session.stop().profile.scopes, 0);
}

#[test]
fn what_was_open_before_the_session_is_called_by_the_expression() {
    let mut session = Session::new(ProfilerOptions::default());
    let ops = [String::from("conv#1")];
    let early = zprof::span!(dyn ops[0].as_str(), n = 1);
    session.start();
    drop(early);
    let recorded = session.stop();
    let event = recorded.own_line().event("ops[0].as_str()");
    assert_eq!(event.stats, stats([("started_before", 1.into())]));
}

#[test]
fn a_name_too_many_is_a_stat_and_is_counted() {
    let recorded = recorded(|| {
        for n in 0..MOST_NAMES + 3 {
            zprof::scope!(dyn format!("op.{n}"), n);
        }
        let task = ready(()).traced(zprof::task!(dyn format!("task.{}", 1)));
        assert!(pin!(task).poll(&mut Context::from_waker(Waker::noop())).is_ready());
        zprof::scope!(dyn String::from("other"));
        // Known ones stay what they are.
        for n in 0..MOST_NAMES {
            zprof::scope!(dyn format!("op.{n}"), n);
        }
    });
    // The last two sites are others than the first, though some names are the same.
    let events = &recorded.own_line().events;
    assert_eq!(events.len(), 2 * MOST_NAMES + 5);
    for (n, event) in events[..MOST_NAMES].iter().enumerate() {
        assert_eq!(
            (event.name.as_str(), &event.stats),
            (format!("op.{n}").as_str(), &stats([("n", (n as i64).into())]))
        );
    }
    let told: Vec<_> = events[MOST_NAMES..]
        .iter()
        .map(|event| event.stats.iter().find(|stat| stat.0 == "name").map(|stat| stat.1.clone()))
        .collect();
    let expected: Vec<_> = (MOST_NAMES..MOST_NAMES + 3)
        .map(|n| format!("op.{n}"))
        .chain([String::from("task.1"), String::from("other")])
        .chain((0..MOST_NAMES).map(|n| format!("op.{n}")))
        .map(|name| Some(name.as_str().into()))
        .collect();
    assert_eq!(told, expected);
    assert_eq!(events[MOST_NAMES].name, "format!(\"op.{n}\")");
    let whole = &recorded.line("async").events[0];
    assert_eq!(
        (whole.name.as_str(), &whole.stats[0]),
        ("format!(\"task.{}\", 1)", &("name".to_owned(), "task.1".into()))
    );
    assert_eq!(
        recorded.warnings,
        [format!(
            "{} scopes had one name too many: a session keeps {MOST_NAMES} names that are given behind `dyn`; these scopes are called by \
         the expression that gave the name, which is their stat `name`",
            MOST_NAMES + 5
        )]
    );
}

/// One site under three names, an instant, and a name too many.
fn named() -> (Session, Recorded) {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    for (i, name) in ["conv/3x3", "add", "conv/3x3", "a#b,c=\"d\"\ne"].into_iter().enumerate() {
        zprof::scope!(dyn name, i);
        zprof::instant!(dyn format!("{name} done"), last = i == 3);
    }
    zprof::step!(dyn String::from("epoch"), 2, {});
    let recorded = session.stop();
    (session, recorded)
}

#[test]
fn perfetto_shows_the_names_that_scopes_bring_along() {
    let (_session, recorded) = named();
    let report = perfetto(&recorded.space, recorded.profile.perfetto_path.as_deref());
    let slices = |args: &[u8]| -> Vec<(String, Value)> {
        args.iter().map(|i| ("slice".to_owned(), json!({ "i": ["int", i.to_string()] }))).collect()
    };
    let instants = |last: &[&str]| -> Vec<(String, Value)> {
        last.iter().map(|last| ("instant".to_owned(), json!({ "last": ["int", last] }))).collect()
    };
    for (name, args, last) in
        [("conv/3x3", &[0, 2][..], &["0", "0"][..]), ("add", &[1], &["0"]), ("a#b,c=\"d\"\ne", &[3], &["1"])]
    {
        assert_eq!(typed(&report, name), slices(args), "{name}");
        assert_eq!(typed(&report, &format!("{name} done")), instants(last), "{name}");
    }
    let step = json!({ "step_num": ["int", "2"] });
    assert_eq!(typed(&report, "epoch"), [("slice".to_owned(), step)]);
    assert_eq!(events(&report).len(), 9);
}

#[test]
fn xprof_shows_the_names_that_scopes_bring_along() {
    let (session, _) = named();
    let shown = Shown::of(session.folder());
    assert_eq!(shown.findings, []);
    let numbers = |of: &[u64]| of.iter().map(|i| json!({ "i": i }).to_string()).collect();
    assert_eq!(shown.metadata("conv/3x3"), numbers(&[0, 2]));
    assert_eq!(shown.metadata("add"), numbers(&[1]));
    assert_eq!(shown.metadata("a#b,c=\"d\"\ne"), numbers(&[3]));
    assert_eq!((shown.named("conv/3x3").count(), shown.named("conv/3x3 done").count()), (2, 2));
    assert_eq!(shown.metadata("add done"), set([json!({ "last": 0 })]));
    assert_eq!(shown.metadata("a#b,c=\"d\"\ne done"), set([json!({ "last": 1 })]));
    assert_eq!(shown.metadata("epoch 2"), set([json!({ "step_name": "epoch 2", "step_num": 2 })]));
}
