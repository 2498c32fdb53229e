//! Chunks: blocks of words that one thread writes and others read, each counted by its holders.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::primitive::{AtomicPtr, AtomicUsize, Ordering, RawSlot};

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
    capacity: usize,
    /// The chunk after this one in the stream; null in the last. Written by the owner once it goes on there, with
    /// Release, which pairs with the Acquire in [`Link::next`].
    pub(super) next: AtomicPtr<Chunk>,
    /// How many [`ChunkBox`]es there are: one of the chain or the pool, and one of each reader.
    holds: AtomicUsize,
    /// How the owner left the chunk. Written before `next`, and read only where that is not null.
    pub(super) left: Cell<Left>,
}

/// What a thread notes of a chunk when it goes on to the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    pub(crate) at: Moment,
    /// Scopes that have begun in this chunk and are open. A `u32`, so that the head is one line of the cache.
    pub(crate) open: u32,
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

// SAFETY: a chunk is plain memory; `committed`, `next` and `holds` are atomic; `base` and `left` are written by the owner
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
        self.chunk().left.get()
    }

    /// Position of the first slot.
    pub(crate) fn base(self) -> u64 {
        self.chunk().base.get()
    }

    /// Bytes that it takes, head included.
    pub(crate) fn bytes(self) -> usize {
        ChunkBox::bytes(self.chunk().capacity)
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
        // Relaxed: only asked for an estimate.
        self.chunk().holds.load(Ordering::Relaxed) != 1
    }

    /// A hold of one's own.
    pub(crate) fn hold(self) -> ChunkBox {
        // Relaxed: whoever gives a hold away has one, so the chunk cannot go meanwhile.
        self.chunk().holds.fetch_add(1, Ordering::Relaxed);
        ChunkBox(self.0)
    }

    pub(crate) fn as_ptr(self) -> *mut Chunk {
        self.0.as_ptr()
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

    fn layout(capacity: usize) -> Option<Layout> {
        let slots = Layout::array::<Slot>(capacity).ok()?;
        Layout::new::<Chunk>().extend(slots).ok().map(|(layout, _)| layout.pad_to_align())
    }

    /// Allocates a chunk, or `None` where there is no memory for it.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        let layout = Self::layout(capacity)?;
        // SAFETY: the layout is not empty, since it holds a chunk's head.
        let memory = unsafe { alloc(layout) };
        let chunk = NonNull::new(memory.cast::<Chunk>())?;
        let head = Chunk {
            committed: AtomicPtr::new(std::ptr::null_mut()),
            base: Cell::new(0),
            capacity,
            next: AtomicPtr::new(std::ptr::null_mut()),
            holds: AtomicUsize::new(1),
            left: Cell::default(),
        };
        // SAFETY: the memory was just allocated with room and alignment for a chunk.
        unsafe { chunk.as_ptr().write(head) };
        let this = Self(chunk);
        RawSlot::init(this.slots().cast::<RawSlot>(), capacity);
        Some(this)
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
        // SAFETY: `new` wrote a chunk there, and it lives until this box is dropped.
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
        self.chunk().capacity
    }

    /// Position of the first slot.
    pub(crate) fn base(&self) -> u64 {
        self.chunk().base.get()
    }

    pub(super) fn slots(&self) -> *const Slot {
        // SAFETY: the slots follow the head in the same allocation; a head is a multiple of its alignment, 64.
        unsafe { self.0.as_ptr().add(1) }.cast::<Slot>()
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
        let capacity = self.capacity();
        RawSlot::drop_all(self.slots().cast::<RawSlot>(), capacity);
        if let Some(layout) = Self::layout(capacity) {
            // SAFETY: nobody else has the chunk, and it has been live until here.
            unsafe { std::ptr::drop_in_place(self.0.as_ptr()) };
            // SAFETY: `new` allocated the memory with this same layout.
            unsafe { dealloc(self.0.as_ptr().cast::<u8>(), layout) };
        }
    }
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
