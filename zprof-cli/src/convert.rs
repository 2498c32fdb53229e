//! `zprof convert`: an XSpace becomes a trace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use zprof_runtime::export::{Filter, JsonOptions, JsonSummary};

use crate::args::{Input, Planes};
use crate::cli::usage;
use crate::format::Format;
use crate::input::{self, Profile, Space};
use crate::output::{Target, tell};
use crate::units::{self, Range, count, counted};

/// How many events TSL's converter keeps.
const TSL_MAX_EVENTS: u64 = 1_000_000;

/// Convert a profile to a trace that viewers read.
///
/// The hosts of a run become processes of one trace. It goes into a file beside the profile, which is named on standard
/// error, or where `-o` says, and appears when it is whole. What options or the format leave out is counted on standard
/// error.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  The newest run of a log directory, beside it as `<host>.trace.json`:
    zprof convert /tmp/xprof
  Perfetto's own format, which is smaller:
    zprof convert vm.xplane.pb -o vm.pftrace
  Half a second of what the GPUs did:
    zprof convert vm.xplane.pb --planes GPU --time-range 1s..1.5s -o part.json
  In a pipe:
    zprof convert - < vm.xplane.pb | head -c 300")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Where the trace goes; `-` is standard output [default: beside IN, or standard output if IN is `-`].
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Format of the trace [default: as OUT ends, else json].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write at most N events, the earliest.
    #[arg(long, value_name = "N")]
    max_events: Option<u64>,
    /// Write only events that last at least as long, such as 10us or 1.5ms.
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    min_duration: Option<u64>,
    /// Write only events within a time, as the trace shows it: 0..10ms, 1s.. or ..500ms.
    #[arg(long, value_name = "A..B", value_parser = units::parse_range)]
    time_range: Option<Range>,
    #[command(flatten)]
    planes: Planes,
    /// Write what TSL's converter writes, byte for byte, for comparison; by default it keeps 1,000,000 events.
    #[arg(long, conflicts_with_all = ["min_duration", "time_range", "planes"])]
    tsl: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let format = format(args);
    if args.tsl && !format.is_tsl() {
        usage("convert", "--tsl is for JSON: TSL's converter has no other format");
    }
    let profile = input::open(&args.input.input)?;
    let target = target(args, format, &profile)?;
    if args.tsl && profile.spaces.len() > 1 {
        bail!("{} has {} hosts, and TSL converts one; name its file", profile.name, profile.spaces.len());
    }
    target.refuse_profile(&profile)?;
    if format.is_binary() && target.is_terminal() {
        bail!("a terminal cannot show this format; name a file with `-o`");
    }

    let mut options = JsonOptions::default();
    options.max_events = args.max_events.or(args.tsl.then_some(TSL_MAX_EVENTS));
    options.tsl = args.tsl;
    options.filter = filter(args);
    options.validate_first = !target.is_file();
    let summary = target
        .write(|out| format.convert(&profile, out, &options))
        .with_context(|| format!("failed to convert {} to {}", profile.name, target.name()))?;
    if args.output.is_none() && target.is_file() {
        tell(format_args!("wrote {}", target.name()));
    }
    tell_what_is_missing(&profile, &summary, options.max_events);
    Ok(ExitCode::SUCCESS)
}

/// The format asked for; ends the program, as for any wrong usage, where OUT does not tell it.
fn format(args: &Args) -> Format {
    let told = args.output.as_deref().filter(|output| *output != Path::new("-"));
    match (args.format, told) {
        (Some(format), _) => format,
        (None, None) => Format::Json,
        (None, Some(output)) => Format::of(output).unwrap_or_else(|| {
            let cure = "end it in .json, .json.gz or .pftrace, or add --format";
            usage("convert", format_args!("`{}` does not tell the format; {cure}", output.display()))
        }),
    }
}

/// Where the trace goes: where it is said, or beside the profile, or, of a stream, on.
fn target(args: &Args, format: Format, profile: &Profile) -> Result<Target> {
    let beside = profile.spaces.first().and_then(Space::beside);
    match (&args.output, beside, profile.stem()) {
        (Some(output), _, _) => Target::of(output),
        (None, Some(path), Some(stem)) => Target::of(&path.with_file_name(format!("{stem}{}", format.ending()))),
        (None, _, _) => Ok(Target::Stdout),
    }
}

fn filter(args: &Args) -> Filter {
    let mut filter = Filter::default();
    filter.min_duration_ps = args.min_duration.unwrap_or(0);
    filter.from_ps = args.time_range.and_then(|range| range.from_ps);
    filter.until_ps = args.time_range.and_then(|range| range.until_ps);
    filter.planes.clone_from(&args.planes.planes);
    filter
}

fn tell_what_is_missing(profile: &Profile, summary: &JsonSummary, max_events: Option<u64>) {
    if summary.planes == 0 {
        tell(format_args!("{} has no plane that a trace shows, neither a host nor a device", profile.name));
    }
    if summary.events_hidden > 0 {
        tell(format_args!("left out {}: trace viewers hide their kind", counted(summary.events_hidden, "event")));
    }
    let events = counted(summary.events_filtered, "event");
    match summary.planes_filtered {
        0 if summary.events_filtered == 0 => {}
        0 => tell(format_args!("left out {events}, as asked for")),
        planes => tell(format_args!("left out {} and {events}, as asked for", counted(planes, "plane"))),
    }
    if summary.events_over_limit > 0 {
        let events = counted(summary.events_over_limit, "event");
        let limit = max_events.unwrap_or(u64::MAX);
        tell(format_args!("left out {events} after the first {} (--max-events)", count(limit)));
    }
    summary.notes.iter().for_each(tell);
}
