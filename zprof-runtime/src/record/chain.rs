//! The chunks of one thread, oldest first; and how the oldest go where only the latest are kept.
//!
//! The owner appends without a lock, and takes the lock for letting go only if nobody has it, so that it never waits for
//! a reader. Whoever has the lock may take chunks out, but never the last one, in which the owner writes.
//!
//! A chunk is out of bounds when enough has been written after it, or when its last record is old enough. What began in
//! it may still be open, or have ended within bounds: such begins are copied out of the chunk before it goes (they are
//! *carried*), with the metadata added to them, and stay until their ends go. A chunk that is just out of bounds mostly
//! has begins that end in the next one; it stays until that one is out of bounds too, and then nothing need be copied.
//! Of each counter, the last sample in what goes is copied too.

use std::collections::VecDeque;
use std::ops::Range;

use super::chunk::{Chunk, ChunkBox, Left, Link, Moment};
use super::decode::{Record, Words};
use super::nest::Nest;
use super::pool::LARGE;
use super::primitive::{AtomicPtr, Mutex, MutexGuard, Ordering};
use super::ring::Writer;
use crate::room::{self, Result, Room as _};
use crate::value::Shape;

/// Begins that are carried per thread. More are open only in a program that leaks its guards.
const MOST_CARRIED: usize = 1 << 16;

/// How much is kept of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Age of the oldest record, in nanoseconds.
    pub(crate) ns: u64,
    /// Bytes of records.
    pub(crate) bytes: u64,
}

impl Bounds {
    /// All is kept.
    pub(crate) const NONE: Self = Self { ns: u64::MAX, bytes: u64::MAX };

    /// So few bytes that a ring of large chunks would be a coarse one.
    pub(crate) fn are_narrow(self) -> bool {
        const LEAST_LARGE: usize = 4;
        usize::try_from(self.bytes).is_ok_and(|bytes| bytes < LEAST_LARGE * ChunkBox::bytes(LARGE))
    }
}

/// The chunks, and what is kept of those that are gone.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The oldest chunk; null where there is none. Written by the owner where it is null, else under the lock.
    first: AtomicPtr<Chunk>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    epoch: u32,
    /// Tick from which on the record is whole; 0 for the session's start.
    since: u64,
    /// Bytes of records that were let go.
    released: u64,
    /// The owner has told of all ends before this position.
    told: u64,
    /// Ends of scopes that began in an earlier chunk, in the order of the ends.
    closed: VecDeque<Closed>,
    /// By position, ascending.
    carried: Vec<Carried>,
    /// Begins that found no room among those.
    uncarried: u64,
    /// The last sample of each counter among what was let go.
    counts: Vec<Sampled>,
}

/// A sample of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    pub(crate) tick: u64,
    pub(crate) shape: &'static Shape,
    /// The bits of the value, of the shape's only kind.
    pub(crate) value: u64,
}

impl Sampled {
    /// Puts it in the place of the one before of its counter.
    pub(crate) fn replace(self, last: &mut Vec<Self>) -> Result<()> {
        match last.iter_mut().find(|other| std::ptr::eq(other.shape, self.shape)) {
            Some(other) => *other = self,
            None => room::push(last, self)?,
        }
        Ok(())
    }
}

/// Positions of the end and the begin of a scope that ended in a later chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    pub(crate) at: u64,
    pub(crate) begin: u64,
}

/// The begin of a scope whose chunk is gone.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) position: u64,
    /// The record of its begin.
    pub(crate) words: Box<[u64]>,
    /// Records of metadata that was added, the last one of each key.
    pub(crate) notes: Vec<Box<[u64]>>,
}

impl Carried {
    /// A copy, where there is memory.
    fn copied(&self) -> Result<Self> {
        let mut notes = room::with_room(self.notes.len())?;
        for note in &self.notes {
            notes.push(room::copy(note)?);
        }
        Ok(Self { position: self.position, words: room::copy(&self.words)?, notes })
    }
}

