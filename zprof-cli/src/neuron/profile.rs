//! `zprof neuron profile`: runs a program with the Neuron runtime's inspection on, into a folder of its own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use jiff::Timestamp;
use zprof_runtime::folder::Folder;

use super::{NAME, ROOT, explorer, require};
use crate::output::tell;
use crate::run::{CommandLine, Launch, Program, SKIP_PJRT, execute, print_commands, variable};

/// Run a program and keep its profile in a folder of its own.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  A program with arguments:
    zprof neuron profile -- target/release/model --seqlen 128")]
pub(crate) struct Args {
    /// Where runs are kept: each in a folder called by its UTC time.
    #[arg(long, value_name = "FOLDER", default_value = ROOT)]
    root: PathBuf,
    #[command(flatten)]
    program: Program,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let name = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    // The program may change its folder before it writes.
    let root = super::place(&args.root, false)?;
    let root = std::path::absolute(&root).unwrap_or(root);
    if args.program.dry_run {
        return print_commands(&[command(&root.join(name), &args.program.program, variable("XLA_FLAGS"))]);
    }
    require()?;
    // Says so if the usual place is another user's.
    super::place(&args.root, true)?;
    let run = create(&root, &name)?;
    let command = command(&run, &args.program.program, variable("XLA_FLAGS"));
    let ended = execute(&Launch { tool: NAME, command: &command, program: &args.program.program, is_root: false });
    // Whatever has become of it: what was written is there.
    tell(format_args!("report: {}", run.display()));
    tell("ranges: `zprof neuron ingest` and `zprof neuron server` show the run; zprof's ranges are not part of it");
    Ok(ExitCode::from(ended?.code))
}

/// Makes the run's folder with what is in it; a name that is taken gets a number.
fn create(root: &Path, name: &str) -> Result<PathBuf> {
    let what = || format!("failed to make a folder for the run in `{}`", root.display());
    // Nobody else can see the run where the folder is below one of all users.
    let runs = Folder::open_or_make(root).with_context(what)?;
    let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
    for name in names {
        match runs.make(&name) {
            Ok(run) => {
                for part in ["compile", "execution"] {
                    run.make(part).with_context(what)?;
                }
                return Ok(root.join(name));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(what),
        }
    }
    unreachable!("numbers do not end")
}

/// The whole command, with XLA's dumps after the flags that the user has set.
fn command(run: &Path, program: &[OsString], flags: Option<OsString>) -> CommandLine {
    let execution = run.join("execution");
    let mut dump = flags.filter(|flags| !flags.is_empty()).unwrap_or_default();
    if !dump.is_empty() {
        dump.push(" ");
    }
    dump.push("--xla_dump_to=");
    dump.push(run.join("compile"));
    dump.push(" --xla_dump_hlo_as_text --xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=.*");
    explorer()
        .args(["inspect", "-o"])
        .arg(&execution)
        .args(program)
        .env(SKIP_PJRT.0, SKIP_PJRT.1)
        .env("NEURON_RT_INSPECT_ENABLE", "1")
        .env("NEURON_RT_INSPECT_SYSTEM_PROFILE", "1")
        .env("NEURON_RT_INSPECT_DEVICE_PROFILE", "1")
        .env("NEURON_RT_INSPECT_OUTPUT_DIR", execution)
        .env("XLA_IR_DEBUG", "1")
        .env("XLA_HLO_DEBUG", "1")
        .env("XLA_FLAGS", dump)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_second_do_not_share_a_folder() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let runs = [(); 3].map(|()| create(&root.path().join("deep"), "20260102T030405Z").expect("the folder is ours"));
        let names = ["", "-2", "-3"].map(|end| root.path().join(format!("deep/20260102T030405Z{end}")));
        assert_eq!(runs, names);
        assert!(runs.iter().all(|run| run.join("compile").is_dir() && run.join("execution").is_dir()));
    }
}
