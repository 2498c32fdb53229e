//! Marks in Perfetto's native trace and in the JSON of the same session: instants, arrows and counters.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use zprof_tests::marks::pipeline;
use zprof_tests::profile::Session;

use super::{check, convert, events};

/// What the events of one name have under `key`.
fn told<'a>(report: &'a Value, name: &str, key: &str) -> Vec<&'a Value> {
    events(report).iter().filter(|event| event["name"] == name).map(|event| &event[key]).collect()
}

#[test]
fn marks_are_instants_arrows_and_counter_tracks() {
    let mut session = Session::new(zprof::ProfilerOptions::default());
    session.start();
    pipeline();
    let recorded = session.stop();
    let json = fs::read_to_string(recorded.profile.perfetto_path.as_ref().expect("there is a JSON"))
        .expect("the session has written it");
    let (trace, _) = convert(&recorded.space).expect("is an XSpace");
    let report = check([(trace.as_slice(), Some(json.as_str()))]).remove(0);

    for (name, count) in [("hand on", 2), ("written", 2), ("both ends", 1)] {
        assert_eq!(told(&report, name, "type"), vec!["instant"; count], "{name}");
    }
    for (from, to) in [("submit", "compute"), ("hand on", "written")] {
        let sent = told(&report, from, "out");
        assert_eq!(sent, told(&report, to, "in"), "{from}");
        assert!(sent.iter().all(|ids| ids.as_array().is_some_and(|ids| ids.len() == 1)), "{sent:?}");
        assert_ne!(sent[0], sent[1], "{from}");
        assert_eq!((told(&report, from, "in"), told(&report, to, "out")), (vec![&json!([]); 2], vec![&json!([]); 2]));
    }
    let mut counters: Vec<(&Value, &Value)> =
        report["counters"].as_array().expect("a list").iter().map(|track| (&track["name"], &track["unit"])).collect();
    counters.sort_by_key(|counter| counter.0.to_string());
    assert_eq!(counters, [(&json!("level"), &json!("dB")), (&json!("queue"), &json!("value"))]);
    let mut samples = told(&report, "queue", "value");
    samples.sort_by_key(|value| value.to_string());
    assert_eq!(samples, [&json!(["int", "0"]), &json!(["int", "1"]), &json!(["int", "10"]), &json!(["int", "11"])]);
    assert_eq!(told(&report, "level", "value"), [&json!(["double", "0"]), &json!(["double", "-0.5"])]);

    // A module is a category.
    let module = json!([zprof_tests::marks::MODULE]);
    let categories: Vec<(&str, &Value)> = events(&report)
        .iter()
        .filter(|event| event["type"] != "counter" && event["lane"].is_null())
        .map(|event| (event["name"].as_str().unwrap_or_default(), &event["categories"]))
        .collect();
    assert!(categories.len() > 8 && categories.iter().all(|(_, told)| **told == module), "{categories:?}");

    // The JSON has what TSL's converter makes of such lines: slices, counters too.
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let slices = json["traceEvents"].as_array().expect("a list").iter().filter(|event| event["ph"] == "X");
    let on_counters: Vec<(&Value, &Value)> = slices
        .filter(|event| event["tid"] == u64::from(u32::MAX))
        .filter(|event| event["name"] == "level")
        .map(|event| (&event["dur"], &event["args"]))
        .collect();
    let args: BTreeMap<&str, &Value> = on_counters.iter().map(|(_, args)| ("dB", &args["dB"])).collect();
    assert_eq!((on_counters.len(), args["dB"].as_str().map(|text| text.parse::<f64>())), (2, Some(Ok(-0.5))));
    assert!(on_counters.iter().all(|(dur, _)| dur.as_f64() == Some(1e-6)), "{on_counters:?}");
}