/// What a reader takes of a chain.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The chunks, and how many of their words count.
    pub(crate) chunks: Vec<(ChunkBox, usize)>,
    pub(crate) carried: Vec<Carried>,
    pub(crate) since: u64,
    pub(crate) released: u64,
    pub(crate) uncarried: u64,
    pub(crate) counts: Vec<Sampled>,
}

impl Chain {
    pub(crate) fn new() -> Self {
        Self { first: AtomicPtr::new(std::ptr::null_mut()), state: Mutex::new(State::default()) }
    }

    /// Puts `chunk` at the end, and lets the owner's writer go on there.
    ///
    /// # Safety
    ///
    /// As [`Writer::go_on`], but that its chain is this one.
    pub(crate) unsafe fn append(&self, writer: &Writer, chunk: ChunkBox, left: Left) {
        // SAFETY: as the caller says; and chunks go by `Locked::pop`, which leaves the last, and `Locked::clear`, whose
        // caller knows that the writer has left.
        unsafe { writer.go_on(&self.first, chunk, left) }
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { first: &self.first, state: self.state.lock() }
    }

    pub(crate) fn try_lock(&self) -> Option<Locked<'_>> {
        self.state.try_lock().map(|state| Locked { first: &self.first, state })
    }
}

/// The chain under its lock.
pub(crate) struct Locked<'a> {
    first: &'a AtomicPtr<Chunk>,
    state: MutexGuard<'a, State>,
}

