//! `zprof flame`: a flame graph of a profile's scopes.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use zprof_runtime::export::{FoldedOptions, write_folded};

use crate::args::{Input, Planes};
use crate::input;
use crate::output::Target;
use crate::summary::sum_up;

/// Draw a flame graph of a profile's scopes.
///
/// Wide is what takes time; below stands what it ran in. Widths are the sums of all runs, in nanoseconds, over all
/// threads. The SVG can be searched and zoomed in a browser.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  A picture for the browser:
    zprof flame vm.xplane.pb -o flame.svg
  The stacks below one scope, as text:
    zprof flame vm.xplane.pb --folded | grep llm.step")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Where the picture goes; `-` is standard output [default: standard output].
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write folded stacks instead of an SVG: `outer;inner 1234`, in nanoseconds, for other tools.
    #[arg(long)]
    folded: bool,
    /// Begin each stack with its thread.
    #[arg(long)]
    by_thread: bool,
    #[command(flatten)]
    planes: Planes,
    /// Title of the picture.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let profile = input::open(&args.input.input)?;
    let target = args.output.as_deref().map_or(Ok(Target::Stdout), Target::of)?;
    target.refuse_profile(&profile)?;
    if !args.folded && target == Target::Stdout && io::stdout().is_terminal() {
        bail!("a terminal cannot show a picture; name a file with `-o`, or ask for text with `--folded`");
    }
    let mut options = FoldedOptions::default();
    options.planes.clone_from(&args.planes.planes);
    options.by_line = args.by_thread;
    let mut stacks = String::new();
    for space in &profile.spaces {
        let mut folded = Vec::new();
        write_folded(&space.file, &mut folded, &options).with_context(|| format!("failed to read {}", space.name))?;
        let folded = String::from_utf8_lossy(&folded);
        if profile.spaces.len() == 1 {
            stacks.push_str(&folded);
            continue;
        }
        let host = space.host.replace(';', ",");
        for stack in folded.lines() {
            stacks.push_str(&format!("{host};{stack}\n"));
        }
    }
    if stacks.is_empty() {
        let name = profile.name.clone();
        sum_up(profile, &args.planes)?;
        bail!("no scope in {name} takes any time, so there is nothing to draw");
    }
    let content = if args.folded { stacks.into_bytes() } else { draw(args, &stacks)? };
    target.write(|out| out.write_all(&content).with_context(|| format!("failed to write to {}", target.name())))?;
    Ok(ExitCode::SUCCESS)
}

fn draw(args: &Args, stacks: &str) -> Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = args.title.clone().unwrap_or_else(|| {
        let name = args.input.input.file_name().unwrap_or(args.input.input.as_os_str());
        if name == "-" { "Scopes".to_owned() } else { name.to_string_lossy().into_owned() }
    });
    options.count_name = "ns".to_owned();
    options.name_type = "Scope:".to_owned();
    options.text_truncate_direction = TextTruncateDirection::Right;
    // The same scope has one colour in every picture.
    options.hash = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, stacks.lines(), &mut svg).context("failed to draw the flame graph")?;
    Ok(svg)
}
