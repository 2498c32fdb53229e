//! The viewers show what C records as they show scopes in Rust.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

use serde_json::{Value, json};
use tempfile::TempDir;
use zprof::ProfilerOptions;
use zprof_tests::profile::{Recorded, Session};
use zprof_tests::viewers::{Shown, events, perfetto, set, typed};
use zprof_tests_c::receive;

use crate::build::{C99, Linked, program, run};

/// Runs `threads.c`, and gives the folder of its runs.
fn threads() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = program(C99, "threads.c", Linked::Shared, &[], folder.path());
    run(Command::new(program).arg(folder.path()));
    folder
}

/// The threads by their names.
fn workers() -> [String; 4] {
    std::array::from_fn(|index| format!("worker {index}"))
}

#[test]
fn perfetto_shows_a_program_in_c() {
    let folder = threads();
    let folder = folder.path().join("plugins/profile/threads");
    let space = fs::read(folder.join("profiling.xplane.pb")).expect("the program has written it");
    let report = perfetto(&space, Some(&folder.join("profiling.trace.json")));
    let slice = |args: Value| ("slice".to_owned(), args);
    let sorted = |mut found: Vec<(String, Value)>| {
        found.sort_by_key(|(_, args)| args.to_string());
        found
    };
    let work = |index: i32| {
        json!({
            "index": ["int", (-index).to_string()], "large": ["uint", u64::MAX.to_string()],
            "half": ["double", (f64::from(index) / 2.0).to_string()], "name": ["string", format!("worker {index}")],
            "first": ["int", i32::from(index == 0).to_string()],
        })
    };
    assert_eq!(sorted(typed(&report, "work")), sorted((0..4).map(|index| slice(work(index))).collect()));
    let four = |each: &dyn Fn(i32) -> (String, Value)| -> Vec<(String, Value)> {
        sorted((0..4).flat_map(|_| (0..3).map(each)).collect())
    };
    let round = |round: i32| slice(json!({ "step_num": ["int", round.to_string()], "state": ["string", "done"] }));
    assert_eq!(sorted(typed(&report, "round")), four(&round));
    let innermost = |round: i32| slice(json!({ "round": ["int", round.to_string()], "cut": ["string", "abc"] }));
    assert_eq!(sorted(typed(&report, "innermost")), four(&innermost));
    assert_eq!(typed(&report, "tick"), vec![("instant".to_owned(), json!({})); 12]);
    let tock = |round: i32| ("instant".to_owned(), json!({ "odd": ["int", (round % 2).to_string()] }));
    assert_eq!(sorted(typed(&report, "tock")), four(&tock));

    let samples = |name: &str| -> Vec<Value> {
        events(&report).iter().filter(|event| event["name"] == name).map(|event| event["value"].clone()).collect()
    };
    assert_eq!(samples("queue"), [json!(["int", "-1"]), json!(["int", "0"]), json!(["int", "1"])]);
    assert_eq!(samples("heap"), [json!(["double", "0.5"]), json!(["double", "1.5"]), json!(["double", "2.5"])]);
    assert_eq!(events(&report).len(), 4 * (1 + 3 * 4) + 6);
}

#[test]
fn xprof_shows_a_program_in_c() {
    let folder = threads();
    let shown = Shown::of_run(folder.path(), "threads");
    assert_eq!(shown.findings, []);
    let names: BTreeSet<String> = shown.threads().into_iter().map(str::to_owned).collect();
    assert_eq!(names, BTreeSet::from(workers()));
    let work = |(index, half): (i32, Value)| {
        json!({
            "index": -index, "large": u64::MAX.to_string(), "half": half, "name": format!("worker {index}"),
            "first": i32::from(index == 0),
        })
    };
    let halves = [(0, json!(0)), (1, json!(0.5)), (2, json!(1)), (3, json!(1.5))];
    assert_eq!(shown.metadata("work"), set(halves.map(work)));
    for round in 0..3 {
        let name = format!("round {round}");
        assert_eq!(shown.metadata(&name), set([json!({ "step_name": name, "step_num": round, "state": "done" })]));
        assert_eq!(shown.named(&name).count(), 4);
    }
    assert_eq!(shown.metadata("innermost"), set([0, 1, 2].map(|round| json!({ "round": round, "cut": "abc" }))));
    assert_eq!(shown.metadata("tick"), set([json!({})]));
    assert_eq!(shown.metadata("tock"), set([json!({ "odd": 0 }), json!({ "odd": 1 })]));
    assert_eq!(shown.named("tick").map(|event| event["dur"].as_f64()).collect::<Vec<_>>(), [Some(1e-6); 12]);
    let counters = shown.report["hosts"]["profiling"]["counters"].as_array().expect("a list").iter();
    let mut curves: Vec<Value> = counters
        .map(|counter| {
            let entries = counter["entries"].as_array().expect("a list").iter();
            let values: Vec<&Value> = entries.map(|entry| &entry[1]).collect();
            json!([counter["name"], counter["event_stats"], values])
        })
        .collect();
    curves.sort_by_key(Value::to_string);
    assert_eq!(curves, [json!(["heap", "MiB", [0.5, 1.5, 2.5]]), json!(["queue", "value", [-1, 0, 1]])]);
}

/// An arrow from a scope in Rust to one in C.
fn arrow() -> (Session, Recorded) {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    let flow = zprof::flow();
    zprof::scope!("rust.send", sends = flow, {
        let number = zprof_c::flow_number(flow);
        let builder = thread::Builder::new().name("receiver".to_owned());
        let thread = builder.spawn(move || receive(number)).expect("a thread");
        thread.join().expect("it does not panic");
    });
    let recorded = session.stop();
    (session, recorded)
}

#[test]
fn perfetto_draws_an_arrow_from_rust_to_c() {
    let (_session, recorded) = arrow();
    let report = perfetto(&recorded.space, recorded.profile.perfetto_path.as_deref());
    let ends = |name: &str| -> Vec<(Value, Value)> {
        let found = events(&report).iter().filter(|event| event["name"] == name);
        found.map(|event| (event["in"].clone(), event["out"].clone())).collect()
    };
    let sent = ends("rust.send");
    let [(none, out)] = &sent[..] else { panic!("{report}") };
    assert_eq!((none, out.as_array().map(Vec::len)), (&json!([]), Some(1)));
    assert_eq!(ends("c.receive"), [(out.clone(), json!([]))]);
}

#[test]
fn xprof_draws_an_arrow_from_rust_to_c() {
    let (session, _) = arrow();
    let shown = Shown::of(Path::new(session.folder()));
    let ends = |name: &str, end: &str| -> Vec<Value> {
        let found = shown.named(name).filter(|event| event[end] == true);
        found.map(|event| event["bind_id"].clone()).collect()
    };
    let sent = ends("rust.send", "flow_out");
    assert_eq!((sent.len(), &sent), (1, &ends("c.receive", "flow_in")));
}