impl Locked<'_> {
    /// Session that the chunks belong to.
    pub(crate) fn epoch(&self) -> u32 {
        self.state.epoch
    }

    fn first(&self) -> Option<Link<'_>> {
        // Acquire pairs with the Release in `Writer::go_on`.
        let first = self.first.load(Ordering::Acquire);
        // SAFETY: the chain has a hold on each of its chunks, and gives none away while this is borrowed.
        unsafe { Link::of(first) }
    }

    /// Takes the oldest chunk, if it is not the last.
    fn pop(&mut self) -> Option<ChunkBox> {
        let first = self.first()?;
        let (chunk, next) = (first.as_ptr(), first.next()?.as_ptr());
        // Relaxed: others read it under the lock, and the owner writes it only where it is null.
        self.first.store(next, Ordering::Relaxed);
        // SAFETY: the pointer was put there by `go_on`, which has it from `into_raw`, and is there no more.
        unsafe { ChunkBox::from_raw(chunk) }
    }

    /// Takes all chunks, the last one too.
    ///
    /// # Safety
    ///
    /// The writer must have left the last chunk.
    pub(crate) unsafe fn clear(&mut self, mut each: impl FnMut(ChunkBox)) {
        while let Some(chunk) = self.pop() {
            each(chunk);
        }
        let Some(last) = self.first().map(Link::as_ptr) else { return };
        self.first.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as in `pop`.
        if let Some(chunk) = unsafe { ChunkBox::from_raw(last) } {
            each(chunk);
        }
    }

    /// Begins another session, with no chunks.
    pub(crate) fn begin(&mut self, epoch: u32, position: u64) {
        let State { mut closed, mut carried, .. } = std::mem::take(&mut *self.state);
        closed.clear();
        carried.clear();
        *self.state = State { epoch, told: position, closed, carried, ..State::default() };
    }

    /// The owner tells of all ends before `position`. Where there is no memory for them it tells later, and nothing that they
    /// concern is let go until then.
    pub(crate) fn tell(&mut self, closed: &mut Vec<Closed>, position: u64) {
        if self.state.closed.room(closed.len()).is_ok() {
            self.state.closed.extend(closed.drain(..));
            self.state.told = position;
        }
    }

    /// The chunks, oldest first.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn links(&self) -> impl Iterator<Item = Link<'_>> {
        std::iter::successors(self.first(), |link| link.next())
    }

    /// Whether there are begins whose chunks are gone.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn carries(&self) -> bool {
        !self.state.carried.is_empty()
    }

    /// In the child of a fork, at this tick and position: there are no chunks, and the record begins here. What is carried
    /// goes on, but for scopes that have ended; nothing is freed, since that may call the program's allocator, which may be
    /// locked.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn inherit(&mut self, own: &mut Own, position: u64, tick: u64) -> &AtomicPtr<Chunk> {
        self.first.store(std::ptr::null_mut(), Ordering::Relaxed);
        let State { closed, carried, told, since, .. } = &mut *self.state;
        for closed in closed.iter().chain(&own.closed) {
            if let Ok(at) = carried.binary_search_by_key(&closed.begin, |carried| carried.position) {
                std::mem::forget(carried.remove(at));
            }
        }
        closed.clear();
        own.closed.clear();
        (own.crossing, own.has_notes) = (0, false);
        (*told, *since) = (position, tick.max(*since));
        self.first
    }

    /// Gives the memory of the slots back to the system, as far as it is whole pages, but for chunks that a reader has. The
    /// chunks stay, since their writer may go on there; its slots read as zeros.
    ///
    /// # Safety
    ///
    /// Nobody may need what is in the chunks.
    pub(crate) unsafe fn purge(&self) {
        let links = std::iter::successors(self.first(), |link| link.next());
        for link in links.filter(|link| !link.is_read()) {
            // SAFETY: nobody needs what is in the slots, says the caller.
            unsafe { link.purge_slots() };
        }
    }

    /// Position at which the oldest chunk begins.
    pub(crate) fn start(&self) -> Option<u64> {
        self.first().map(Link::base)
    }

    /// A position behind all that has been written: the end of the last chunk.
    #[allow(dead_code)] // no writer of a model is gone before its log
    pub(crate) fn end(&self) -> u64 {
        let last = std::iter::successors(self.first(), |link| link.next()).last();
        last.map_or(self.state.told, |last| last.base() + u64::try_from(last.bytes()).unwrap_or(0))
    }

    /// Bytes of the chunks.
    pub(crate) fn bytes(&self) -> usize {
        std::iter::successors(self.first(), |link| link.next()).map(Link::bytes).sum()
    }

    /// Holds all chunks for a reader, as far as they are written.
    pub(crate) fn share(&self) -> Result<Taken> {
        let links = || std::iter::successors(self.first(), |link| link.next());
        let mut carried = room::with_room(self.state.carried.len())?;
        for begin in &self.state.carried {
            carried.push(begin.copied()?);
        }
        let counts = self.counts()?;
        // Last, since no chunk is given back where there is no memory. The owner may append more chunks meanwhile: as many as
        // there is room for are taken.
        let mut chunks = room::with_room(links().count())?;
        for link in links().take(chunks.capacity()) {
            let chunk = link.hold();
            let len = chunk.len();
            chunks.push((chunk, len));
        }
        Ok(self.taken(chunks, carried, counts))
    }

    /// A copy of the last samples among what was let go.
    fn counts(&self) -> Result<Vec<Sampled>> {
        let counts = &self.state.counts;
        room::collect(counts.iter().copied(), counts.len())
    }

    /// Takes all chunks for a reader, as far as they are written; the last one stays too, unless the writer has ended.
    ///
    /// # Safety
    ///
    /// If `has_ended`, the writer must have left the last chunk.
    pub(crate) unsafe fn take(&mut self, has_ended: bool) -> Result<Taken> {
        let counts = self.counts()?;
        // An owner that has not seen the stop may append more: what it writes there is later than the stop.
        let count = std::iter::successors(self.first(), |link| link.next()).count();
        let mut chunks = room::with_room(count)?;
        let mut take = |chunk: ChunkBox| {
            let len = chunk.len();
            chunks.push((chunk, len));
        };
        if has_ended {
            // SAFETY: as the caller says.
            unsafe { self.clear(&mut take) };
        } else {
            for _ in 1..count {
                if let Some(chunk) = self.pop() {
                    take(chunk);
                }
            }
            if let Some(last) = self.first() {
                take(last.hold());
            }
        }
        let carried = std::mem::take(&mut self.state.carried);
        Ok(self.taken(chunks, carried, counts))
    }

    fn taken(&self, chunks: Vec<(ChunkBox, usize)>, carried: Vec<Carried>, counts: Vec<Sampled>) -> Taken {
        let State { since, released, uncarried, .. } = *self.state;
        Taken { chunks, carried, since, released, uncarried, counts }
    }

    /// Lets go of what is out of bounds when the stream has come to `position`.
    pub(crate) fn let_go(&mut self, bounds: Bounds, position: u64, now_ns: u64, mut each: impl FnMut(ChunkBox)) {
        let Some(mut link) = self.first() else { return };
        let (mut since, mut inside) = (0, link.base());
        while let Some(next) = link.next() {
            let Left { at, .. } = link.left();
            let is_out =
                position.saturating_sub(next.base()) >= bounds.bytes || now_ns.saturating_sub(at.ns) > bounds.ns;
            if !is_out || next.base() > self.state.told {
                break;
            }
            (since, inside, link) = (at.tick, next.base(), next);
        }
        self.state.since = self.state.since.max(since);
        while let Some((first, end)) = self.oldest().filter(|(first, _)| first.base() < inside) {
            if end == inside && first.left().open != 0 {
                return;
            }
            if let Some(chunk) = self.release(inside) {
                each(chunk);
            }
        }
    }

    /// Lets go of the oldest chunk, whatever the bounds: only if no reader has it, where that is what `must_be_free` asks
    /// for, since else no memory becomes free; and only if its owner left it by tick `moment`. A thread never loses all
    /// that it has written: the last chunk stays, and where that one is empty yet, the one before stays as well.
    pub(crate) fn let_go_oldest(&mut self, must_be_free: bool, moment: u64) -> Option<ChunkBox> {
        let (first, end) = self.oldest()?;
        let since = first.left().at.tick;
        let is_all = || first.next().is_some_and(|next| next.next().is_none() && next.is_empty());
        if must_be_free && first.is_read() || end > self.state.told || since > moment || is_all() {
            return None;
        }
        self.state.since = self.state.since.max(since);
        self.release(end)
    }

    /// The oldest chunk and where it ends, if it is not the last.
    fn oldest(&self) -> Option<(Link<'_>, u64)> {
        let first = self.first()?;
        Some((first, first.next()?.base()))
    }

    /// Takes out the oldest chunk. What ends from `inside` on stays whole.
    fn release(&mut self, inside: u64) -> Option<ChunkBox> {
        let (first, end) = self.oldest()?;
        let (start, left) = (first.base(), first.left());
        let chunk = self.pop()?;
        let state = &mut *self.state;
        let ended = state.closed.iter().take_while(|closed| closed.at < inside);
        let ended = ended.filter(|closed| (start..end).contains(&closed.begin)).count();
        let is_carried = usize::try_from(left.open).unwrap_or(usize::MAX) > ended;
        if is_carried || left.has_counts || left.has_notes && !state.carried.is_empty() {
            // SAFETY: the length is the chunk's own.
            let words = unsafe { chunk.words(chunk.len()) };
            // SAFETY: a writer publishes whole records, and the chunk began there.
            let carried = state.carry(unsafe { Words::new(AsRef::<[u64]>::as_ref(&words), start) }, is_carried);
            if carried.is_err() {
                // Some of the begins are lost.
                state.uncarried += 1;
            }
        }
        while let Some(closed) = state.closed.pop_front() {
            if closed.at >= end {
                state.closed.push_front(closed);
                break;
            }
            if let Ok(at) = state.carried.binary_search_by_key(&closed.begin, |carried| carried.position) {
                state.carried.remove(at);
            }
        }
        state.released += end - start;
        Some(chunk)
    }
}

