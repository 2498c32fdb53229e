//! `zprof summary`: planes, lines, scopes and steps of a profile, in numbers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use zprof_runtime::display::printable;
use zprof_runtime::export::{
    AsyncSummary, LineSummary, PlaneSummary, ScopeSummary, StepSeries, Summary, SummaryOptions, summarise,
};

use crate::args::{Answer, Exclude, Input, Planes, ROWS};
use crate::csv;
use crate::hosts;
use crate::input::{self, Profile, Space};
use crate::measured::Measured;
use crate::output::{print, print_json, print_text};
use crate::style::{self, paint};
use crate::table::{self, Cell, NONE, Table};
use crate::units::{count, counted, counted_all, duration, duration_of, duration_of_all, share, value};

/// Rows of a plane's table of lines.
const LINES: usize = 8;
/// The line on which samples of counters are, which have a table of their own.
const COUNTERS: &str = "_counters_";
/// Ids of lines from here on are no thread's of a system.
const FIRST_MADE_ID: i64 = 1 << 30;
/// A share of the time from which on it is large, and one below which it is small.
const LARGE: f64 = 0.2;
const SMALL: f64 = 0.01;

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
        print(|out| write_steps_csv(out, &spaces, top))?;
    } else if args.async_spans {
        print(|out| write_async_csv(out, &spaces, top))?;
    } else if args.counters {
        print(|out| write_counters_csv(out, &spaces, top))?;
    } else if args.answer.csv {
        print(|out| write_scopes_csv(out, &spaces, top))?;
    } else {
        print_text(|out| write_spaces(out, &spaces, top, args.steps))?;
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

fn write_spaces(out: &mut dyn Write, spaces: &[Summed], top: usize, each_step: bool) -> io::Result<()> {
    for (place, space) in spaces.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        write_space(out, space, top, each_step)?;
    }
    Ok(())
}

fn write_space(out: &mut dyn Write, space: &Summed, top: usize, each_step: bool) -> io::Result<()> {
    let width = table::width();
    let planes = &space.summary.planes;
    let events = planes.iter().map(PlaneSummary::events).sum();
    let (name, planes_text) = (printable(&space.space.name), counted_all(planes.len(), "plane"));
    writeln!(out, "{name}: {planes_text}, {}", counted(events, "event"))?;
    if space.later_ps > 0 {
        let later = duration_of_all(space.later_ps.unsigned_abs());
        writeln!(out, "started {later} after the first host, from whose start the times count")?;
    }
    let empty: Vec<_> = planes.iter().filter(|plane| plane.events() == 0).map(|plane| plane.name.as_str()).collect();
    if !empty.is_empty() {
        writeln!(out, "{}", table::cut(&printable(&format!("without events: {}", empty.join(", "))), width))?;
    }
    let notes = [("error", style::BAD, &space.summary.errors), ("warning", style::NOTE, &space.summary.warnings)];
    for (what, style, notes) in notes {
        for note in notes {
            writeln!(out, "{}: {}", paint(style, what), printable(note))?;
        }
    }
    for plane in planes.iter().filter(|plane| plane.events() > 0) {
        writeln!(out)?;
        write_plane(out, plane, &hosts::plane_label(space, &plane.name), top, each_step, width)?;
    }
    Ok(())
}

