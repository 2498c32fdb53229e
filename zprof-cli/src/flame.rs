//! `zprof flame`: a flame graph of a profile's scopes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use zprof_runtime::export::{FoldedOptions, write_folded};

use crate::{input, whole};

/// Draw a flame graph of the scopes.
///
/// Wide is what takes time; below stands what it ran in. Widths are the sums of all runs, in nanoseconds, over all
/// threads. The SVG can be searched and zoomed in a browser.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile: an `.xplane.pb` file, a run's folder, or `-`.
    input: PathBuf,
    /// Where the SVG goes; standard output if it is not said.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write folded stacks instead of an SVG: `outer;inner 1234`, in nanoseconds, for other tools.
    #[arg(long)]
    folded: bool,
    /// Begin each stack with its thread.
    #[arg(long)]
    by_thread: bool,
    /// Only planes with this in their name, or like this pattern with `*` and `?`; may be given again.
    #[arg(long, value_name = "PLANE", value_delimiter = ',')]
    planes: Vec<String>,
    /// Title of the picture.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    whole::refuse_same(&args.input, args.output.as_deref())?;
    let spaces = input::open(&args.input)?;
    let mut options = FoldedOptions::default();
    options.planes.clone_from(&args.planes);
    options.by_line = args.by_thread;
    let mut stacks = String::new();
    for space in &spaces {
        let mut folded = Vec::new();
        write_folded(&space.file, &mut folded, &options).with_context(|| format!("failed to read {}", space.name))?;
        let folded = String::from_utf8_lossy(&folded);
        if spaces.len() == 1 {
            stacks.push_str(&folded);
            continue;
        }
        let host = space.name.trim_matches('`').rsplit(['/', '\\']).next().unwrap_or_default();
        let host = host.strip_suffix(".xplane.pb").unwrap_or(host).replace(';', ",");
        for stack in folded.lines() {
            stacks.push_str(&format!("{host};{stack}\n"));
        }
    }
    if stacks.is_empty() {
        let names: Vec<_> = spaces.iter().map(|space| space.name.as_str()).collect();
        bail!("no scope in {} takes any time, so there is nothing to draw", names.join(", "));
    }
    let content = if args.folded { stacks.into_bytes() } else { draw(args, &stacks)? };
    whole::write(args.output.as_deref(), &content)?;
    Ok(ExitCode::SUCCESS)
}

fn draw(args: &Args, stacks: &str) -> Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = args.title.clone().unwrap_or_else(|| {
        let name = args.input.file_name().unwrap_or(args.input.as_os_str());
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
