//! `zprof neuron`: programs on AWS Trainium and Inferentia, by way of Neuron Explorer.

mod ingest;
mod profile;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::output::{print, tell};
use crate::run::{CommandLine, Missing, find, print_commands};
use zprof_runtime::folder;

const NAME: &str = "neuron-explorer";

/// Where Neuron Explorer is besides `PATH`.
const PLACES: [&str; 1] = ["/opt/aws/neuron/bin"];

/// Where runs are kept.
const ROOT: &str = "/tmp/zprof-neuron-profile";

/// Where the server keeps what it has read.
const DATA: &str = "/tmp/zprof-neuron-explorer";

/// Profile programs on AWS Trainium and Inferentia, with Neuron Explorer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Profile(profile::Args),
    Server(Server),
    Ingest(ingest::Args),
    /// Write a run's summary as JSON, into RUN/summary.json.
    #[command(after_long_help = "Examples:
  The run that `profile` has printed:
    zprof neuron summary-json /tmp/zprof-neuron-profile/20261129T090000Z")]
    SummaryJson(summary::Args),
    /// Write a run's summary as text, into RUN/summary.txt.
    #[command(after_long_help = "Examples:
  The run that `profile` has printed:
    zprof neuron summary-txt /tmp/zprof-neuron-profile/20261129T090000Z")]
    SummaryTxt(summary::Args),
    /// Write a run as a Perfetto trace, into RUN/summary.pftrace.
    #[command(after_long_help = "Examples:
  The run that `profile` has printed:
    zprof neuron summary-perfetto /tmp/zprof-neuron-profile/20261129T090000Z")]
    SummaryPerfetto(summary::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Profile(args) => profile::run(args),
        Command::Server(args) => server(args),
        Command::Ingest(args) => ingest::run(args),
        Command::SummaryJson(args) => summary::run(args, &summary::JSON),
        Command::SummaryTxt(args) => summary::run(args, &summary::TEXT),
        Command::SummaryPerfetto(args) => summary::run(args, &summary::PERFETTO),
    }
}

/// Serve what has been ingested.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  For a browser on this machine:
    zprof neuron server --port 3001")]
pub(crate) struct Server {
    /// Where the server keeps what it has read.
    #[arg(long, value_name = "FOLDER", default_value = DATA)]
    data_path: PathBuf,
    /// The port; the next one is used as well, so forward both over SSH.
    #[arg(long, default_value_t = 3001)]
    port: u16,
    /// Print the command as a shell takes it, and run nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The folder for what this command keeps. Other users of the machine can reach one that nobody has named: if it is not this
/// user's alone, another one takes its place. With `makes` it is made.
fn place(folder: &Path, makes: bool) -> Result<PathBuf> {
    if folder != Path::new(ROOT) && folder != Path::new(DATA) {
        return Ok(folder.to_owned());
    }
    if !makes {
        return Ok(folder::existing_default_place(folder));
    }
    match folder::default_place(folder) {
        Ok((place, reason)) => {
            if let Some(reason) = reason {
                tell(format_args!("{reason}; `{}` takes its place", place.display()));
            }
            Ok(place)
        }
        Err((place, error)) => {
            let what =
                format!("neither `{}` nor `{}` can be used; name another folder", folder.display(), place.display());
            Err(error).context(what)
        }
    }
}

fn server(args: &Server) -> Result<ExitCode> {
    let data = place(&args.data_path, !args.dry_run)?;
    let command = explorer().args(["view", "--data-path"]).arg(data).arg("--port").arg(args.port.to_string());
    if args.dry_run {
        return print_commands(&[command]);
    }
    require()?;
    print(|out| writeln!(out, "http://localhost:{}", args.port))?;
    replace_by(&command)
}

/// Becomes the command, so that signals and the exit code are its own.
#[cfg(unix)]
fn replace_by(command: &CommandLine) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt;

    let error = command.to_command().exec();
    Err(error).with_context(|| format!("failed to run `{NAME}`"))
}

#[cfg(not(unix))]
fn replace_by(command: &CommandLine) -> Result<ExitCode> {
    finish(command)
}

/// Runs a command to its end and passes its exit code on.
fn finish(command: &CommandLine) -> Result<ExitCode> {
    let status = command.to_command().status().with_context(|| format!("failed to run `{NAME}`"))?;
    Ok(code_of(status))
}

#[cfg(unix)]
fn code_of(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;

    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(not(unix))]
fn code_of(status: std::process::ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The word that runs Neuron Explorer.
pub(crate) fn tool() -> Option<PathBuf> {
    find(NAME, &PLACES)
}

fn require() -> Result<PathBuf> {
    Ok(tool().ok_or_else(missing)?)
}

pub(crate) fn missing() -> Missing {
    Missing {
        tool: NAME,
        places: format!("PATH and {}", PLACES[0]),
        cure: "it comes with the AWS Neuron SDK, as the package `aws-neuronx-tools` of AWS's repository",
    }
}

/// `neuron-explorer`, wherever it is.
fn explorer() -> CommandLine {
    CommandLine::new(tool().unwrap_or_else(|| NAME.into()))
}
