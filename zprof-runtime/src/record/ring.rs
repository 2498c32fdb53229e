//! The event stream of one thread: chunks of words that one thread writes and the drain reads.
//!
//! A record is one to many words. The low two bits of its first word say what it is, the other 62 are a tick:
//!
//! | tag | record | words |
//! |---|---|---|
//! | [`BEGIN`] | a scope opens | tick, address of its [`Shape`], then its metadata as the shape says |
//! | [`END`] | the innermost open scope of this chunk closes | tick |
//! | [`CLOSE`] | a scope closes that is not innermost, or began elsewhere | tick, begin tick, position of its begin |
//! | [`OTHER`] | told by its second word | see [`EARLY`], [`TASK`], [`COUNT`] and [`NOTE`] |
//!
//! [`EARLY`]: tick, 0, address of the site's function: a scope ends that was open before the session started.
//! [`TASK`]: tick, 2, number of a task and what became of it, address of its site's function: a task ends.
//! [`MADE_EARLY`] and [`MADE_TASK`]: the same with the address of a site that was made while the program ran.
//! [`MOVED`]: tick, 14, position of a begin, then what follows the begin's tick: a scope that is open across a fork, in the
//! child.
//! [`COUNT`]: tick, address of the counter's [`Shape`] + 4, the value's bits: a sample of a counter.
//! [`NOTE`]: tick, position of a begin + 1, address of the key, its length, address of a [`Kind`], the value's words:
//! metadata added to an open scope.
//!
//! An instant is a begin and an end with one tick, which become visible together.
//!
//! The position of a record is its place in the stream of its writer, in bytes of slots. No two writers of one thread share
//! a position: where a thread gets another writer, that one begins behind the first (see `thread.rs`). So a position tells
//! whether a guard's begin is this writer's, and guards do not leave their thread.

use std::cell::Cell;
use std::sync::atomic::compiler_fence;

use super::chunk::{Chunk, ChunkBox, Left, Slot};
use super::primitive::{AtomicPtr, Ordering, publication};
use super::registry::Word;
use crate::site::Origin;
use crate::value::{Kind, Raw, RawArgs, Shape};

/// Tag of a begin record.
pub(crate) const BEGIN: u64 = 0;
/// Tag of a one-word end.
pub(crate) const END: u64 = 1;
/// Tag of an end that names its begin.
pub(crate) const CLOSE: u64 = 2;
/// Tag of the rest.
pub(crate) const OTHER: u64 = 3;
/// Second word of a record that ends a scope from before the session.
pub(crate) const EARLY: u64 = 0;
/// Low three bits of the second word of a counter's sample; the rest is the address of its shape.
pub(crate) const COUNT: u64 = 4;
/// Words of a counter's sample.
pub(crate) const COUNT_WORDS: usize = 3;
/// Second word of a record that ends a task. A note's is one more than a multiple of eight.
pub(crate) const TASK: u64 = 2;
/// Second word of the same records where the site has no function.
pub(crate) const MADE_EARLY: u64 = 6;
/// As above.
pub(crate) const MADE_TASK: u64 = 10;
/// Second word of a begin that says its position, since it is not where it was written first.
pub(crate) const MOVED: u64 = 14;
/// Words of a task's end.
pub(crate) const TASK_WORDS: usize = 4;
/// Words of the longest end; this much is kept free for every open scope.
pub(crate) const END_WORDS: usize = 3;
/// The same in bytes.
const END_BYTES: usize = END_WORDS * size_of::<Slot>();
/// Words of a note before its value.
pub(crate) const NOTE_WORDS: usize = 5;

/// Tick of a record that begins with this word.
pub(crate) const fn tick(head: u64) -> u64 {
    head >> 2
}

/// Position that no scope has: nothing is innermost.
pub(crate) const NOWHERE: u64 = u64::MAX;
/// Positions from here on are no positions, but what a guard without a begin keeps instead.
pub(crate) const NOWHERE_FROM: u64 = u64::MAX - 7;

