//! Signals: the profile is written, and then they do what they would have done, or what the program does with them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use libc::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use zprof_tests::fake;
use zprof_tests::profile::Stat;

use super::{Program, kill, names, read_file, runs, stats, told, unfinished, worked};

#[test]
fn the_signal_ends_the_program_after_the_profile_is_written() {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGABRT] {
        let waiting = Program::new("wait").start();
        waiting.send(signal);
        let ended = waiting.end();
        assert_eq!(ended.status.signal(), Some(signal));
        ended.only_line();
        assert_eq!(told(&ended.profile(), "main"), worked(&[("open", unfinished())]));
    }
}

#[test]
fn a_thread_that_a_signal_interrupts_goes_on() {
    for signal in [SIGTERM, SIGABRT] {
        let waiting = Program::new("interrupted").start();
        waiting.send(signal);
        let ended = waiting.end();
        assert_eq!(ended.status.signal(), Some(signal));
        ended.only_line();
        assert_eq!(told(&ended.profile(), "main"), worked(&[]));
    }
}

#[test]
fn signals_that_come_together_are_one() {
    for _ in 0..20 {
        let waiting = Program::new("wait").start();
        for signal in [SIGTERM, SIGHUP, SIGTERM, SIGTERM] {
            waiting.send(signal);
        }
        let ended = waiting.end();
        assert!([Some(SIGTERM), Some(SIGHUP)].contains(&ended.status.signal()), "{}", ended.status);
        assert_eq!(told(&ended.profile(), "main"), worked(&[("open", unfinished())]));
    }
}

#[test]
fn a_signal_at_the_moment_of_the_exit_does_not_hold_it_up() {
    for _ in 0..20 {
        let mut waiting = Program::new("wait").start();
        waiting.release();
        waiting.send(SIGTERM);
        let ended = waiting.end();
        let is_known = ended.status.signal() == Some(SIGTERM) || ended.status.code() == Some(0);
        assert!(is_known, "{}", ended.status);
        let main = told(&ended.profile(), "main");
        assert_eq!(main[..3], worked(&[]));
    }
}

#[test]
fn a_signal_at_any_moment_leaves_a_whole_profile_or_none() {
    for round in 0..60_u32 {
        let signal = [SIGTERM, SIGINT, SIGABRT][usize::try_from(round % 3).expect("it is small")];
        let mut program = Program::new(if round % 2 == 0 { "crowd" } else { "panic" }).with("ZPROF_BUFFER", "4M");
        let pipes = program.command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = pipes.spawn().expect("the program can be run");
        let begun = Instant::now();
        while begun.elapsed() < round * Duration::from_millis(1) {
            thread::yield_now();
        }
        kill(&child, signal);
        let status = child.wait().expect("it is a child");
        let by_itself = if round % 2 == 0 { 0 } else { 101 };
        let is_known = status.signal() == Some(signal) || status.code() == Some(by_itself);
        assert!(is_known, "round {round}: {status}");
        for run in runs(program.folder.path()) {
            let found = names(&run);
            // Before the ends are watched, a signal kills at once, also while the folder is tried with an empty file.
            let is_tried =
                |name: &String| name.ends_with(".tmp") && run.join(name).metadata().is_ok_and(|file| file.len() == 0);
            if !found.iter().all(is_tried) {
                assert_eq!(found, ["profiling.trace.json", "profiling.xplane.pb"], "round {round}");
                assert!(read_file(&run.join("profiling.xplane.pb")).0.len() <= 9, "round {round}");
            }
        }
    }
}

/// Waits until a file is there.
fn await_file(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {}", path.display());
        thread::yield_now();
    }
}

#[test]
fn one_signal_asks_for_a_snapshot_and_the_program_goes_on() {
    let mut waiting = Program::new("wait").with("ZPROF_SESSION", "run").with("ZPROF_KEEP", "1h").start();
    let folder = waiting.folder.path().join("plugins/profile");
    for number in 1..=3 {
        waiting.send(SIGUSR2);
        // The JSON is the last of its files.
        await_file(&folder.join(format!("run-snapshot-{number}/profiling.trace.json")));
    }
    waiting.release();
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let told_of = |run: &str| {
        let path = folder.join(run).join("profiling.xplane.pb");
        let (lines, warnings, environment) = read_file(&path);
        assert_eq!((warnings, environment["released_bytes"].clone()), (Vec::new(), Stat::Uint(0)));
        (format!("zprof: {} (4 scopes)", path.display()), told(&lines, "main"))
    };
    let mut lines = ended.stderr.lines();
    for number in 1..=3 {
        let (said, main) = told_of(&format!("run-snapshot-{number}"));
        assert_eq!((lines.next(), main), (Some(said.as_str()), worked(&[("open", unfinished())])));
    }
    let (said, main) = told_of("run");
    assert_eq!((lines.next(), main), (Some(said.as_str()), worked(&[("open", stats([]))])));
    assert_eq!(lines.next(), None);
}