impl State {
    /// Copies what must outlive a chunk: begins without an end in it, metadata of scopes that are carried, and the last
    /// samples of counters.
    fn carry(&mut self, words: Words<'_>, with_begins: bool) -> Result<()> {
        let mut open = Nest::default();
        let mut notes = Vec::new();
        let mut records = words.records();
        loop {
            let from = records.offset();
            match records.next() {
                Some(Record::Begin { position, .. }) => open.push(from, position)?,
                Some(Record::End { .. }) => {
                    open.pop();
                }
                Some(Record::Close { position, .. }) => {
                    open.take(position);
                }
                Some(Record::Note { position, .. }) => room::push(&mut notes, (position, from..records.offset()))?,
                Some(Record::Count { tick, shape, value }) => {
                    Sampled { tick, shape, value }.replace(&mut self.counts)?
                }
                Some(Record::Early { .. } | Record::Task { .. }) => {}
                None => break,
            }
        }
        for (from, position) in open.open().filter(|_| with_begins) {
            if self.carried.len() >= MOST_CARRIED {
                self.uncarried += 1;
                continue;
            }
            let mut record = words.records_from(from);
            if record.next().is_some() {
                let words = room::copy(words.raw(from..record.offset()))?;
                room::push(&mut self.carried, Carried { position, words, notes: Vec::new() })?;
            }
        }
        for (position, range) in notes {
            self.note(position, words, range)?;
        }
        Ok(())
    }

