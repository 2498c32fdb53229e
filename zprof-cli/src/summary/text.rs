//! The tables of a summary, for people.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Style;
use zprof_runtime::display::printable;
use zprof_runtime::export::{AsyncSummary, LineSummary, PlaneSummary, ScopeSummary, StepSeries};

use super::{Summed, part};
use crate::args::ROWS;
use crate::hosts;
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

pub(super) fn write_spaces(out: &mut dyn Write, spaces: &[Summed], top: usize, each_step: bool) -> io::Result<()> {
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
        Style::new()
    };
    Cell::styled(share(part), style)
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