#[test]
fn snapshots_of_a_file_are_files_beside_it() {
    let program = Program::new("wait");
    let folder = program.folder.path().to_owned();
    let mut waiting = program.with("ZPROF", folder.join("a.xplane.pb")).start();
    fs::write(folder.join("a-snapshot-1.xplane.pb"), "another's").expect("it can be written");
    for number in 2..=3 {
        waiting.send(SIGUSR2);
        await_file(&folder.join(format!("a-snapshot-{number}.trace.json")));
    }
    waiting.release();
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let expected = [
        "a-snapshot-1.xplane.pb",
        "a-snapshot-2.trace.json",
        "a-snapshot-2.xplane.pb",
        "a-snapshot-3.trace.json",
        "a-snapshot-3.xplane.pb",
        "a.trace.json",
        "a.xplane.pb",
    ];
    assert_eq!(names(&folder), expected);
    assert_eq!(fs::read_to_string(folder.join("a-snapshot-1.xplane.pb")).expect("it is there"), "another's");
    let (lines, _, _) = read_file(&folder.join("a-snapshot-2.xplane.pb"));
    assert_eq!(told(&lines, "main"), worked(&[("open", unfinished())]));
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told_and_ends_nothing() {
    let mut waiting = Program::new("wait").with("ZPROF_SESSION", "run").start();
    let run = waiting.folder.path().join("plugins/profile/run");
    let runs = run.parent().expect("it has one").to_owned();
    fs::remove_dir_all(&runs).expect("it can be removed");
    fs::write(&runs, "a file").expect("it can be written");
    waiting.send(SIGUSR2);
    let mut stderr = BufReader::new(waiting.child.stderr.take().expect("it is a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it is UTF-8");
    assert!(
        line.starts_with(&format!("zprof: no snapshot: failed to create the profile folder `{}`", runs.display())),
        "{line}"
    );
    fs::remove_file(&runs).expect("it can be removed");
    waiting.child.stderr = Some(stderr.into_inner());
    waiting.release();
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(told(&ended.profile(), "main"), worked(&[("open", stats([]))]));
}

#[test]
#[allow(unsafe_code)] // what happens between fork and exec is unsafe
fn what_is_ignored_stays_ignored() {
    let mut program = Program::new("wait");
    let ignore = || {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(SIGHUP, libc::SIG_IGN) };
        Ok(())
    };
    // SAFETY: the function only makes a system call.
    unsafe { program.command.pre_exec(ignore) };
    let mut waiting = program.start();
    waiting.send(SIGHUP);
    waiting.release();
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(told(&ended.profile(), "main"), worked(&[("open", stats([]))]));
}

#[test]
fn a_program_that_handles_the_signal_ends_as_it_means_to() {
    for part in ["handler-before", "handler-after", "handler-chains"] {
        let waiting = Program::new(part).start();
        waiting.send(SIGTERM);
        let ended = waiting.end();
        assert_eq!(ended.status.code(), Some(7), "{part}");
        let rest = [("open", unfinished()), ("shutting down", stats([]))];
        assert_eq!(told(&ended.profile(), "main"), worked(&rest), "{part}");
    }
}

/// A program whose plugin does not end its profile.
fn stuck(seconds: &str) -> Program {
    let program = Program::new("wait").with("ZPROF_PJRT", fake::library()).with("ZPROF_FAKE", "block=stop");
    program.with("ZPROF_PJRT_SECONDS", seconds)
}

#[test]
fn a_plugin_that_hangs_costs_its_part_and_no_more() {
    for signal in [None, Some(SIGTERM)] {
        let mut waiting = stuck("0").start();
        match signal {
            Some(signal) => waiting.send(signal),
            None => waiting.release(),
        }
        let ended = waiting.end();
        assert_eq!(ended.status.signal(), signal);
        let (lines, warnings, _) = read_file(&ended.path());
        let open = if signal.is_some() { unfinished() } else { stats([]) };
        assert_eq!(told(&lines, "main"), worked(&[("open", open)]));
        let warning =
            "failed to collect from PJRT plugin `libzprof_fake_plugin`: it did not end its profile within 0ns";
        assert_eq!(warnings, [warning]);
        // The plugin's own variable is none of zprof's.
        let fake = "the variable `ZPROF_FAKE` is none of zprof's and changes nothing; `init_from_env` documents all";
        let path = ended.path();
        let told = format!("zprof: warning: {fake}\nzprof: warning: {warning}\nzprof: {} (4 scopes)\n", path.display());
        assert_eq!(ended.stderr, told);
    }
}

#[test]
fn an_impatient_second_signal_ends_the_program_at_once() {
    let waiting = stuck("600").start();
    let begun = Instant::now();
    let id = waiting.child.id();
    let mut waiting = Some(waiting);
    // Those within the first second are one.
    let ended = loop {
        let mut program = waiting.take().expect("it is put back");
        program.send(SIGINT);
        if program.child.try_wait().expect("it is a child").is_some() {
            break program.end();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "process {id} goes on");
        waiting = Some(program);
        thread::yield_now();
    };
    assert_eq!(ended.status.signal(), Some(SIGINT));
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    let runs = ended.runs();
    assert_eq!(names(&runs[0]), Vec::<String>::new());
}
