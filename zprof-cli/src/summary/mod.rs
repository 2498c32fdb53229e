//! `zprof summary`: planes, lines, scopes and steps of a profile, in numbers.

mod json;
mod rows;
mod text;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use zprof_runtime::export::{Summary, SummaryOptions, summarise};

use crate::args::{Answer, Exclude, Input, Planes};
use crate::hosts;
use crate::input::{self, Profile, Space};
use crate::measured::Measured;
use crate::output::{print, print_json, print_text};

/// Print what a profile holds: planes, lines, and scopes by time.
///
/// A scope's total is the time in its outermost runs: a run inside another run of the same scope, as of a function that
/// calls itself, adds nothing to it. Its own time (self) is what no other event of the same line covers. Mean and percentiles
/// are those of all runs: half of them are no longer than p50, and 99 of 100 no longer than p99; both are exact up to 512 runs
/// and off by at most 0.4% beyond. Asynchronous spans, such as whole futures, have a table of their own: threads worked at them
/// in their polls, and the rest of the time they waited. JSON and CSV have exact picoseconds.
///
/// The share of a scope is that of its own time in the own times of all scopes of the plane. A counter has the lowest, mean,
/// highest and last of its samples. A number that would have no meaning, as the time of an event without length, is `-`.
/// Where names are long and the terminal is narrow, p50, max and mean give way to them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  The ten scopes with most time, those inside them included:
    zprof summary vm.xplane.pb --top 10 --sort total
  How long each step took:
    zprof summary vm.xplane.pb --steps --csv > steps.csv
  The names of its planes:
    zprof summary vm.xplane.pb --json | jq .[].planes[].name")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    answer: Answer,
    /// What the scopes are sorted by; asynchronous spans, which have no own time, by their total instead of that.
    #[arg(long, value_enum, default_value_t = Sort::SelfTime, value_name = "KEY")]
    sort: Sort,
    #[command(flatten)]
    planes: Planes,
    #[command(flatten)]
    exclude: Exclude,
    /// Print each step, not only what all have in common; in CSV, instead of the scopes.
    #[arg(long)]
    steps: bool,
    /// In CSV, print the asynchronous spans instead of the scopes.
    #[arg(long = "async", requires = "csv", conflicts_with = "steps")]
    async_spans: bool,
    /// In CSV, print the counters instead of the scopes.
    #[arg(long, requires = "csv", conflicts_with_all = ["steps", "async_spans"])]
    counters: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    Total,
    #[value(name = "self")]
    SelfTime,
    Count,
    Mean,
    P99,
    Max,
    Name,
}

/// A space with its sums.
#[derive(Debug)]
pub(crate) struct Summed {
    pub(crate) space: Space,
    pub(crate) summary: Summary,
    /// How much later its session started than the first one of the run, in picoseconds; its times are that much later too.
    pub(crate) later_ps: i128,
}

fn summary(space: &Space, options: &SummaryOptions) -> Result<Summary> {
    summarise(space.bytes(), options).with_context(|| format!("failed to read {}", space.name))
}

/// Sums up every space of a profile; that any of them has one of the planes asked for is sure then.
pub(crate) fn sum_up(profile: Profile, planes: &Planes, exclude: &Exclude) -> Result<Vec<Summed>> {
    let mut options = SummaryOptions::default();
    options.planes.clone_from(&planes.planes);
    options.exclude.clone_from(&exclude.exclude);
    let spaces =
        profile.spaces.into_iter().map(|space| Ok(Summed { summary: summary(&space, &options)?, space, later_ps: 0 }));
    let spaces = spaces.collect::<Result<Vec<_>>>()?;
    if !planes.planes.is_empty() && spaces.iter().all(|Summed { summary, .. }| summary.planes.is_empty()) {
        let mut there = BTreeSet::new();
        for Summed { space, .. } in &spaces {
            there.extend(summary(space, &SummaryOptions::default())?.planes.into_iter().map(|plane| plane.name));
        }
        let (asked, there) = (planes.planes.join("`, `"), there.into_iter().collect::<Vec<_>>().join("`, `"));
        bail!("no plane of {} matches `{asked}`; there are `{there}`", profile.name);
    }
    Ok(spaces)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut spaces = sum_up(input::open(&args.input.input)?, &args.planes, &args.exclude)?;
    if !args.answer.csv || args.steps {
        // Only then are there times that count from the start of a session.
        hosts::align(&mut spaces)?;
    }
    let top = args.answer.rows();
    for plane in spaces.iter_mut().flat_map(|space| &mut space.summary.planes) {
        args.sort.apply(&mut plane.scopes, |scope| Measured::of_scope(scope));
        args.sort.apply(&mut plane.async_spans, |spans| Measured::of_async(spans));
    }
    if args.answer.json {
        print_json(&spaces.iter().map(|space| json::Space::new(space, top)).collect::<Vec<_>>())?;
    } else if args.answer.csv && args.steps {
        print(|out| rows::write_steps(out, &spaces, top))?;
    } else if args.async_spans {
        print(|out| rows::write_async(out, &spaces, top))?;
    } else if args.counters {
        print(|out| rows::write_counters(out, &spaces, top))?;
    } else if args.answer.csv {
        print(|out| rows::write_scopes(out, &spaces, top))?;
    } else {
        print_text(|out| text::write_spaces(out, &spaces, top, args.steps))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Sort {
    /// Sorts by the key, the largest first but for names; what is equal by name.
    fn apply<T>(self, rows: &mut [T], of: fn(&T) -> Measured<'_>) {
        rows.sort_by(|left, right| of(left).name.cmp(of(right).name));
        match self {
            Self::Total => rows.sort_by_key(|row| Reverse(of(row).total_ps)),
            Self::SelfTime => rows.sort_by_key(|row| Reverse(of(row).self_ps)),
            Self::Count => rows.sort_by_key(|row| Reverse(of(row).count)),
            Self::Mean => rows.sort_by(|left, right| of(right).mean_ps.total_cmp(&of(left).mean_ps)),
            Self::P99 => rows.sort_by_key(|row| Reverse(of(row).of_runs(|runs| runs.p99_ps))),
            Self::Max => rows.sort_by_key(|row| Reverse(of(row).of_runs(|runs| runs.max_ps))),
            Self::Name => {}
        }
    }
}

/// A part of a whole, from 0 to 1; 0 of nothing.
fn part(part_ps: u128, all_ps: u128) -> f64 {
    #[allow(clippy::cast_precision_loss)] // a share needs no more than 53 bits
    let (part, all) = (part_ps as f64, all_ps as f64);
    if all_ps == 0 { 0.0 } else { part / all }
}
