//! The walk over one plane's lines that sums up its scopes and steps.

use std::collections::{BTreeMap, HashMap};

use super::counters::Counters;
use super::polls::{self, Polled};
use super::spread::Spread;
use super::{AsyncSummary, LineSummary, PlaneSummary, Polls, Runs, ScopeSummary, Step, StepSeries};
use crate::Result;
use crate::export::filter::matches_any;
use crate::export::nest::{Around, Closed, Nest};
use crate::export::scopes::{Facts, LineKind, Scopes, is_device, place};
use crate::export::timeline::{PlaneGroup, Timed, Timeline, timelines};
use crate::xspace::reader::read_event;
use crate::xspace::window::Window;

/// Steps of a plane that are kept one by one.
const MAX_STEPS: usize = 100_000;

/// What is summed of a scope.
#[derive(Clone, Debug, Default)]
struct Sum {
    runs: Spread,
    /// The durations of the runs that are inside no other run of the scope.
    outermost_ps: u128,
    self_ps: u128,
    /// Runs and total of aggregated events.
    aggregated: (u64, u128),
}

/// What is summed of steps of one name.
#[derive(Default)]
struct Series {
    sum: Sum,
    steps: Vec<Step>,
}

/// A step that is open.
struct OpenStep {
    step: Step,
    /// Own time of the scopes inside.
    inside: HashMap<u32, u128>,
}

/// What the nest keeps of an event.
#[derive(Clone, Copy)]
struct Tag {
    scope: u32,
    /// The place of the step that it is, or is in.
    step: Option<u32>,
    is_step: bool,
    /// Whether no other run of its scope is around it.
    is_outermost: bool,
}

/// Finds the runs of a line that no other run of the same scope contains. Events come in the order of time.
#[derive(Default)]
struct Outermost {
    /// By scope: the latest end of its runs so far.
    reach: HashMap<u32, i128>,
}

impl Outermost {
    /// Whether no run of the scope that came before contains this one. A run that came before starts no later than this one,
    /// so it contains this one exactly if it ends no earlier.
    fn takes(&mut self, scope: u32, timed: &Timed) -> bool {
        let end_ps = timed.end_ps();
        let reach = self.reach.entry(scope).or_insert(i128::MIN);
        let is_outermost = end_ps > *reach;
        *reach = end_ps.max(*reach);
        is_outermost
    }
}

struct Plane<'g> {
    scopes: &'g Scopes,
    /// By scope: whether it is left out.
    excluded: Vec<bool>,
    sums: Vec<Sum>,
    /// Asynchronous spans, by scope.
    waits: BTreeMap<u32, Sum>,
    /// How many events of each line have a number that joins an asynchronous span with its polls.
    linked: Vec<usize>,
    series: BTreeMap<String, Series>,
    steps_kept: usize,
    out: PlaneSummary,
}

/// Sums a plane up, without what has a name that one of the patterns `exclude` matches.
pub(super) fn plane(window: &mut Window<'_>, group: &PlaneGroup, exclude: &[String]) -> Result<PlaneSummary> {
    let timelines = timelines(window, group)?;
    let scopes = Scopes::load(window, group)?;
    let has_steps = timelines.iter().any(|timeline| LineKind::of(group, timeline) == LineKind::Steps);
    let mut plane = Plane {
        sums: vec![Sum::default(); scopes.names.len()],
        excluded: scopes.names.iter().map(|name| is_excluded(exclude, name)).collect(),
        scopes: &scopes,
        waits: BTreeMap::new(),
        linked: Vec::new(),
        series: BTreeMap::new(),
        steps_kept: 0,
        out: PlaneSummary { name: group.name.clone(), ..PlaneSummary::default() },
    };
    let mut counters = Counters::default();
    for timeline in &timelines {
        plane.linked.push(0);
        let modules_are_steps = !has_steps && is_device(&group.name) && timeline.name == "XLA Modules";
        let line = match LineKind::of(group, timeline) {
            LineKind::Nested => plane.nested(window, timeline, modules_are_steps)?,
            LineKind::Async => plane.not_nested(window, timeline)?,
            LineKind::Steps => plane.steps(window, timeline)?,
            LineKind::Counters => {
                plane.out.counter_samples += timeline.event_count;
                counters.add(window, timeline, &scopes)?;
                plane.whole(window, timeline)?
            }
        };
        plane.out.lines.push(line);
    }
    let polled = if plane.waits.is_empty() {
        BTreeMap::new()
    } else {
        polls::polled(window, group, &timelines, &scopes, &plane.linked)?
    };
    let mut out = plane.finish(polled);
    out.counters = counters.finish(window, group, &scopes)?;
    out.scopes.retain(|scope| !is_excluded(exclude, &scope.name));
    out.async_spans.retain(|spans| !is_excluded(exclude, &spans.name));
    out.steps.retain(|series| !is_excluded(exclude, &series.name));
    out.counters.retain(|counter| !is_excluded(exclude, &counter.name));
    Ok(out)
}

