//! Runs a tool that runs a program, and passes signals on to the program alone.
//!
//! The tool gets a process group of its own, so that Ctrl-C at the terminal, which goes to the whole foreground group,
//! reaches this process and not the tool; the program is looked up among the tool's children and gets the signal, and
//! the tool goes on to finish its report. The second signal ends them all, on Linux also what the tool has left in the
//! background, as nsys does with its agent: this process adopts it. A tool or program that reads the terminal is
//! stopped by the system for not being in the foreground: then it is brought there, and the terminal's Ctrl-C goes to it
//! from then on.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::processes::{self, Process};
use super::signals::{Event, Signals, ignore_ttou};
use super::{Ended, Launch};
use crate::output::tell;

/// How often a program that is not there yet is looked for again, to pass a signal on.
const AGAIN: Duration = Duration::from_millis(50);

/// What comes so soon after the first signal, before that is passed on, is one with it: `timeout` sends one to its child
/// and one to the whole group.
const ONE: Duration = Duration::from_millis(2);

/// Runs it to its end.
pub(crate) fn execute(launch: &Launch) -> Result<Ended> {
    let mut signals = Signals::catch().context("failed to catch signals")?;
    let root = adopt();
    let mut command = launch.command.to_command();
    command.process_group(0);
    let word = &launch.command.words()[0];
    let child = command.spawn().with_context(|| format!("failed to run `{}`", word.to_string_lossy()))?;
    let tool = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the tool has no process number")?;

    let run = Arc::new(Run {
        name: launch.tool,
        is_root: launch.is_root,
        tool,
        root: root.unwrap_or(tool),
        program: processes::Program::new(launch.program),
        phase: AtomicU8::new(RUNS),
        last: AtomicI32::new(0),
        ending: Mutex::new(()),
    });
    let forwarding = Arc::clone(&run);
    // It lives as long as this process: it sleeps until a signal comes.
    thread::Builder::new()
        .name("zprof-signals".to_owned())
        .spawn(move || forwarding.forward(&mut signals))
        .context("failed to start a thread")?;

    let mut terminal = Terminal::default();
    let status = wait(tool, &mut terminal).with_context(|| format!("failed to wait for `{}`", launch.tool))?;
    terminal.take_back();
    // Acquire: pairs with the release of the abort. What was killed is gone when this process is; a signal more, in the
    // meantime, kills what has got away.
    if run.phase.load(Ordering::Acquire) == ABORTED {
        while matches!(rustix::process::wait(WaitOptions::empty()), Ok(_) | Err(Errno::INTR)) {}
    }
    drop(run.ending.lock().unwrap_or_else(PoisonError::into_inner));
    // AcqRel: what the other thread wrote to `last` before it aborted is read below.
    let aborted = run.phase.swap(ENDED, Ordering::AcqRel) == ABORTED;
    let signal = if aborted { Some(run.last.load(Ordering::Relaxed)) } else { status.terminating_signal() };
    let code = signal.map_or(status.exit_status().unwrap_or(1), |signal| 128 + signal);
    Ok(Ended { code: u8::try_from(code).unwrap_or(1), aborted })
}

/// The values of [`Run::phase`].
const RUNS: u8 = 0;
const ABORTED: u8 = 1;
const ENDED: u8 = 2;

/// A tool that runs; shared by the thread that waits for it and the one that waits for signals.
#[derive(Debug)]
struct Run {
    name: &'static str,
    /// Whether sudo was asked for, and so may be used to send signals.
    is_root: bool,
    tool: Pid,
    /// The process below which the program and all that the tool has started are found: this one, where it adopts.
    root: Pid,
    program: processes::Program,
    /// The waiting thread writes `ENDED`, the other one `ABORTED`, and only over `RUNS`.
    phase: AtomicU8,
    /// Held while processes are ended, so that this one does not end before all have been sent their signal.
    ending: Mutex<()>,
    /// The last signal. Written by the signals' thread before it writes `phase`.
    last: AtomicI32,
}

impl Run {
    /// Passes the first signal on and aborts at the second.
    fn forward(&self, signals: &mut Signals) {
        let mut first: Option<Event> = None;
        let mut delivered = false;
        loop {
            let waits = first.is_some() && !delivered;
            let Ok(event) = signals.next(waits.then_some(AGAIN)) else { return };
            if self.phase.load(Ordering::Relaxed) == ENDED {
                if let Some(event) = event.filter(|event| !event.from_terminal) {
                    // The report is there and only being looked at.
                    std::process::exit(128 + event.signal);
                }
                delivered = true;
                continue;
            }
            match (event, first) {
                (None, None) => {}
                (None, Some(event)) => delivered = self.deliver(event),
                (Some(event), None) => {
                    first = Some(event);
                    while let Ok(Some(_)) = signals.next(Some(ONE)) {}
                    delivered = self.deliver(event);
                    if delivered {
                        tell(format_args!(
                            "passed on to the program; {} then ends its report; once more aborts",
                            self.name
                        ));
                    } else {
                        tell(format_args!(
                            "the program does not run, yet or any more; {} is at work; once more aborts",
                            self.name
                        ));
                    }
                }
                (Some(event), Some(_)) => self.abort(event.signal),
            }
        }
    }