/// A size in bytes that may be subtracted. Addresses of one allocation are less than `isize::MAX` apart.
#[inline(always)]
#[allow(clippy::cast_possible_wrap)] // see above
const fn signed(bytes: usize) -> isize {
    bytes as isize
}

/// First word of a record.
#[inline(always)]
pub(crate) const fn head(tick: u64, tag: u64) -> u64 {
    tick << 2 | tag
}

/// The writing end of a thread's stream. Lives in the thread; every field is the thread's own.
///
/// Open-scope reservation: `next..end` are slots of the current chunk that nobody reads, and there are at least
/// `END_WORDS` of them for every open scope. Every end therefore has room, whatever the memory limit says. How many scopes
/// are open is kept as the difference between those slots and `left`: see [`Writer::open`].
///
/// The gate: a signal handler runs on this same thread, between any two instructions of what it interrupts, and may record
/// as well. So whoever changes a field first [shuts](Writer::shut) the gate and [opens](Writer::open_gate) it last, and
/// whoever finds it shut touches nothing and counts what it wanted to write as dropped. Between the look at the gate and
/// the shutting, a handler may still run; but it runs to its end, and leaves the gate as it was and the fields consistent,
/// so nothing read from a field before the gate was shut is used after it. The fields need no atomics for that, since
/// compiler fences keep their accesses on the inside.
pub(crate) struct Writer {
    /// Next slot to write; null before the first chunk.
    next: Cell<*const Slot>,
    /// Address just past the last slot of the chunk, or 0.
    end: Cell<usize>,
    /// Bytes from `next` to `end`, less `END_BYTES` for every open scope: what the next record and the end of one more scope
    /// may take.
    left: Cell<isize>,
    /// The current chunk; null before the first.
    chunk: Cell<*const Chunk>,
    /// What to add to the address of a slot of the current chunk to get its position, wrapping.
    bias: Cell<u64>,
    /// Position at which the writer begins; older marks belong to another one, which this thread had before.
    start: Cell<u64>,
    /// Position at which the present session begins; older marks belong to earlier sessions.
    floor: Cell<u64>,
    /// Position of the innermost open scope of this chunk, or [`NOWHERE`].
    top: Cell<u64>,
    /// Session that the current chunk belongs to.
    epoch: Cell<u32>,
    /// [`SHUT`] while the fields are being changed, else the same as `idle`.
    gate: Cell<u64>,
    /// The gate's value while nobody changes a field: the whole state word of the session if its records can take the short
    /// way, else [`NO_WORD`].
    idle: Cell<u64>,
    /// The current chunk has samples of counters.
    counts: Cell<bool>,
}

/// The gate of a writer that is being changed. The lower half of a session's word is never 0.
const SHUT: u64 = 0;
/// The gate of a writer that is not being changed and takes no records the short way. Bit 31 of a state word is never set.
const NO_WORD: u64 = 1 << 31;

/// The address by which the drain finds a site, and the second word of the record that has it.
fn address_of(site: Origin, coded: u64, made: u64) -> (u64, u64) {
    match site {
        Origin::Coded(function) => (coded, (function as *const ()).expose_provenance() as u64),
        Origin::Made(site) => (made, std::ptr::from_ref(site).expose_provenance() as u64),
    }
}

/// A place for one record, with room for it and for the ends of all open scopes and of one more. Those bytes are taken from
/// `left` already, so whoever has it must write the record.
#[must_use]
pub(crate) struct Room(*const Slot);

/// What a guard keeps of its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Where the begin stands in the thread's stream.
    pub(crate) position: u64,
    /// What was innermost before.
    pub(crate) outer: u64,
    /// When it began.
    pub(crate) tick: u64,
}

impl Writer {
    pub(crate) const fn new() -> Self {
        Self {
            next: Cell::new(std::ptr::null()),
            end: Cell::new(0),
            left: Cell::new(0),
            chunk: Cell::new(std::ptr::null()),
            bias: Cell::new(0),
            start: Cell::new(0),
            floor: Cell::new(0),
            top: Cell::new(NOWHERE),
            epoch: Cell::new(0),
            gate: Cell::new(NO_WORD),
            idle: Cell::new(NO_WORD),
            counts: Cell::new(false),
        }
    }

