//! Profilers that nobody stops: their sessions are written when the process exits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;
use zprof_tests::profile::{Stats, line, read_file, stats};

/// The result of a part of `tests/src/bin/left.rs`.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    folder: TempDir,
}

fn run(part: &str) -> Ended {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = zprof_tests::program(env!("CARGO_BIN_EXE_left"));
    let Output { status, stdout, stderr } =
        command.arg(part).arg(folder.path()).output().expect("the program can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs write UTF-8");
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr), folder }
}

impl Ended {
    fn path(&self) -> PathBuf {
        whole(&self.folder.path().join("plugins/profile/profiling"))
    }

    /// The events of the threads, by name and in order.
    fn told(&self) -> Vec<(String, Vec<(String, Stats)>)> {
        told(&self.path())
    }
}

/// The XSpace of a run that has its two files and nothing else.
fn whole(run: &Path) -> PathBuf {
    let entries = fs::read_dir(run).expect("the run has a folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("it can be listed").file_name()).collect();
    names.sort();
    assert_eq!(names, ["profiling.trace.json", "profiling.xplane.pb"], "{}", run.display());
    run.join("profiling.xplane.pb")
}

fn told(path: &Path) -> Vec<(String, Vec<(String, Stats)>)> {
    let (lines, warnings, _) = read_file(path);
    assert_eq!(warnings, Vec::<String>::new());
    let of = |line: &zprof_tests::profile::Line| {
        line.told().into_iter().map(|(name, stats)| (name.to_owned(), stats.clone())).collect()
    };
    lines.iter().map(|line| (line.name.clone(), of(line))).collect()
}

/// What the main thread does in every part, and then this.
fn worked(then: &[(&str, Stats)]) -> (String, Vec<(String, Stats)>) {
    let work = (0..3).map(|n| ("work".to_owned(), stats([("n", n.into())])));
    ("main".to_owned(), work.chain(then.iter().map(|(name, stats)| ((*name).to_owned(), stats.clone()))).collect())
}

fn unfinished() -> Stats {
    stats([("unfinished", 1.into())])
}

#[test]
fn a_session_that_nobody_stops_is_written_at_exit_as_by_stop() {
    for part in ["stop", "static", "forgotten"] {
        let ended = run(part);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""), "{part}");
        assert_eq!(ended.told(), [worked(&[])], "{part}");
    }
}

#[test]
fn a_session_that_process_exit_meets_is_written_with_its_open_scopes() {
    let ended = run("exit");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), ""));
    assert_eq!(ended.told(), [worked(&[("open", unfinished())])]);

    let ended = run("exit-in-thread");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(4), ""));
    let other = ("leaving".to_owned(), vec![("open".to_owned(), unfinished())]);
    assert_eq!(ended.told(), [other, worked(&[])]);
}

#[test]
fn a_second_session_of_a_profiler_is_written_at_exit() {
    let ended = run("twice");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.told(), [("main".to_owned(), vec![("again".to_owned(), stats([]))])]);
}

#[test]
fn an_exit_beside_a_thread_that_stops_the_session_leaves_a_whole_profile() {
    for round in 0..10 {
        let ended = run("beside-stop");
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "round {round}");
        let (lines, ..) = read_file(&ended.path());
        let much = line(&lines, "main").events.iter().filter(|event| event.name == "much");
        let counted = (0..50_000_i64).map(|n| stats([("n", n.into())]));
        assert!(much.map(|event| event.stats.clone()).eq(counted), "round {round}");
    }
}

#[test]
fn an_exit_beside_a_thread_that_takes_snapshots_leaves_whole_ones() {
    let ended = run("beside-snapshots");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.told(), [worked(&[])]);
    let runs = fs::read_dir(ended.folder.path().join("plugins/profile")).expect("it is there");
    let runs: Vec<PathBuf> = runs.map(|run| run.expect("it can be listed").path()).collect();
    assert!(runs.len() >= 2, "{runs:?}");
    for run in runs {
        assert_eq!(told(&whole(&run)), [worked(&[])]);
    }
}

#[test]
fn an_exit_inside_of_stop_loses_the_profile_with_a_word() {
    let ended = run("in-stop");
    assert_eq!(ended.code, Some(5));
    assert_eq!(
        ended.stderr,
        "zprof: no profile: the process exits from a thread that is inside of the profiler's `stop` or `snapshot`\n"
    );
}

#[test]
fn a_forked_child_that_exits_does_not_write_the_session_of_its_parent() {
    let ended = run("fork");
    // Exit status 6 twice. The first child has written nothing; the second has written a session of its own.
    assert_eq!(ended.stdout, "0x600 false false\n0x600 false true\n");
    assert_eq!(ended.code, Some(0));
    // The second child has stopped the session that it inherited: its profile begins at the fork, and is beside its parent's.
    let mut warnings: Vec<&str> = ended.stderr.lines().collect();
    warnings.sort_unstable();
    let [beside, begins] = warnings[..] else { panic!("two warnings: {}", ended.stderr) };
    assert!(beside.starts_with("zprof: warning: the process that this one was forked from writes `"), "{beside}");
    assert!(begins.starts_with("zprof: warning: this is the profile of process "), "{begins}");
    assert_eq!(ended.told(), [worked(&[])]);
    let own = whole(&ended.folder.path().join("own/plugins/profile/profiling"));
    assert_eq!(told(&own), [worked(&[])]);
}

#[test]
fn a_session_that_could_not_be_written_is_tried_again_at_exit() {
    let ended = run("failed");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "Some(Io)\n", ""));
    assert_eq!(ended.told(), [worked(&[])]);
}

#[test]
fn a_profile_that_cannot_be_written_at_exit_is_said_on_standard_error() {
    let ended = run("lost");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    let run = ended.folder.path().join("plugins/profile/profiling");
    let expected = format!(
        "zprof: no profile: failed to create the profile folder `{}`; check `repository_path`: Not a directory (os error 20)\n",
        run.display()
    );
    assert_eq!(ended.stderr, expected);
}

#[test]
fn finish_writes_what_runs_and_hands_it_to_the_next_stop() {
    let ended = run("finish");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(7), ""));
    assert_eq!(ended.stdout, "false Some(3)\nNone\n");
    assert_eq!(ended.told(), [worked(&[])]);
}
