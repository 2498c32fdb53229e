//! Makes plain values of a recording, by way of the plane that a profile would have.
//!
//! In that plane, times are ticks. Ticks tell what is inside what, even where the test's clock stood still; they become the
//! test's times at the end.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use zprof_proto::prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat};

use super::Step;
use super::values::{Arg, Counter, Mark, Recorded, Scope, Thread};
use crate::clock::Timeline;
use crate::error::{Error, ErrorKind, Result};
use crate::record::recording;
use crate::room::OutOfMemory;
use crate::session::{ProfilerOptions, Unplaced, cause_of_losses, counters, crossings, host, warnings};

/// Line ids from here on are no thread's.
#[allow(clippy::cast_possible_wrap)] // 2^30
const FIRST_OWN_ID: i64 = host::FIRST_OWN_ID as i64;
#[allow(clippy::cast_possible_wrap)] // the largest that an i64 can be
const COUNTERS_ID: i64 = counters::ID as i64;

/// Reads what these threads recorded, or all, and apart from it what others did; `tid` is the test's own.
pub(super) fn read(
    mut recorded: recording::Recorded,
    threads: Option<&BTreeSet<u64>>,
    tid: u64,
    steps: &[Step],
    options: &ProfilerOptions,
) -> Result<Recorded> {
    let first = recorded.timeline.first_tick();
    recorded.timeline = Timeline::of_ticks(first);
    let mut numbers = Numbers::default();
    let wanted = |tid: u64| threads.is_none_or(|threads| threads.contains(&tid));
    let (kept, rest) = std::mem::take(&mut recorded.streams).into_iter().partition(|stream| wanted(stream.log.tid()));
    recorded.streams = kept;
    // A thread past its end may be anyone's, and so may a signal handler be.
    let unplaced = Unplaced::of(&recorded);
    let none = Unplaced::default();
    let (own, of_others) = if threads.is_none() { (unplaced, none) } else { (none, unplaced) };
    let mut part = |recorded: &mut recording::Recorded, unplaced| {
        read_part(recorded, unplaced, (tid, first, steps), options, &mut numbers)
    };
    let mut values = part(&mut recorded, own)?;
    recorded.streams = rest;
    let others = part(&mut recorded, of_others)?;
    values.others = (others != Recorded::default()).then(|| Box::new(others));
    Ok(values)
}

/// Reads the streams of a recording, whose times are ticks from `first` on.
fn read_part(
    recorded: &mut recording::Recorded,
    unplaced: Unplaced,
    (tid, first, steps): (u64, u64, &[Step]),
    options: &ProfilerOptions,
    numbers: &mut Numbers,
) -> Result<Recorded> {
    let host = host::convert(recorded).map_err(OutOfMemory::error)?;
    let mut told = warnings(&host.losses, unplaced, &[], &cause_of_losses(recorded.was_short, options));
    told.extend(crossings(&host));
    let dropped_scopes = host.losses.iter().map(|loss| loss.scopes).sum::<u64>() + unplaced.scopes();
    let bytes = host.plane.into_pieces().map_err(OutOfMemory::error)?.concat();
    let space = XSpace::decode(bytes.as_slice()).map_err(|error| {
        Error::with_source(ErrorKind::InvalidData, "failed to read back what a test has recorded", error)
    })?;
    let plane = space.planes.into_iter().next().unwrap_or_default();
    let mut reader = Reader { plane: &plane, first, steps, numbers };
    let mut values = reader.values(tid);
    (values.warnings, values.dropped_scopes) = (told, dropped_scopes);
    Ok(values)
}

struct Reader<'a> {
    plane: &'a XPlane,
    /// Tick at which the session started.
    first: u64,
    steps: &'a [Step],
    numbers: &'a mut Numbers,
}

/// Numbers in the order in which they are met.
#[derive(Default)]
struct Numbers {
    flows: HashMap<u64, u64>,
    tasks: HashMap<u64, u64>,
}

/// What a line of the plane is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Own,
    Thread,
    Tasks,
    Counters,
}

