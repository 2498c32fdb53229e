//! `zprof diff`: what changed between two profiles, scope by scope, and how sure that is.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::Style;
use anyhow::Result;
use serde::Serialize;
use zprof_runtime::display::printable;

use crate::args::{Answer, Exclude, Planes};
use crate::cli::usage;
use crate::hosts::programs;
use crate::measured::Measured;
use crate::output::{print, print_json, print_text};
use crate::style::{self, paint};
use crate::summary::{Summed, sum_up};
use crate::table::{self, Cell, NONE, Table};
use crate::units::{change, counted_all, duration, short_count};
use crate::welch::{Sample, compare};
use crate::{csv, input};

/// Runs on each side below which a mean says too little.
const ENOUGH: u64 = 10;

/// Compare two profiles, scope by scope.
///
/// A row says how often a scope ran, and how long, before and after. The change of the mean has an interval that holds the true change in 99 of 100 cases (Welch's t-test, which takes the
/// runs as independent and lets the two sides have a spread each). A scope is `slower` or `faster` if the interval
/// leaves 0 out, and `unsure` if not. With fewer than 10 runs on a side it says `too few`, and `no spread` where a
/// profile has only sums. Rows are sorted by how much the total changed. Asynchronous spans, such as whole futures, wait for most
/// of their time: they have a table of their own, and are rows `<name> (async)` in JSON and CSV.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  What changed:
    zprof diff before.xplane.pb after.xplane.pb
  A gate that fails when a scope got slower by more than a twentieth:
    zprof diff base.xplane.pb new.xplane.pb --fail-on-regression 5")]
pub(crate) struct Args {
    /// The profile before: an `.xplane.pb` file, a run's folder, a log directory, or `-` for standard input.
    before: PathBuf,
    /// The profile after, named in the same ways.
    after: PathBuf,
    #[command(flatten)]
    answer: Answer,
    #[command(flatten)]
    planes: Planes,
    #[command(flatten)]
    exclude: Exclude,
    /// End with exit code 1 if the mean of any scope is slower by more than this many percent for sure.
    #[arg(long, value_name = "PERCENT")]
    fail_on_regression: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Slower,
    Faster,
    Unsure,
    TooFew,
    NoSpread,
    New,
    Gone,
}

/// A scope on one side.
#[derive(Clone, Copy, Debug, Serialize)]
struct Side {
    count: u64,
    mean_ps: f64,
    total_ps: u128,
    deviation_ps: Option<f64>,
}

/// A scope on both sides.
#[derive(Debug, Serialize)]
struct Row {
    host: Option<String>,
    plane: String,
    scope: String,
    /// Whether it is an asynchronous span, which waits as well.
    #[serde(skip)]
    is_async: bool,
    before: Option<Side>,
    after: Option<Side>,
    /// After less before.
    total_change_ps: f64,
    /// Change of the mean as a share of the mean before.
    mean_change: Option<f64>,
    /// How far the true share may lie from it, to either side.
    margin: Option<f64>,
    /// How likely such a difference is if there is none.
    p: Option<f64>,
    verdict: Verdict,
}

/// What is added to the name of an asynchronous span where it stands among scopes.
const ASYNC: &str = " (async)";

