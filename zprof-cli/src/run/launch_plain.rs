//! Runs a tool that runs a program, on systems without process groups: the console's Ctrl-C goes to both.

use std::ffi::OsString;

use anyhow::{Context, Result};

use super::CommandLine;

/// A tool about to run a program.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The tool's name, for messages.
    pub(crate) tool: &'static str,
    pub(crate) command: &'a CommandLine,
    /// The program and its arguments.
    pub(crate) program: &'a [OsString],
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The tool's exit code.
    pub(crate) code: u8,
    /// Whether no report is to be expected.
    pub(crate) aborted: bool,
}

/// Runs it to its end.
pub(crate) fn execute(launch: &Launch) -> Result<Ended> {
    let status = launch.command.to_command().status().with_context(|| format!("failed to run `{}`", launch.tool))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Ended { code, aborted: false })
}
