//! Programs run under the vendors' tools: the command, the tool it needs, signals on the way, and the report at the end.

mod command;
mod find;
#[cfg(unix)]
mod launch;
#[cfg(not(unix))]
#[path = "launch_plain.rs"]
mod launch;
mod processes;
mod report;
#[cfg(unix)]
#[allow(unsafe_code)] // handlers of signals
mod signals;
mod variables;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::output::print;
pub(crate) use command::CommandLine;
pub(crate) use find::{Missing, Printed, find, is_executable, on_path, output_of};
pub(crate) use launch::execute;
pub(crate) use report::Folder;
pub(crate) use variables::{is_set, replaced, variable};

/// What a program has in its environment under every tool: the tool profiles the device, and a second profiler of it
/// would be in its way.
pub(crate) const SKIP_PJRT: (&str, &str) = ("SKIP_PJRT_PROFILER", "true");

/// What every command that runs a program under a tool takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Program {
    /// Print the command as a shell takes it, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments, passed on as they are.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Prints a command whose standard output goes to a file.
pub(crate) fn print_command_into(command: &CommandLine, file: &Path) -> Result<ExitCode> {
    let line = [command.shell()?, b" > ".to_vec(), command::quoted(file.as_os_str())?, b"\n".to_vec()].concat();
    print(|out| out.write_all(&line))?;
    Ok(ExitCode::SUCCESS)
}

/// A tool about to run a program.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The tool's name, for messages.
    pub(crate) tool: &'static str,
    pub(crate) command: &'a CommandLine,
    /// The program and its arguments, by which its process is known.
    pub(crate) program: &'a [OsString],
    /// Whether it runs as root by way of sudo, as was asked for, so that signals reach it that way too.
    pub(crate) is_root: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The tool's exit code, or 128 and the number of the signal that ended it, as shells have it.
    pub(crate) code: u8,
    /// Whether it was ended by a second signal, so that no report is to be expected.
    pub(crate) aborted: bool,
}

/// Prints commands on standard output, one after another.
pub(crate) fn print_commands(commands: &[CommandLine]) -> Result<ExitCode> {
    let lines = commands.iter().map(CommandLine::shell).collect::<Result<Vec<_>>>()?;
    print(|out| lines.iter().try_for_each(|line| out.write_all(line).and_then(|()| out.write_all(b"\n"))))?;
    Ok(ExitCode::SUCCESS)
}
