//! Makes whole scopes of a thread's records: finds the end of each begin, and says what became of those without one.

use std::collections::BTreeSet;

use super::chain::Sampled;
use super::decode::{Note, Record, Words};
use super::nest::{Nest, Open};
use crate::room::{self, Result};
use crate::site::Origin;
use crate::value::Shape;

/// What became of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// It was still open when the session stopped or the thread ended.
    pub(crate) unfinished: bool,
    /// Its guard was never dropped; it is closed at the end of the scope around it.
    pub(crate) leaked: bool,
    /// It outlived a scope that began before it, and does not fit on the thread's line.
    pub(crate) overlaps: bool,
}

impl Fate {
    fn is_usual(self) -> bool {
        self == Self::default()
    }
}

/// A whole scope.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) shape: &'static Shape,
    pub(crate) values: &'a [u64],
    pub(crate) fate: Fate,
    pub(crate) notes: &'a [(usize, Note<'a>)],
}

/// A scope that was open before the session, and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Early {
    pub(crate) end: u64,
    pub(crate) site: Origin,
}

/// The end of a task on this thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskEnd {
    pub(crate) end: u64,
    /// Its number and what became of it.
    pub(crate) task: u64,
    pub(crate) site: Origin,
}

/// The scopes of one thread, ready to be walked in the order of their begins.
#[derive(Debug)]
pub(crate) struct Scopes<'a> {
    chunks: &'a [Words<'a>],
    /// What ended before this tick is left out.
    since: u64,
    /// Tick at which the session or the thread ended. A thread that meets the stop may write later ticks still.
    last: u64,
    /// Scopes that began later than that or ended before `since`; they are no part of the record.
    outside: usize,
    /// End tick of the n-th begin.
    ends: Vec<u64>,
    /// By index of the begin, ascending: the scopes whose fate is not the usual one.
    fates: Vec<(usize, Fate)>,
    /// By index of the begin, ascending.
    notes: Vec<(usize, Note<'a>)>,
    /// Scopes from before the session, in the order of their ends.
    pub(crate) early: Vec<Early>,
    pub(crate) tasks: Vec<TaskEnd>,
    pub(crate) counts: Vec<Sampled>,
    /// Of each counter the last sample before `since`, as far as it is still there.
    pub(crate) before: Vec<Sampled>,
}

