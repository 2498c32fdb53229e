//! Chunks: blocks of words that one thread writes and others read, each counted by its holders.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::primitive::{AtomicPtr, AtomicU32, Ordering, RawSlot};
use super::{memory, slab};

/// One word of a chunk.
#[derive(Debug)]
#[repr(transparent)]
pub struct Slot(RawSlot);

impl Slot {
    /// Writes a slot.
    ///
    /// # Safety
    ///
    /// `this` must point into a live chunk, and no other thread may touch the slot at the same time.
    #[inline(always)]
    pub(crate) unsafe fn write(this: *const Self, word: u64) {
        // SAFETY: the caller says that the slot is live, and only this thread touches it.
        unsafe { RawSlot::write(this.cast::<RawSlot>(), word) }
    }

    /// Reads a slot.
    ///
    /// # Safety
    ///
    /// `this` must point into a live chunk, at a slot that was written before and is not written at the same time.
    #[cfg(zprof_loom)]
    pub(crate) unsafe fn read(this: *const Self) -> u64 {
        // SAFETY: the caller says that the slot is live, written, and not being written.
        unsafe { RawSlot::read(this.cast::<RawSlot>()) }
    }
}

/// Head of a block of slots. The slots follow it in the same allocation.
#[repr(C, align(64))]
pub(crate) struct Chunk {
    /// The slot after the last whole record. Written by the owning thread only, after each record, with Release; the
    /// drain's Acquire load makes the words before it visible.
    pub(super) committed: AtomicPtr<Slot>,
    /// Position of the first slot. Written by the owner before the chunk joins its chain, never after.
    pub(super) base: Cell<u64>,
    /// Slots in this chunk. Fixed at birth.
    capacity: u32,
    /// Distance from the start of its slab in units of [`UNIT`], or 0 for a chunk that has a mapping of its own. Fixed at
    /// birth.
    offset: u32,
    /// The chunk after this one in the stream; null in the last. Written by the owner once it goes on there, with
    /// Release, which pairs with the Acquire in [`Link::next`].
    pub(super) next: AtomicPtr<Chunk>,
    /// How the owner left the chunk: see [`Left`]. Written before `next`, and read only where that is not null.
    at: Cell<Moment>,
    open: Cell<u32>,
    crossing: Cell<u32>,
    /// How many [`ChunkBox`]es there are: one of the chain or the pool, and one of each reader.
    holds: AtomicU32,
    has_notes: Cell<bool>,
    has_counts: Cell<bool>,
}

impl Chunk {
    /// Notes how the owner leaves the chunk, before it puts another behind it.
    pub(super) fn set_left(&self, left: Left) {
        self.at.set(left.at);
        self.open.set(left.open);
        self.crossing.set(left.crossing);
        self.has_notes.set(left.has_notes);
        self.has_counts.set(left.has_counts);
    }
}

/// Bytes to which all chunks are aligned.
const UNIT: usize = 64;

/// What a thread notes of a chunk when it goes on to the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    pub(crate) at: Moment,
    /// Scopes that have begun in this chunk and are open. A `u32`, so that the head is one line of the cache.
    pub(crate) open: u32,
    /// Scopes that began in earlier chunks and are open.
    pub(crate) crossing: u32,
    /// The chunk has metadata for scopes that began in earlier ones.
    pub(crate) has_notes: bool,
    /// It has samples of counters.
    pub(crate) has_counts: bool,
}

/// A moment on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) tick: u64,
    /// Monotonic clock.
    pub(crate) ns: u64,
}

/// A hold on a chunk. While there are others, nobody may write anew to it; the last one owns it.
#[derive(Debug)]
pub(crate) struct ChunkBox(NonNull<Chunk>);

// SAFETY: a chunk is plain memory; `committed`, `next` and `holds` are atomic; `base` and what `Left` has are written by the owner
// alone, the one before the chunk is put into a chain and the other before its `next`, whose Release orders them before
// every reader. Whoever writes them anew has seen the holds of all readers go.
unsafe impl Send for ChunkBox {}

/// A chunk in a chain, looked at under the chain's lock, which keeps it there for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a>(NonNull<Chunk>, PhantomData<&'a Chunk>);