    /// Whether the current chunk has samples of counters; asked when another takes its place.
    pub(crate) fn take_counts(&self) -> bool {
        self.counts.take()
    }

    /// Session that the stream belongs to.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.get()
    }

    /// The state word of the session while its records can take the short way and the gate is open.
    #[inline(always)]
    pub(crate) fn gate(&self) -> u64 {
        self.gate.get()
    }

    /// Whether the gate is shut: this code interrupts, or was called by, code that changes the writer.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        // The lower half tells, and is all that tells on processors of 32 bits, which write the gate in two steps: it is 0 in
        // no other value of the gate.
        self.gate.get() & 0xffff_ffff == SHUT
    }

    /// Shuts the gate, which must be open.
    #[inline(always)]
    pub(crate) fn shut(&self) {
        self.gate.set(SHUT);
        // A handler that runs from here on sees the gate shut before any field has changed, and what is read from here on
        // is as the last handler has left it.
        compiler_fence(Ordering::SeqCst);
    }

    /// Opens the gate again, with the word that it had.
    #[inline(always)]
    pub(crate) fn open_gate(&self, word: u64) {
        // A handler that sees the gate open sees all fields changed.
        compiler_fence(Ordering::SeqCst);
        self.gate.set(word);
    }

    /// Opens the gate again, in the session that the writer is in by now.
    pub(crate) fn open_gate_idle(&self) {
        self.open_gate(self.idle.get());
    }

    /// Accepted begins without an end, leaked guards included.
    pub(crate) fn open(&self) -> usize {
        let free = self.end.get().wrapping_sub(self.next.get().addr());
        free.wrapping_add_signed(-self.left.get()) / END_BYTES
    }

    /// Position of the innermost open scope of the current chunk.
    #[inline(always)]
    pub(crate) fn top(&self) -> u64 {
        self.top.get()
    }

    /// Words that a chunk must have for a record of `words` and the ends that may follow it.
    pub(crate) fn needed(&self, words: usize) -> usize {
        words + END_WORDS * (self.open() + 1)
    }

    /// A place for `words` in the current chunk. The gate is shut.
    #[inline(always)]
    pub(crate) fn room(&self, words: usize) -> Option<Room> {
        let bytes = signed(words * size_of::<Slot>() + END_BYTES);
        // Taken first and given back where it was too much: then the subtraction is the test.
        let left = self.left.get() - bytes;
        self.left.set(left);
        if left < 0 {
            self.take_back(bytes);
            return None;
        }
        Some(Room(self.next.get()))
    }

    /// Takes back what [`room`](Self::room) took in vain. Out of line, so that the usual path keeps nothing for this.
    #[cold]
    #[inline(never)]
    fn take_back(&self, bytes: isize) {
        self.left.set(self.left.get() + bytes);
    }

    /// Whether the current chunk has room for a record of `words`; takes nothing.
    #[cfg(all(test, not(zprof_loom)))]
    pub(crate) fn has_room(&self, words: usize) -> bool {
        self.room(words).map(|room| self.return_room(room, words)).is_some()
    }

    /// Takes back room for a record of `words` that is not written after all.
    #[cfg(all(test, not(zprof_loom)))]
    pub(crate) fn return_room(&self, _room: Room, words: usize) {
        self.take_back(signed(words * size_of::<Slot>() + END_BYTES));
    }

    /// Goes on in `chunk`, which becomes the last of the chain that begins at `first`. Scopes that are open keep their
    /// marks, and will end by position. `left` is what to note of the chunk before.
    ///
    /// # Safety
    ///
    /// `first` must be this writer's own chain. A chunk of it may be taken out only when there is a next one, or when
    /// this writer has [left](Writer::leave) it. The chunk must have at least [`Writer::needed`]`(0)` slots, and no
    /// holds but this.
    pub(crate) unsafe fn go_on(&self, first: &AtomicPtr<Chunk>, chunk: ChunkBox, left: Left) {
        let position = self.position();
        let slots = chunk.slots();
        let head = chunk.chunk();
        head.base.set(position);
        // Relaxed: the Release below orders both before every reader.
        head.committed.store(slots.cast_mut(), Ordering::Relaxed);
        head.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        let open = self.open();
        let end = slots.addr() + chunk.capacity() * size_of::<Slot>();
        let chunk = chunk.into_raw();
        // SAFETY: the present chunk is the last one of the chain, which keeps it until there is a next one.
        match unsafe { self.chunk.get().as_ref() } {
            Some(present) => {
                present.set_left(left);
                // Release pairs with the Acquire in `Link::next`.
                present.next.store(chunk, Ordering::Release);
            }
            // Release pairs with the Acquire of whoever walks the chain.
            None => first.store(chunk, Ordering::Release),
        }
        self.bias.set(position.wrapping_sub(slots.addr() as u64));
        self.next.set(slots);
        self.set_end(end, open);
        self.chunk.set(chunk);
        self.top.set(NOWHERE);
    }

    /// Position at which the current chunk begins.
    pub(crate) fn base(&self) -> u64 {
        // SAFETY: as in `go_on`.
        unsafe { self.chunk.get().as_ref() }.map_or_else(|| self.position(), |chunk| chunk.base.get())
    }

    /// Gives up the current chunk; the next record asks for another. Positions go on.
    pub(crate) fn leave(&self) {
        // With a null `next`, the bias alone is the position.
        self.bias.set(self.position());
        let open = self.open();
        self.next.set(std::ptr::null());
        self.set_end(0, open);
        self.chunk.set(std::ptr::null());
        self.top.set(NOWHERE);
    }

    /// Goes on in the child of a fork, where the chunks of this writer are not what they were: in a chunk that begins with
    /// copies of begins that have no end, of so many words; or as a writer without a chunk. Marks from before `floor` are as
    /// those of earlier sessions from now on. The gate is shut.
    ///
    /// # Safety
    ///
    /// As [`Writer::go_on`], but that the chain must be empty. The chunk must have as many slots as the words and
    /// [`Writer::needed`]`(0)` together, and the words must be written.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) unsafe fn inherit(&self, first: &AtomicPtr<Chunk>, copies: Option<(ChunkBox, usize)>, floor: u64) {
        self.leave();
        if floor == self.position() {
            // Whatever is open will end as if it came from an earlier session.
            self.set_end(0, 0);
        }
        self.floor.set(self.floor.get().max(floor));
        let Some((chunk, words)) = copies else { return };
        let (slots, open) = (chunk.slots(), self.open());
        // SAFETY: as the caller says. There is no chunk before this one, since the writer has just left it.
        unsafe { self.go_on(first, chunk, Left::default()) };
        // SAFETY: the chunk has that many slots and more.
        self.publish(unsafe { slots.add(words) });
        // The copies came without a `room`, which would have taken their bytes from `left`.
        self.set_end(self.end.get(), open);
    }

    /// Sets where the chunk ends whose next slot has just been set.
    fn set_end(&self, end: usize, open: usize) {
        self.end.set(end);
        let free = end.wrapping_sub(self.next.get().addr());
        self.left.set(signed(free) - signed(END_BYTES * open));
    }

    /// Begins session `word` with nothing open.
    pub(crate) fn roll(&self, word: Word) {
        self.leave();
        self.set_end(0, 0);
        self.floor.set(self.position());
        self.epoch.set(word.epoch());
        self.idle.set(if word.is_short() { word.0 } else { NO_WORD });
    }

    /// Lets positions begin at `position`, for a writer that has written nothing.
    pub(crate) fn begin_at(&self, position: u64) {
        // With a null `next`, the bias alone is the position.
        self.bias.set(position);
        self.start.set(position);
    }

    /// Whether a mark was made by another writer, which this thread had before.
    pub(crate) fn is_of_another(&self, mark: Mark) -> bool {
        mark.position < self.start.get()
    }

    /// Whether a mark was made in the present session.
    pub(crate) fn is_ours(&self, mark: Mark) -> bool {
        (self.floor.get()..self.position()).contains(&mark.position)
    }

    /// Position of the next slot.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        (self.next.get().addr() as u64).wrapping_add(self.bias.get())
    }

    /// Makes all up to `next` visible to the drain.
    #[inline(always)]
    fn publish(&self, next: *const Slot) {
        self.next.set(next);
        // SAFETY: records are written only with room in a chunk, which is the last of its chain and stays live until the
        // writer leaves it.
        let chunk = unsafe { &*self.chunk.get() };
        // Release, which pairs with the Acquire in `ChunkBox::len`.
        chunk.committed.store(next.cast_mut(), publication());
    }

    /// Gives `bytes` back that were kept for an end.
    #[inline(always)]
    fn give_back(&self, bytes: usize) {
        self.left.set(self.left.get() + signed(bytes));
    }

    /// Writes a begin. `now` is read last, so that the time of writing is not part of the scope.
    ///
    /// # Safety
    ///
    /// `room` must come from [`Writer::room`] of this writer for `2 + raws.words()` words, with nothing written since.
    #[inline(always)]
    pub(crate) unsafe fn begin<R: RawArgs>(
        &self,
        room: Room,
        shape: &'static Shape,
        raws: R,
        now: impl FnOnce() -> u64,
    ) -> Mark {
        let at = room.0;
        // SAFETY: there is room for two words and the metadata.
        let second = unsafe { at.add(1) };
        // SAFETY: as above.
        let third = unsafe { at.add(2) };
        // SAFETY: the slots belong to this writer until they are published.
        let after = unsafe { raws.write(third) };
        // SAFETY: as above.
        unsafe { Slot::write(second, std::ptr::from_ref(shape).expose_provenance() as u64) };
        let tick = now();
        // SAFETY: as above.
        unsafe { Slot::write(at, head(tick, BEGIN)) };
        // Only now, since it would take a register while the metadata is written.
        let position = (at.addr() as u64).wrapping_add(self.bias.get());
        self.publish(after);
        Mark { position, outer: self.top.replace(position), tick }
    }

    /// Writes a scope that begins and ends at one tick.
    ///
    /// # Safety
    ///
    /// `room` must come from [`Writer::room`] of this writer for `3 + raws.words()` words, with nothing written since.
    pub(crate) unsafe fn instant<R: RawArgs>(
        &self,
        room: Room,
        shape: &'static Shape,
        raws: R,
        now: impl FnOnce() -> u64,
    ) {
        let at = room.0;
        // SAFETY: there is room for the begin, the metadata and the end.
        let second = unsafe { at.add(1) };
        // SAFETY: as above.
        let third = unsafe { at.add(2) };
        // SAFETY: the slots belong to this writer until they are published.
        let end = unsafe { raws.write(third) };
        // SAFETY: as above.
        unsafe { Slot::write(second, std::ptr::from_ref(shape).expose_provenance() as u64) };
        let tick = now();
        // SAFETY: as above.
        unsafe { Slot::write(at, head(tick, BEGIN)) };
        // SAFETY: as above.
        unsafe { Slot::write(end, head(tick, END)) };
        // SAFETY: as above.
        self.publish(unsafe { end.add(1) });
        self.give_back(END_BYTES);
    }

    /// Writes a sample of a counter.
    ///
    /// # Safety
    ///
    /// `room` must come from [`Writer::room`] of this writer for [`COUNT_WORDS`] words, with nothing written since.
    pub(crate) unsafe fn count(&self, _room: Room, shape: &'static Shape, value: u64, tick: u64) {
        self.counts.set(true);
        let shape = std::ptr::from_ref(shape).expose_provenance() as u64 | COUNT;
        // SAFETY: there is room for three words.
        unsafe { self.words([head(tick, OTHER), shape, value]) };
        self.give_back(END_BYTES);
    }

    /// Writes the end of the scope that is innermost: `mark.position` must equal [`Writer::top`].
    #[inline(always)]
    pub(crate) fn end_top(&self, mark: Mark, tick: u64) {
        debug_assert_eq!(mark.position, self.top.get());
        let at = self.next.get();
        // SAFETY: the scope is open in this chunk, so `END_WORDS` slots are free for its end: open-scope reservation.
        unsafe { Slot::write(at, head(tick, END)) };
        // SAFETY: as above.
        self.publish(unsafe { at.add(1) });
        self.top.set(mark.outer);
        self.give_back(END_BYTES - size_of::<Slot>());
    }

    /// Writes the end of a scope of this session that is not innermost or began in an earlier chunk.
    ///
    /// # Safety
    ///
    /// The scope's begin must have been accepted by this writer in its present epoch, and must have no end yet.
    pub(crate) unsafe fn end_by_position(&self, mark: Mark, tick: u64) {
        // The record is as long as what was kept for it.
        // SAFETY: the scope is open, so `END_WORDS` slots are free for its end: open-scope reservation.
        unsafe { self.words([head(tick, CLOSE), mark.tick, mark.position]) };
    }

    /// Writes the end of a scope that was open before the session.
    ///
    /// # Safety
    ///
    /// `room` must come from [`Writer::room`] of this writer for [`END_WORDS`] words, with nothing written since.
    pub(crate) unsafe fn end_early(&self, _room: Room, site: Origin, tick: u64) {
        let (tag, site) = address_of(site, EARLY, MADE_EARLY);
        // SAFETY: there is room for three words.
        unsafe { self.words([head(tick, OTHER), tag, site]) };
        self.give_back(END_BYTES);
    }

    /// Writes the end of a task.
    ///
    /// # Safety
    ///
    /// `room` must come from [`Writer::room`] of this writer for [`TASK_WORDS`] words, with nothing written since.
    pub(crate) unsafe fn end_task(&self, _room: Room, task: u64, site: Origin, tick: u64) {
        let (tag, site) = address_of(site, TASK, MADE_TASK);
        // SAFETY: there is room for four words.
        unsafe { self.words([head(tick, OTHER), tag, task, site]) };
        self.give_back(END_BYTES);
    }

    /// Writes a record of these words.
    ///
    /// # Safety
    ///
    /// There must be `N` free slots.
    unsafe fn words<const N: usize>(&self, words: [u64; N]) {
        let mut at = self.next.get();
        for word in words {
            // SAFETY: the caller says that the slots are free.
            unsafe { Slot::write(at, word) };
            // SAFETY: as above.
            at = unsafe { at.add(1) };
        }
        self.publish(at);
    }

    /// Adds metadata to an open scope.
    ///
    /// # Safety
    ///
    /// `room` must come from [`Writer::room`] of this writer for `NOTE_WORDS + value.words()` words, with nothing
    /// written since.
    pub(crate) unsafe fn note<R: Raw>(&self, room: Room, mark: Mark, key: &'static str, value: R, tick: u64) {
        struct KindOf<R>(R);
        impl<R: Raw> KindOf<R> {
            const KIND: &'static Kind = &R::KIND;
        }
        let words = [
            head(tick, OTHER),
            mark.position + 1,
            key.as_ptr().expose_provenance() as u64,
            key.len() as u64,
            std::ptr::from_ref(KindOf::<R>::KIND).expose_provenance() as u64,
        ];
        let mut at = room.0;
        for word in words {
            // SAFETY: there is room for these words and the value.
            unsafe { Slot::write(at, word) };
            // SAFETY: as above.
            at = unsafe { at.add(1) };
        }
        // SAFETY: as above.
        let after = unsafe { value.write(at) };
        self.publish(after);
        self.give_back(END_BYTES);
    }
}
