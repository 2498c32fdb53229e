//! What `--json` prints: a list of spaces. Times are picoseconds; what is not known is null.

use serde::Serialize;
use zprof_runtime::export::{AsyncSummary, PlaneSummary, ScopeSummary, StepSeries};

use super::{Summed, part};
use crate::measured::Measured;

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