impl<'a> Scopes<'a> {
    /// Reads all records, and leaves out what ended before `since`. Scopes without an end get `last`, the tick at which the
    /// session or the thread ended.
    pub(crate) fn resolve(chunks: &'a [Words<'a>], since: u64, last: u64) -> Result<Self> {
        // A scope takes three words or more, so this is enough, and what is not used is never touched.
        let most = chunks.iter().map(|chunk| chunk.len()).sum::<usize>() / 3 + 1;
        let (ends, fates, notes, early) = (room::with_room(most)?, Vec::new(), Vec::new(), Vec::new());
        let (tasks, counts, before) = (Vec::new(), Vec::new(), Vec::new());
        let mut scopes = Self { chunks, since, last, outside: 0, ends, fates, notes, early, tasks, counts, before };
        let mut open = Nest::default();
        // Loops in loops, not one flattened iterator: a record then stays in registers.
        for chunk in chunks {
            for record in chunk.records() {
                scopes.apply(record, &mut open)?;
            }
        }
        for scope in open.into_open() {
            let leaked = scopes.crosses(&scope);
            if leaked {
                scopes.ends[scope.index] = scope.outlived;
            }
            room::push(&mut scopes.fates, (scope.index, Fate { unfinished: !leaked, leaked, overlaps: false }))?;
        }
        scopes.fates.sort_unstable_by_key(|(index, _)| *index);
        // Those of one scope stay in their order: sorting that keeps it would allocate.
        scopes.notes.sort_unstable_by_key(|(index, note)| (*index, note.number));
        Ok(scopes)
    }

    #[inline(always)]
    fn apply(&mut self, record: Record<'a>, open: &mut Nest) -> Result<()> {
        match record {
            Record::Begin { tick, position, .. } => {
                self.outside += usize::from(tick > self.last);
                open.push(self.ends.len(), position)?;
                room::push(&mut self.ends, self.last)?;
            }
            Record::End { tick } => {
                if let Some(scope) = open.pop() {
                    self.close(&scope, tick)?;
                }
            }
            Record::Close { tick, position } => {
                if let Some(scope) = open.take(position) {
                    self.close(&scope, tick)?;
                    if tick <= self.last {
                        open.outlive(position, tick);
                    }
                }
            }
            // A scope from before the session that outlived it leaves nothing.
            Record::Early { tick, .. } if !self.has(tick) => {}
            Record::Early { tick, site } => {
                room::push(&mut self.early, Early { end: tick, site })?;
                open.outlive(0, tick);
            }
            Record::Task { tick, task, site } => {
                if self.has(tick) {
                    room::push(&mut self.tasks, TaskEnd { end: tick, task, site })?;
                }
            }
            Record::Count { tick, shape, value } => {
                let sample = Sampled { tick, shape, value };
                if self.has(tick) {
                    room::push(&mut self.counts, sample)?;
                } else if tick < self.since {
                    sample.replace(&mut self.before)?;
                }
            }
            Record::Note { position, note } => {
                if let Some(index) = open.index_of(position) {
                    let number = self.notes.len();
                    room::push(&mut self.notes, (index, Note { number, ..note }))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the scope has outlived one around it that is on record.
    fn crosses(&self, scope: &Open) -> bool {
        scope.outlived >= self.since.max(1)
    }

    fn has(&self, tick: u64) -> bool {
        (self.since..=self.last).contains(&tick)
    }

    #[inline(always)]
    fn close(&mut self, scope: &Open, tick: u64) -> Result<()> {
        self.ends[scope.index] = tick.min(self.last);
        self.outside += usize::from(tick < self.since);
        let fate = Fate { unfinished: tick > self.last, leaked: false, overlaps: self.crosses(scope) };
        if fate.is_usual() { Ok(()) } else { room::push(&mut self.fates, (scope.index, fate)) }
    }

    /// How many scopes there are, without the early ones.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() - self.outside
    }

    /// Calls `each` for every scope, in the order of their begins.
    #[inline]
    pub(crate) fn for_each(&self, mut each: impl FnMut(Scope<'_>)) {
        let mut index = 0;
        let mut odd = Odd { fates: &self.fates, notes: &self.notes };
        let mut next_odd = odd.next_index();
        for chunk in self.chunks {
            for record in chunk.records() {
                let Record::Begin { tick, shape, values, .. } = record else { continue };
                let Some(&end) = self.ends.get(index) else { return };
                let (mut fate, mut notes) = (Fate::default(), [].as_slice());
                if index == next_odd {
                    (fate, notes) = odd.take(index);
                    next_odd = odd.next_index();
                }
                index += 1;
                if tick <= self.last && end >= self.since {
                    each(Scope { begin: tick, end, shape, values, fate, notes });
                }
            }
        }
    }
}

/// What is left of the fates and notes while the scopes are walked.
struct Odd<'s, 'a> {
    fates: &'s [(usize, Fate)],
    notes: &'s [(usize, Note<'a>)],
}

impl<'s, 'a> Odd<'s, 'a> {
    /// The next scope that has any.
    fn next_index(&self) -> usize {
        let fate = self.fates.first().map_or(usize::MAX, |first| first.0);
        let note = self.notes.first().map_or(usize::MAX, |first| first.0);
        fate.min(note)
    }

    /// Those of scope `index`, which is the next that has any.
    fn take(&mut self, index: usize) -> (Fate, &'s [(usize, Note<'a>)]) {
        let mut fate = Fate::default();
        if let Some((first, rest)) = self.fates.split_first().filter(|(first, _)| first.0 == index) {
            fate = first.1;
            self.fates = rest;
        }
        let (mine, rest) = self.notes.split_at(self.notes.partition_point(|note| note.0 == index));
        self.notes = rest;
        (fate, mine)
    }
}

