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
//! The position of a record is its place in the thread's whole stream, in bytes of slots; it never repeats.

use std::cell::Cell;

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

/// First word of a record.
#[inline(always)]
pub(crate) const fn head(tick: u64, tag: u64) -> u64 {
    tick << 2 | tag
}

/// The writing end of a thread's stream. Lives in the thread; every field is the thread's own.
///
/// Invariant: `next..end` are slots of the current chunk that nobody reads, and there are at least `END_WORDS` of them
/// for every open scope. Every end therefore has room, whatever the memory limit says. How many scopes are open is kept
/// as the distance from `limit` to `end`: see [`Writer::open`].
pub(crate) struct Writer {
    /// Next slot to write; null before the first chunk.
    next: Cell<*const Slot>,
    /// Address just past the last slot of the chunk, or 0.
    end: Cell<usize>,
    /// Address at which the next record must end: `end`, less `END_WORDS` for every open scope and for one more. It
    /// wraps, since without a chunk it is less than nothing.
    limit: Cell<usize>,
    /// The current chunk; null before the first.
    chunk: Cell<*const Chunk>,
    /// What to add to the address of a slot of the current chunk to get its position, wrapping.
    bias: Cell<u64>,
    /// Position at which the present session begins; older marks belong to earlier sessions.
    floor: Cell<u64>,
    /// Position of the innermost open scope of this chunk, or [`NOWHERE`].
    top: Cell<u64>,
    /// Session that the current chunk belongs to.
    epoch: Cell<u32>,
    /// The whole state word of that session if its records can take the short way, else 0.
    usual: Cell<u64>,
    /// The current chunk has samples of counters.
    counts: Cell<bool>,
}

/// The address by which the drain finds a site, and the second word of the record that has it.
fn address_of(site: Origin, coded: u64, made: u64) -> (u64, u64) {
    match site {
        Origin::Coded(function) => (coded, (function as *const ()).expose_provenance() as u64),
        Origin::Made(site) => (made, std::ptr::from_ref(site).expose_provenance() as u64),
    }
}

/// A place for one record, with room for it and for the ends of all open scopes.
#[derive(Clone, Copy)]
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
            limit: Cell::new(0_usize.wrapping_sub(END_BYTES)),
            chunk: Cell::new(std::ptr::null()),
            bias: Cell::new(0),
            floor: Cell::new(0),
            top: Cell::new(NOWHERE),
            epoch: Cell::new(0),
            usual: Cell::new(0),
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

    /// The state word of the session, if its records can take the short way.
    #[inline(always)]
    pub(crate) fn usual(&self) -> u64 {
        self.usual.get()
    }

    /// Accepted begins without an end, leaked guards included.
    pub(crate) fn open(&self) -> usize {
        self.end.get().wrapping_sub(self.limit.get()) / END_BYTES - 1
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

    /// A place for `words` in the current chunk.
    #[inline(always)]
    #[allow(clippy::cast_possible_wrap)] // addresses and sizes are below isize::MAX; a limit before `next` is negative
    pub(crate) fn room(&self, words: usize) -> Option<Room> {
        let next = self.next.get();
        let left = self.limit.get().wrapping_sub(next.addr()) as isize;
        if left >= (words * size_of::<Slot>()) as isize { Some(Room(next)) } else { None }
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
    /// those of earlier sessions from now on.
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
        let slots = chunk.slots();
        // SAFETY: as the caller says. There is no chunk before this one, since the writer has just left it.
        unsafe { self.go_on(first, chunk, Left::default()) };
        // SAFETY: the chunk has that many slots and more.
        self.publish(unsafe { slots.add(words) });
    }

    fn set_end(&self, end: usize, open: usize) {
        self.end.set(end);
        self.limit.set(end.wrapping_sub(END_BYTES * (open + 1)));
    }

    /// Begins session `word` with nothing open.
    pub(crate) fn roll(&self, word: Word) {
        self.leave();
        self.set_end(0, 0);
        self.floor.set(self.position());
        self.epoch.set(word.epoch());
        self.usual.set(if word.is_short() { word.0 } else { 0 });
    }

    /// Whether a mark was made in the present session.
    pub(crate) fn is_ours(&self, mark: Mark) -> bool {
        mark.position >= self.floor.get() && mark.position < NOWHERE_FROM
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
        let position = self.position();
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
        self.publish(after);
        self.limit.set(self.limit.get().wrapping_sub(END_BYTES));
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
    }

    /// Writes the end of the scope that is innermost: `mark.position` must equal [`Writer::top`].
    #[inline(always)]
    pub(crate) fn end_top(&self, mark: Mark, tick: u64) {
        debug_assert_eq!(mark.position, self.top.get());
        let at = self.next.get();
        // SAFETY: the scope is open in this chunk, so `END_WORDS` slots are free for its end; see the type's invariant.
        unsafe { Slot::write(at, head(tick, END)) };
        // SAFETY: as above.
        self.publish(unsafe { at.add(1) });
        self.top.set(mark.outer);
        self.limit.set(self.limit.get().wrapping_add(END_BYTES));
    }

    /// Writes the end of a scope of this session that is not innermost or began in an earlier chunk.
    ///
    /// # Safety
    ///
    /// The scope's begin must have been accepted by this writer in its present epoch, and must have no end yet.
    pub(crate) unsafe fn end_by_position(&self, mark: Mark, tick: u64) {
        // SAFETY: the scope is open, so `END_WORDS` slots are free for its end; see the type's invariant.
        unsafe { self.words([head(tick, CLOSE), mark.tick, mark.position]) };
        self.limit.set(self.limit.get().wrapping_add(END_BYTES));
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
    }

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
    }
}