    /// Sends a signal to the program, if it runs. A terminal's signal also goes to what the program has started in its
    /// own group, as if the program had the terminal.
    fn deliver(&self, event: Event) -> bool {
        let all = processes::all();
        let tree = processes::tree(&all, self.root.as_raw_pid());
        let Some(program) = self.program.among(&tree) else { return false };
        let below = processes::tree(&all, program.pid);
        let meant =
            |process: &&&Process| process.pid == program.pid || event.from_terminal && process.group == program.group;
        let pids: Vec<i32> = below.iter().filter(meant).map(|process| process.pid).collect();
        if let Some(signal) = Signal::from_named_raw(event.signal) {
            send(&pids, signal, self.is_root);
        }
        true
    }

    /// Ends the tool, the program and all that they have started.
    fn abort(&self, signal: i32) {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        self.last.store(signal, Ordering::Relaxed);
        // Release: pairs with the swap at the end.
        if self.phase.compare_exchange(RUNS, ABORTED, Ordering::Release, Ordering::Relaxed).is_ok() {
            tell(format_args!("aborting {} and the program", self.name));
        }
        let all = processes::all();
        let own = rustix::process::getpid().as_raw_pid();
        let tree = processes::tree(&all, self.root.as_raw_pid());
        // Parents first: a tool whose program ends would write a report.
        let pids: Vec<i32> = tree.iter().map(|process| process.pid).filter(|pid| *pid != own).collect();
        send(&pids, Signal::KILL, self.is_root);
        // What has lost its parent since is in the group still.
        let _ = rustix::process::kill_process_group(self.tool, Signal::KILL);
    }
}

/// Sends a signal to processes. Those that are root's get it by way of sudo if sudo was asked for, and has let them be started.
fn send(pids: &[i32], signal: Signal, is_root: bool) {
    let mut refused = Vec::new();
    for pid in pids {
        // A process that has ended since needs nothing.
        if let Some(Err(Errno::PERM)) = Pid::from_raw(*pid).map(|pid| rustix::process::kill_process(pid, signal)) {
            refused.push(pid.to_string());
        }
    }
    if refused.is_empty() {
        return;
    }
    let number = signal.as_raw().to_string();
    if !is_root {
        // Such as a program that is setuid.
        tell(format_args!("no permission to send signal {number} to process {}", refused.join(" ")));
        return;
    }
    // It says by itself what it cannot do; the waiting thread waits for it, as for whatever ends.
    let sudo = Command::new("sudo").args(["-n", "kill", &format!("-{number}"), "--"]).args(&refused).spawn();
    if let Err(error) = sudo {
        tell(format_args!("no permission to send signal {number} to process {}: {error}", refused.join(" ")));
    }
}

/// Makes this process the parent of what loses its own below it. The process, where the system can.
#[cfg(target_os = "linux")]
fn adopt() -> Option<Pid> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).is_ok().then_some(own)
}

#[cfg(not(target_os = "linux"))]
fn adopt() -> Option<Pid> {
    None
}

/// Waits for the tool's end, and brings it to the foreground when it is stopped for want of the terminal.
fn wait(tool: Pid, terminal: &mut Terminal) -> io::Result<WaitStatus> {
    loop {
        // Whatever ends is waited for, since this process may have adopted it.
        match rustix::process::wait(WaitOptions::UNTRACED) {
            Ok(Some((process, _))) if process != tool => {}
            Ok(Some((_, status))) if status.stopped() => {
                if matches!(status.stopping_signal(), Some(libc::SIGTTIN | libc::SIGTTOU)) {
                    terminal.give_to(tool);
                }
            }
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The terminal, as far as this process has lent it.
#[derive(Debug, Default)]
struct Terminal {
    lent: Option<File>,
}

impl Terminal {
    /// Brings a process group to the foreground and lets it go on.
    fn give_to(&mut self, group: Pid) {
        let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else { return };
        if rustix::termios::tcgetpgrp(&terminal) != Ok(rustix::process::getpgrp()) && self.lent.is_none() {
            // In the background itself, this process stops with it; brought to the front, it goes on from here.
            let _ = rustix::process::kill_current_process_group(Signal::TTIN);
        }
        ignore_ttou();
        if rustix::termios::tcsetpgrp(&terminal, group).is_ok() {
            self.lent = Some(terminal);
        }
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
    }

    /// Brings this process back to the foreground.
    fn take_back(&mut self) {
        if let Some(terminal) = self.lent.take() {
            let _ = rustix::termios::tcsetpgrp(&terminal, rustix::process::getpgrp());
        }
    }
}
