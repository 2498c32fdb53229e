//! The same numbers by brute force: decoded messages, all pairs of events, and intervals between all times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XPlane, XSpace, XStat};

/// Names of events that viewers hide.
const HIDDEN: [&str; 13] = [
    "MemoryAllocation",
    "MemoryDeallocation",
    "PrefetchProduce",
    "PrefetchConsume",
    "ParallelInterleaveProduce",
    "ParallelInterleaveConsume",
    "ParallelInterleaveInitializeInput",
    "ParallelMapProduce",
    "ParallelMapConsume",
    "MapAndBatchProduce",
    "MapAndBatchConsume",
    "ParseExampleProduce",
    "ParseExampleConsume",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) min: u64,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) total: u128,
    /// The durations of all runs.
    pub(super) all: u128,
    pub(super) own: u128,
    pub(super) runs: Option<Numbers>,
}

/// Line, number, start, duration, own time, largest inside.
pub(super) type Step = (i64, Option<i64>, i128, u64, u64, Option<(String, u128)>);
/// Count, total, and what the spans waited.
pub(super) type Polls = (u64, u128, u128);
/// Id, name, events, span, busy.
pub(super) type Line = (i64, String, u64, Option<(i128, i128)>, u128);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plane {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
    pub(super) scopes: BTreeMap<String, Sums>,
    /// Asynchronous spans, without own time, with count and total of their polls and what they waited.
    pub(super) async_spans: BTreeMap<String, (Sums, Option<Polls>)>,
    pub(super) steps: BTreeMap<String, (Sums, Vec<Step>)>,
    pub(super) events_hidden: u64,
    pub(super) counter_samples: u64,
}

/// An event with all that is said of it.
#[derive(Clone, Debug)]
struct Event {
    scope: String,
    is_hidden: bool,
    start: i128,
    end: i128,
    duration: u64,
    aggregated: Option<u64>,
    is_root: bool,
    is_async: bool,
    link: Option<u64>,
    tid: Option<i64>,
    number: Option<i64>,
    own: Option<u64>,
}

/// What is gathered of a scope: durations of runs, those inside other runs of it, own time, aggregated runs and total.
#[derive(Clone, Debug, Default)]
struct Gathered {
    durations: Vec<u64>,
    inner: u128,
    own: u128,
    aggregated: (u64, u128),
}

fn stat_numbers(plane: &XPlane, stats: &[XStat]) -> Vec<(String, i64)> {
    let number = |stat: &XStat| match stat.value {
        Some(Value::Int64Value(value)) => Some(value),
        Some(Value::Uint64Value(value)) => Some(i64::try_from(value).unwrap_or(i64::MAX)),
        _ => None,
    };
    let name = |id: i64| plane.stat_metadata.get(&id).map(|stat| stat.name.clone()).unwrap_or_default();
    stats.iter().filter_map(|stat| Some((name(stat.metadata_id), number(stat)?))).collect()
}

/// Numbers of flows that go both in and out.
fn links<'a>(plane: &'a XPlane, stats: &'a [XStat]) -> impl Iterator<Item = u64> + 'a {
    let is_flow = |id: i64| plane.stat_metadata.get(&id).is_some_and(|stat| stat.name == "flow");
    let flow = move |stat: &XStat| match stat.value {
        Some(Value::Int64Value(value)) if is_flow(stat.metadata_id) => Some(value.cast_unsigned()),
        Some(Value::Uint64Value(value)) if is_flow(stat.metadata_id) => Some(value),
        _ => None,
    };
    stats.iter().filter_map(flow).filter(|flow| flow & 3 == 3).map(|flow| flow >> 2)
}

