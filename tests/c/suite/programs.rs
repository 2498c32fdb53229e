//! Programs that are all C or all C++: what they record, and what comes of their mistakes.

use std::collections::BTreeMap;
use std::path::PathBuf;
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
    assert_eq!(
        first.event_kinds(),
        BTreeMap::from([("innermost", 1), ("round", 1), ("tick", 1), ("tock", 1), ("work", 1)])
    );
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
    let warning = "zprof: warning: scope `site` has had 64 different lists of keys; with yet others, its arguments are left out\n";
    assert!(stderr.starts_with(warning), "{stderr}");
    let expected = "\
no error yet: ''
no place: 3 the place for the profiler is NULL
size 3: 3 `size` of the options is 3; set it to sizeof(zprof_options), as ZPROF_OPTIONS_INIT does
NULL then: 1
session_id: 3 `session_id` is not UTF-8
path as session_id: 0 
its start: 3 `session_id` is a path; give a plain name: \"a/../b\"
hostname: 0 
its start: 3 `override_hostname` holds `?`, which no file name on Windows can have; leave it out: \"node?\"
max_buffer_bytes: 3 `max_buffer_bytes` is 1; the least that works is 65536
plugin: 1
start of NULL: 3 the profiler is NULL
stop of NULL: 3 the profiler is NULL
running: 0
new: 0 
size 1: 3 `size` of the profile is 1; set it to sizeof(zprof_profile)
stop of what does not run: 0 
1 1 5555555555555555
start: 0 
start again: 1 failed to start the profiler: another profiler of this process is running; stop it first
new: 0 
a second one: 1 failed to start the profiler: another profiler of this process is running; stop it first
running: 1
ends without begin: 1 0
NULL sites: 0 0
NULL names: 0 0
ends: 1 0
end elsewhere: 0, then here: 1
end of what a thread left open: 0
out of order: 1 1
deep: 100 ended, 0 again
notes: 4095; none of NULL: 0, of no value: 0, of an ended one: 0, of none: 0
stop: 0 
warning: scope `inner` ended out of order
warning: scope `inner` ended out of order
";
    // The warning has the place between.
    let stdout = stdout.replace(&format!(" ({}:90)", package().join("programs/wrong.c").display()), "");
    assert_eq!(stdout, expected);
    let space = folder.path().join("plugins/profile/profiling/profiling.xplane.pb");
    let (lines, _, _) = read_file(&space);
    let (overlaps, others): (Vec<&Line>, Vec<&Line>) =
        lines.iter().partition(|line| line.name.starts_with("main (overlap"));
    let mut names: Vec<&str> = others.iter().map(|line| line.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a name that is longer than the system's", "main"]);
    assert_eq!(
        told(line(&lines, "a name that is longer than the system's")),
        [("left open", stats([("unfinished", 1.into())]))]
    );
    // Of what ended out of order all is there, on one line or another, and nothing else is beside the main one.
    let main = told(line(&lines, "main"));
    let overlap: Vec<(&str, Stats)> = overlaps.iter().flat_map(|line| told(line)).collect();
    assert!(overlap.iter().all(|(name, _)| *name == "inner"));
    let mut inner: Vec<(Option<i64>, bool)> = main
        .iter()
        .chain(&overlap)
        .filter(|(name, _)| *name == "inner")
        .map(|(_, stats)| {
            let number = stats.iter().find_map(|(key, stat)| match stat {
                Stat::Int(number) if key == "n" => Some(*number),
                _ => None,
            });
            (number, stats.contains(&("third".to_owned(), 1.into())))
        })
        .collect();
    inner.sort_unstable();
    let deep = (0..100).map(|n| (Some(n), n % 3 == 0));
    assert_eq!(inner, [(None, false)].into_iter().chain(deep).collect::<Vec<_>>());
    let main = main.iter().filter(|(name, _)| *name != "inner");
    let main: Vec<(&str, &Stats)> = main.map(|(name, stats)| (*name, stats)).collect();
    let expected = mistakes();
    let expected: Vec<(&str, &Stats)> = expected.iter().map(|(name, stats)| (name.as_str(), stats)).collect();
    // Thousands are too many to read: first what differs.
    let differs = main.iter().zip(&expected).find(|(main, expected)| main != expected);
    assert_eq!(differs, None);
    assert_eq!(main.len(), expected.len());
}