/// Splits intervals that may overlap over few lanes: in a lane, intervals nest or follow each other. `intervals` are
/// (begin, end) by ascending begin; the result is the lane of each.
pub(crate) fn lanes(intervals: &[(u64, u64)]) -> Result<Vec<usize>> {
    // Ends of what is open in each lane, the innermost last.
    let mut lanes: Vec<Vec<u64>> = Vec::new();
    // The innermost end of each lane that has one, and the lanes that have none.
    let mut busy: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut empty: BTreeSet<usize> = BTreeSet::new();
    let mut lane_of = room::with_room(intervals.len())?;
    for &(begin, end) in intervals {
        while let Some(&(_, lane)) = busy.first().filter(|(innermost, _)| *innermost <= begin) {
            busy.pop_first();
            while lanes[lane].last().is_some_and(|&last| last <= begin) {
                lanes[lane].pop();
            }
            match lanes[lane].last() {
                Some(&last) => busy.insert((last, lane)),
                None => empty.insert(lane),
            };
        }
        // Inside the interval that ends soonest after it, else alone, else in a new lane.
        let around = busy.range((end, 0)..).next().copied();
        let lane = match around.map(|(_, lane)| lane).or_else(|| empty.pop_first()) {
            Some(lane) => lane,
            None => {
                room::push(&mut lanes, Vec::new())?;
                lanes.len() - 1
            }
        };
        if let Some(around) = around {
            busy.remove(&around);
        }
        busy.insert((end, lane));
        room::push(&mut lanes[lane], end)?;
        lane_of.push(lane);
    }
    Ok(lane_of)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::record::ring::{BEGIN, CLOSE, EARLY, END, OTHER, head};
    use crate::site::{Level, Memo, NO_FILTER, Site};

    fn site() -> &'static Site {
        static SITE: Site = Site {
            name: "s",
            label: "s\0",
            given: 0,
            keys: &[],
            level: Level::Critical,
            filter: NO_FILTER,
            module_path: "m",
            file: "f",
            line: 1,
            memo: Memo::new(),
        };
        &SITE
    }

    static SHAPE: Shape = Shape { site: Origin::Coded(site), kinds: Cow::Borrowed(&[]), plain: true };

    fn begin(tick: u64) -> [u64; 2] {
        [head(tick, BEGIN), std::ptr::from_ref(&SHAPE).expose_provenance() as u64]
    }

    fn close(tick: u64, position: u64) -> [u64; 3] {
        [head(tick, CLOSE), 0, position]
    }

    /// Begin, end and fate of each scope in a session that stopped at tick 100, and the ends of the early ones.
    fn resolved(words: &[u64]) -> (Vec<(u64, u64, Fate)>, Vec<u64>) {
        let chunks = [Words::written(words)];
        let scopes = Scopes::resolve(&chunks, 0, 100).expect("there is memory");
        let mut found = Vec::new();
        scopes.for_each(|scope| found.push((scope.begin, scope.end, scope.fate)));
        assert_eq!(found.len(), scopes.len());
        (found, scopes.early.iter().map(|early| early.end).collect())
    }

    const USUAL: Fate = Fate { unfinished: false, leaked: false, overlaps: false };
    const UNFINISHED: Fate = Fate { unfinished: true, ..USUAL };

    #[test]
    fn what_a_thread_wrote_after_the_stop_is_no_part_of_the_session() {
        let words = [&begin(10)[..], &begin(20), &[head(30, END)], &[head(140, END)], &begin(150), &[head(160, END)]];
        assert_eq!(resolved(&words.concat()).0, [(10, 100, UNFINISHED), (20, 30, USUAL)]);
        let early = |tick: u64| [head(tick, OTHER), EARLY, (site as *const ()).expose_provenance() as u64];
        let words = [&begin(10)[..], &early(50), &early(150), &[head(160, END)]];
        let crossing = Fate { overlaps: true, ..UNFINISHED };
        assert_eq!(resolved(&words.concat()), (vec![(10, 100, crossing)], vec![50]));
    }

    #[test]
    fn scopes_that_both_end_after_the_stop_do_not_cross() {
        let words = [&begin(10)[..], &begin(20), &close(140, 0), &close(150, 16)];
        assert_eq!(resolved(&words.concat()).0, [(10, 100, UNFINISHED), (20, 100, UNFINISHED)]);
        let words = [&begin(10)[..], &begin(20), &close(40, 0), &close(50, 16)];
        assert_eq!(resolved(&words.concat()).0, [(10, 40, USUAL), (20, 50, Fate { overlaps: true, ..USUAL })]);
        let words = [&begin(10)[..], &begin(20), &close(40, 0)];
        assert_eq!(resolved(&words.concat()).0, [(10, 40, USUAL), (20, 40, Fate { leaked: true, ..USUAL })]);
    }

    #[test]
    fn lanes_hold_what_nests() {
        let nested = [(0, 10), (1, 5), (5, 9), (20, 30)];
        assert_eq!(lanes(&nested).as_deref(), Ok([0, 0, 0, 0].as_slice()));
        let crossing = [(0, 10), (5, 15), (12, 20), (16, 18)];
        assert_eq!(lanes(&crossing).as_deref(), Ok([0, 1, 0, 0].as_slice()));
        assert_eq!(lanes(&[]).as_deref(), Ok([].as_slice()));
    }
}