    fn note(&mut self, position: u64, words: Words<'_>, range: Range<usize>) -> Result<()> {
        const KEY: Range<usize> = 2..4;
        let Ok(at) = self.carried.binary_search_by_key(&position, |carried| carried.position) else { return Ok(()) };
        let notes = &mut self.carried[at].notes;
        let record = room::copy(words.raw(range))?;
        notes.retain(|note| note.get(KEY) != record.get(KEY));
        room::push(notes, record)
    }
}

/// What the owner of a chain keeps for itself: nobody else takes its lock, so it never waits for it.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Chunks of this session so far.
    pub(crate) filled: usize,
    /// Scopes that are open and began in an earlier chunk.
    crossing: usize,
    has_notes: bool,
    /// Ends of such scopes that nobody was told of yet.
    pub(crate) closed: Vec<Closed>,
}

impl Own {
    pub(crate) fn begin(&mut self) {
        let mut closed = std::mem::take(&mut self.closed);
        closed.clear();
        *self = Self { closed, ..Self::default() };
    }

    /// A scope that began at `begin`, in an earlier chunk, ends at position `at`; the ring, if there is one, is told later.
    pub(crate) fn close(&mut self, at: u64, begin: u64, is_ring: bool) {
        self.crossing = self.crossing.saturating_sub(1);
        // There is room for an end of each scope that was open when the chunk began.
        if is_ring && self.closed.room(1).is_ok() {
            self.closed.push(Closed { at, begin });
        }
    }

    /// Makes room for what the thread notes while it writes to a chunk of a ring, where that begins with `open` scopes open.
    pub(crate) fn prepare(&mut self, open: usize) -> Result<()> {
        self.closed.room(open)
    }

    /// How many scopes are open that began in an earlier chunk.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn crossing(&self) -> usize {
        self.crossing
    }

    /// Metadata was added to such a scope.
    pub(crate) fn note(&mut self) {
        self.has_notes = true;
    }

    /// The owner goes on to the next chunk with `open` scopes open.
    pub(crate) fn leave(&mut self, open: usize, has_counts: bool, at: Moment) -> Left {
        let open_here = u32::try_from(open.saturating_sub(self.crossing)).unwrap_or(u32::MAX);
        let crossing = u32::try_from(self.crossing).unwrap_or(u32::MAX);
        let left = Left { at, open: open_here, crossing, has_notes: self.has_notes, has_counts };
        (self.crossing, self.has_notes) = (open, false);
        self.filled += 1;
        left
    }
}