fn write_plane(
    out: &mut dyn Write,
    plane: &PlaneSummary,
    label: &str,
    top: usize,
    each_step: bool,
    width: usize,
) -> io::Result<()> {
    let lines = counted_all(plane.lines.iter().filter(|line| line.name != COUNTERS).count(), "line");
    let mut facts = vec![lines, counted(plane.events(), "event")];
    if let Some((start, end)) = plane.span_ps() {
        facts.push(format!("{} from first to last", duration_of_all((end - start).unsigned_abs())));
    }
    if plane.events_hidden > 0 {
        facts.push(format!("{} of bookkeeping left out", counted(plane.events_hidden, "event")));
    }
    if plane.counter_samples > 0 {
        facts.push(format!("{} of counters", counted(plane.counter_samples, "sample")));
    }
    writeln!(out, "{}", paint(style::TITLE, table::cut(&printable(label), width)))?;
    writeln!(out, "{}", facts.join(", "))?;
    write_lines(out, plane, if top == ROWS { LINES } else { top }, width)?;
    if !plane.scopes.is_empty() {
        writeln!(out)?;
        write_scopes(out, &plane.scopes, top, width)?;
    }
    if !plane.async_spans.is_empty() {
        writeln!(out)?;
        write_async(out, &plane.async_spans, top, width)?;
    }
    if !plane.counters.is_empty() {
        writeln!(out)?;
        write_counters(out, plane, top, width)?;
    }
    if !plane.steps.is_empty() {
        writeln!(out)?;
        write_series(out, &plane.steps, top, width)?;
    }
    if each_step {
        for series in &plane.steps {
            writeln!(out)?;
            write_steps(out, series, top, width)?;
        }
    }
    Ok(())
}

fn write_lines(out: &mut dyn Write, plane: &PlaneSummary, top: usize, width: usize) -> io::Result<()> {
    let mut lines: Vec<_> = plane.lines.iter().filter(|line| line.events > 0 && line.name != COUNTERS).collect();
    lines.sort_by_key(|line| Reverse(line.busy_ps));
    if lines.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["line", "events", "busy", "span"]);
    for (line, name) in lines.iter().zip(names_of(&lines)).take(top) {
        let span = line.span_ps.map(|(start, end)| (end - start).unsigned_abs());
        table.row(vec![name.into(), count(line.events).into(), time_of(Some(line.busy_ps)), time_of(span)]);
    }
    writeln!(out)?;
    table.write(out, width)?;
    write_rest(out, lines.len(), top, "line")
}

/// The names of lines. Of lines that are called alike each has the system's number of its thread with it, or else a number of its own.
fn names_of(lines: &[&LineSummary]) -> Vec<String> {
    let name = |line: &LineSummary| if line.name.is_empty() { "(no name)".to_owned() } else { line.name.clone() };
    let mut alike: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    lines.iter().for_each(|line| alike.entry(name(line)).or_default().0 += 1);
    let named = lines.iter().map(|line| {
        let name = name(line);
        match alike.get_mut(&name) {
            Some((all, number)) if *all > 1 => {
                *number += 1;
                if (1..FIRST_MADE_ID).contains(&line.id) {
                    format!("{name} ({})", line.id)
                } else {
                    format!("{name} #{number}")
                }
            }
            _ => name,
        }
    });
    named.collect()
}

/// A sum of durations; nothing that took any has none.
fn time_of(ps: Option<u128>) -> Cell {
    ps.filter(|ps| *ps > 0).map(duration_of_all).into()
}

fn write_scopes(out: &mut dyn Write, scopes: &[ScopeSummary], top: usize, width: usize) -> io::Result<()> {
    let heads = ["scope", "count", "total", "self", "share", "mean", "p50", "p99", "max"];
    let mut table = Table::new(&heads).may_go(&["p50", "max", "mean"]);
    let all_ps = scopes.iter().map(|scope| scope.self_ps).sum();
    for scope in scopes.iter().take(top) {
        let mut row = scope_row(scope.name.clone(), scope);
        row.insert(4, share_of(scope.self_ps, all_ps));
        table.row(row);
    }
    table.write(out, width)?;
    write_rest(out, scopes.len(), top, "scope")
}

/// The part that a scope has in all own times.
fn share_of(self_ps: u128, all_ps: u128) -> Cell {
    if self_ps == 0 {
        return NONE.into();
    }
    let part = part(self_ps, all_ps);
    let style = if part >= LARGE {
        style::NOTE
    } else if part < SMALL {
        style::FAINT
    } else {
        anstyle::Style::new()
    };
    Cell::styled(share(part), style)
}

