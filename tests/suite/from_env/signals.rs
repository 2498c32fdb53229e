//! Signals: the profile is written, and then they do what they would have done, or what the program does with them.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use libc::{SIGABRT, SIGHUP, SIGINT, SIGTERM};
use zprof_tests::fake;

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
            if !found.is_empty() {
                assert_eq!(found, ["profiling.trace.json", "profiling.xplane.pb"], "round {round}");
                assert!(read_file(&run.join("profiling.xplane.pb")).0.len() <= 9, "round {round}");
            }
        }
    }
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
        let told = format!("zprof: warning: {warning}\nzprof: {} (4 scopes)\n", ended.path().display());
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
