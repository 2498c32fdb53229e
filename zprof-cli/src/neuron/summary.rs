//! `zprof neuron summary-…`: a run's summary, beside the run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::{NAME, code_of, explorer, finish, require};
use crate::output::{Draft, tell};
use crate::run::{print_command_into, print_commands};

/// Which run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run's folder, which holds `execution`.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print the command as a shell takes it, and run nothing.
    #[arg(long)]
    dry_run: bool,
}

/// A form of summary.
#[derive(Debug)]
pub(super) struct Form {
    /// As Neuron Explorer calls it.
    format: &'static str,
    file: &'static str,
    /// Whether Neuron Explorer writes the file by itself, rather than to its standard output.
    is_written: bool,
}

pub(super) const TEXT: Form = Form { format: "summary-text", file: "summary.txt", is_written: false };
pub(super) const JSON: Form = Form { format: "summary-json", file: "summary.json", is_written: false };
pub(super) const PERFETTO: Form = Form { format: "perfetto", file: "summary.pftrace", is_written: true };

pub(super) fn run(args: &Args, form: &Form) -> Result<ExitCode> {
    let execution = args.run.join("execution");
    let file = args.run.join(form.file);
    let mut command = explorer().args(["view", "-d"]).arg(&execution).args(["--output-format", form.format]);
    if form.is_written {
        command = command.arg("--output-file").arg(&file);
    }
    if args.dry_run {
        return if form.is_written { print_commands(&[command]) } else { print_command_into(&command, &file) };
    }
    require()?;
    if !execution.is_dir() {
        bail!("`{}` is no run: it has no folder `execution`", args.run.display());
    }
    let code = if form.is_written {
        finish(&command)?
    } else {
        // Under another name first: a summary that is there is whole.
        let mut partial = Draft::create(&file)?;
        let what = || format!("failed to write `{}`", file.display());
        let out = partial.file().try_clone().with_context(what)?;
        let status = command.to_command().stdout(out).status().with_context(|| format!("failed to run `{NAME}`"))?;
        if status.success() {
            partial.keep()?;
        }
        code_of(status)
    };
    if code == ExitCode::SUCCESS {
        tell(format_args!("report: {}", file.display()));
    }
    Ok(code)
}
