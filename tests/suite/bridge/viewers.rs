//! The viewers show what came from `tracing` and `log` as they show our own scopes and instants.

use std::future::poll_fn;
use std::task::Poll;
use std::thread;

use serde_json::{Value, json};
use tracing::Instrument as _;
use zprof::ProfilerOptions;
use zprof_tests::profile::{Recorded, Session};
use zprof_tests::viewers::{Shown, events, perfetto, set, typed as shown_as};

use super::dispatch;
use super::fields::typed;

/// Typed fields, an instant, and a span that is entered thrice.
fn session() -> (Session, Recorded) {
    let mut session = Session::new(ProfilerOptions::default());
    let dispatch = dispatch();
    let recorded = tracing::dispatcher::with_default(&dispatch, || {
        session.start();
        typed();
        let runtime = || tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut waits =
            Box::pin(async { tokio::task::yield_now().await }.instrument(tracing::info_span!("waits", n = 3)));
        // Another thread goes on with it, and drops it.
        let is_pending = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending()));
        assert!(runtime().block_on(is_pending));
        let goes_on = || tracing::dispatcher::with_default(&dispatch, || runtime().block_on(waits));
        thread::scope(|scope| scope.spawn(goes_on).join()).expect("no panic");
        session.stop()
    });
    (session, recorded)
}

const EVENT: &str = "WARN suite::bridge::fields";

#[test]
fn perfetto_shows_spans_with_typed_fields() {
    let (_session, recorded) = session();
    let report = perfetto(&recorded.space, recorded.profile.perfetto_path.as_deref());
    let span = json!({
        "signed": ["int", "-5"], "unsigned": ["uint", "18446744073709551615"], "float": ["double", "0.5"],
        "yes": ["int", "1"], "text": ["string", "plain"], "debug": ["string", "Opaque { a: 1 }"],
        "display": ["string", "shown"], "error": ["string", "outer: inner"],
        "big": ["string", "1267650600228229401496703205376"], "late": ["int", "7"],
    });
    assert_eq!(shown_as(&report, "typed"), [("slice".to_owned(), span)]);
    let event =
        json!({ "message": ["string", "a message of 2"], "n": ["int", "1"], "error": ["string", "outer: inner"] });
    assert_eq!(shown_as(&report, EVENT), [("instant".to_owned(), event)]);
    // Three slices and the whole.
    assert_eq!(events(&report).iter().filter(|event| event["name"] == "waits").count(), 4, "{report}");
}

#[test]
fn xprof_shows_spans_with_typed_fields() {
    let (session, _) = session();
    let shown = Shown::of(session.folder());
    assert_eq!(shown.findings, []);
    assert_eq!(
        shown.metadata("typed"),
        set([json!({
            "signed": -5, "unsigned": "18446744073709551615", "float": 0.5, "yes": 1, "text": "plain",
            "debug": "Opaque { a: 1 }", "display": "shown", "error": "outer: inner",
            "big": "1267650600228229401496703205376", "late": 7,
        })])
    );
    assert_eq!(shown.metadata(EVENT), set([json!({ "message": "a message of 2", "n": 1, "error": "outer: inner" })]));
    assert_eq!(shown.named("waits").count(), 3);
    let whole: Vec<&Value> = shown.report["hosts"]["profiling"]["async"].as_array().expect("a list").iter().collect();
    let ends: Vec<&Value> = whole.iter().filter(|span| span["name"] == "waits").map(|span| &span["ph"]).collect();
    assert_eq!(ends, [&json!("b"), &json!("e")]);
}

/// Messages of three levels, of which the last has a target of its own.
fn logged() -> (Session, Recorded) {
    struct Silent;
    impl log::Log for Silent {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            false
        }
        fn log(&self, _: &log::Record<'_>) {}
        fn flush(&self) {}
    }
    log::set_max_level(log::LevelFilter::Trace);
    let recorder = zprof::log::Recorder::around(Silent);
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    zprof::scope!("around", {
        log::warn!(logger: recorder, "disk at {}%", 97);
        log::trace!(logger: recorder, "ünïcode \"quoted\"");
        log::info!(logger: recorder, target: "my::target", "one\ntwo");
    });
    let recorded = session.stop();
    (session, recorded)
}

const MESSAGES: [(&str, &str); 3] = [
    ("WARN suite::bridge::viewers", "disk at 97%"),
    ("TRACE suite::bridge::viewers", "ünïcode \"quoted\""),
    ("INFO my::target", "one\ntwo"),
];

#[test]
fn perfetto_shows_messages_of_log_as_instants() {
    let (_session, recorded) = logged();
    let report = perfetto(&recorded.space, recorded.profile.perfetto_path.as_deref());
    for (name, message) in MESSAGES {
        let args = json!({ "message": ["string", message] });
        assert_eq!(shown_as(&report, name), [("instant".to_owned(), args)], "{name}");
    }
    assert_eq!(events(&report).len(), 4);
}

#[test]
fn xprof_shows_messages_of_log_as_instants() {
    let (session, _) = logged();
    let shown = Shown::of(session.folder());
    assert_eq!(shown.findings, []);
    for (name, message) in MESSAGES {
        assert_eq!(shown.metadata(name), set([json!({ "message": message })]), "{name}");
        let lengths: Vec<Option<f64>> = shown.named(name).map(|event| event["dur"].as_f64()).collect();
        assert_eq!(lengths, [Some(1e-6)], "{name}");
    }
}
