//! What a profile holds, in numbers: planes, lines, scopes by time, steps. Computed from any XSpace, in one walk.
//!
//! A scope is what events of one shown name are in the planes of one name. Its total is the time in its outermost runs: a run
//! inside another run of the same scope, as in a function that calls itself, adds nothing to it. Its mean, percentiles and
//! deviation are those of all runs. Its own time is what [no other event of the line](super::nest) covers:
//! so the own times of a line add up to the time in which anything ran there. Lines do not share time: what a scope
//! waits for on another thread is its own.
//!
//! | what | how it counts |
//! |---|---|
//! | an event of a line | as a run, by its duration; a negative one is 0 |
//! | an aggregated event | as the runs it says, with its duration as their total; there are no percentiles then |
//! | an event with `_a`, or of a line `Async XLA Ops` | apart, as a run of an asynchronous span: it waits as well, and nests in nothing |
//! | an event with a `flow` both in and out, whose number an asynchronous span of its plane has | as a run, and as a poll of that span |
//! | an event of a device's line `Steps` | as a step, not as a run |
//! | a sample on a line `_counters_` | as a sample of its counter, not as a run |
//! | bookkeeping that viewers hide | not |
//!
//! Steps are: the events of a device's line `Steps`; the outermost events with a stat `_r` above 0, or called
//! `TraceContext`, on other lines; and the events of a device's line `XLA Modules` where its plane has no `Steps`.

mod collect;
mod counters;
mod polls;
mod spread;

use super::about::Process;
use super::axis;
use super::filter::matches_any;
use super::timeline::{plane_groups, text};
use crate::Result;
use crate::xspace::Source;
use crate::xspace::reader::each_note;
use crate::xspace::window::Window;

/// What of a profile to sum up.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SummaryOptions {
    /// Only planes whose names match one of these, as in [`Filter::planes`](super::Filter::planes).
    pub planes: Vec<String>,
    /// Leaves out scopes, asynchronous spans, steps and counters whose names match one of these, in the same way. Their time
    /// stays in what surrounds them, in lines and in planes.
    pub exclude: Vec<String>,
}

/// A profile in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The planes, in the order of the file; planes of one name are one.
    pub planes: Vec<PlaneSummary>,
    /// What the profiler says went wrong, and what the profile lacks, such as scopes that found no room; of more than 100
    /// of either, the first.
    pub errors: Vec<String>,
    /// Likewise what it warns of; then which events lie outside of the session.
    pub warnings: Vec<String>,
    /// The program that was profiled, if the profile has its name.
    pub process: Option<Process>,
}

/// How many errors or warnings of a space are kept.
const MOST_NOTES: usize = 100;

/// A plane in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PlaneSummary {
    /// Its name.
    pub name: String,
    /// Its lines, in the order of the file; lines of one id and name are one.
    pub lines: Vec<LineSummary>,
    /// Its scopes: those with most own time first, then by name.
    pub scopes: Vec<ScopeSummary>,
    /// Its asynchronous spans, such as whole futures: those with the longest total first, then by name.
    pub async_spans: Vec<AsyncSummary>,
    /// Its steps by name, with the longest total first.
    pub steps: Vec<StepSeries>,
    /// Bookkeeping events that are not counted.
    pub events_hidden: u64,
    /// Samples of counters.
    pub counter_samples: u64,
    /// Its counters, by name and then by unit.
    pub counters: Vec<CounterSummary>,
}

/// A counter in numbers. Samples that are NaN count as samples and are in none of the numbers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CounterSummary {
    /// The name that is shown.
    pub name: String,
    /// The unit, which is the key of the value; `value` where the program gave none.
    pub unit: String,
    /// How many samples there are.
    pub samples: u64,
    /// The lowest sample; `None` for this and the next where no sample is a number.
    pub min: Option<f64>,
    /// The mean of the samples, whatever the time between them.
    pub mean: Option<f64>,
    /// The highest sample.
    pub max: Option<f64>,
    /// The last sample in time.
    pub last: Option<f64>,
}

/// A line in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LineSummary {
    /// The id that is shown.
    pub id: i64,
    /// The name that is shown.
    pub name: String,
    /// Events in the file, whatever they are.
    pub events: u64,
    /// First start and last end in absolute picoseconds; `None` if no event has a place in time.
    pub span_ps: Option<(i128, i128)>,
    /// How long anything ran, in picoseconds. Asynchronous events, steps and samples do not run.
    pub busy_ps: u128,
}

/// A scope in numbers; times are picoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ScopeSummary {
    /// The name that is shown.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// The sum of the durations of the outermost runs: a run inside another run of this scope is part of that one.
    pub total_ps: u128,
    /// The sum of the durations of all runs, those inside others included. It is larger than the total where a scope runs
    /// inside itself.
    pub runs_total_ps: u128,
    /// The part of the total that no other scope of the line covers.
    pub self_ps: u128,
    /// Its runs one by one; `None` if some are known by their sum only.
    pub runs: Option<Runs>,
}

