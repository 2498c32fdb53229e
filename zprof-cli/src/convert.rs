//! `zprof convert`: an XSpace becomes a trace.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use zprof_runtime::export::{JsonOptions, export_json_file, write_json};

use crate::input;

/// Convert an XSpace to a trace that viewers read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile: an `.xplane.pb` file, a run's folder, or `-`.
    input: PathBuf,
    /// Where the trace goes; standard output if it is not said.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let spaces = input::open(&args.input)?;
    let [space] = spaces.as_slice() else {
        bail!("`{}` has {} hosts; name the file of one", args.input.display(), spaces.len());
    };
    match &args.output {
        Some(output) => export_json_file(&args.input, output)?,
        None => write_json(&space.file, &mut io::stdout().lock(), &JsonOptions::default())
            .with_context(|| format!("failed to convert {}", space.name))?,
    };
    Ok(ExitCode::SUCCESS)
}