/// A part of a whole, from 0 to 1; 0 of nothing.
fn part(part_ps: u128, all_ps: u128) -> f64 {
    #[allow(clippy::cast_precision_loss)] // a share needs no more than 53 bits
    let (part, all) = (part_ps as f64, all_ps as f64);
    if all_ps == 0 { 0.0 } else { part / all }
}

/// The name, the count, and the times. A scope whose runs are all without length, as an instant, has no times.
fn scope_row(name: String, scope: &ScopeSummary) -> Vec<Cell> {
    let has_times = scope.total_ps > 0;
    let runs = scope.runs.as_ref().filter(|_| has_times);
    let known = |value: Option<u64>| value.map(duration_of).into();
    vec![
        name.into(),
        count(scope.count).into(),
        time_of(Some(scope.total_ps)),
        has_times.then(|| duration_of_all(scope.self_ps)).into(),
        has_times.then(|| duration(scope.mean_ps())).into(),
        known(runs.map(|runs| runs.p50_ps)),
        known(runs.map(|runs| runs.p99_ps)),
        known(runs.map(|runs| runs.max_ps)),
    ]
}

fn write_async(out: &mut dyn Write, spans: &[AsyncSummary], top: usize, width: usize) -> io::Result<()> {
    let heads = ["async", "count", "total", "polled", "waiting", "mean", "p99", "max"];
    let mut table = Table::new(&heads).may_go(&["max", "mean"]);
    for spans in spans.iter().take(top) {
        let has_times = spans.total_ps > 0;
        let runs = spans.runs.as_ref().filter(|_| has_times);
        let known = |value: Option<u64>| value.map(duration_of).into();
        table.row(vec![
            spans.name.clone().into(),
            count(spans.count).into(),
            time_of(Some(spans.total_ps)),
            spans.polls.as_ref().map(|polls| duration_of_all(polls.total_ps)).into(),
            spans.waiting_ps().map(duration_of_all).into(),
            has_times.then(|| duration(spans.mean_ps())).into(),
            known(runs.map(|runs| runs.p99_ps)),
            known(runs.map(|runs| runs.max_ps)),
        ]);
    }
    table.write(out, width)?;
    write_rest(out, spans.len(), top, "name")
}

fn write_counters(out: &mut dyn Write, plane: &PlaneSummary, top: usize, width: usize) -> io::Result<()> {
    let mut table = Table::new(&["counter", "samples", "min", "mean", "max", "last"]);
    for counter in plane.counters.iter().take(top) {
        // `value` is the key where the program gave none.
        let has_unit = !matches!(counter.unit.as_str(), "" | "value");
        let unit = if has_unit { format!(" ({})", counter.unit) } else { String::new() };
        table.row(vec![
            format!("{}{unit}", counter.name).into(),
            count(counter.samples).into(),
            counter.min.map(value).into(),
            counter.mean.map(value).into(),
            counter.max.map(value).into(),
            counter.last.map(value).into(),
        ]);
    }
    table.write(out, width)?;
    write_rest(out, plane.counters.len(), top, "counter")
}

fn write_series(out: &mut dyn Write, series: &[StepSeries], top: usize, width: usize) -> io::Result<()> {
    let mut table = Table::new(&["steps", "count", "total", "self", "mean", "p50", "p99", "max"]);
    for series in series.iter().take(top) {
        table.row(scope_row(series.name.clone(), &series.all));
    }
    table.write(out, width)?;
    write_rest(out, series.len(), top, "name")
}

