//! `zprof flame`: a flame graph of a profile's scopes.

mod svg;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use zprof_runtime::export::{FoldedOptions, StackTree};

use crate::args::{Exclude, Input, Planes};
use crate::input;
use crate::output::{Target, tell};
use crate::summary::sum_up;
use crate::units::{count, counted_all};

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
    if !args.folded && target.is_terminal() {
        bail!("a terminal cannot show a picture; name a file with `-o`, or ask for text with `--folded`");
    }
    let mut options = FoldedOptions::default();
    options.planes.clone_from(&args.planes.planes);
    options.by_line = args.by_thread;
    let mut tree = StackTree::default();
    for space in &profile.spaces {
        let host = (profile.spaces.len() > 1).then_some(space.host.as_str());
        tree.add(space.bytes(), host, &options).with_context(|| format!("failed to read {}", space.name))?;
    }
    if (0..tree.len()).all(|frame| tree.own_ns(frame) == 0) {
        let name = profile.name.clone();
        sum_up(profile, &args.planes, &Exclude::default())?;
        bail!("no scope in {name} takes any time, so there is nothing to draw");
    }
    let failed = || format!("failed to write to {}", target.name());
    if args.folded {
        target.write(|out| tree.write_folded(out).with_context(failed))?;
    } else {
        let missing = target.write(|out| {
            let mut out = BufWriter::new(out);
            let missing = svg::write(&mut out, &tree, &title(args)).with_context(failed)?;
            out.flush().with_context(failed)?;
            Ok(missing)
        })?;
        if missing.high > 0 {
            tell(format_args!(
                "{} on {} others {} not drawn; their time is in what they stand on, and `--folded` has all",
                counted_all(missing.high, "scope"),
                count(svg::HIGHEST),
                if missing.high == 1 { "is" } else { "are" },
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn title(args: &Args) -> String {
    args.title.clone().unwrap_or_else(|| {
        let name = args.input.input.file_name().unwrap_or(args.input.input.as_os_str());
        if name == "-" { "Scopes".to_owned() } else { name.to_string_lossy().into_owned() }
    })
}