fn event(plane: &XPlane, timestamp_ns: i64, event: &XEvent) -> Event {
    let kind = plane.event_metadata.get(&event.metadata_id).cloned().unwrap_or_default();
    let mut scope = if kind.display_name.is_empty() { kind.name.clone() } else { kind.display_name.clone() };
    if scope.is_empty() {
        scope = "(no name)".into();
    }
    let (offset, aggregated) = match event.data {
        Some(Data::OffsetPs(offset)) => (offset, None),
        Some(Data::NumOccurrences(count)) => (0, Some(u64::try_from(count).unwrap_or(0))),
        None => (0, None),
    };
    let numbers = [stat_numbers(plane, &kind.stats), stat_numbers(plane, &event.stats)].concat();
    let last = |name: &str| numbers.iter().rev().find(|(known, _)| known == name).map(|(_, number)| *number);
    let duration = u64::try_from(event.duration_ps).unwrap_or(0);
    let start = i128::from(timestamp_ns) * 1_000 + i128::from(offset);
    Event {
        is_hidden: HIDDEN.contains(&kind.name.as_str()),
        scope,
        start,
        end: start + i128::from(duration),
        duration,
        aggregated,
        is_root: last("_r").map_or(kind.name == "TraceContext", |root| root > 0),
        is_async: last("_a").is_some_and(|asynchronous| asynchronous != 0),
        link: links(plane, &kind.stats).chain(links(plane, &event.stats)).last(),
        tid: last("tid"),
        number: last("iter_num").or(last("step_num")),
        own: last("self_duration_ps").and_then(|own| u64::try_from(own).ok()),
    }
}

/// The planes of one name, in the order of the first of each.
fn groups(space: &XSpace) -> Vec<(String, Vec<&XPlane>)> {
    let mut groups: Vec<(String, Vec<&XPlane>)> = Vec::new();
    for plane in &space.planes {
        match groups.iter_mut().find(|(name, _)| *name == plane.name) {
            Some((_, planes)) => planes.push(plane),
            None => groups.push((plane.name.clone(), vec![plane])),
        }
    }
    groups
}

/// The lines of one id and name, with their events in the order of time.
fn lines(planes: &[&XPlane]) -> Vec<(i64, String, Vec<Event>)> {
    let mut lines: Vec<(i64, String, Vec<Event>)> = Vec::new();
    for plane in planes {
        for line in &plane.lines {
            let id = if line.display_id == 0 { line.id } else { line.display_id };
            let name = if line.display_name.is_empty() { &line.name } else { &line.display_name };
            let events = line.events.iter().map(|given| event(plane, line.timestamp_ns, given));
            match lines.iter_mut().find(|(known, known_name, _)| *known == id && known_name == name) {
                Some((_, _, known)) => known.extend(events),
                None => lines.push((id, name.clone(), events.collect())),
            }
        }
    }
    for (_, _, events) in &mut lines {
        events.sort_by_key(|event| (event.start, Reverse(event.duration)));
    }
    lines
}

/// How much of each event no later one covers.
fn own_times(events: &[&Event]) -> Vec<u64> {
    let times: BTreeSet<i128> = events.iter().flat_map(|event| [event.start, event.end]).collect();
    let times: Vec<i128> = times.into_iter().collect();
    let mut own = vec![0_u64; events.len()];
    for pair in times.windows(2) {
        let begun = events.partition_point(|event| event.start <= pair[0]);
        let owner = (0..begun).rev().find(|&index| pair[1] <= events[index].end);
        if let Some(owner) = owner {
            own[owner] += u64::try_from(pair[1] - pair[0]).expect("less than a duration");
        }
    }
    own
}

/// The innermost event around each, by place.
fn parents(events: &[&Event]) -> Vec<Option<usize>> {
    let parent = |index: usize| {
        let event = events[index];
        (0..index).rev().find(|&other| events[other].end >= event.end && events[other].end > event.start)
    };
    (0..events.len()).map(parent).collect()
}

fn is_device(plane: &str) -> bool {
    plane.starts_with("/device") || plane.starts_with("#Chip") || plane.starts_with("/custom:")
}

fn is_steps(plane: &str, line: &str) -> bool {
    is_device(plane) && (line == "Steps" || line == "Sparse Core Steps")
}

pub(super) fn planes(space: &XSpace) -> Vec<Plane> {
    groups(space).into_iter().map(|(name, planes)| summed(name, &lines(&planes))).collect()
}

