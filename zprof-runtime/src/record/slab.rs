//! Slabs: blocks of memory that hold chunks of one size each.
//!
//! Chunks come from slabs, and not one by one from the system, since a process may have some 65,000 mappings only. The head
//! of a slab has two bits for each of its places. A place without either bit has a chunk that somebody uses, or is on its way
//! between two lists. Slabs with a free chunk are in one stack, those with an empty place in another, linked by their heads:
//! so the pool takes and gives back chunks under its lock without an allocation, which would run the program's allocator there.

use std::ptr::{NonNull, null_mut};

use super::chunk::{Chunk, ChunkBox};
use super::memory;

/// Places of a slab. Where single places cannot be given back to the system, a slab has one, and goes with it.
const MOST_PLACES: u32 = if memory::CAN_PURGE { 31 } else { 1 };
/// Bytes before the first place: whole pages, so that those of a place can go alone.
pub(super) const HEAD: usize = if memory::CAN_PURGE { 4096 } else { 64 };

/// Head of a slab. Only whoever has the lock of its pool touches it.
struct Slab {
    next_free: *mut Slab,
    next_empty: *mut Slab,
    /// Places with a chunk that nobody uses.
    free: u32,
    /// Places without a chunk.
    empty: u32,
    /// How many there are.
    places: u32,
}

impl Slab {
    fn all(&self) -> u32 {
        u32::MAX >> (u32::BITS - self.places)
    }
}

/// The slabs of one chunk size, as far as they have anything to give.
#[derive(Debug)]
pub(crate) struct Slabs {
    /// Slots of a chunk.
    capacity: usize,
    free: *mut Slab,
    empty: *mut Slab,
    /// Chunks that are free.
    count: usize,
}

// SAFETY: the slabs of these lists are memory of the pool that has the lists, and are reached through them alone.
unsafe impl Send for Slabs {}

/// An empty place, taken out of its slab's list.
#[derive(Debug)]
pub(crate) struct Place {
    slab: NonNull<u8>,
    index: u32,
}

/// A slab that no pool has as yet.
#[derive(Debug)]
pub(crate) struct Block(NonNull<u8>);

/// Slabs without any chunk, for the system.
#[derive(Debug)]
pub(crate) struct Empty {
    first: *mut Slab,
    capacity: usize,
}

/// Bytes from the start of a slab to a place.
fn offset(capacity: usize, index: u32) -> usize {
    HEAD + index as usize * ChunkBox::bytes(capacity)
}

impl Block {
    /// A new slab: of as many places as there are, or of one where the system has no more.
    pub(crate) fn map(capacity: usize) -> Option<Self> {
        let map = |places| memory::map(offset(capacity, places)).map(|at| (at, places));
        let (at, places) = map(MOST_PLACES).or_else(|| map(1))?;
        let head = Slab { next_free: null_mut(), next_empty: null_mut(), free: 0, empty: 0, places };
        let head = Slab { empty: head.all(), ..head };
        // SAFETY: the block was just mapped, begins with room for a head, and is aligned to 64 bytes or more.
        unsafe { at.cast::<Slab>().write(head) };
        Some(Self(at))
    }
}

impl Place {
    /// Makes a chunk here, of the slots that its slab is for.
    pub(crate) fn birth(self, capacity: usize) -> ChunkBox {
        let offset = offset(capacity, self.index);
        // SAFETY: the slab has a place of that index, and is mapped as long as the place is.
        let at = unsafe { memory::ptr_at(self.slab, offset) };
        // SAFETY: the place is empty, and has the bytes of a chunk of these slots.
        unsafe { ChunkBox::write(at, capacity, offset) }
    }

    /// The place of a chunk that nobody uses: the chunk is no more, and its memory is the system's.
    pub(crate) fn bury(chunk: ChunkBox) -> Self {
        let (capacity, offset) = (chunk.capacity(), chunk.offset());
        let index = u32::try_from((offset - HEAD) / ChunkBox::bytes(capacity)).unwrap_or(0);
        let at = chunk.unwrite();
        // SAFETY: nobody has the chunk any more.
        unsafe { memory::purge(at, ChunkBox::bytes(capacity)) };
        // SAFETY: the chunk lies that far behind the start of its slab, in the same mapping.
        Self { slab: unsafe { at.sub(offset) }, index }
    }
}

impl Slabs {
    pub(crate) const fn new(capacity: usize) -> Self {
        Self { capacity, free: null_mut(), empty: null_mut(), count: 0 }
    }

