//! `zprof completions`: what a shell knows of the command's words.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::print;

/// Print the completions for a shell.
///
/// They go where the shell looks for them: those of bash into ~/.local/share/bash-completion/completions/zprof, those of
/// zsh into a file `_zprof` in a folder of its `fpath`, those of fish into ~/.config/fish/completions/zprof.fish.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  For bash:
    zprof completions bash > ~/.local/share/bash-completion/completions/zprof")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "zprof", &mut script);
    print(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}
