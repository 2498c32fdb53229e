//! Joins the polls and ends of tasks over all threads, and gives each task a span on lines of their own.
//!
//! A task that was polled inside another, as one that it awaits, is shown inside it where it ends within it. All others
//! have a line to themselves for as long as they live, and the lines of those that are over are used again.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::lanes::{LaneAllocator, LaneLimits};
use crate::record::decode::{Decoded, value};
use crate::record::drain::Scope;
use crate::record::task::Outcome;
use crate::room::{self, OutOfMemory, Result, Room as _};
use crate::value::Kind;
use crate::xspace::writer::{Line, Plane, StatNames, StatValue};

/// The tasks of a session.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    found: HashMap<u64, Task, FixedState>,
    /// Ends and numbers of the polls that are open at this place of the thread.
    open: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Task {
    kind: u64,
    /// Begin of the first poll and end of the last, in picoseconds.
    begin: u64,
    end: u64,
    /// Its very first poll was seen.
    is_whole: bool,
    outcome: Option<Outcome>,
    /// Whether it has ended is not on record.
    is_lost: bool,
    polls: i64,
    /// The task that polled it.
    parent: Option<u64>,
    /// Its name, which is one too many to be a kind, was seen.
    is_named: bool,
    /// Its metadata was seen.
    is_described: bool,
    stats: Vec<(u64, Kept)>,
}

impl Task {
    fn new(kind: u64) -> Self {
        let (begin, stats) = (u64::MAX, Vec::new());
        Self {
            kind,
            begin,
            end: 0,
            is_whole: false,
            outcome: None,
            is_lost: false,
            polls: 0,
            parent: None,
            is_named: false,
            is_described: false,
            stats,
        }
    }
}

/// A stat's value, until its event is written.
#[derive(Debug)]
enum Kept {
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
}

impl Kept {
    fn of(value: Decoded<'_>) -> Result<Self> {
        Ok(match value {
            Decoded::Bool(value) => Self::Int(i64::from(value)),
            Decoded::Signed(value) => Self::Int(value),
            Decoded::Unsigned(value) | Decoded::Sends(value) | Decoded::Receives(value) => {
                i64::try_from(value).map_or(Self::Uint(value), Self::Int)
            }
            Decoded::Float(value) => Self::Double(value),
            Decoded::Single(value) => Self::Double(value.into()),
            Decoded::Char(value) => Self::Text(value.to_string().into()),
            Decoded::Text(value) => Self::Text(room::text(value)?.into_boxed_str()),
        })
    }

    fn stat(&self) -> StatValue<'_> {
        match self {
            Self::Int(value) => StatValue::Int(*value),
            Self::Uint(value) => StatValue::Uint(*value),
            Self::Double(value) => StatValue::Double(*value),
            Self::Text(text) => StatValue::Text(text),
        }
    }
}

/// The stat by which polls and the whole refer to each other: XProf's flow, of no particular kind, in and out.
pub(super) fn flow(number: u64) -> StatValue<'static> {
    StatValue::Uint(number << 2 | 3)
}

impl Tasks {
    /// The scopes that follow are those of another thread, or begin anew.
    pub(super) fn next_thread(&mut self) {
        self.open.clear();
    }

    /// Notes a slice of a span that other slices, which may come later, say more about: one on the thread that entered it
    /// first.
    #[cold]
    pub(super) fn slice(&mut self, number: u64, (begin, end): (u64, u64), kind: u64) -> Result<()> {
        self.enter(number, (begin, end), kind)?;
        Ok(())
    }

    /// Notes that a thread was at a task.
    fn enter(&mut self, number: u64, (begin, end): (u64, u64), kind: u64) -> Result<&mut Task> {
        while self.open.last().is_some_and(|&(end, _)| end <= begin) {
            self.open.pop();
        }
        let parent = self.open.last().map(|&(_, number)| number);
        room::push(&mut self.open, (end, number))?;
        self.found.room(1)?;
        let task = self.found.entry(number).or_insert_with(|| Task::new(kind));
        // Its end, which may have been met first, does not know a name that the task brought along.
        task.kind = kind;
        task.polls += 1;
        if begin <= task.begin {
            task.parent = parent;
        }
        task.begin = task.begin.min(begin);
        task.end = task.end.max(end);
        Ok(task)
    }

