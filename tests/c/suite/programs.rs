//! Programs that are all C or all C++: what they record, and what comes of their mistakes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use zprof_tests::profile::{Line, Stat, Stats, line, read_file, stats};

use crate::build::{C99, CXX11, Linked, package, program, run};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// What each worker of `threads.c` must have recorded.
fn worker(index: i64) -> Vec<(&'static str, Stats)> {
    let mut expected = vec![(
        "work",
        stats([
            ("index", (-index).into()),
            ("large", Stat::Uint(u64::MAX)),
            ("half", (f64::from(i32::try_from(index).expect("it is small")) / 2.0).into()),
            ("name", format!("worker {index}").as_str().into()),
            ("first", i64::from(index == 0).into()),
        ]),
    )];
    for round in 0..3 {
        expected.extend([
            ("round", stats([("_r", 1.into()), ("step_num", round.into()), ("state", "done".into())])),
            ("innermost", stats([("round", round.into()), ("cut", "abc".into())])),
            ("tick", stats([])),
            ("tock", stats([("odd", (round % 2).into())])),
        ]);
    }
    expected
}

fn told(line: &Line) -> Vec<(&str, Stats)> {
    line.told().into_iter().map(|(name, stats)| (name, stats.clone())).collect()
}

/// Runs `threads.c`, and looks at the whole of what it recorded.
fn threads(linked: Linked, more: &[&str]) {
    let folder = folder();
    let program = program(C99, "threads.c", linked, more, folder.path());
    let (stdout, stderr) = run(Command::new(program).arg(folder.path()));
    let run_folder = folder.path().join("plugins/profile/threads");
    let [space, json] = ["profiling.xplane.pb", "profiling.trace.json"].map(|name| run_folder.join(name));
    // 4 threads of 1 + 3 * (2 scopes, 2 instants).
    let said = format!("{}\n{}\n52 scopes, 4 threads, 0 dropped, 0 warnings\n", space.display(), json.display());
    assert_eq!((stdout.as_str(), stderr.as_str()), (said.as_str(), ""));

    let (lines, warnings, environment) = read_file(&space);
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(environment["dropped_scopes"], Stat::Uint(0));
    let mut names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["_counters_", "worker 0", "worker 1", "worker 2", "worker 3"]);
    for index in 0..4 {
        let line = line(&lines, &format!("worker {index}"));
        assert_eq!(told(line), worker(index));
        let round = "round(innermost(tick tock))";
        assert_eq!(line.tree(), format!("work({round} {round} {round})"));
    }
    let counters = told(line(&lines, "_counters_"));
    let samples = (0..3).flat_map(|round| {
        let heap = f64::from(i32::try_from(round).expect("it is small")) + 0.5;
        [("queue", stats([("value", (round - 1).into())])), ("heap", stats([("MiB", heap.into())]))]
    });
    assert_eq!(counters, samples.collect::<Vec<_>>());
    let source = |name: &str| {
        let file = package().join("programs/threads.c");
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let number = text.lines().position(|line| line.contains(name)).expect("it is there") + 1;
        stats([("module_path", "c".into()), ("source", format!("{}:{number}", file.display()).as_str().into())])
    };
    let first = line(&lines, "worker 0");
    assert_eq!(first.events[0].site, source("\"work\""));
    assert_eq!(first.events[2].site, source("\"innermost\""));
    assert_eq!(first.event_kinds(), BTreeMap::from([("innermost", 1), ("round", 1), ("tick", 1), ("tock", 1), ("work", 1)]));
}

/// How many sites each name has.
trait Kinds {
    fn event_kinds(&self) -> BTreeMap<&str, usize>;
}

impl Kinds for Line {
    fn event_kinds(&self) -> BTreeMap<&str, usize> {
        let mut sites: BTreeMap<&str, Vec<&Stats>> = BTreeMap::new();
        for event in &self.events {
            let known = sites.entry(&event.name).or_default();
            if !known.contains(&&event.site) {
                known.push(&event.site);
            }
        }
        sites.into_iter().map(|(name, sites)| (name, sites.len())).collect()
    }
}

#[test]
fn four_threads_of_c_are_recorded_whole() {
    threads(Linked::Shared, &[]);
}

#[test]
fn the_static_library_does_the_same() {
    threads(Linked::Static, &[]);
}

#[test]
fn the_address_sanitizer_finds_nothing() {
    threads(Linked::Static, &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
}

#[test]
fn destructors_end_scopes_also_while_an_exception_unwinds() {
    for linked in [Linked::Shared, Linked::Static] {
        let folder = folder();
        let program = program(CXX11, "raii.cpp", linked, &[], folder.path());
        let (stdout, stderr) = run(Command::new(program).arg(folder.path()));
        assert_eq!(stderr, "");
        let space = PathBuf::from(stdout.trim_end());
        let runs = folder.path().join("plugins/profile");
        assert_eq!(space.ancestors().nth(2), Some(runs.as_path()));
        assert!(space.ends_with("host.xplane.pb"), "{}", space.display());
        let (lines, warnings, _) = read_file(&space);
        let main = line(&lines, "main");
        // The name that was begun last ended behind its block, inside which a lambda ran.
        let fails = "fails(fails(fails))";
        let expected = format!(
            "across the start work(constructor {fails} caught early early(not negative) traced traced ended early \
             by name(lambda) destructor) send"
        );
        assert_eq!(main.tree(), expected);
        let event = |name: &str| main.event(name).stats.clone();
        assert_eq!(event("across the start"), stats([("started_before", 1.into())]));
        assert_eq!(event("caught"), stats([("_r", 1.into()), ("step_num", 3.into())]));
        assert_eq!(event("ended early"), stats([("rate", 0.25.into())]));
        let early: Vec<&Stats> = main.events.iter().filter(|e| e.name == "early").map(|e| &e.stats).collect();
        let with = |negative: i64| stats([("text", "a temporary".into()), ("negative", negative.into())]);
        assert_eq!(early, [&with(1), &with(0)]);
        // `before` was open at start and is at stop, so it has left no trace; each instance of a template has its site.
        assert_eq!(warnings, Vec::<String>::new());
        let (sent, received) = (event("send"), line(&lines, "receiver").event("receive").stats.clone());
        assert_eq!((sent[1].0.as_str(), received[1].0.as_str()), ("_p", "_c"));
        assert_eq!(sent[1].1, received[1].1);
    }
}

#[test]
fn mistakes_do_no_harm_and_have_the_results_that_the_header_says() {
    let folder = folder();
    let more = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = program(C99, "wrong.c", Linked::Static, &more, folder.path());
    let (stdout, stderr) = run(Command::new(program).arg(folder.path()));
    let expected = "\
no error yet: ''
";
    assert_eq!(stdout, expected);
    let path = stderr.lines().last().expect("the last line is the path");
    mistakes(Path::new(path));
}

fn mistakes(space: &Path) {
    let (lines, warnings, _) = read_file(space);
    println!("{warnings:?}");
    for line in &lines {
        println!("{}: {:?}", line.name, line.told().into_iter().take(120).collect::<Vec<_>>());
    }
}