/// Whether a name is left out; without patterns none is.
fn is_excluded(exclude: &[String], name: &str) -> bool {
    !exclude.is_empty() && matches_any(exclude, name)
}

impl Plane<'_> {
    /// A line of scopes that nest.
    fn nested(&mut self, window: &mut Window<'_>, timeline: &Timeline, all_are_steps: bool) -> Result<LineSummary> {
        let mut line = line(timeline);
        let mut nest = Nest::new();
        let mut open: Vec<Option<OpenStep>> = Vec::new();
        let mut outermost = Outermost::default();
        let scopes = self.scopes;
        timeline.each_in_time(window, |window, timed| {
            let kind = scopes.kind(timed);
            if kind.is_hidden {
                self.out.events_hidden += 1;
                return Ok(());
            }
            let facts = scopes.facts(window, timed, kind)?;
            if timed.is_aggregated {
                return aggregated(window, timed, facts, &mut self.sums[place(kind.scope)]);
            }
            include(&mut line, timed);
            self.count_link(facts);
            if facts.is_async {
                self.waits.entry(kind.scope).or_default().add(timed.duration_ps, 0, true);
                return Ok(());
            }
            let is_outermost = outermost.takes(kind.scope, timed);
            let tag = |around: Around<'_, Tag>| {
                let step = around.inside.and_then(|tag| tag.step);
                let is_step = step.is_none() && (facts.is_root || all_are_steps);
                if !is_step {
                    return Ok(Tag { scope: kind.scope, step, is_step, is_outermost });
                }
                let step = u32::try_from(open.len()).ok();
                let number = facts.number();
                let (line_id, start_ps, duration_ps) = (timeline.id, timed.start_ps, timed.duration_ps);
                let begun = Step { line_id, number, start_ps, duration_ps, ..Step::default() };
                open.push(Some(OpenStep { step: begun, inside: HashMap::new() }));
                Ok(Tag { scope: kind.scope, step, is_step, is_outermost })
            };
            let mut closed = Vec::new();
            let mut close = |event: Closed<Tag>| {
                closed.push(event);
                Ok(())
            };
            nest.enter(timed.start_ps, timed.duration_ps, tag, &mut close)?;
            closed.into_iter().for_each(|event| self.close(&mut line, &mut open, event));
            Ok(())
        })?;
        nest.finish(&mut |event| {
            self.close(&mut line, &mut open, event);
            Ok::<_, crate::Error>(())
        })?;
        Ok(line)
    }

    /// Counts an event of the line at hand that has a number.
    fn count_link(&mut self, facts: Facts) {
        if let Some(linked) = self.linked.last_mut() {
            *linked += usize::from(facts.link.is_some());
        }
    }

    /// Counts an event that has ended.
    fn close(&mut self, line: &mut LineSummary, open: &mut [Option<OpenStep>], event: Closed<Tag>) {
        let Closed { tag, duration_ps, self_ps } = event;
        self.sums[place(tag.scope)].add(duration_ps, self_ps, tag.is_outermost);
        line.busy_ps += u128::from(self_ps);
        let Some(slot) = tag.step.and_then(|step| open.get_mut(place(step))) else { return };
        if !tag.is_step {
            if let Some(step) = slot {
                *step.inside.entry(tag.scope).or_default() += u128::from(self_ps);
            }
        } else if let Some(OpenStep { mut step, inside }) = slot.take() {
            step.self_ps = self_ps;
            let inside = inside.into_iter().filter(|(scope, _)| !self.excluded[place(*scope)]);
            let named = inside.map(|(scope, own)| (own, self.scopes.name(scope)));
            let largest = named.max_by(|left, right| left.0.cmp(&right.0).then(right.1.cmp(left.1)));
            step.largest = largest.map(|(own, name)| (name.to_owned(), own));
            self.add_step(self.scopes.name(tag.scope).to_owned(), step);
        }
    }

    /// A line of scopes that overlap.
    fn not_nested(&mut self, window: &mut Window<'_>, timeline: &Timeline) -> Result<LineSummary> {
        let mut line = line(timeline);
        let scopes = self.scopes;
        timeline.each_in_file(window, |window, timed| {
            let kind = scopes.kind(timed);
            if kind.is_hidden {
                self.out.events_hidden += 1;
                return Ok(());
            }
            if timed.is_aggregated {
                let facts = scopes.facts(window, timed, kind)?;
                return aggregated(window, timed, facts, self.waits.entry(kind.scope).or_default());
            }
            include(&mut line, timed);
            self.count_link(scopes.facts(window, timed, kind)?);
            self.waits.entry(kind.scope).or_default().add(timed.duration_ps, 0, true);
            Ok(())
        })?;
        Ok(line)
    }

    /// A device's line of steps.
    fn steps(&mut self, window: &mut Window<'_>, timeline: &Timeline) -> Result<LineSummary> {
        let mut line = line(timeline);
        let scopes = self.scopes;
        timeline.each_in_time(window, |window, timed| {
            if timed.is_aggregated {
                return Ok(());
            }
            include(&mut line, timed);
            let kind = scopes.kind(timed);
            let facts = scopes.facts(window, timed, kind)?;
            let number = facts.number().or_else(|| scopes.name(kind.scope).parse().ok());
            let (line_id, start_ps, duration_ps) = (timeline.id, timed.start_ps, timed.duration_ps);
            let step = Step { line_id, number, start_ps, duration_ps, self_ps: duration_ps, largest: None };
            self.add_step(timeline.name.clone(), step);
            Ok(())
        })?;
        Ok(line)
    }

    /// A line of which only the span counts.
    fn whole(&mut self, window: &mut Window<'_>, timeline: &Timeline) -> Result<LineSummary> {
        let mut line = line(timeline);
        timeline.each_in_file(window, |_, timed| {
            if !timed.is_aggregated {
                include(&mut line, timed);
            }
            Ok(())
        })?;
        Ok(line)
    }

    fn add_step(&mut self, name: String, step: Step) {
        let series = self.series.entry(name).or_default();
        series.sum.add(step.duration_ps, step.self_ps, true);
        if self.steps_kept < MAX_STEPS {
            self.steps_kept += 1;
            series.steps.push(step);
        }
    }

    fn finish(self, mut polled: BTreeMap<u32, Polled>) -> PlaneSummary {
        let Self { scopes, sums, waits, series, mut out, .. } = self;
        let named = scopes.names.iter().zip(sums);
        out.scopes = named.filter_map(|(name, sum)| sum.finish(name.clone())).collect();
        out.scopes.sort_by(|left, right| right.self_ps.cmp(&left.self_ps).then_with(|| left.name.cmp(&right.name)));
        let waits = waits.into_iter().filter_map(|(scope, mut sum)| {
            let polled = polled.remove(&scope).unwrap_or_default();
            sum.outermost_ps = sum.outermost_ps.saturating_sub(polled.inner_ps);
            let ScopeSummary { name, count, total_ps, runs_total_ps, runs, .. } =
                sum.finish(scopes.name(scope).to_owned())?;
            let Polled { count: polls, total_ps: polled_ps, covered_ps, .. } = polled;
            let waiting_ps = total_ps.saturating_sub(covered_ps);
            let polls = (polls > 0).then_some(Polls { count: polls, total_ps: polled_ps, waiting_ps });
            Some(AsyncSummary { name, count, total_ps, runs_total_ps, polls, runs })
        });
        out.async_spans = waits.collect();
        out.async_spans
            .sort_by(|left, right| right.total_ps.cmp(&left.total_ps).then_with(|| left.name.cmp(&right.name)));
        let series = series.into_iter().filter_map(|(name, Series { sum, mut steps })| {
            steps.sort_by_key(|step| (step.start_ps, step.line_id));
            Some(StepSeries { all: sum.finish(name.clone())?, name, steps })
        });
        out.steps = series.collect();
        out.steps.sort_by_key(|series| std::cmp::Reverse(series.all.total_ps));
        out
    }
}

