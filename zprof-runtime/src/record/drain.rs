//! Makes whole scopes of a thread's records: finds the end of each begin, and says what became of those without one.

use super::chain::Sampled;
use super::decode::{Note, Record, Words};
use super::nest::{Nest, Open};
use crate::room::{self, Result, Room as _};
use crate::site::Origin;
use crate::value::{Kind, Shape};

/// What became of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// It was still open when the session stopped or the thread ended.
    pub(crate) unfinished: bool,
    /// Its guard was never dropped; it is closed at the end of the scope around it.
    pub(crate) leaked: bool,
    /// It outlived a scope that began before it, or ended while a poll was open that began after it. It does not fit on the
    /// thread's line.
    pub(crate) overlaps: bool,
}

impl Fate {
    fn is_usual(self) -> bool {
        self == Self::default()
    }
}

/// Numbers the records of one thread within one tick.
///
/// The counters of many processors and systems are coarse: 24 to 100 MHz on most 64-bit Arm processors and 10 MHz on Windows,
/// so that several short scopes fit into one tick. Readers see only times. They would take a scope without length for a
/// child of the next one if both begin at the same time, and sort it behind that one. With the number of its record, in
/// picoseconds, added to each time, what follows in the stream also follows in time.
///
/// A record has a higher number than the record before it if that one ended a scope. So a scope has no length if it
/// begins and ends in one tick with nothing between, as an instant does, and everything else keeps its place.
#[derive(Default)]
struct TickOrder {
    tick: u64,
    number: u8,
    is_after_end: bool,
}

impl TickOrder {
    /// The highest number. A tick lasts longer than as many picoseconds on every processor to 10 GHz, so that a number
    /// never reaches into the next tick; past it, records share their time as they share their tick.
    const MAX: u8 = 99;

    /// The number of the next record of the stream.
    #[inline(always)]
    fn next(&mut self, tick: u64, is_end: bool) -> u8 {
        if tick > self.tick {
            *self = Self { tick, number: 0, is_after_end: is_end };
        } else if tick == self.tick {
            self.number = (self.number + u8::from(self.is_after_end)).min(Self::MAX);
            self.is_after_end = is_end;
        } else {
            // A begin that the ring has kept from before: older than all that is still there.
            return 0;
        }
        self.number
    }
}