impl Reader<'_> {
    fn values(&mut self, tid: u64) -> Recorded {
        let mut values = Recorded::default();
        let plane = self.plane;
        let lines = |sort: Sort| plane.lines.iter().filter(move |line| sort_of(line, plane, tid) == sort);
        // Those that began first come first, each with the ones within it behind it.
        let mut tasks: Vec<((u64, u64), Scope)> = Vec::new();
        for line in lines(Sort::Tasks) {
            let mut outermost = 0;
            tasks.extend(self.events(line, Sort::Tasks).into_iter().map(|(begin, task)| {
                outermost = if task.depth == 0 { begin } else { outermost };
                ((outermost, begin), task)
            }));
        }
        tasks.sort_by_key(|(begins, _)| *begins);
        for (_, task) in &mut tasks {
            self.number(task);
        }
        values.tasks = tasks.into_iter().map(|(_, task)| task).collect();
        let threads = lines(Sort::Own).map(|line| (line, true)).chain(lines(Sort::Thread).map(|line| (line, false)));
        for (line, is_own) in threads {
            let mut scopes: Vec<Scope> = self.events(line, Sort::Thread).into_iter().map(|(_, scope)| scope).collect();
            scopes.iter_mut().for_each(|scope| self.number(scope));
            values.threads.push(Thread { name: line.name.clone(), is_own, scopes });
        }
        values.counters =
            lines(Sort::Counters).flat_map(|line| &line.events).filter_map(|event| self.counter(event)).collect();
        values
    }

    /// The events of a line, each with the tick at which it begins.
    fn events(&self, line: &XLine, sort: Sort) -> Vec<(u64, Scope)> {
        // Behind the program's metadata, and by the same names maybe, stands what the profile adds: of a task `polls`, `_a` and
        // `flow`, and the thread's id where the line's is another.
        let added = match sort {
            Sort::Tasks => 2,
            _ if line.id >= FIRST_OWN_ID => 1,
            _ => 0,
        };
        // Ends of what is open, in the plane's picoseconds, the innermost last. Scopes that share a tick have an order there.
        let mut open: Vec<u64> = Vec::new();
        let scope = |event: &XEvent| {
            let begin_ps = offset_ps(event);
            let end_ps = begin_ps + u64::try_from(event.duration_ps).unwrap_or(0);
            while open.last().is_some_and(|&around| end_ps > around || begin_ps >= around) {
                open.pop();
            }
            let (begin, depth) = (begin_ps / PS_PER_TICK, open.len());
            let start = self.at(begin);
            open.push(end_ps);
            let duration = self.at(end_ps / PS_PER_TICK) - start;
            let mut scope = Scope { start, duration, depth, ..Scope::default() };
            scope.is_instant = begin_ps == end_ps;
            if let Some(kind) = self.plane.event_metadata.get(&event.metadata_id) {
                self.place(kind, &mut scope);
            }
            let number = usize::from(sort == Sort::Tasks);
            let own = event.stats.len().saturating_sub(added + number);
            let numbers = event.stats.len().saturating_sub(number);
            event.stats[..own].iter().chain(&event.stats[numbers..]).for_each(|stat| self.stat(stat, &mut scope));
            (begin, scope)
        };
        line.events.iter().map(scope).collect()
    }

    /// The test's time at a tick of the plane.
    fn at(&self, tick: u64) -> Duration {
        let tick = self.first.saturating_add(tick);
        let after = self.steps.partition_point(|step| step.tick <= tick);
        after.checked_sub(1).and_then(|at| self.steps.get(at)).map_or(Duration::ZERO, |step| step.passed)
    }

    /// Where a scope is marked.
    fn place(&self, kind: &XEventMetadata, scope: &mut Scope) {
        scope.name.clone_from(&kind.name);
        for stat in &kind.stats {
            match (self.name(stat.metadata_id), self.arg(stat)) {
                ("module_path", Some(Arg::Text(path))) => scope.module_path = path,
                ("source", Some(Arg::Text(source))) => {
                    let (file, line) = source.rsplit_once(':').unwrap_or((&source, ""));
                    (scope.file, scope.line) = (file.to_owned(), line.parse().unwrap_or(0));
                }
                _ => {}
            }
        }
    }

    fn stat(&self, stat: &XStat, scope: &mut Scope) {
        let (key, Some(value)) = (self.name(stat.metadata_id), self.arg(stat)) else { return };
        let number = match value {
            Arg::Int(value) => u64::try_from(value).ok(),
            Arg::Uint(value) => Some(value),
            Arg::Float(_) | Arg::Text(_) => None,
        };
        let mark = Mark::ALL.into_iter().find(|(name, _)| *name == key).filter(|_| number == Some(1));
        match (key, &stat.value) {
            ("_pt" | "_ct", _) => {}
            ("_p", _) => scope.sends = number,
            ("_c", _) => scope.receives = number,
            ("_r", _) => scope.is_root = true,
            // A program's own integers are of the other kind where they fit it.
            ("flow", Some(Value::Uint64Value(value))) => scope.task = Some(value >> 2),
            _ => match mark {
                Some((_, mark)) => scope.marks.push(mark),
                None => scope.args.push((key.to_owned(), value)),
            },
        }
    }

    fn counter(&self, event: &XEvent) -> Option<Counter> {
        let name = self.plane.event_metadata.get(&event.metadata_id)?.name.clone();
        let stat = event.stats.first()?;
        let unit = self.name(stat.metadata_id).to_owned();
        Some(Counter { name, unit, at: self.at(offset_ps(event) / PS_PER_TICK), value: self.arg(stat)? })
    }

    /// Gives flows and tasks the numbers of their order.
    fn number(&mut self, scope: &mut Scope) {
        fn renumbered(numbers: &mut HashMap<u64, u64>, number: u64) -> u64 {
            let next = numbers.len() as u64 + 1;
            *numbers.entry(number).or_insert(next)
        }
        let Numbers { flows, tasks } = self.numbers;
        scope.sends = scope.sends.map(|number| renumbered(flows, number));
        scope.receives = scope.receives.map(|number| renumbered(flows, number));
        scope.task = scope.task.map(|number| renumbered(tasks, number));
    }

    fn name(&self, id: i64) -> &str {
        self.plane.stat_metadata.get(&id).map_or("", |stat| &stat.name)
    }

    fn arg(&self, stat: &XStat) -> Option<Arg> {
        Some(match stat.value.as_ref()? {
            Value::Int64Value(value) => Arg::Int(*value),
            Value::Uint64Value(value) => Arg::Uint(*value),
            Value::DoubleValue(value) => Arg::Float(*value),
            Value::RefValue(id) => Arg::Text(self.name(i64::try_from(*id).ok()?).to_owned()),
            Value::StrValue(text) => Arg::Text(text.clone()),
            // The recorder writes none.
            Value::BytesValue(_) => return None,
        })
    }
}

/// Picoseconds of the plane that stand for a tick.
const PS_PER_TICK: u64 = 1_000;

/// Where an event begins, in picoseconds of the plane.
fn offset_ps(event: &XEvent) -> u64 {
    match event.data {
        Some(Data::OffsetPs(offset)) => u64::try_from(offset).unwrap_or(0),
        _ => 0,
    }
}

fn sort_of(line: &XLine, plane: &XPlane, tid: u64) -> Sort {
    // What the profile adds comes last.
    let is_task = |event: &XEvent| {
        let stats = event.stats.iter().rev().take(3).filter_map(|stat| plane.stat_metadata.get(&stat.metadata_id));
        stats.map(|stat| stat.name.as_str()).eq(["flow", "_a", "polls"])
    };
    if line.id == COUNTERS_ID {
        Sort::Counters
    } else if u64::try_from(line.id) == Ok(tid) {
        Sort::Own
    } else if line.id >= FIRST_OWN_ID && line.events.first().is_some_and(is_task) {
        Sort::Tasks
    } else {
        Sort::Thread
    }
}