/// The steps in the order of time; where they are more than the rows, the longest ones.
fn write_steps(out: &mut dyn Write, series: &StepSeries, top: usize, width: usize) -> io::Result<()> {
    let mut steps: Vec<_> = series.steps.iter().enumerate().collect();
    let is_cut = steps.len() > top;
    if is_cut {
        steps.sort_by_key(|(_, step)| Reverse(step.duration_ps));
        steps.truncate(top);
        steps.sort_by_key(|(place, _)| *place);
    }
    let mut table = Table::new(&["step", "start", "duration", "self", "time", "most of it in"]).with_text_last();
    for (_, step) in steps {
        let name = step.number.map_or_else(|| series.name.clone(), |number| format!("{} {number}", series.name));
        let (inside, own) = step.largest.as_ref().map(|(name, own)| (name.clone(), duration_of_all(*own))).unzip();
        #[allow(clippy::cast_precision_loss)] // three digits are shown
        let start = duration(step.start_ps as f64);
        table.row(vec![
            name.into(),
            start.into(),
            duration_of(step.duration_ps).into(),
            duration_of(step.self_ps).into(),
            own.into(),
            inside.into(),
        ]);
    }
    table.write(out, width)?;
    if is_cut {
        let text = format!("the longest {top} of {}; --top 0 shows all", counted_all(series.steps.len(), "step"));
        writeln!(out, "{}", paint(style::FAINT, text))?;
    }
    Ok(())
}

fn write_rest(out: &mut dyn Write, all: usize, top: usize, what: &str) -> io::Result<()> {
    match all.checked_sub(top) {
        Some(rest) if rest > 0 => {
            let text = format!("{}; --top 0 shows all", counted_all(rest, &format!("more {what}")));
            writeln!(out, "{}", paint(style::FAINT, text))
        }
        _ => Ok(()),
    }
}

/// Column heads of [`runs_cells`].
const RUNS_HEAD: &str = "mean_ps,min_ps,p50_ps,p99_ps,max_ps,deviation_ps";

/// The mean, and how the runs lie around it; empty where that is not known.
fn runs_cells(row: Measured<'_>) -> [String; 6] {
    let known = |time| row.of_runs(time).map(|time| time.to_string()).unwrap_or_default();
    [
        row.mean_ps.to_string(),
        known(|runs| runs.min_ps),
        known(|runs| runs.p50_ps),
        known(|runs| runs.p99_ps),
        known(|runs| runs.max_ps),
        row.deviation_ps().map(|deviation| deviation.to_string()).unwrap_or_default(),
    ]
}

fn write_scopes_csv(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,scope,count,total_ps,self_ps,{RUNS_HEAD},share")?;
    for (space, plane) in planes(spaces) {
        let all_ps = plane.scopes.iter().map(|scope| scope.self_ps).sum();
        for scope in plane.scopes.iter().take(top) {
            let mut cells = vec![space.clone(), plane.name.clone(), scope.name.clone()];
            cells.extend([scope.count.to_string(), scope.total_ps.to_string(), scope.self_ps.to_string()]);
            cells.extend(runs_cells(Measured::of_scope(scope)));
            cells.push(part(scope.self_ps, all_ps).to_string());
            csv::write_row(out, &cells)?;
        }
    }
    Ok(())
}

fn write_async_csv(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,async,count,total_ps,polls,polled_ps,waiting_ps,{RUNS_HEAD}")?;
    for (space, plane) in planes(spaces) {
        for spans in plane.async_spans.iter().take(top) {
            let polls = spans.polls.as_ref();
            let mut cells = vec![space.clone(), plane.name.clone(), spans.name.clone()];
            cells.extend([spans.count.to_string(), spans.total_ps.to_string()]);
            cells.push(polls.map(|polls| polls.count.to_string()).unwrap_or_default());
            cells.push(polls.map(|polls| polls.total_ps.to_string()).unwrap_or_default());
            cells.push(spans.waiting_ps().map(|waiting| waiting.to_string()).unwrap_or_default());
            cells.extend(runs_cells(Measured::of_async(spans)));
            csv::write_row(out, &cells)?;
        }
    }
    Ok(())
}

fn write_counters_csv(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,counter,unit,samples,min,mean,max,last")?;
    let known = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    for (space, plane) in planes(spaces) {
        for counter in plane.counters.iter().take(top) {
            let mut cells = vec![space.clone(), plane.name.clone(), counter.name.clone(), counter.unit.clone()];
            cells.push(counter.samples.to_string());
            cells.extend([counter.min, counter.mean, counter.max, counter.last].map(known));
            csv::write_row(out, &cells)?;
        }
    }
    Ok(())
}

