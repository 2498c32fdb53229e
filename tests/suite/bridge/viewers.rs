//! The viewers show what came from `tracing` as they show our own scopes.

use std::fs;

use serde_json::{Value, json};
use tracing::Instrument as _;
use zprof::ProfilerOptions;
use zprof_tests::profile::{Recorded, Session};

use super::dispatch;
use super::fields::typed;
use crate::perfetto::{check, convert, events};
use crate::xprof::{Shown, set};

/// Typed fields, an instant, and a span that is entered thrice.
fn session() -> (Session, Recorded) {
    let mut session = Session::new(ProfilerOptions::default());
    let recorded = tracing::dispatcher::with_default(&dispatch(), || {
        session.start();
        typed();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let waits = async { tokio::task::yield_now().await };
        runtime.block_on(waits.instrument(tracing::info_span!("waits", n = 3)));
        session.stop()
    });
    (session, recorded)
}

const EVENT: &str = "WARN suite::bridge::fields";

#[test]
fn perfetto_shows_spans_with_typed_fields() {
    let (_session, recorded) = session();
    let json = fs::read_to_string(&recorded.profile.perfetto_path).expect("the session has written it");
    let (trace, _) = convert(&recorded.space).expect("is an XSpace");
    let report = check([(trace.as_slice(), Some(json.as_str()))]).remove(0);
    let found = |name: &str| -> Vec<&Value> { events(&report).iter().filter(|event| event["name"] == name).collect() };
    let args = |event: &Value| {
        let mut args = event["args"].as_object().expect("a map").clone();
        args.retain(|key, _| !["module_path", "source"].contains(&key.as_str()));
        Value::Object(args)
    };
    let [span] = found("typed")[..] else { panic!("{report}") };
    assert_eq!(span["type"], "slice");
    assert_eq!(
        args(span),
        json!({
            "signed": ["int", "-5"], "unsigned": ["uint", "18446744073709551615"], "float": ["double", "0.5"],
            "yes": ["int", "1"], "text": ["string", "plain"], "debug": ["string", "Opaque { a: 1 }"],
            "display": ["string", "shown"], "error": ["string", "outer: inner"],
            "big": ["string", "1267650600228229401496703205376"], "late": ["int", "7"],
        })
    );
    let [event] = found(EVENT)[..] else { panic!("{report}") };
    assert_eq!(event["type"], "instant");
    assert_eq!(
        args(event),
        json!({ "message": ["string", "a message of 2"], "n": ["int", "1"], "error": ["string", "outer: inner"] })
    );
    // Three slices and the whole.
    assert_eq!(found("waits").len(), 4, "{report}");
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
