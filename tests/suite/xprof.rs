//! The real XProf opens what the `llm` example leaves behind, and shows runs, threads, metadata and steps; and the check
//! finds nothing in it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use zprof::{ProfilerOptions, TraceFuture as _};
use zprof_tests::profile::Session;
use zprof_tests::viewers::{Shown, run, set};

const STEPS: usize = 8;
const WORKERS: usize = 2;

/// What XProf shows of a profile of the example.
fn of_llm() -> Shown {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (steps, workers) = (STEPS.to_string(), WORKERS.to_string());
    run(Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "-p", "zprof-examples", "--example", "llm", "--"])
        .args(["--tokens", &steps, "--threads", &workers, "--output"])
        .arg(folder.path()));
    Shown::of(folder.path())
}

#[test]
fn xprof_shows_the_llm_example() {
    let shown = of_llm();
    assert_eq!(shown.findings, []);
    lists_the_run(&shown.report);
    names_the_threads(&shown);
    keeps_metadata_typed(&shown);
    groups_the_steps(&shown);
}

fn lists_the_run(report: &Value) {
    assert_eq!(report["runs"], json!(["profiling"]));
    let tools = report["tools"].as_array().expect("tools are a list");
    for tool in ["trace_viewer@", "overview_page"] {
        assert!(tools.contains(&json!(tool)), "no `{tool}` among {tools:?}");
    }
    let hosts: Vec<&String> = report["hosts"].as_object().expect("hosts are a map").keys().collect();
    assert_eq!(hosts, ["profiling"]);
    let processes: Vec<&Value> =
        report["hosts"]["profiling"]["processes"].as_object().expect("a map").values().collect();
    assert_eq!(processes, [&json!("profiling /host:CPU")]);
}

fn names_the_threads(shown: &Shown) {
    let workers: Vec<String> = (0..WORKERS).map(|index| format!("llm-worker-{index}")).collect();
    assert_eq!(shown.threads(), workers.iter().map(String::as_str).collect());
}