fn write_steps_csv(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,steps,line_id,number,start_ps,duration_ps,self_ps,largest,largest_self_ps")?;
    for (space, plane) in planes(spaces) {
        for series in &plane.steps {
            for step in series.steps.iter().take(top) {
                let (largest, own) = match &step.largest {
                    Some((name, own)) => (name.clone(), own.to_string()),
                    None => (String::new(), String::new()),
                };
                csv::write_row(
                    out,
                    &[
                        space.clone(),
                        plane.name.clone(),
                        series.name.clone(),
                        step.line_id.to_string(),
                        step.number.map(|number| number.to_string()).unwrap_or_default(),
                        step.start_ps.to_string(),
                        step.duration_ps.to_string(),
                        step.self_ps.to_string(),
                        largest,
                        own,
                    ],
                )?;
            }
        }
    }
    Ok(())
}

fn planes(spaces: &[Summed]) -> impl Iterator<Item = (&String, &PlaneSummary)> {
    spaces.iter().flat_map(|Summed { space, summary, .. }| summary.planes.iter().map(|plane| (&space.label, plane)))
}

/// What `--json` prints: a list of spaces. Times are picoseconds; what is not known is null.
mod json {
    use super::{AsyncSummary, Measured, PlaneSummary, ScopeSummary, Serialize, StepSeries, Summed, part};