fn summed(name: String, lines: &[(i64, String, Vec<Event>)]) -> Plane {
    let mut scopes: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut waits: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut linked = Linked::default();
    let mut series: BTreeMap<String, (Gathered, Vec<Step>)> = BTreeMap::new();
    let (mut events_hidden, mut counter_samples) = (0, 0);
    let mut out_lines = Vec::new();
    let has_steps = lines.iter().any(|(_, line, _)| is_steps(&name, line));
    for (id, line, events) in lines {
        let count = events.len() as u64;
        let is_nested = !["_counters_", "Async XLA Ops"].contains(&line.as_str()) && !is_steps(&name, line);
        let counts = |event: &&Event| line == "_counters_" || is_steps(&name, line) || !event.is_hidden;
        let shown: Vec<&Event> = events.iter().filter(counts).collect();
        events_hidden += count - shown.len() as u64;
        let timed: Vec<&Event> = shown.iter().copied().filter(|event| event.aggregated.is_none()).collect();
        let span = timed.iter().map(|event| event.start).min().zip(timed.iter().map(|event| event.end).max());
        let mut busy = 0;
        if line == "_counters_" {
            counter_samples += count;
        } else if is_steps(&name, line) {
            for event in &timed {
                let number = event.number.or_else(|| event.scope.parse().ok());
                let (sums, steps) = series.entry(line.clone()).or_default();
                sums.durations.push(event.duration);
                sums.own += u128::from(event.duration);
                steps.push((*id, number, event.start, event.duration, event.duration, None));
            }
        } else {
            for event in shown.iter().filter(|event| event.aggregated.is_some()) {
                let all = if line == "Async XLA Ops" { &mut waits } else { &mut scopes };
                let scope = all.entry(event.scope.clone()).or_default();
                scope.aggregated.0 += event.aggregated.unwrap_or(0);
                scope.aggregated.1 += u128::from(event.duration);
                scope.own += u128::from(event.own.unwrap_or(event.duration));
            }
            let (alone, nested): (Vec<&Event>, Vec<&Event>) =
                timed.iter().partition(|event| !is_nested || event.is_async);
            for event in &alone {
                waits.entry(event.scope.clone()).or_default().durations.push(event.duration);
            }
            linked.spans.extend(alone.iter().filter_map(|event| Some((event.link?, (*event).clone()))));
            linked.take_slices(*id, line, &nested);
            let (own, parents) = (own_times(&nested), parents(&nested));
            let modules = line == "XLA Modules" && is_device(&name) && !has_steps;
            let mut step_of: Vec<Option<usize>> = Vec::new();
            for (index, event) in nested.iter().enumerate() {
                let scope = scopes.entry(event.scope.clone()).or_default();
                scope.durations.push(event.duration);
                if nested[..index].iter().any(|around| around.scope == event.scope && around.end >= event.end) {
                    scope.inner += u128::from(event.duration);
                }
                scope.own += u128::from(own[index]);
                busy += u128::from(own[index]);
                let around = parents[index].and_then(|parent: usize| step_of[parent]);
                step_of.push(around.or((event.is_root || modules).then_some(index)));
            }
            for (index, event) in nested.iter().enumerate().filter(|(index, _)| step_of[*index] == Some(*index)) {
                let mut inside: BTreeMap<&str, u128> = BTreeMap::new();
                for other in (0..nested.len()).filter(|other| *other != index && step_of[*other] == Some(index)) {
                    *inside.entry(&nested[other].scope).or_default() += u128::from(own[other]);
                }
                let largest = inside.into_iter().min_by_key(|(name, own)| (Reverse(*own), *name));
                let largest = largest.map(|(name, own)| (name.to_owned(), own));
                let (sums, steps) = series.entry(event.scope.clone()).or_default();
                sums.durations.push(event.duration);
                sums.own += u128::from(own[index]);
                steps.push((*id, event.number, event.start, event.duration, own[index], largest));
            }
        }
        out_lines.push((*id, line.clone(), count, span, busy));
    }
    let steps = series.into_iter().map(|(name, (gathered, mut steps))| {
        steps.sort_by_key(|step| (step.2, step.0));
        (name, (gathered.sums(), steps))
    });
    let ran = |gathered: &Gathered| !gathered.durations.is_empty() || gathered.aggregated != (0, 0);
    let scopes = scopes.into_iter().filter(|(_, gathered)| ran(gathered)).map(|(name, all)| (name, all.sums()));
    let waits = waits.into_iter().filter(|(_, gathered)| ran(gathered));
    let async_spans = waits.map(|(name, all)| {
        let (polls, inner, covered) = linked.of(&name);
        let mut sums = Sums { own: 0, ..all.sums() };
        sums.total -= inner;
        let polls = polls.map(|(count, total)| (count, total, sums.total - covered.min(sums.total)));
        (name, (sums, polls))
    });
    let (scopes, async_spans, steps) = (scopes.collect(), async_spans.collect(), steps.collect());
    Plane { name, lines: out_lines, scopes, async_spans, steps, events_hidden, counter_samples }
}