    /// Notes a poll, whose scope has this kind and these `keys`, and returns the number of its task; beside the kind stands a name
    /// that is one too many to be a kind. `since` is where a span of several threads was made, which its first slice on the second
    /// one tells.
    #[cold]
    pub(super) fn poll(
        &mut self,
        scope: &Scope<'_>,
        (begin, end): (u64, u64),
        (kind, unnamed): (u64, Option<&str>),
        since: Option<u64>,
        keys: &[u64],
        names: &mut StatNames,
    ) -> Result<Option<u64>> {
        let Some(&word) = scope.values.last() else { return Ok(None) };
        let (number, is_first) = (word >> 1, word & 1 == 1);
        let task = self.enter(number, (begin, end), kind)?;
        task.begin = task.begin.min(since.unwrap_or(begin));
        if is_first {
            task.is_whole = true;
        }
        let is_named = matches!(scope.shape.kinds.first(), Some(Kind::Name));
        if let Some(name) = unnamed.filter(|_| !task.is_named) {
            task.is_named = true;
            room::push(&mut task.stats, (names.id("name"), Kept::Text(room::text(name)?.into_boxed_str())))?;
        }
        if !task.is_described && (is_first || scope.shape.kinds.len() > 1 + usize::from(is_named)) {
            task.is_described = true;
            let mut words = scope.values;
            for (kind, &key) in scope.shape.kinds.iter().zip(keys) {
                let Some((decoded, rest)) = value(kind, words) else { break };
                words = rest;
                // A name is no stat.
                let decoded = decoded.filter(|_| !matches!(kind, Kind::Name));
                if let Some(decoded) = decoded {
                    room::push(&mut task.stats, (key, Kept::of(decoded)?))?;
                }
            }
        }
        for (_, note) in scope.notes {
            if let Some((Some(decoded), _)) = value(note.kind, note.words) {
                room::push(&mut task.stats, (names.id(note.key), Kept::of(decoded)?))?;
            }
        }
        Ok(Some(number))
    }

    /// Notes the end of a task, as a record has it.
    pub(super) fn end(&mut self, task: u64, end: u64, kind: u64) -> Result<()> {
        let (number, outcome) = (task >> Outcome::BITS, Outcome::of(task));
        self.found.room(1)?;
        let task = self.found.entry(number).or_insert_with(|| Task::new(kind));
        task.outcome = Some(outcome);
        task.end = task.end.max(end);
        Ok(())
    }