    #[derive(Serialize)]
    pub(super) struct Space<'s> {
        space: &'s str,
        /// How much later the session started than that of the run's first host; all times are that much later too.
        start_ps: i128,
        process: Option<&'s str>,
        process_id: Option<u32>,
        errors: &'s [String],
        warnings: &'s [String],
        planes: Vec<Plane<'s>>,
    }

    #[derive(Serialize)]
    struct Plane<'s> {
        name: &'s str,
        events: u64,
        events_hidden: u64,
        counter_samples: u64,
        start_ps: Option<i128>,
        end_ps: Option<i128>,
        lines: Vec<Line<'s>>,
        scopes: Vec<Scope<'s>>,
        #[serde(rename = "async")]
        async_spans: Vec<Async<'s>>,
        counters: Vec<Counter<'s>>,
        steps: Vec<Steps<'s>>,
    }

    /// Numbers are null where no sample is one.
    #[derive(Serialize)]
    struct Counter<'s> {
        name: &'s str,
        unit: &'s str,
        samples: u64,
        min: Option<f64>,
        mean: Option<f64>,
        max: Option<f64>,
        last: Option<f64>,
    }

    #[derive(Serialize)]
    struct Line<'s> {
        id: i64,
        name: &'s str,
        events: u64,
        start_ps: Option<i128>,
        end_ps: Option<i128>,
        busy_ps: u128,
    }

    #[derive(Serialize)]
    struct Scope<'s> {
        name: &'s str,
        count: u64,
        total_ps: u128,
        self_ps: u128,
        #[serde(flatten)]
        spread: Spread,
        /// The part of its own time in those of all scopes of the plane; none of steps.
        #[serde(skip_serializing_if = "Option::is_none")]
        share: Option<f64>,
    }

    /// The mean, and how the runs lie around it.
    #[derive(Serialize)]
    struct Spread {
        mean_ps: f64,
        min_ps: Option<u64>,
        p50_ps: Option<u64>,
        p99_ps: Option<u64>,
        max_ps: Option<u64>,
        deviation_ps: Option<f64>,
    }

    #[derive(Serialize)]
    struct Async<'s> {
        name: &'s str,
        count: u64,
        total_ps: u128,
        polls: Option<u64>,
        polled_ps: Option<u128>,
        waiting_ps: Option<u128>,
        #[serde(flatten)]
        spread: Spread,
    }

    #[derive(Serialize)]
    struct Steps<'s> {
        #[serde(flatten)]
        all: Scope<'s>,
        steps: Vec<Step<'s>>,
    }

    #[derive(Serialize)]
    struct Step<'s> {
        line_id: i64,
        number: Option<i64>,
        start_ps: i128,
        duration_ps: u64,
        self_ps: u64,
        largest: Option<&'s str>,
        largest_self_ps: Option<u128>,
    }

    impl<'s> Space<'s> {
        pub(super) fn new(space: &'s Summed, top: usize) -> Self {
            let Summed { space, summary, later_ps } = space;
            let planes = summary.planes.iter().map(|plane| Plane::new(plane, top)).collect();
            let process = summary.process.as_ref();
            Self {
                space: &space.label,
                start_ps: *later_ps,
                process: process.map(|process| process.name.as_str()),
                process_id: process.and_then(|process| process.id),
                errors: &summary.errors,
                warnings: &summary.warnings,
                planes,
            }
        }
    }

    impl<'s> Plane<'s> {
        fn new(plane: &'s PlaneSummary, top: usize) -> Self {
            let (start_ps, end_ps) = plane.span_ps().unzip();
            let all_ps = plane.scopes.iter().map(|scope| scope.self_ps).sum();
            let scopes = plane.scopes.iter().take(top);
            let counters = plane.counters.iter().take(top).map(|counter| Counter {
                name: &counter.name,
                unit: &counter.unit,
                samples: counter.samples,
                min: counter.min,
                mean: counter.mean,
                max: counter.max,
                last: counter.last,
            });
            let lines = plane.lines.iter().map(|line| {
                let (start_ps, end_ps) = line.span_ps.unzip();
                Line { id: line.id, name: &line.name, events: line.events, start_ps, end_ps, busy_ps: line.busy_ps }
            });
            Self {
                name: &plane.name,
                events: plane.events(),
                events_hidden: plane.events_hidden,
                counter_samples: plane.counter_samples,
                start_ps,
                end_ps,
                lines: lines.collect(),
                scopes: scopes.map(|scope| Scope::new(scope, Some(part(scope.self_ps, all_ps)))).collect(),
                async_spans: plane.async_spans.iter().take(top).map(Async::new).collect(),
                counters: counters.collect(),
                steps: plane.steps.iter().map(|series| Steps::new(series, top)).collect(),
            }
        }
    }

    impl Spread {
        fn new(row: Measured<'_>) -> Self {
            Self {
                mean_ps: row.mean_ps,
                min_ps: row.of_runs(|runs| runs.min_ps),
                p50_ps: row.of_runs(|runs| runs.p50_ps),
                p99_ps: row.of_runs(|runs| runs.p99_ps),
                max_ps: row.of_runs(|runs| runs.max_ps),
                deviation_ps: row.deviation_ps(),
            }
        }
    }

    impl<'s> Scope<'s> {
        fn new(scope: &'s ScopeSummary, share: Option<f64>) -> Self {
            Self {
                name: &scope.name,
                count: scope.count,
                total_ps: scope.total_ps,
                self_ps: scope.self_ps,
                spread: Spread::new(Measured::of_scope(scope)),
                share,
            }
        }
    }

    impl<'s> Async<'s> {
        fn new(spans: &'s AsyncSummary) -> Self {
            let polls = spans.polls.as_ref();
            Self {
                name: &spans.name,
                count: spans.count,
                total_ps: spans.total_ps,
                polls: polls.map(|polls| polls.count),
                polled_ps: polls.map(|polls| polls.total_ps),
                waiting_ps: spans.waiting_ps(),
                spread: Spread::new(Measured::of_async(spans)),
            }
        }
    }

    impl<'s> Steps<'s> {
        fn new(series: &'s StepSeries, top: usize) -> Self {
            let steps = series.steps.iter().take(top).map(|step| {
                let (largest, largest_self_ps) = step.largest.as_ref().map(|(name, own)| (name.as_str(), *own)).unzip();
                let (line_id, number, start_ps) = (step.line_id, step.number, step.start_ps);
                let (duration_ps, self_ps) = (step.duration_ps, step.self_ps);
                Step { line_id, number, start_ps, duration_ps, self_ps, largest, largest_self_ps }
            });
            Self { all: Scope::new(&series.all, None), steps: steps.collect() }
        }
    }
}
