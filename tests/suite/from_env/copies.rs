//! A program and a plugin that each hold a copy of zprof.

use std::os::unix::process::ExitStatusExt as _;

use libc::{SIGABRT, SIGINT, SIGTERM, SIGUSR2};
use zprof_tests::fake::built;

use super::{Program, names, read_file, stats, told};

fn copies(part: &str) -> Program {
    let mut program = Program::new(part);
    program.command.arg(built("zprof_copy"));
    program
}

/// Every scope in the profiles of a log directory, by the name of the scope; each profile is whole.
fn scopes(runs: &[std::path::PathBuf]) -> Vec<String> {
    let of_run = |run: &std::path::PathBuf| {
        assert_eq!(names(run), ["profiling.trace.json", "profiling.xplane.pb"]);
        let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
        lines.into_iter().flat_map(|line| line.events).map(|event| event.name).collect::<Vec<_>>()
    };
    let mut scopes: Vec<String> = runs.iter().flat_map(of_run).collect();
    scopes.sort();
    scopes
}

const BOTH: [&str; 5] = ["of the plugin", "open", "work", "work", "work"];

#[test]
fn a_signal_writes_the_profile_of_every_copy_and_ends_the_process() {
    for signal in [SIGTERM, SIGINT, SIGABRT] {
        let waiting = copies("copies").start();
        waiting.send(signal);
        let ended = waiting.end();
        assert_eq!(ended.status.signal(), Some(signal), "{}", ended.stderr);
        // A SIGABRT that another process sends is no abort; it ends the process like the other signals.
        assert_eq!(scopes(&ended.runs()), BOTH, "signal {signal}: {}", ended.stderr);
    }
}

#[test]
fn a_signal_that_asks_for_a_snapshot_gives_one_of_every_copy() {
    let mut waiting = copies("copies").start();
    waiting.send(SIGUSR2);
    // The process says on standard error when a snapshot is written, which is read at its end. So its files are waited for.
    let written = |run: &std::path::PathBuf| {
        run.to_string_lossy().contains("-snapshot-") && run.join("profiling.trace.json").exists()
    };
    while super::runs(waiting.folder.path()).iter().filter(|run| written(run)).count() < 2 {
        std::thread::yield_now();
    }
    waiting.release();
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (snapshots, runs): (Vec<_>, Vec<_>) = ended.runs().into_iter().partition(written);
    assert_eq!(
        (scopes(&snapshots), scopes(&runs)),
        (BOTH.map(str::to_owned).to_vec(), BOTH.map(str::to_owned).to_vec())
    );
}

#[test]
fn a_plugin_that_is_closed_while_its_session_runs_is_written_at_exit() {
    let mut program = copies("unloaded");
    let folder = program.folder.path().to_owned();
    program.command.current_dir(&folder);
    let ended = program.run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "true\ntrue\n"), "{}", ended.stderr);
    let run = folder.join("plugin/plugins/profile/plugin");
    assert_eq!(names(&run), ["profiling.trace.json", "profiling.xplane.pb"]);
    let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
    let scopes: Vec<_> = lines.iter().flat_map(|line| told(&lines, &line.name)).collect();
    assert_eq!(scopes, [("of the plugin".to_owned(), stats([]))]);
    drop(ended);
}