    /// How many chunks are free.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// A chunk that nobody uses.
    pub(crate) fn pop(&mut self) -> Option<ChunkBox> {
        // SAFETY: slabs in this list are mapped, and `self` is the only way to them.
        let slab = unsafe { self.free.as_mut() }?;
        let index = slab.free.trailing_zeros();
        slab.free &= slab.free - 1;
        let base = NonNull::new(self.free)?.cast::<u8>();
        if slab.free == 0 {
            self.free = slab.next_free;
        }
        self.count -= 1;
        // SAFETY: the slab has a place of that index.
        let at = unsafe { memory::ptr_at(base, offset(self.capacity, index)) };
        // SAFETY: the place's bit says that `push` put a chunk there, whose only hold this takes back.
        unsafe { ChunkBox::from_raw(at.cast::<Chunk>().as_ptr()) }
    }

    /// Takes a chunk of one of these slabs back, which nobody uses any more.
    pub(crate) fn push(&mut self, chunk: ChunkBox) {
        let offset = chunk.offset();
        let at = chunk.into_raw();
        // SAFETY: the chunk lies that far behind the start of its slab, in the same mapping.
        let base = unsafe { at.cast::<u8>().sub(offset) }.cast::<Slab>();
        // SAFETY: the slab is mapped as long as it has a chunk, and whoever has `self` is alone with its head.
        let slab = unsafe { &mut *base };
        if slab.free == 0 {
            slab.next_free = self.free;
            self.free = base;
        }
        slab.free |= 1 << ((offset - HEAD) / ChunkBox::bytes(self.capacity));
        self.count += 1;
    }

    /// A place without a chunk.
    pub(crate) fn pop_empty(&mut self) -> Option<Place> {
        // SAFETY: slabs in this list are mapped, and `self` is the only way to them.
        let slab = unsafe { self.empty.as_mut() }?;
        let index = slab.empty.trailing_zeros();
        slab.empty &= slab.empty - 1;
        let base = NonNull::new(self.empty)?.cast::<u8>();
        if slab.empty == 0 {
            self.empty = slab.next_empty;
        }
        Some(Place { slab: base, index })
    }

    /// Takes a place back.
    pub(crate) fn push_empty(&mut self, place: Place) {
        let base = place.slab.cast::<Slab>().as_ptr();
        // SAFETY: the slab is mapped as long as a place of it is out, and whoever has `self` is alone with its head.
        let slab = unsafe { &mut *base };
        if slab.empty == 0 {
            slab.next_empty = self.empty;
            self.empty = base;
        }
        slab.empty |= 1 << place.index;
    }

    /// Adds a slab, which has nothing but empty places.
    pub(crate) fn add(&mut self, block: Block) {
        let base = block.0.cast::<Slab>().as_ptr();
        // SAFETY: the block is mapped, and nobody else has it.
        unsafe { (*base).next_empty = self.empty };
        self.empty = base;
    }

    /// Takes out the slabs that have no chunk.
    pub(crate) fn take_empty(&mut self) -> Empty {
        let mut taken = Empty { first: null_mut(), capacity: self.capacity };
        let mut rest = std::mem::replace(&mut self.empty, null_mut());
        // SAFETY: slabs in this list are mapped, and `self` is the only way to them.
        while let Some(slab) = unsafe { rest.as_mut() } {
            let this = rest;
            rest = slab.next_empty;
            let list = if slab.empty == slab.all() { &mut taken.first } else { &mut self.empty };
            slab.next_empty = *list;
            *list = this;
        }
        taken
    }

    /// Forgets all slabs: in the child of a fork, where their memory is not what it was.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn forget(&mut self) {
        (self.free, self.empty, self.count) = (null_mut(), null_mut(), 0);
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        while let Some(chunk) = self.pop() {
            self.push_empty(Place::bury(chunk));
        }
        drop(self.take_empty());
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        while let Some(base) = NonNull::new(self.first) {
            // SAFETY: the slabs of this list are mapped, and nobody else has them.
            let slab = unsafe { base.as_ref() };
            let bytes = offset(self.capacity, slab.places);
            self.first = slab.next_empty;
            // SAFETY: `Block::map` has mapped that many bytes, and no place of them has a chunk or is out.
            unsafe { memory::unmap(base.cast(), bytes) };
        }
    }
}

/// Frees the slab of a chunk that is dropped, where the chunk was all that it had. Elsewhere the place is lost, since only
/// the pool can take it back.
///
/// # Safety
///
/// `chunk` must lie `chunk_offset` bytes behind the start of a slab, and nobody may have it any more.
pub(super) unsafe fn unmap_with(chunk: NonNull<u8>, capacity: usize, chunk_offset: usize) {
    if MOST_PLACES == 1 {
        // SAFETY: the chunk lies that far behind the start of its slab, in the same mapping, says the caller.
        let base = unsafe { chunk.sub(chunk_offset) };
        // SAFETY: a slab of one place is in no list while its chunk is in use, and nobody uses that any more.
        unsafe { memory::unmap(base, offset(capacity, 1)) };
    }
}
