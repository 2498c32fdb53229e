//! The `zprof` command, as a library so that two programs may be it: `zprof` and `cargo zprof`. Not an API.

mod args;
mod check;
mod cli;
mod completions;
mod convert;
mod csv;
mod diff;
mod doctor;
mod files;
mod flame;
mod format;
mod hosts;
mod input;
mod man;
mod measured;
mod neuron;
mod nsys;
mod output;
mod packed;
mod progress;
mod rocprofv3;
mod run;
mod screen;
mod serve;
mod style;
mod summary;
mod table;
mod units;
mod view;
mod welch;
mod xctrace;
#[cfg(unix)]
mod xprof;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use zprof_runtime::environment;

/// Runs the command line and says how it went: 0, 1 for what failed, 2 for what cannot be asked, or the exit code of a
/// program that was run.
#[must_use]
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    if environment::is_privileged() {
        output::tell(
            "this program has been given raised privileges (setuid, setgid or file capabilities) and does not run with them: \
             it writes files and starts programs that its caller names",
        );
        return ExitCode::FAILURE;
    }
    let result = match doctor::probe::asked(&arguments) {
        Some(plugin) => doctor::probe::run(plugin),
        // Help and usage errors are clap's: it prints them and ends the process with 0 or 2.
        None => cli::parse(&arguments).run(),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::tell(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of our output has gone, as `head` does: no fault of ours or of its.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe))
}