    /// Writes a line for each task that lives at the same time as others. `stop` is the end of the session in picoseconds;
    /// before `whole_since`, which is `None` where all is there, a thread's record may lack what others refer to.
    pub(super) fn write(
        self,
        plane: &mut Plane,
        stop: u64,
        whole_since: Option<u64>,
        mut own_id: impl FnMut() -> u64,
    ) -> Result<()> {
        let is_part = whole_since.is_some();
        let whole_since = whole_since.unwrap_or(0);
        let mut tasks: Vec<(u64, Task)> = room::with_room(self.found.len())?;
        tasks.extend(self.found);
        for (_, task) in &mut tasks {
            if !task.is_whole && whole_since == 0 {
                task.begin = 0;
            }
            task.is_lost = task.outcome.is_none() && task.end < whole_since;
            if task.outcome.is_none() && !task.is_lost {
                task.end = stop.max(task.end);
            }
            task.begin = task.begin.min(task.end);
        }
        tasks.sort_unstable_by_key(|(number, task)| (task.begin, Reverse(task.end), *number));
        let lanes = lanes(&tasks)?;
        let count = lanes.iter().max().map_or(0, |last| last + 1);
        let new_line = |lane| {
            let number = if lane == 0 { String::new() } else { format!(" {}", lane + 1) };
            Line::new(own_id(), format!("async{number}"), 0)
        };
        let mut lines = room::collect((0..count).map(new_line), count)?;
        for ((number, task), lane) in tasks.iter().zip(lanes) {
            let Some(line) = lines.get_mut(lane) else { continue };
            let names = &mut plane.names;
            let mut event = line.event(task.kind, task.begin, task.end.saturating_sub(task.begin));
            for (key, kept) in &task.stats {
                event.stat(*key, kept.stat(), names);
            }
            let marks = [
                ("unfinished", task.outcome.is_none() && !task.is_lost),
                ("started_before", !task.is_whole),
                ("first_poll_released", !task.is_whole && !task.is_described && is_part),
                ("cancelled", task.outcome == Some(Outcome::Cancelled)),
                ("panicked", task.outcome == Some(Outcome::Panicked)),
            ];
            for (mark, _) in marks.into_iter().filter(|mark| mark.1) {
                let key = names.id(mark);
                event.stat(key, StatValue::Int(1), names);
            }
            // The names of stats that nothing has stay out of the plane.
            for (name, value) in
                [("polls", StatValue::Int(task.polls)), ("_a", StatValue::Int(1)), ("flow", flow(*number))]
            {
                let key = names.id(name);
                event.stat(key, value, names);
            }
            event.end();
        }
        for line in lines {
            plane.push(line);
        }
        Ok(())
    }
}

/// The line of each task; they come by their begins. A task is put inside of the task that polled it, if it ends within that and
/// nothing else is open there; tasks that have nothing to do with each other are never shown as if one were inside the other.
fn lanes(tasks: &[(u64, Task)]) -> Result<Vec<usize>> {
    let mut allocator = LaneAllocator::new(LaneLimits::NONE);
    let mut lane_of: HashMap<u64, usize, FixedState> = HashMap::default();
    let mut found = room::with_room(tasks.len())?;
    lane_of.room(tasks.len())?;
    for (number, task) in tasks {
        allocator.close(task.begin, |_, _| Ok(()))?;
        let around = task.parent.and_then(|parent| Some((parent, *lane_of.get(&parent)?)));
        let inside = match around {
            Some((parent, lane)) if allocator.innermost(lane) == Some(&parent) => {
                allocator.open_inside(lane, task.end, *number)?
            }
            _ => None,
        };
        let lane = match inside {
            Some(lane) => lane,
            None => allocator.open_alone(task.end, *number)?.ok_or(OutOfMemory)?, // only memory bounds the lanes
        };
        lane_of.insert(*number, lane);
        found.push(lane);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes of tasks that are written as begin, end and parent.
    fn of(tasks: &[(u64, u64, Option<u64>)]) -> Vec<usize> {
        let tasks: Vec<(u64, Task)> = tasks
            .iter()
            .zip(0..)
            .map(|(&(begin, end, parent), number)| (number, Task { begin, end, parent, ..Task::new(1) }))
            .collect();
        lanes(&tasks).expect("there is memory")
    }

    #[test]
    fn a_lane_holds_one_task_at_a_time_and_what_it_awaits() {
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[(0, 10, None), (1, 5, None), (5, 9, None), (10, 12, None)]), [0, 1, 1, 0]);
        assert_eq!(of(&[(0, 10, None), (1, 5, Some(0)), (2, 4, Some(1)), (5, 9, Some(0))]), [0, 0, 0, 0]);
        // Two at once inside one: the second has a lane of its own, and so has what outlives its parent.
        assert_eq!(of(&[(0, 10, None), (1, 5, Some(0)), (2, 6, Some(0)), (7, 12, Some(0))]), [0, 0, 1, 1]);
        // A task without length, and one whose parent is of another session.
        assert_eq!(of(&[(0, 0, None), (0, 3, Some(9))]), [0, 0]);
    }
}