impl<'a> Link<'a> {
    /// # Safety
    ///
    /// `chunk` must be null, or a chunk that has a hold for all of `'a`.
    pub(crate) unsafe fn of(chunk: *mut Chunk) -> Option<Self> {
        NonNull::new(chunk).map(|chunk| Self(chunk, PhantomData))
    }

    fn chunk(self) -> &'a Chunk {
        // SAFETY: somebody has a hold on the chunk for `'a`, says whoever has made this.
        unsafe { self.0.as_ref() }
    }

    /// The chunk after this one.
    pub(crate) fn next(self) -> Option<Self> {
        // Acquire pairs with the Release in `Writer::go_on`.
        let next = self.chunk().next.load(Ordering::Acquire);
        NonNull::new(next).map(|next| Self(next, PhantomData))
    }

    /// How the owner left it: known only where there is a next one.
    pub(crate) fn left(self) -> Left {
        let chunk = self.chunk();
        Left {
            at: chunk.at.get(),
            open: chunk.open.get(),
            crossing: chunk.crossing.get(),
            has_notes: chunk.has_notes.get(),
            has_counts: chunk.has_counts.get(),
        }
    }

    /// Position of the first slot.
    pub(crate) fn base(self) -> u64 {
        self.chunk().base.get()
    }

    /// Bytes that it takes, head included.
    pub(crate) fn bytes(self) -> usize {
        ChunkBox::bytes(wide(self.chunk().capacity))
    }

    /// Whether nothing is published in it yet.
    pub(crate) fn is_empty(self) -> bool {
        // Acquire pairs with the Release in `Writer::publish`.
        let end = self.chunk().committed.load(Ordering::Acquire);
        // SAFETY: the slots follow the head in the same allocation; a head is a multiple of its alignment, 64.
        let slots = unsafe { self.0.as_ptr().add(1) }.cast::<Slot>();
        end.is_null() || end == slots
    }

    /// Whether a reader has it too.
    pub(crate) fn is_read(self) -> bool {
        // Acquire pairs with the Release in `ChunkBox::release`: a reader that has gone reads no more.
        self.chunk().holds.load(Ordering::Acquire) != 1
    }

    /// A hold of one's own.
    pub(crate) fn hold(self) -> ChunkBox {
        // Relaxed: whoever gives a hold away has one, so the chunk cannot go meanwhile.
        self.chunk().holds.fetch_add(1, Ordering::Relaxed);
        ChunkBox(self.0)
    }

    /// The words that are published.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn published(self) -> &'a [u64] {
        let this = ManuallyDrop::new(ChunkBox(self.0));
        let (first, len) = (this.slots().cast::<u64>(), this.len());
        // SAFETY: published slots were written before the Release that `len` acquired, and nobody writes them again while
        // somebody has a hold, which is for `'a`; a slot is a transparent cell of a u64.
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    pub(crate) fn as_ptr(self) -> *mut Chunk {
        self.0.as_ptr()
    }

    /// Gives the pages that hold nothing but slots back to the system. The slots read as zeros then.
    ///
    /// # Safety
    ///
    /// Nobody may need what is in the slots.
    pub(crate) unsafe fn purge_slots(self) {
        // SAFETY: the slots follow the head in the same allocation; a head is a multiple of its alignment, 64.
        let slots = unsafe { self.0.add(1) }.cast::<u8>();
        let bytes = self.bytes() - size_of::<Chunk>();
        // SAFETY: the range is that of the slots, and nobody needs what they hold, says the caller.
        unsafe { memory::purge(slots, bytes) };
    }
}

impl ChunkBox {
    /// Bytes of a chunk of `capacity` slots, head included.
    pub(crate) const fn bytes(capacity: usize) -> usize {
        size_of::<Chunk>() + capacity * size_of::<Slot>()
    }

    /// Slots of a chunk that takes `bytes` in all.
    pub(crate) const fn capacity_for(bytes: usize) -> usize {
        (bytes - size_of::<Chunk>()) / size_of::<Slot>()
    }

