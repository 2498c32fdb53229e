//! `zprof xctrace`: a program under Instruments' Points of Interest.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use jiff::Timestamp;

use crate::output::tell;
use crate::run::{CommandLine, Launch, Missing, Program, SKIP_PJRT, execute, find, print_commands};

/// Run a program under Instruments' Points of Interest (macOS).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  A program with arguments:
    zprof xctrace -o model.trace -- target/release/model --seqlen 128")]
pub(crate) struct Args {
    /// Where the recording goes; without it: zprof-<UTC time>.trace here.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("zprof-{}.trace", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"))));
    let command = command(&output, args);
    if args.program.dry_run {
        return print_commands(&[command]);
    }
    find("xctrace", &[]).ok_or_else(missing)?;
    if output.exists() {
        bail!("`{}` exists; give another -o", output.display());
    }
    let ended =
        execute(&Launch { tool: "xctrace", command: &command, program: &args.program.program, is_root: false })?;
    if ended.aborted {
        tell("aborted; there is no report");
    } else if output.exists() {
        let path = std::path::absolute(&output).unwrap_or(output);
        tell(format_args!("report: {} (`open` shows it in Instruments)", path.display()));
        tell("ranges: Instruments alone can read whether zprof's are in it, under Points of Interest");
    } else {
        tell(format_args!("xctrace has left no report at {}", output.display()));
    }
    Ok(ExitCode::from(ended.code))
}

pub(crate) fn missing() -> Missing {
    let cure = if cfg!(target_os = "macos") {
        "it comes with Xcode; the command line tools alone do not have it. Install Xcode, then `sudo xcode-select -s \
         /Applications/Xcode.app`"
    } else {
        "Instruments is part of Xcode and records on macOS alone; here, `zprof nsys` and `zprof rocprofv3` show the ranges"
    };
    Missing { tool: "xctrace", places: "PATH".to_owned(), cure }
}

fn command(output: &Path, args: &Args) -> CommandLine {
    let command = CommandLine::new("xctrace").args(["record", "--template", "Points of Interest", "--output"]);
    command.arg(output).args(["--launch", "--"]).args(&args.program.program).env(SKIP_PJRT.0, SKIP_PJRT.1)
}
