//! What can be asked on the command line. Each command is a file of its own, with its arguments and what it does.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Summary(summary::Args),
    Diff(diff::Args),
    Flame(flame::Args),
    Check(check::Args),
    View(view::Args),
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
            Command::Summary(args) => summary::run(&args),
            Command::Diff(args) => diff::run(&args),
            Command::Flame(args) => flame::run(&args),
            Command::Check(args) => check::run(&args),
            Command::View(args) => view::run(&args),
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