/// Host, plane, name as it stands among scopes, and whether it is an asynchronous span.
type Key = (Option<String>, String, String, bool);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.before == Path::new("-") && args.after == Path::new("-") {
        usage("diff", "only one of the profiles can be standard input");
    }
    let sum_up = |input: &Path| sum_up(input::open(input)?, &args.planes, &args.exclude);
    let (before, after) = (sum_up(&args.before)?, sum_up(&args.after)?);
    // One host needs no name: the files of the two sides are called differently.
    let by_host = before.len() > 1 || after.len() > 1;
    let programs = [programs(&before, by_host), programs(&after, by_host)];
    let (before, after) = (sides(&before, by_host), sides(&after, by_host));
    let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
    let mut rows: Vec<Row> =
        keys.map(|key| Row::new(key.clone(), before.get(key).copied(), after.get(key).copied())).collect();
    rows.sort_by(|left, right| {
        let by_change = right.total_change_ps.abs().total_cmp(&left.total_change_ps.abs());
        by_change.then_with(|| (&left.plane, &left.scope).cmp(&(&right.plane, &right.scope)))
    });
    let regressed = args.fail_on_regression.is_some_and(|percent| rows.iter().any(|row| row.regressed(percent)));
    let top = args.answer.rows().min(rows.len());
    if args.answer.json {
        print_json(&rows[..top])?;
    } else if args.answer.csv {
        print(|out| write_csv(out, &rows[..top]))?;
    } else {
        print_text(|out| {
            write_programs(out, &programs)?;
            write_tables(out, &rows, args.answer.rows())
        })?;
    }
    Ok(if regressed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write_programs(out: &mut dyn Write, [before, after]: &[Vec<String>; 2]) -> io::Result<()> {
    for (side, programs) in [("before", before), ("after", after)] {
        if !programs.is_empty() {
            writeln!(out, "{}", table::cut(&printable(&format!("{side}: {}", programs.join(", "))), table::width()))?;
        }
    }
    Ok(())
}

fn sides(spaces: &[Summed], by_host: bool) -> BTreeMap<Key, Side> {
    let mut sides = BTreeMap::new();
    for Summed { space, summary, .. } in spaces {
        let host = by_host.then(|| space.host.clone());
        for plane in &summary.planes {
            for scope in &plane.scopes {
                sides.insert(
                    (host.clone(), plane.name.clone(), scope.name.clone(), false),
                    Side::new(Measured::of_scope(scope)),
                );
            }
            for spans in &plane.async_spans {
                let name = format!("{}{ASYNC}", spans.name);
                sides.insert((host.clone(), plane.name.clone(), name, true), Side::new(Measured::of_async(spans)));
            }
        }
    }
    sides
}

impl Side {
    fn new(row: Measured<'_>) -> Self {
        let Measured { count, mean_ps, total_ps, .. } = row;
        Self { count, mean_ps, total_ps, deviation_ps: row.deviation_ps() }
    }

    fn sample(&self) -> Option<Sample> {
        Some(Sample { count: self.count, mean: self.mean_ps, deviation: self.deviation_ps? })
    }
}

impl Row {
    fn new((host, plane, scope, is_async): Key, before: Option<Side>, after: Option<Side>) -> Self {
        #[allow(clippy::cast_precision_loss)] // a change needs no more than 53 bits
        let total = |side: Option<Side>| side.map_or(0.0, |side| side.total_ps as f64);
        let total_change_ps = total(after) - total(before);
        let mut row = Self {
            host,
            plane,
            scope,
            is_async,
            before,
            after,
            total_change_ps,
            mean_change: None,
            margin: None,
            p: None,
            verdict: Verdict::New,
        };
        let (Some(before), Some(after)) = (before, after) else {
            row.verdict = if after.is_some() { Verdict::New } else { Verdict::Gone };
            return row;
        };
        if before.mean_ps > 0.0 {
            row.mean_change = Some((after.mean_ps - before.mean_ps) / before.mean_ps);
        }
        if before.count.min(after.count) < ENOUGH {
            row.verdict = Verdict::TooFew;
            return row;
        }
        let (Some(left), Some(right)) = (before.sample(), after.sample()) else {
            row.verdict = Verdict::NoSpread;
            return row;
        };
        let compared = compare(left, right);
        row.p = Some(compared.p);
        row.margin = (before.mean_ps > 0.0).then(|| compared.margin / before.mean_ps);
        let difference = after.mean_ps - before.mean_ps;
        row.verdict = if difference == 0.0 || difference.abs() <= compared.margin {
            Verdict::Unsure
        } else if difference > 0.0 {
            Verdict::Slower
        } else {
            Verdict::Faster
        };
        row
    }

    fn regressed(&self, percent: f64) -> bool {
        // What took no time at all before has no share, and is slower without bound.
        self.verdict == Verdict::Slower && self.mean_change.is_none_or(|change| change * 100.0 > percent)
    }

    /// Whether it took any time on either side; an instant did not.
    fn has_times(&self) -> bool {
        [self.before, self.after].iter().flatten().any(|side| side.total_ps > 0)
    }

    /// The change of the mean with its margin: `+12.3% ±0.4`.
    fn change_text(&self) -> String {
        let Some(mean_change) = self.mean_change else { return NONE.to_owned() };
        let text = change(mean_change);
        match self.margin {
            Some(margin) if margin < 9.995 => format!("{text} ±{:.1}", margin * 100.0),
            Some(_) => format!("{text} ±999+"),
            None => text,
        }
    }
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Unsure => "unsure",
            Self::TooFew => "too few",
            Self::NoSpread => "no spread",
            Self::New => "new",
            Self::Gone => "gone",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Slower => style::BAD,
            Self::Faster => style::GOOD,
            Self::New | Self::Gone => style::NOTE,
            Self::Unsure | Self::TooFew | Self::NoSpread => style::FAINT,
        }
    }
}