impl Sum {
    fn add(&mut self, duration_ps: u64, self_ps: u64, is_outermost: bool) {
        self.runs.add(duration_ps);
        self.outermost_ps += if is_outermost { u128::from(duration_ps) } else { 0 };
        self.self_ps += u128::from(self_ps);
    }

    /// The scope in numbers, if it ever ran.
    fn finish(self, name: String) -> Option<ScopeSummary> {
        let Self { runs, outermost_ps, self_ps, aggregated } = self;
        let count = runs.count().saturating_add(aggregated.0);
        let (total_ps, runs_total_ps) = (outermost_ps + aggregated.1, runs.sum() + aggregated.1);
        if count == 0 && total_ps == 0 {
            return None;
        }
        let is_known = aggregated == (0, 0);
        let runs = is_known.then(|| Runs {
            min_ps: runs.min(),
            max_ps: runs.max(),
            p50_ps: runs.percentile(50),
            p99_ps: runs.percentile(99),
            deviation_ps: runs.deviation(),
        });
        Some(ScopeSummary { name, count, total_ps, runs_total_ps, self_ps, runs })
    }
}

/// Counts an aggregated event, as the runs that it says.
fn aggregated(window: &mut Window<'_>, timed: &Timed, facts: Facts, sum: &mut Sum) -> Result<()> {
    let runs = read_event(window, timed.body)?.occurrences.and_then(|count| u64::try_from(count).ok());
    sum.aggregated.0 = sum.aggregated.0.saturating_add(runs.unwrap_or(0));
    sum.aggregated.1 += u128::from(timed.duration_ps);
    sum.self_ps += u128::from(facts.own_ps.unwrap_or(timed.duration_ps));
    Ok(())
}

fn line(timeline: &Timeline) -> LineSummary {
    let Timeline { id, name, event_count, .. } = timeline;
    LineSummary { id: *id, name: name.clone(), events: *event_count, ..LineSummary::default() }
}

/// Widens the span of a line by an event.
fn include(line: &mut LineSummary, timed: &Timed) {
    let (start, end) = (timed.start_ps, timed.end_ps());
    line.span_ps = Some(line.span_ps.map_or((start, end), |span| (span.0.min(start), span.1.max(end))));
}
