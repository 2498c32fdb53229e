//! `zprof convert`: an XSpace becomes a trace.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use clap::error::ErrorKind;
use zprof_runtime::export::{Filter, Host, JsonOptions, JsonSummary};

use crate::cli::Cli;
use crate::format::Format;
use crate::input::{self, SUFFIX, Space};
use crate::output::Target;
use crate::progress::Progress;
use crate::time::{self, Range};

/// How many events TSL's converter keeps.
const TSL_MAX_EVENTS: u64 = 1_000_000;
/// What the trace of several hosts is called.
const ALL_HOSTS: &str = "all_hosts";

/// Convert an XSpace to a trace that viewers read.
///
/// The trace goes into a file beside the profile, which is named on standard error, or where `-o` says. It appears when it
/// is whole. What options or the format leave out is counted on standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile: an `.xplane.pb` file, a run's folder, a log directory, or `-` for standard input.
    ///
    /// The hosts of a run become processes of one trace. Of a log directory with several runs the newest is taken.
    #[arg(value_name = "IN")]
    input: PathBuf,
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
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    min_duration: Option<u64>,
    /// Write only events within a time, as the trace shows it: 1s..1.5s, 1s.. or ..500ms.
    #[arg(long, value_name = "A..B", value_parser = time::parse_range)]
    time_range: Option<Range>,
    /// Write only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    planes: Vec<String>,
    /// Write what TSL's converter writes, byte for byte, for comparison; by default it keeps 1000000 events.
    #[arg(long, conflicts_with_all = ["min_duration", "time_range", "planes"])]
    tsl: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let format = format(args);
    if args.tsl && !format.is_tsl() {
        usage("--tsl is for JSON: TSL's converter has no other format".to_owned());
    }
    let spaces = input::open(&args.input)?;
    let target = target(args, format, &spaces)?;
    if args.tsl && spaces.len() > 1 {
        bail!("`{}` has {} hosts, and TSL converts one; name its file", args.input.display(), spaces.len());
    }
    refuse_input(&target, &spaces)?;
    if format.is_binary() && target == Target::Stdout && io::stdout().is_terminal() {
        bail!("a terminal cannot show this format; name a file with `-o`");
    }

    let mut options = JsonOptions::default();
    options.max_events = args.max_events.or(args.tsl.then_some(TSL_MAX_EVENTS));
    options.tsl = args.tsl;
    options.filter = filter(args);
    options.validate_first = !target.is_file();

    let from = match spaces.as_slice() {
        [space] => space.name.clone(),
        _ => format!("`{}`", args.input.display()),
    };
    let summary = convert(&spaces, &from, &target, format, &options)
        .with_context(|| format!("failed to convert {from} to {}", target.name()))?;
    // Nobody is left to tell if standard error is gone.
    let _ = report(args, &options, &summary, &from, &target);
    Ok(ExitCode::SUCCESS)
}

fn convert(
    spaces: &[Space],
    from: &str,
    target: &Target,
    format: Format,
    options: &JsonOptions,
) -> Result<JsonSummary> {
    let mut size = 0_u64;
    for space in spaces {
        size += space.file.metadata().with_context(|| format!("failed to read {}", space.name))?.len();
    }
    // Once for the metadata and once for the events; a check does both; a limit counts, and then looks for its place.
    let passes = 2 + if options.validate_first { 2 } else { 0 } + if options.max_events.is_some() { 1 } else { 0 };
    let progress = Progress::new(format!("converting {from}"), passes * size);
    let sources: Vec<_> = spaces.iter().map(|space| progress.watch(&space.file)).collect();
    let hosts: Vec<Host<'_>> =
        spaces.iter().zip(&sources).map(|(space, source)| Host { name: &space.host, source }).collect();
    target.write(|out| format.write(&hosts, out, options))
}

/// The format asked for; ends the program, as for any wrong usage, where OUT does not tell it.
fn format(args: &Args) -> Format {
    let told = args.output.as_deref().filter(|output| *output != Path::new("-"));
    match (args.format, told) {
        (Some(format), _) => format,
        (None, None) => Format::Json,
        (None, Some(output)) => Format::of(output).unwrap_or_else(|| {
            usage(format!(
                "`{}` does not tell the format; end it in .json, .json.gz or .pftrace, or add --format",
                output.display()
            ))
        }),
    }
}

/// Ends the program, as clap does for arguments that cannot be.
fn usage(message: String) -> ! {
    Cli::command().error(ErrorKind::ValueValidation, message).exit()
}

fn target(args: &Args, format: Format, spaces: &[Space]) -> Result<Target> {
    match (&args.output, spaces) {
        (Some(output), _) => Target::of(output),
        (None, [Space { path: Some(path), host, .. }]) => Target::of(&path.with_file_name(name(host, format))),
        (None, [Space { path: Some(path), .. }, ..]) => Target::of(&path.with_file_name(name(ALL_HOSTS, format))),
        (None, _) => Ok(Target::Stdout),
    }
}

/// Name of the trace of a host, which is called as its file if that does not end as profiles do.
fn name(host: &str, format: Format) -> String {
    format!("{}{}", host.strip_suffix(".pb").unwrap_or(host), format.ending())
}

/// Refuses to write over the profile.
fn refuse_input(target: &Target, spaces: &[Space]) -> Result<()> {
    let Target::File(target) = target else { return Ok(()) };
    for path in spaces.iter().filter_map(|space| space.path.as_ref()) {
        if fs::canonicalize(path).is_ok_and(|path| path == *target) {
            bail!("`{}` is the profile itself; name another file with `-o`", path.display());
        }
    }
    if target.to_string_lossy().ends_with(SUFFIX) {
        bail!("`{}` would pass for a profile; end its name as a trace's", target.display());
    }
    Ok(())
}

fn filter(args: &Args) -> Filter {
    let mut filter = Filter::default();
    filter.min_duration_ps = args.min_duration.unwrap_or(0);
    filter.from_ps = args.time_range.and_then(|range| range.from_ps);
    filter.until_ps = args.time_range.and_then(|range| range.until_ps);
    filter.planes.clone_from(&args.planes);
    filter
}

/// Says where the trace is, if that was not asked for, and what is not in it.
fn report(args: &Args, options: &JsonOptions, summary: &JsonSummary, from: &str, target: &Target) -> io::Result<()> {
    let mut out = io::stderr().lock();
    if args.output.is_none() && target.is_file() {
        writeln!(out, "zprof: wrote {}", target.name())?;
    }
    if summary.planes == 0 {
        writeln!(out, "zprof: {from} has no plane that a trace shows, neither a host nor a device")?;
    }
    if summary.events_hidden > 0 {
        writeln!(out, "zprof: left out {}: trace viewers hide their kind", events(summary.events_hidden))?;
    }
    if summary.planes_filtered > 0 || summary.events_filtered > 0 {
        let planes = match summary.planes_filtered {
            0 => String::new(),
            1 => "1 plane and ".to_owned(),
            count => format!("{count} planes and "),
        };
        writeln!(out, "zprof: left out {planes}{}, as asked for", events(summary.events_filtered))?;
    }
    if summary.events_over_limit > 0 {
        let limit = options.max_events.unwrap_or(u64::MAX);
        let left_out = events(summary.events_over_limit);
        writeln!(out, "zprof: left out {left_out} after the first {limit} (--max-events)")?;
    }
    Ok(())
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_called_by_their_host() {
        assert_eq!(name("vm", Format::Json), "vm.trace.json");
        assert_eq!(name("old.pb", Format::JsonGz), "old.trace.json.gz");
    }
}