fn keeps_metadata_typed(shown: &Shown) {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/tide.txt");
    let text = Path::new(text).canonicalize().expect("the text is in the repository");
    let read = shown.named("llm.read").next().expect("the text is read in a scope");
    let path = Path::new(read["args"]["path"].as_str().expect("a path is a string"));
    assert_eq!(path.canonicalize().expect("the path is that of a file"), text);
    assert_eq!(read["args"]["module_path"], "llm");
    let source = read["args"]["source"].as_str().expect("a source is a string");
    assert!(source.starts_with("examples/examples/llm/main.rs:"), "{source}");

    assert_eq!(shown.metadata("llm.generate"), set([json!({"tokens": STEPS})]));
    let layers: [Value; 8] = std::array::from_fn(|layer| json!({"layer": layer, "seqlen": 1}));
    let decoded: BTreeSet<String> =
        shown.metadata("llm.attention").into_iter().filter(|args| args.contains(r#""seqlen":1}"#)).collect();
    assert_eq!(decoded, set(layers));
    assert!(shown.metadata("llm.matmul").is_superset(&set([
        json!({"m": 1, "n": 384, "k": 384}),
        json!({"m": 1, "n": 1536, "k": 384}),
        json!({"m": 1, "n": 384, "k": 1536}),
        json!({"m": 1, "n": 512, "k": 384}),
    ])));
}

fn groups_the_steps(shown: &Shown) {
    let group = |event: &Value| event["args"]["group_id"].as_u64();
    let groups: Vec<Option<u64>> = (0..STEPS)
        .map(|step| {
            let name = format!("llm.step {step}");
            let events: Vec<&Value> = shown.named(&name).collect();
            assert_eq!(events.len(), 1, "one event `{name}`");
            assert_eq!(events[0]["args"]["step_num"], json!(step));
            group(events[0])
        })
        .collect();
    let ascending = (0..).take(STEPS).map(Some).collect::<Vec<Option<u64>>>();
    assert_eq!(groups, ascending);

    // What a step calls belongs to its group; what comes before the first step to none.
    let forward: Vec<Option<u64>> = shown.named("llm.forward").map(group).collect();
    assert_eq!(forward, [vec![None], ascending].concat());
}

#[zprof::trace(n)]
async fn child(n: u64) -> u64 {
    tokio::task::yield_now().await;
    zprof::scope!("work", { n + 1 })
}

#[test]
fn xprof_shows_tasks() {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let parent = async { child(1).await + child(2).await };
    let parent = runtime.spawn(parent.traced(zprof::task!("parent", root = true, step_num = 3)));
    assert_eq!(runtime.block_on(parent).expect("the task ends well"), 5);
    drop(runtime);
    let recorded = session.stop();
    assert_eq!(recorded.line("async").tree(), "parent(child child)");
    let shown = Shown::of(session.folder());
    assert!(shown.threads().contains("async"), "{:?}", shown.threads());

    // The whole is a span on a row of its own, with the number that joins its polls by arrows.
    let spans = shown.report["hosts"]["profiling"]["async"].as_array().expect("a list");
    let numbers = |name: &str, end: &str| -> Vec<u64> {
        let found = spans.iter().filter(|span| span["name"] == name && span["ph"] == end);
        found.map(|span| span["id"].as_u64().expect("a number")).collect()
    };
    let joined = |name: &str| -> Vec<u64> {
        let polls = shown.named(name).map(|poll| {
            assert_eq!((&poll["flow_in"], &poll["flow_out"]), (&json!(true), &json!(true)), "{poll}");
            poll["bind_id"].as_u64().expect("a number")
        });
        polls.collect()
    };
    let [parent] = numbers("parent 3", "b")[..] else { panic!("{spans:?}") };
    let [one, two] = numbers("child", "b")[..] else { panic!("{spans:?}") };
    assert_eq!((numbers("parent 3", "e"), numbers("child", "e")), (vec![parent], vec![one, two]));
    assert_eq!((joined("parent"), joined("child")), (vec![parent; 3], vec![one, one, two, two]));

    let json = std::fs::read(recorded.profile.perfetto_path.as_ref().expect("there is a JSON"))
        .expect("the session has written it");
    let json: Value = serde_json::from_slice(&json).expect("it is JSON");
    let async_line = recorded.line("async").id;
    let events = json["traceEvents"].as_array().expect("a list").iter();
    let told: Vec<(&Value, &Value)> = events
        .filter(|event| event["ph"] == "X" && event["tid"] == async_line)
        .map(|event| (&event["name"], &event["args"]["polls"]))
        .collect();
    assert_eq!(told, [(&json!("parent"), &json!("3")), (&json!("child"), &json!("2")), (&json!("child"), &json!("2"))]);
}

#[test]
fn xprof_shows_marks() {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    zprof_tests::marks::pipeline();
    let (first, second) = (zprof::flow(), zprof::flow());
    zprof::step!("chain", 9, { zprof::scope!("begins", sends = first, {}) });
    zprof::scope!("passes on", receives = first, sends = second, {});
    zprof::scope!("ends", receives = second, {});
    session.stop();
    let shown = Shown::of(session.folder());
    // Name, step and the ends of arrows of each event.
    let told = |name: &str| -> Vec<(u64, u64, bool, bool)> {
        let told = shown.named(name).map(|event| {
            let number = |value: &Value| value.as_u64().expect("a number");
            let is = |end: &str| event.get(end).is_some_and(|end| *end == true);
            (number(&event["args"]["group_id"]), number(&event["bind_id"]), is("flow_out"), is("flow_in"))
        });
        told.collect()
    };
    let other_end = |ends: Vec<(u64, u64, bool, bool)>| -> Vec<(u64, u64, bool, bool)> {
        ends.into_iter().map(|(group, id, sends, receives)| (group, id, receives, sends)).collect()
    };
    for step in 0..2 {
        let step_event = shown.named(["train 0", "train 1"][step]).next().expect("the step is there");
        assert_eq!((&step_event["args"]["step_num"], &step_event["args"]["group_id"]), (&json!(step), &json!(step)));
    }
    let submitted = told("submit");
    let [(0, one, true, false), (1, two, true, false)] = submitted[..] else { panic!("{submitted:?}") };
    assert_ne!(one, two);
    assert_eq!(told("compute"), other_end(submitted));
    let handed_on = told("hand on");
    let [(0, three, true, false), (1, four, true, false)] = handed_on[..] else { panic!("{handed_on:?}") };
    assert_eq!(BTreeSet::from([one, two, three, four]).len(), 4);
    assert_eq!(told("written"), other_end(handed_on));
    let instants = ["hand on", "written", "both ends"].into_iter().flat_map(|name| shown.named(name));
    assert_eq!(instants.map(|event| event["dur"].as_f64()).collect::<Vec<_>>(), [Some(1e-6); 5]);
    // Work without an arrow of its own is the step's too; an event with two ends shows the one, and counts by both.
    let groups: Vec<&Value> = shown.named("inside").map(|event| &event["args"]["group_id"]).collect();
    assert_eq!(groups, [&json!(0), &json!(1)]);
    let [(2, begins, true, false)] = told("begins")[..] else { panic!("{:?}", told("begins")) };
    assert_eq!(told("passes on"), [(2, begins, false, true)]);
    assert!(matches!(told("ends")[..], [(2, id, false, true)] if id != begins), "{:?}", told("ends"));

    let counters = shown.report["hosts"]["profiling"]["counters"].as_array().expect("a list").iter();
    let mut curves: Vec<(&Value, &Value, Vec<f64>)> = counters
        .map(|counter| {
            let entries = counter["entries"].as_array().expect("a list").iter();
            let mut values: Vec<f64> = entries.map(|entry| entry[1].as_f64().expect("a number")).collect();
            values.sort_by(f64::total_cmp);
            (&counter["name"], &counter["event_stats"], values)
        })
        .collect();
    curves.sort_by_key(|curve| curve.0.to_string());
    let (level, queue) = (vec![-0.5, 0.0], vec![0.0, 1.0, 10.0, 11.0]);
    assert_eq!(curves, [(&json!("level"), &json!("dB"), level), (&json!("queue"), &json!("value"), queue)]);
}