    /// Allocates a chunk by itself, or `None` where there is no memory for it.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        Self::new_by(capacity, memory::map)
    }

    /// Allocates a chunk that the child of a fork gets as it is.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn new_inherited(capacity: usize) -> Option<Self> {
        Self::new_by(capacity, memory::map_exactly)
    }

    fn new_by(capacity: usize, map: impl FnOnce(usize) -> Option<NonNull<u8>>) -> Option<Self> {
        let bytes = capacity.checked_mul(size_of::<Slot>())?.checked_add(size_of::<Chunk>())?;
        if u32::try_from(capacity).is_err() {
            return None;
        }
        let memory = map(bytes)?;
        // SAFETY: the memory was just allocated, with room for the head and these slots.
        Some(unsafe { Self::write(memory, capacity, 0) })
    }

    /// Makes a chunk in memory that lies `offset` bytes behind the start of a slab, or has a mapping of its own if that is 0.
    ///
    /// # Safety
    ///
    /// The memory must have room for a head and `capacity` slots, less than 2^32 of them, be aligned to [`UNIT`], and belong
    /// to nobody else.
    pub(super) unsafe fn write(memory: NonNull<u8>, capacity: usize, offset: usize) -> Self {
        let chunk = memory.cast::<Chunk>();
        let head = Chunk {
            committed: AtomicPtr::new(std::ptr::null_mut()),
            base: Cell::new(0),
            capacity: u32::try_from(capacity).unwrap_or(0),
            offset: u32::try_from(offset / UNIT).unwrap_or(0),
            next: AtomicPtr::new(std::ptr::null_mut()),
            at: Cell::default(),
            open: Cell::new(0),
            crossing: Cell::new(0),
            holds: AtomicU32::new(1),
            has_notes: Cell::new(false),
            has_counts: Cell::new(false),
        };
        // SAFETY: the memory has room and alignment for a head, says the caller.
        unsafe { chunk.as_ptr().write(head) };
        let this = Self(chunk);
        RawSlot::init(this.slots().cast::<RawSlot>(), capacity);
        this
    }

    /// Undoes [`write`](Self::write), for a chunk that nobody else has.
    pub(super) fn unwrite(self) -> NonNull<u8> {
        let this = ManuallyDrop::new(self);
        RawSlot::drop_all(this.slots().cast::<RawSlot>(), this.capacity());
        // SAFETY: the head was written by `write`, and this box, which is not used again, was the only way to it.
        unsafe { std::ptr::drop_in_place(this.0.as_ptr()) };
        this.0.cast()
    }

    /// Whether its memory is a place of a slab.
    pub(crate) fn is_in_slab(&self) -> bool {
        self.chunk().offset != 0
    }

    /// Bytes from the start of its slab, or 0 where it has a mapping of its own.
    pub(super) fn offset(&self) -> usize {
        wide(self.chunk().offset) * UNIT
    }

    /// Writes to each page, so that the thread that gets the chunk meets no page fault. Only for a chunk that no
    /// thread has yet.
    pub(crate) fn prefault(&self) {
        const SLOTS_PER_PAGE: usize = 4096 / size_of::<u64>();
        for index in (0..self.capacity()).step_by(SLOTS_PER_PAGE) {
            // SAFETY: the index is below the capacity, so the address is inside the allocation.
            let slot = unsafe { self.slots().add(index) };
            // SAFETY: the slot is live, and this box is the only way to it.
            unsafe { Slot::write(slot, 0) };
        }
    }

    pub(super) fn chunk(&self) -> &Chunk {
        // SAFETY: `write` put a chunk there, and it lives until the last hold is given up.
        unsafe { self.0.as_ref() }
    }

    /// Gives the hold to a chain.
    pub(crate) fn into_raw(self) -> *mut Chunk {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes it back.
    ///
    /// # Safety
    ///
    /// `chunk` must come from [`ChunkBox::into_raw`], and be taken back once.
    pub(crate) unsafe fn from_raw(chunk: *mut Chunk) -> Option<Self> {
        NonNull::new(chunk).map(Self)
    }

    /// Gives up this hold. Where it was the last, whoever called owns the chunk.
    pub(crate) fn release(self) -> Option<Self> {
        let this = ManuallyDrop::new(self);
        // Release, so that what was done with this hold comes before what the last holder does; Acquire for the last.
        if this.chunk().holds.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        this.chunk().holds.store(1, Ordering::Relaxed);
        Some(ManuallyDrop::into_inner(this))
    }

    /// Bytes that it takes, head included.
    pub(crate) fn size(&self) -> usize {
        Self::bytes(self.capacity())
    }

    /// Slots in this chunk.
    pub(crate) fn capacity(&self) -> usize {
        wide(self.chunk().capacity)
    }

    /// Position of the first slot.
    pub(crate) fn base(&self) -> u64 {
        self.chunk().base.get()
    }

    pub(super) fn slots(&self) -> *const Slot {
        // SAFETY: the slots follow the head in the same allocation; a head is a multiple of its alignment, 64.
        unsafe { self.0.as_ptr().add(1) }.cast::<Slot>()
    }

    /// Writes a word of a chunk that no writer has.
    ///
    /// # Safety
    ///
    /// `index` must be below the capacity, and nobody else may have the chunk.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(super) unsafe fn write_word(&self, index: usize, word: u64) {
        // SAFETY: the index is below the capacity, says the caller.
        let slot = unsafe { self.slots().add(index) };
        // SAFETY: the slot is live, and nobody else has the chunk.
        unsafe { Slot::write(slot, word) };
    }

    /// How many words are published.
    pub(crate) fn len(&self) -> usize {
        // Acquire pairs with the Release in `Writer::publish`.
        let end = self.chunk().committed.load(Ordering::Acquire);
        if end.is_null() { 0 } else { (end.addr() - self.slots().addr()) / size_of::<Slot>() }
    }
}