impl Gathered {
    fn sums(mut self) -> Sums {
        self.durations.sort_unstable();
        let total: u128 = self.durations.iter().copied().map(u128::from).sum();
        let ranked = |percent: usize| self.durations[(self.durations.len() * percent).div_ceil(100).max(1) - 1];
        let runs = (self.aggregated == (0, 0)).then(|| Numbers {
            min: self.durations[0],
            p50: ranked(50),
            p99: ranked(99),
            max: self.durations[self.durations.len() - 1],
        });
        let count = self.durations.len() as u64 + self.aggregated.0;
        let all = total + self.aggregated.1;
        Sums { count, total: all - self.inner, all, own: self.own, runs }
    }
}

/// Asynchronous spans and their slices, by their numbers.
#[derive(Default)]
struct Linked {
    spans: Vec<(u64, Event)>,
    /// Number, thread, slice, and whether it is inside a slice of another span of the same scope.
    slices: Vec<(u64, i64, Event, bool)>,
}

impl Linked {
    fn take_slices(&mut self, id: i64, line: &str, nested: &[&Event]) {
        let mut outermost: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in nested {
            let Some(number) = event.link else { continue };
            let around = outermost.entry(&event.scope).or_insert(event);
            if around.end <= event.start {
                *around = event;
            }
            let is_inner = around.link != event.link && event.end <= around.end;
            let thread = event.tid.filter(|_| line.contains("(overlap")).unwrap_or(id);
            self.slices.push((number, thread, (*event).clone(), is_inner));
        }
    }

    /// Count and total of the polls of the spans of this name, the durations of those inside others, and the time in which
    /// any thread was in one of the others.
    fn of(&self, name: &str) -> (Option<(u64, u128)>, u128, u128) {
        let numbers: BTreeSet<u64> = self.spans.iter().map(|(number, _)| *number).collect();
        let (mut polls, mut inner, mut covered) = ((0, 0), 0, 0);
        for number in numbers {
            let spans: Vec<&Event> = self.spans.iter().filter(|span| span.0 == number).map(|(_, span)| span).collect();
            let slices: Vec<_> = self.slices.iter().filter(|slice| slice.0 == number).collect();
            let named = || spans.iter().filter(|span| span.scope == name);
            if slices.iter().any(|slice| slice.3) {
                inner += named().map(|span| u128::from(span.duration)).sum::<u128>();
                continue;
            }
            let times: BTreeSet<i128> = slices
                .iter()
                .map(|slice| &slice.2)
                .chain(spans.iter().copied())
                .flat_map(|event| [event.start, event.end])
                .collect();
            let times: Vec<i128> = times.into_iter().collect();
            let holds = |event: &Event, pair: &[i128]| event.start <= pair[0] && pair[1] <= event.end;
            let threads: BTreeSet<i64> = slices.iter().map(|slice| slice.1).collect();
            // Slices of one number belong to the span that comes first.
            let owner = self.spans.iter().filter(|span| span.0 == number).map(|(_, span)| span);
            let owner = owner.min_by_key(|span| (span.start, Reverse(span.end))).map(|span| span.scope.as_str());
            for pair in times.windows(2) {
                let length = (pair[1] - pair[0]).unsigned_abs();
                let inside = |thread: Option<i64>| {
                    slices.iter().any(|slice| thread.is_none_or(|thread| slice.1 == thread) && holds(&slice.2, pair))
                };
                if owner == Some(name) {
                    polls.1 += length * threads.iter().filter(|thread| inside(Some(**thread))).count() as u128;
                }
                covered += length * named().filter(|span| holds(span, pair) && inside(None)).count() as u128;
            }
            if owner == Some(name) {
                let contained = |place: usize| {
                    let (_, thread, slice, _) = slices[place];
                    let mut others = slices.iter().enumerate().filter(|other| other.1.1 == *thread && other.0 != place);
                    others.any(|(other, (_, _, around, _))| {
                        let wider =
                            (around.start, Reverse(around.end), other) < (slice.start, Reverse(slice.end), place);
                        wider && around.end >= slice.end && around.end > slice.start
                    })
                };
                polls.0 += (0..slices.len()).filter(|place| !contained(*place)).count() as u64;
            }
        }
        ((polls.0 > 0).then_some(polls), inner, covered)
    }
}

