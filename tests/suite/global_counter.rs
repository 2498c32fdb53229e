//! Sessions on a time-stamp counter that is at fault, and on the system's clock: no scope is lost.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))] // whose counters a test can change

use std::process::Output;

use zprof_tests::profile::{Line, Stat, Stats, line, read_file, stats};

/// What a part of `tests/src/bin/jumping.rs` has recorded: lines, warnings, and the clock that it was recorded with.
fn play(part: &str) -> (Vec<Line>, Vec<String>, Stat) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = zprof_tests::program(env!("CARGO_BIN_EXE_jumping"));
    let Output { status, stderr, .. } = command.arg(part).arg(folder.path()).output().expect("it can be run");
    assert!(status.success(), "{part}: {status}\n{}", String::from_utf8_lossy(&stderr));
    let path = folder.path().join("plugins/profile/profiling/profiling.xplane.pb");
    let (lines, warnings, environment) = read_file(&path);
    let clock = environment["clock"].clone();
    (lines, warnings, clock)
}

/// The hundred scopes from this number on.
fn hundred(from: i64) -> Vec<(&'static str, Stats)> {
    (from..from + 100).map(|n| ("work", stats([("n", n.into())]))).collect()
}

fn told(line: &Line) -> Vec<(&str, Stats)> {
    line.told().into_iter().map(|(name, stats)| (name, stats.clone())).collect()
}

/// All scopes of a line are in order, within the outermost one.
fn check_times(line: &Line) {
    let scopes: Vec<_> = line.events.iter().filter(|event| event.name == "work").collect();
    for pair in scopes.windows(2) {
        assert!(pair[0].end_ps <= pair[1].start_ps, "{:?} and then {:?}", pair[0], pair[1]);
    }
    let outer = line.events.iter().find(|event| event.name == "outer");
    assert!(outer.is_none_or(|outer| scopes.iter().all(|scope| scope.is_inside(outer))));
}

/// What the main thread and perhaps another one did, whole and in order, with these warnings where there is a counter that
/// could be at fault.
fn check(part: &str, has_other: bool, fault: &str) {
    let (lines, warnings, clock) = play(part);
    let main = line(&lines, "main");
    let outer = ("outer", stats([("unfinished", 1.into())]));
    let later = if has_other { Vec::new() } else { hundred(100) };
    assert_eq!(told(main), [vec![outer], hundred(0), later].concat(), "{part}");
    check_times(main);
    let threads = lines.iter().filter(|line| line.name == "other");
    for other in threads.clone() {
        assert_eq!(told(other), hundred(100), "{part}");
        check_times(other);
    }
    assert_eq!(threads.count(), usize::from(has_other), "{part}");
    let counts = lines.iter().flat_map(|line| &line.events).filter(|event| event.name == "count").count();
    assert_eq!(counts, 200, "{part}");
    let mut expected = Vec::new();
    if !fault.is_empty() && clock != Stat::Text("monotonic".to_owned()) && clock != Stat::Str("monotonic".to_owned()) {
        let cure = "the variable `ZPROF_CLOCK=system` of `init_from_env` takes the system's clock instead";
        expected.push(format!("the clock `tsc` {fault}; {cure}"));
    }
    assert_eq!(warnings, expected, "{part}");
}

const STEP: &str = "went back 1 times during the session; every scope is kept, at a time that the system's clock gives";
const APART: &str = "went back on 1 threads, or differs between processors; every scope is kept, but some are shown too \
                     short or at another time";

#[test]
fn a_counter_that_is_only_far_ahead_is_steady() {
    check("steady", false, "");
}

#[test]
fn a_counter_that_goes_back_loses_no_scope() {
    check("back", false, STEP);
}

#[test]
fn a_processor_whose_counter_is_ahead_loses_no_scope() {
    check("ahead", true, APART);
}

#[test]
fn a_processor_whose_counter_is_behind_loses_no_scope() {
    check("behind", true, APART);
}
