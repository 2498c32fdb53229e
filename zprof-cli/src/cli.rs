//! What can be asked on the command line. Each command is a file of its own, with its arguments and what it does.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use zprof_runtime::display::printable;

use crate::{check, completions, convert, diff, doctor, flame, man, neuron, nsys, rocprofv3, summary, view, xctrace};

/// Convert, summarise, compare and open profiles; run programs under the vendors' profilers.
#[derive(Debug, Parser)]
#[command(name = "zprof", version, max_term_width = 80, disable_help_subcommand = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Convert(convert::Args),
    View(view::Args),
    Summary(summary::Args),
    Diff(diff::Args),
    Flame(flame::Args),
    Check(check::Args),
    Nsys(nsys::Args),
    Rocprofv3(rocprofv3::Args),
    Neuron(neuron::Args),
    Xctrace(xctrace::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Convert(args) => convert::run(&args),
            Command::View(args) => view::run(&args),
            Command::Summary(args) => summary::run(&args),
            Command::Diff(args) => diff::run(&args),
            Command::Flame(args) => flame::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Nsys(args) => nsys::run(&args),
            Command::Rocprofv3(args) => rocprofv3::run(&args),
            Command::Neuron(args) => neuron::run(&args),
            Command::Xctrace(args) => xctrace::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Completions(args) => completions::run(&args),
            Command::Man(args) => man::run(&args),
        }
    }
}

/// The command line. Help and mistakes are printed by clap, which ends the process with 0 or 2.
pub(crate) fn parse(arguments: &[OsString]) -> Cli {
    Cli::try_parse_from(arguments).unwrap_or_else(|error| {
        // The message repeats an argument as it is, and that may be a file's name, which the shell has put there for `*`.
        let shown = arguments.iter().map(|argument| printable(&argument.to_string_lossy()).into_owned());
        Cli::try_parse_from(shown).err().unwrap_or(error).exit()
    })
}

/// Ends the program as clap does for arguments of a command that cannot be.
pub(crate) fn usage(command: &str, message: impl std::fmt::Display) -> ! {
    let mut cli = Cli::command();
    cli.build();
    let own = cli.find_subcommand(command).cloned();
    own.unwrap_or(cli).error(ErrorKind::ValueValidation, printable(&message.to_string())).exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that do something, each with its words.
    fn leaves(command: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
        let words = [words, &[command.get_name().to_owned()]].concat();
        let inner: Vec<_> = command.get_subcommands().flat_map(|inner| leaves(inner, &words)).collect();
        if inner.is_empty() { vec![(words, command.clone())] } else { inner }
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        for (words, command) in leaves(&Cli::command(), &[]) {
            let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("    ")).collect();
            assert!(text.starts_with("Examples:\n") && !examples.is_empty(), "{words:?}: {text}");
            for example in examples {
                // The rest is the shell's.
                let own = example.split(['|', '>', '<']).next().unwrap_or_default();
                let arguments: Vec<&str> = own.split_whitespace().collect();
                assert!(arguments.starts_with(&words.iter().map(String::as_str).collect::<Vec<_>>()), "{example}");
                Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }
}