/// Durations of all runs of a scope.
pub(super) fn durations(space: &XSpace, scope: &str) -> Vec<u64> {
    let lines = groups(space).into_iter().flat_map(|(_, planes)| lines(&planes));
    lines.flat_map(|(_, _, events)| events).filter(|event| event.scope == scope).map(|event| event.duration).collect()
}

pub(super) fn deviation(durations: &[u64]) -> f64 {
    let count = durations.len() as f64;
    let mean = durations.iter().map(|duration| *duration as f64).sum::<f64>() / count;
    let squares: f64 = durations.iter().map(|duration| (*duration as f64 - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}

/// A name as it stands in a stack: without what separates stacks, and without a last word that reads as a number.
fn frame(name: &str) -> String {
    let name = name.replace(';', ",");
    match name.trim_end().rsplit_once(char::is_whitespace) {
        Some((rest, last)) if last.parse::<f64>().is_ok() && last.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{rest}_{last}")
        }
        _ => name,
    }
}

/// Own time of every stack in nanoseconds, rounded.
pub(super) fn folded(space: &XSpace) -> BTreeMap<String, u128> {
    let groups: Vec<_> = groups(space).into_iter().map(|(name, planes)| (name, lines(&planes))).collect();
    let is_folded =
        |plane: &str, line: &str| !["_counters_", "Async XLA Ops"].contains(&line) && !is_steps(plane, line);
    let holds_any = |plane: &str, lines: &[(i64, String, Vec<Event>)]| {
        lines.iter().any(|(_, line, events)| is_folded(plane, line) && !events.is_empty())
    };
    let groups: Vec<_> = groups.into_iter().filter(|(name, lines)| holds_any(name, lines)).collect();
    let mut stacks: BTreeMap<Vec<String>, u128> = BTreeMap::new();
    for (plane, lines) in &groups {
        for (id, line, events) in lines.iter().filter(|(_, line, _)| is_folded(plane, line)) {
            let mut base = Vec::new();
            if groups.len() > 1 {
                base.push(frame(plane));
            }
            if is_device(plane) {
                base.push(if line.is_empty() { id.to_string() } else { frame(line) });
            }
            let nests = |event: &&Event| !event.is_hidden && event.aggregated.is_none() && !event.is_async;
            let nested: Vec<&Event> = events.iter().filter(nests).collect();
            let (own, parents) = (own_times(&nested), parents(&nested));
            let mut paths: Vec<Vec<String>> = Vec::new();
            for (index, event) in nested.iter().enumerate() {
                let mut path: Vec<String> = parents[index].map_or_else(|| base.clone(), |parent| paths[parent].clone());
                path.push(frame(&event.scope));
                *stacks.entry(path.clone()).or_default() += u128::from(own[index]);
                paths.push(path);
            }
        }
    }
    let rounded = stacks.into_iter().map(|(path, ps)| (path.join(";"), (ps + 500) / 1_000));
    rounded.filter(|(_, ns)| *ns > 0).collect()
}