/// Spans of one name that kept no thread busy as such, in numbers: whole futures, or what a device does meanwhile. Times are
/// picoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AsyncSummary {
    /// The name that is shown; the polls of a future have the same.
    pub name: String,
    /// How many there were.
    pub count: u64,
    /// The sum of the durations of the outermost spans: a span that is polled by another one of the same name, as of an
    /// asynchronous function that awaits itself, is part of that one.
    pub total_ps: u128,
    /// The sum of the durations of all spans.
    pub runs_total_ps: u128,
    /// How long threads worked at the spans of the total, and how long they waited; `None` if no event says that it is a poll
    /// of any of them.
    pub polls: Option<Polls>,
    /// The spans one by one; `None` if some are known by their sum only.
    pub runs: Option<Runs>,
}

/// The polls of futures of one name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Polls {
    /// How many there were. A poll is a slice of a span that no other slice of that span contains.
    pub count: u64,
    /// How long threads ran them, in picoseconds, with all that ran inside. Where the slices of a span overlap on one thread,
    /// their time counts once. Where several threads are in a span at once, each of them counts.
    pub total_ps: u128,
    /// How long no thread was in a span, from its begin to its end, summed over the spans, in picoseconds.
    pub waiting_ps: u128,
}

/// How long the runs of a scope were; times are picoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Runs {
    /// The shortest.
    pub min_ps: u64,
    /// The longest.
    pub max_ps: u64,
    /// At least half of the runs are no longer. Beyond 512 runs it may be off by 1/256, as may the next.
    pub p50_ps: u64,
    /// At least 99 of 100 runs are no longer.
    pub p99_ps: u64,
    /// The standard deviation of what the runs are a sample of; `None` for one run.
    pub deviation_ps: Option<f64>,
}

/// Steps of one name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepSeries {
    /// The name of the scope, or of the device's line.
    pub name: String,
    /// All of them; own time is what no other event of the line covers.
    pub all: ScopeSummary,
    /// Each of them, in the order of start, but no more than 100,000 of a plane.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The id of its line.
    pub line_id: i64,
    /// Its number, as far as it has one.
    pub number: Option<i64>,
    /// Start in absolute picoseconds.
    pub start_ps: i128,
    /// Duration in picoseconds.
    pub duration_ps: u64,
    /// The part of it that no other event of the line covers, in picoseconds.
    pub self_ps: u64,
    /// The scope inside with the most own time, and that time in picoseconds.
    pub largest: Option<(String, u128)>,
}

impl ScopeSummary {
    /// The mean duration of a run, in picoseconds.
    #[must_use]
    pub fn mean_ps(&self) -> f64 {
        mean_ps(self.runs_total_ps, self.count)
    }
}

impl AsyncSummary {
    /// The mean duration of a span, in picoseconds.
    #[must_use]
    pub fn mean_ps(&self) -> f64 {
        mean_ps(self.runs_total_ps, self.count)
    }

    /// How long they waited, in picoseconds: the part of their total in which no thread polled them. `None` where polls are not
    /// known.
    #[must_use]
    pub fn waiting_ps(&self) -> Option<u128> {
        self.polls.as_ref().map(|polls| polls.waiting_ps)
    }
}

fn mean_ps(total_ps: u128, count: u64) -> f64 {
    #[allow(clippy::cast_precision_loss)] // a mean needs no more than 53 bits
    let (total, runs) = (total_ps as f64, count as f64);
    if count == 0 { 0.0 } else { total / runs }
}

impl Summary {
    /// Makes all absolute times later, as to have those of several hosts on one axis.
    pub fn delay(&mut self, later_ps: i128) {
        for plane in &mut self.planes {
            for (start, end) in plane.lines.iter_mut().filter_map(|line| line.span_ps.as_mut()) {
                *start += later_ps;
                *end += later_ps;
            }
            for step in plane.steps.iter_mut().flat_map(|series| &mut series.steps) {
                step.start_ps += later_ps;
            }
        }
    }
}

impl PlaneSummary {
    /// First start and last end of all lines, in absolute picoseconds.
    #[must_use]
    pub fn span_ps(&self) -> Option<(i128, i128)> {
        let spans = self.lines.iter().filter_map(|line| line.span_ps);
        spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)))
    }

    /// Events in the file, whatever they are.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.lines.iter().map(|line| line.events).sum()
    }
}

/// Sums a profile up.
///
/// Memory is bounded by names, lines and steps, by the events open at once on a line, by 64 MiB for lines whose events are
/// not in the order of time, and by 64 MiB for the polls of asynchronous spans.
///
/// # Errors
/// [`ErrorKind::InvalidData`](crate::ErrorKind::InvalidData) if the bytes are not an XSpace, with the offset and the
/// reason; [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
pub fn summarise(source: &dyn Source, options: &SummaryOptions) -> Result<Summary> {
    let mut window = Window::new(source)?;
    let groups = plane_groups(&mut window)?;
    let chosen = groups.iter().filter(|group| matches_any(&options.planes, &group.name));
    let planes = chosen.map(|group| collect::plane(&mut window, group, &options.exclude)).collect::<Result<_>>()?;
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    each_note(&mut window, |window, is_error, body| {
        let notes = if is_error { &mut errors } else { &mut warnings };
        if notes.len() < MOST_NOTES {
            notes.push(text(window, body)?);
        }
        Ok(())
    })?;
    let headers =
        groups.iter().filter(|group| matches_any(&options.planes, &group.name)).flat_map(|group| &group.planes);
    let (about, outside) = axis::notes(&mut window, headers.copied())?;
    warnings.extend(outside);
    Ok(Summary { planes, errors, warnings, process: about.process })
}