/// A whole scope.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// How many picoseconds after the begin of its tick the scope begins, and how many after the begin of its last tick it
    /// ends: the order of what shares a tick.
    pub(crate) order: [u8; 2],
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
    /// It ended while a poll was open, and does not fit on the thread's line.
    pub(crate) overlaps: bool,
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
    /// The `order` of the n-th begin. Shorter than `ends` if that of all further scopes is 0.
    orders: Vec<[u8; 2]>,
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
        let (orders, tasks, counts, before) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut scopes =
            Self { chunks, since, last, outside: 0, ends, orders, fates, notes, early, tasks, counts, before };
        let (mut open, mut order) = (Nest::default(), TickOrder::default());
        // Loops in loops, not one flattened iterator: a record then stays in registers.
        for chunk in chunks {
            for record in chunk.records() {
                scopes.apply(record, &mut open, &mut order)?;
            }
        }
        for scope in open.into_open() {
            let leaked = scopes.crosses(&scope);
            if leaked {
                scopes.ends[scope.index] = scope.outlived;
                scopes.set_order(scope.index, 1, scope.outlived, scope.outlived_order);
            }
            room::push(&mut scopes.fates, (scope.index, Fate { unfinished: !leaked, leaked, overlaps: false }))?;
        }
        scopes.fates.sort_unstable_by_key(|(index, _)| *index);
        // Those of one scope stay in their order: sorting that keeps it would allocate.
        scopes.notes.sort_unstable_by_key(|(index, note)| (*index, note.number));
        Ok(scopes)
    }

    /// Takes one record into account.
    ///
    /// On a thread's line, scopes nest. Where they cross, that is where one ends while another is open that began after it, one of
    /// the two goes to a line of its own, and a warning names it. It is the later one, which outlived the earlier, with two
    /// exceptions, since somebody would be blamed for the fault of another:
    ///
    /// - A poll is a function's run, and cannot outlive what is around it. A scope that ends inside a poll that began after it was
    ///   held across an await, so the scope goes.
    /// - A scope that outlived another one has gone already. Nothing on the thread's line crosses it any more.
    #[inline(always)]
    fn apply(&mut self, record: Record<'a>, open: &mut Nest, order: &mut TickOrder) -> Result<()> {
        match record {
            Record::Begin { tick, position, shape, .. } => {
                self.outside += usize::from(tick > self.last);
                self.set_order(self.ends.len(), 0, tick, order.next(tick, false));
                open.push(self.ends.len(), position)?;
                if is_poll(shape) {
                    open.is_poll(position)?;
                }
                room::push(&mut self.ends, self.last)?;
            }
            Record::End { tick } => {
                let number = order.next(tick, true);
                if let Some(scope) = open.pop() {
                    let overlaps = self.crosses(&scope);
                    self.close(&scope, tick, number, overlaps)?;
                }
            }
            Record::Close { tick, position } => {
                let number = order.next(tick, true);
                if let Some(scope) = open.take(position) {
                    let overlaps = self.crosses(&scope) || (tick <= self.last && open.has_poll_from(position));
                    self.close(&scope, tick, number, overlaps)?;
                    if tick <= self.last && !overlaps {
                        open.outlive(position, tick, number);
                    }
                }
            }
            // A scope from before the session that outlived it leaves nothing.
            Record::Early { tick, .. } if !self.has(tick) => {}
            Record::Early { tick, site } => {
                let number = order.next(tick, true);
                let overlaps = open.has_poll_from(0);
                room::push(&mut self.early, Early { end: tick, site, overlaps })?;
                if !overlaps {
                    open.outlive(0, tick, number);
                }
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

    /// Keeps the number of a record within its tick, of the begin (0) or the end (1) of a scope.
    #[inline(always)]
    fn set_order(&mut self, index: usize, which: usize, tick: u64, number: u8) {
        // All that is older than `since` may begin at one time, and at the last tick everything ends: neither has an order.
        if number != 0 && (self.since..self.last).contains(&tick) {
            self.set_order_slowly(index, which, number);
        }
    }

    #[cold]
    fn set_order_slowly(&mut self, index: usize, which: usize, number: u8) {
        if index >= self.orders.len() {
            let more = index + 1 - self.orders.len();
            if self.orders.room(more).is_err() {
                // Without memory for their order, scopes of one tick begin at one time.
                return;
            }
            self.orders.resize(index + 1, [0; 2]);
        }
        self.orders[index][which] = number;
    }

    #[inline(always)]
    fn close(&mut self, scope: &Open, tick: u64, number: u8, overlaps: bool) -> Result<()> {
        self.ends[scope.index] = tick.min(self.last);
        self.set_order(scope.index, 1, tick, number);
        self.outside += usize::from(tick < self.since);
        let fate = Fate { unfinished: tick > self.last, leaked: false, overlaps };
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
                let order = self.orders.get(index).copied().unwrap_or_default();
                let (mut fate, mut notes) = (Fate::default(), [].as_slice());
                if index == next_odd {
                    (fate, notes) = odd.take(index);
                    next_odd = odd.next_index();
                }
                index += 1;
                if tick <= self.last && end >= self.since {
                    each(Scope { begin: tick, end, order, shape, values, fate, notes });
                }
            }
        }
    }
}

