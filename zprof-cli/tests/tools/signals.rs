//! Signals while a stand-in for nsys runs a program: who gets them, and what comes after.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use zprof_runtime::environment::variable;

use crate::stand_in::{Bench, err};

/// The program: a process that says that it is ready, writes signals down, and ends at the first if it is asked to.
const PROGRAM: &str = r#"#!/usr/bin/env python3
import os, signal, sys
def handler(number, _):
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"program {signal.Signals(number).name}\n")
    os.write(1, b"got\n")
    if sys.argv[1] == "ends":
        sys.exit(7)
for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(name, handler)
os.write(1, b"ready\n")
while True:
    signal.pause()
"#;

/// A stand-in for nsys: writes its own signals down, runs the program in a session of its own as nsys does, and takes
/// its time for the report.
const TOOL: &str = r#"#!/usr/bin/env python3
import os, signal, subprocess, sys
if "--help" in sys.argv:
    sys.exit()
def handler(number, _):
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"tool {signal.Signals(number).name}\n")
for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(name, handler)
program = next(i for i, word in enumerate(sys.argv) if i and word.endswith("prog"))
if os.environ.get("AGENT"):
    subprocess.Popen(["/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $! >" + os.environ["AGENT"]]).wait()
code = subprocess.Popen(sys.argv[program:], start_new_session=os.environ.get("SESSION") == "1").wait()
with open("report1.nsys-rep", "w") as report:
    report.write("whole")
sys.exit(code)
"#;

struct Running {
    bench: Bench,
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

fn start(ends: &str, session: &str) -> Running {
    let bench = Bench::new();
    for (name, text) in [("prog", PROGRAM), ("bin/nsys", TOOL)] {
        let path = bench.script(name, "");
        fs::write(path, text).expect("the folder is ours");
    }
    let program = bench.path("prog");
    let mut command = bench.zprof(&["nsys", "--no-sudo", "--no-check", &program, ends]);
    command.env("SEEN", bench.path("seen")).env("AGENT", bench.path("agent")).env("SESSION", session);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("zprof runs");
    let lines = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut running = Running { bench, child, lines };
    assert_eq!(running.line(), "ready\n");
    running
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the pipe can be read");
        line
    }

    fn send(&self, signal: &str) {
        send(signal, &self.child.id().to_string());
    }

    fn seen(&self) -> String {
        fs::read_to_string(self.bench.path("seen")).unwrap_or_default()
    }

    /// The exit code, and what was told.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut told = String::new();
        self.child.stderr.take().expect("it is a pipe").read_to_string(&mut told).expect("the pipe can be read");
        (self.child.wait().expect("it ends").code(), told)
    }
}

fn send(signal: &str, process: &str) {
    let status = Command::new("kill").args([signal, process]).status().expect("kill is there");
    assert!(status.success(), "{signal} {process}");
}

/// Whether a process runs; one that has ended and is not waited for does not.
fn runs(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn a_signal_goes_to_the_program_alone_and_the_stand_in_ends_its_report() {
    for session in ["1", "0"] {
        for (signal, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM"), ("-HUP", "SIGHUP")] {
            let mut running = start("ends", session);
            running.send(signal);
            let (code, told) = running.end();
            assert_eq!((code, running.seen()), (Some(7), format!("program {name}\n")), "{told}");
            let report = running.bench.work().join("report1.nsys-rep");
            assert_eq!(fs::read_to_string(&report).expect("it is there"), "whole");
            assert!(told.ends_with(&format!("zprof: report: {}\n", report.display())), "{told}");
            send("-KILL", fs::read_to_string(running.bench.path("agent")).expect("it was written").trim());
        }
    }
}

#[test]
fn the_second_signal_ends_the_stand_in_its_agent_and_the_program() {
    let mut running = start("stays", "1");
    running.send("-INT");
    assert_eq!(running.line(), "got\n");
    running.send("-INT");
    let (code, told) = running.end();
    assert_eq!((code, running.seen()), (Some(130), "program SIGINT\n".to_owned()), "{told}");
    assert!(told.ends_with("zprof: aborting nsys and the program\nzprof: aborted; there is no report\n"), "{told}");
    assert!(!running.bench.work().join("report1.nsys-rep").exists());
    assert_eq!(running.line(), "", "nobody holds the program's output");
    if cfg!(target_os = "linux") {
        let agent = fs::read_to_string(running.bench.path("agent")).expect("it was written");
        assert!(!runs(agent.trim()), "what the tool left in the background is ended too");
    }
}

/// Runs the command on a terminal of its own; types what the arguments say after each line that is waited for.
const TERMINAL: &str = r#"
import os, pty, sys
steps = sys.argv[1].split("|")
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = b""
def read():
    global seen
    try:
        data = os.read(terminal, 1024)
    except OSError:
        data = b""
    seen += data
    return data
for step in steps:
    wait, keys = step.split(">")
    while wait.encode() not in seen:
        if not read():
            sys.exit(f"no {wait!r} in {seen!r}")
    seen = b""
    os.write(terminal, keys.encode().decode("unicode_escape").encode())
while read():
    pass
sys.stderr.write(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

fn on_terminal(bench: &Bench, steps: &str, arguments: &[&str]) -> std::process::Output {
    let zprof = bench.zprof(&[]);
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL, steps, env!("CARGO_BIN_EXE_zprof")]).args(arguments).current_dir(bench.work());
    python.env_clear().envs(zprof.get_envs().filter_map(|(name, value)| Some((name, value?))));
    python.env("PATH", format!("{}/bin:{}", bench.root().display(), variable("PATH").expect("set").to_string_lossy()));
    python.env("SEEN", bench.path("seen")).output().expect("python3 runs")
}

#[test]
fn the_terminals_interrupt_does_not_reach_the_stand_in() {
    let bench = Bench::new();
    for (name, text) in [("prog", PROGRAM), ("bin/nsys", TOOL)] {
        let path = bench.script(name, "");
        fs::write(path, text).expect("the folder is ours");
    }
    let output = on_terminal(&bench, "ready>\\x03", &["nsys", "--no-sudo", "--no-check", &bench.path("prog"), "ends"]);
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    assert_eq!(fs::read_to_string(bench.path("seen")).expect("it was written"), "program SIGINT\n");
    assert_eq!(fs::read_to_string(bench.work().join("report1.nsys-rep")).expect("it is there"), "whole");
}

#[test]
fn a_program_under_a_stand_in_may_read_the_terminal() {
    let bench = Bench::new();
    bench.script("prog", "echo ask; read answer; echo \"answer: $answer\" >answer; exit 6\n");
    bench.runner("bin/nsys", "");
    let output = on_terminal(&bench, "ask>yes\\n", &["nsys", "--no-sudo", "--no-check", &bench.path("prog")]);
    assert_eq!(output.status.code(), Some(6), "{}", err(&output));
    assert_eq!(fs::read_to_string(bench.work().join("answer")).expect("it was written"), "answer: yes\n");
}