impl ChunkBox {
    /// The first `len` words.
    ///
    /// # Safety
    ///
    /// `len` must be at most what [`ChunkBox::len`] has returned.
    #[cfg(not(zprof_loom))]
    pub(crate) unsafe fn words(&self, len: usize) -> &[u64] {
        // SAFETY: published slots were written before the Release that `len` acquired; nobody writes them again while
        // this hold is there; and a slot is a transparent cell of a u64.
        unsafe { std::slice::from_raw_parts(self.slots().cast::<u64>(), len) }
    }

    /// The same, read one by one, so that loom sees it.
    ///
    /// # Safety
    ///
    /// As above.
    #[cfg(zprof_loom)]
    pub(crate) unsafe fn words(&self, len: usize) -> Vec<u64> {
        let word = |index| {
            // SAFETY: the caller says that the index is below the published length, which is at most the capacity.
            let slot = unsafe { self.slots().add(index) };
            // SAFETY: published slots were written before the Release that `len` acquired, and are never written again
            // while this hold is there.
            unsafe { Slot::read(slot) }
        };
        (0..len).map(word).collect()
    }
}

impl Drop for ChunkBox {
    fn drop(&mut self) {
        // As in `release`.
        if self.chunk().holds.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let (capacity, offset) = (self.capacity(), self.offset());
        let memory = Self(self.0).unwrite();
        if offset == 0 {
            // SAFETY: `new_by` has mapped this many bytes, and nobody else has the chunk.
            unsafe { memory::unmap(memory, Self::bytes(capacity)) };
        } else {
            // SAFETY: the chunk lies that far behind the start of its slab, and nobody else has it.
            unsafe { slab::unmap_with(memory, capacity, offset) };
        }
    }
}

/// A number of the head as a size; it was made from one.
fn wide(number: u32) -> usize {
    number as usize
}

#[cfg(all(test, not(zprof_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_hold_owns_the_chunk() {
        assert_eq!(size_of::<Chunk>(), 64);
        let chunk = ChunkBox::new(8).expect("memory");
        // SAFETY: the chunk is held for all of this test.
        let link = unsafe { Link::of(chunk.0.as_ptr()) }.expect("not null");
        assert!(!link.is_read());
        let (first, second) = (link.hold(), link.hold());
        assert!(link.is_read());
        assert!(first.release().is_none());
        drop(second);
        let chunk = chunk.release().expect("nobody else has it");
        assert_eq!((chunk.capacity(), chunk.len()), (8, 0));
    }
}