/// Before and after in one cell, or what both are; `-` stands for the side that lacks it.
fn both(before: Option<String>, after: Option<String>) -> String {
    let known = |side: Option<String>| side.unwrap_or_else(|| NONE.to_owned());
    match (before, after) {
        (Some(before), Some(after)) if before == after => after,
        (before, after) => format!("{}→{}", known(before), known(after)),
    }
}

/// Scopes, and apart from them the asynchronous spans.
fn write_tables(out: &mut dyn Write, rows: &[Row], top: usize) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "neither profile has a scope");
    }
    let several = rows.iter().any(|row| row.plane != rows[0].plane || row.host != rows[0].host);
    let (spans, scopes): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.is_async);
    if !scopes.is_empty() {
        write_table(out, "scope", &scopes, several, top)?;
    }
    if !scopes.is_empty() && !spans.is_empty() {
        writeln!(out)?;
    }
    if !spans.is_empty() {
        write_table(out, "async", &spans, several, top)?;
    }
    Ok(())
}

fn write_table(out: &mut dyn Write, what: &'static str, rows: &[&Row], several: bool, top: usize) -> io::Result<()> {
    let mut table = Table::new(&[what, "runs", "mean", "change", "total", ""]).with_text_last();
    for row in rows.iter().take(top) {
        let (before, after) = (row.before.as_ref(), row.after.as_ref());
        let mut name = row.scope.clone();
        if row.is_async {
            name.truncate(name.len() - ASYNC.len());
        }
        if several {
            name = format!("{} {name}", row.plane);
        }
        if let Some(host) = &row.host {
            name = format!("{host} {name}");
        }
        let sign = if row.total_change_ps > 0.0 { "+" } else { "" };
        let has_times = row.has_times();
        let mean = |side: Option<&Side>| side.map(|side| duration(side.mean_ps));
        table.row(vec![
            name.into(),
            both(before.map(|side| short_count(side.count)), after.map(|side| short_count(side.count))).into(),
            has_times.then(|| both(mean(before), mean(after))).into(),
            row.change_text().into(),
            has_times.then(|| format!("{sign}{}", duration(row.total_change_ps))).into(),
            Cell::styled(row.verdict.text(), row.verdict.style()),
        ]);
    }
    table.write(out, table::width())?;
    match rows.len().saturating_sub(top) {
        0 => Ok(()),
        rest => {
            let text = format!(
                "{}; --top 0 shows all",
                counted_all(rest, &format!("more {}", if what == "scope" { what } else { "name" }))
            );
            writeln!(out, "{}", paint(style::FAINT, text))
        }
    }
}

fn write_csv(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let sides = "count_before,count_after,mean_before_ps,mean_after_ps,total_before_ps,total_after_ps";
    writeln!(out, "host,plane,scope,{sides},total_change_ps,mean_change,margin,p,verdict")?;
    for row in rows {
        let known = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let on = |side: Option<Side>, text: fn(Side) -> String| side.map(text).unwrap_or_default();
        csv::write_row(
            out,
            &[
                row.host.clone().unwrap_or_default(),
                row.plane.clone(),
                row.scope.clone(),
                on(row.before, |side| side.count.to_string()),
                on(row.after, |side| side.count.to_string()),
                on(row.before, |side| side.mean_ps.to_string()),
                on(row.after, |side| side.mean_ps.to_string()),
                on(row.before, |side| side.total_ps.to_string()),
                on(row.after, |side| side.total_ps.to_string()),
                row.total_change_ps.to_string(),
                known(row.mean_change),
                known(row.margin),
                known(row.p),
                row.verdict.text().to_owned(),
            ],
        )?;
    }
    Ok(())
}