/// Whether scopes of this shape are polls of tasks. A slice of a span that a bridge records may be held like any other scope.
#[inline(always)]
fn is_poll(shape: &Shape) -> bool {
    matches!((shape.kinds.last(), &shape.site), (Some(Kind::Number), Origin::Coded(_)))
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
    static POLL: Shape = Shape { site: Origin::Coded(site), kinds: Cow::Borrowed(&[Kind::Number]), plain: true };

    fn poll(tick: u64) -> [u64; 3] {
        [head(tick, BEGIN), std::ptr::from_ref(&POLL).expose_provenance() as u64, 7 << 1]
    }

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
    fn what_was_held_across_an_await_is_to_blame_for_crossing_polls() {
        let overlaps = Fate { overlaps: true, ..USUAL };
        let end = |tick| [head(tick, END)];
        // Begun in one poll, and ended in the next one of the same thread, with a poll of another task between them. A poll takes 24
        // bytes, a scope 16, its position by which an end names it 24.
        let words =
            [&poll(10)[..], &begin(20), &close(30, 0), &poll(35), &end(37), &poll(40), &close(50, 24), &end(60)];
        assert_eq!(
            resolved(&words.concat()).0,
            [(10, 30, USUAL), (20, 50, overlaps), (35, 37, USUAL), (40, 60, USUAL)]
        );
        // Nothing was around it where it began.
        let words = [&begin(10)[..], &poll(20), &begin(25), &close(30, 0), &end(35), &end(40)];
        assert_eq!(resolved(&words.concat()).0, [(10, 30, overlaps), (20, 40, USUAL), (25, 35, USUAL)]);
        // Two tasks hold one each.
        let words = [
            &poll(10)[..],
            &begin(11),
            &close(12, 0),
            &poll(20),
            &begin(21),
            &close(22, 64),
            &poll(30),
            &close(31, 24),
            &end(32),
            &poll(40),
            &close(41, 88),
            &end(42),
        ];
        let polls = [(10, 12), (20, 22), (30, 32), (40, 42)].map(|(begin, end)| (begin, end, USUAL));
        let [one, two, three, four] = polls;
        assert_eq!(resolved(&words.concat()).0, [one, (11, 31, overlaps), two, (21, 41, overlaps), three, four]);
        // What outlives a scope that has gone to another line crosses nothing, and what outlives one that stays does.
        let words = [&begin(10)[..], &begin(20), &close(30, 0), &begin(40), &close(50, 16), &end(60)];
        assert_eq!(resolved(&words.concat()).0, [(10, 30, USUAL), (20, 50, overlaps), (40, 60, USUAL)]);
        // It was open before the session.
        let early = |tick: u64| [head(tick, OTHER), EARLY, (site as *const ()).expose_provenance() as u64];
        let words = [&poll(10)[..], &early(20), &end(30), &begin(40), &early(50), &end(60)].concat();
        let chunks = [Words::written(&words)];
        let scopes = Scopes::resolve(&chunks, 0, 100).expect("there is memory");
        assert_eq!(
            scopes.early.iter().map(|early| (early.end, early.overlaps)).collect::<Vec<_>>(),
            [(20, true), (50, false)]
        );
        assert_eq!(resolved(&words).0, [(10, 30, USUAL), (40, 60, overlaps)]);
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

    /// Begin and end of each scope in picoseconds, where a tick has 1000.
    fn in_time(words: &[&[u64]]) -> Vec<(u64, u64)> {
        let words = words.concat();
        let chunks = [Words::written(&words)];
        let mut found = Vec::new();
        Scopes::resolve(&chunks, 0, 100).expect("there is memory").for_each(|scope| {
            let [begin, end] = scope.order.map(u64::from);
            found.push((scope.begin * 1000 + begin, scope.end * 1000 + end));
        });
        found
    }

    #[test]
    fn scopes_within_one_tick_keep_their_order_in_time() {
        let end = |tick| [head(tick, END)];
        // One without length, then one that goes on, then one without length at its end.
        let siblings = [&begin(7)[..], &end(7), &begin(7), &end(9), &begin(9), &end(9)];
        assert_eq!(in_time(&siblings), [(7_000, 7_000), (7_001, 9_000), (9_001, 9_001)]);
        // A scope around two others, and one after it.
        let nested = [&begin(7)[..], &begin(7), &end(7), &begin(7), &end(7), &end(7), &begin(7), &end(8)];
        assert_eq!(in_time(&nested), [(7_000, 7_002), (7_000, 7_000), (7_001, 7_001), (7_003, 8_000)]);
        // A scope whose guard was leaked ends with the one around it.
        let leaked = [&begin(7)[..], &begin(7), &begin(7), &end(7), &close(7, 0), &begin(7), &end(8)];
        assert_eq!(in_time(&leaked), [(7_000, 7_001), (7_000, 7_001), (7_000, 7_000), (7_002, 8_000)]);
        // What is open at the stop, and what begins there, ends with the session.
        let stopped = [&begin(99)[..], &end(99), &begin(99), &end(100), &begin(100)];
        assert_eq!(in_time(&stopped), [(99_000, 99_000), (99_001, 100_000), (100_000, 100_000)]);
        // What is older than the record has no order.
        let words = [&begin(7)[..], &end(7), &begin(7), &begin(8), &end(9), &end(9)].concat();
        let chunks = [Words::written(&words)];
        let mut orders = Vec::new();
        Scopes::resolve(&chunks, 8, 100).expect("there is memory").for_each(|scope| orders.push(scope.order));
        assert_eq!(orders, [[0, 1], [0, 0]]);
        // A begin that the ring has kept stands before what is younger, and does not change its order.
        let kept = [&begin(7)[..], &end(7), &begin(3), &begin(7), &end(8)];
        assert_eq!(in_time(&kept), [(7_000, 7_000), (3_000, 100_000), (7_001, 8_000)]);
    }

    #[test]
    fn no_scope_of_a_tick_reaches_into_the_next() {
        let words: Vec<u64> = (0..300).flat_map(|_| [&begin(7)[..], &[head(7, END)]].concat()).collect();
        let found = in_time(&[&words, &begin(8), &[head(9, END)]]);
        let expected = (0..300).map(|number| 7_000 + number.min(99)).map(|ps| (ps, ps));
        assert_eq!(found, expected.chain([(8_000, 9_000)]).collect::<Vec<_>>());
    }
}