/// What `wrong.c` records on its main thread.
fn mistakes() -> Vec<(String, Stats)> {
    let site = |stats: Stats| ("site".to_owned(), stats);
    let none = || site(stats([]));
    let mut expected = vec![none(), none(), ("outer".to_owned(), stats([]))];
    expected.push(site(stats([
        ("bad \u{fffd}", "\u{fffd}( and \u{fffd}".into()),
        ("nul", "a\0b".into()),
        ("empty", "".into()),
    ])));
    let number = |key: String, n: i64| (key, n.into());
    expected.push(site((0..32).map(|n| number(format!("k{n}"), n)).collect()));
    // The site has had no keys, those of the two before, and then 61 others.
    expected.extend((0..61).map(|n| site(vec![number(format!("changing {n}"), n)])));
    expected.extend((61..80).map(|_| none()));
    expected.extend((0..4096).map(|n| (format!("name {n}"), stats([("n", n.into())]))));
    let more = |n: i64| stats([("name", format!("name {n}").as_str().into()), ("n", n.into())]);
    expected.extend((4096..4200).map(|n| ("(more names)".to_owned(), more(n))));
    // One key of the 4096 was another's.
    expected.push(site((0..4095).map(|n| number(format!("key {n}"), n)).collect()));
    expected
}

#[test]
fn a_snapshot_has_what_was_until_then_and_the_stop_has_all() {
    let folder = folder();
    let program = program(C99, "snapshot.c", Linked::Static, &[], folder.path());
    let (stdout, stderr) = run(Command::new(&program).arg(folder.path()));
    let [snapshot, whole] = ["flight-snapshot-1", "flight"]
        .map(|run| folder.path().join("plugins/profile").join(run).join("profiling.xplane.pb"));
    let said = format!("{} 4\n{} 6\n", snapshot.display(), whole.display());
    assert_eq!((stdout, stderr.as_str()), (said, ""));
    let quiet = |n: i64| ("quiet", stats([("n", n.into())]));
    for (path, around, count) in [(snapshot, stats([("unfinished", 1.into())]), 3), (whole, stats([]), 5)] {
        let (lines, warnings, environment) = read_file(&path);
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(environment["directives"], Stat::Text("c=info".to_owned()));
        let [line] = lines.as_slice() else { panic!("one line: {lines:?}") };
        let expected: Vec<_> = [("around", around)].into_iter().chain((0..count).map(quiet)).collect();
        assert_eq!(told(line), expected);
    }
}

#[test]
fn the_environment_profiles_a_program_in_c() {
    let folder = folder();
    let program = program(C99, "snapshot.c", Linked::Shared, &[], folder.path());
    let (stdout, stderr) = run(Command::new(&program).env_remove("ZPROF"));
    assert_eq!((stdout.as_str(), stderr.as_str()), ("0\n", ""));
    let file = folder.path().join("run.xplane.pb");
    let (stdout, stderr) = run(Command::new(&program).env("ZPROF", &file).env("ZPROF_FILTER", "c=verbose"));
    assert_eq!((stdout, stderr), ("1\n".to_owned(), format!("zprof: {} (4 scopes)\n", file.display())));
    let (lines, warnings, _) = read_file(&file);
    assert_eq!((warnings, line(&lines, "main").tree()), (Vec::new(), "quiet(loud) quiet(loud)".to_owned()));
    let wrong = Command::new(&program).env("ZPROF", "1").env("ZPROF_FILTER", "c=loud").output().expect("it runs");
    let told = "environment: no profile: `ZPROF_FILTER` is wrong: failed to read directive 1 of `c=loud`: `loud` in `c=loud` \
                is no level; write `off`, `critical`, `info` or `verbose`\n";
    assert_eq!((wrong.status.code(), String::from_utf8_lossy(&wrong.stderr).as_ref()), (Some(1), told));
}
