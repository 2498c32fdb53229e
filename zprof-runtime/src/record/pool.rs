//! Chunks that no thread has: handed out to writers, kept faulted in, and counted against the memory limit.

use super::chunk::ChunkBox;
use super::primitive::{AtomicUsize, Mutex, Ordering};
use super::slab::{Block, Place, Slabs};

/// Slots of a thread's first chunks: 4 KiB with the head. In models, so few that a chunk is soon full.
pub(crate) const SMALL: usize = if cfg!(zprof_loom) { 8 } else { ChunkBox::capacity_for(4 * 1024) };
/// Slots of its later chunks: 64 KiB with the head.
pub(crate) const LARGE: usize = if cfg!(zprof_loom) { 64 } else { ChunkBox::capacity_for(64 * 1024) };
/// How many small chunks a thread fills before it gets large ones.
const SMALL_CHUNKS: usize = 4;

/// Small chunks that the helper keeps ready.
const READY_SMALL: usize = 16;
/// Large chunks that the helper keeps ready: at full speed one thread fills a chunk in some 50 µs, and faulting one in
/// takes about half that, so this covers a helper that is late by a scheduling quantum.
const READY_LARGE: usize = 64;
/// Small chunks that the helper keeps ready where all threads take small ones.
const READY_SMALL_ALONE: usize = 64;

/// Free chunks of the process, and how much memory all chunks may take.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Mutex<Free>,
    /// Bytes of all chunks that exist, free or not. Changed by whoever allocates or frees one.
    allocated: AtomicUsize,
    /// What `allocated` may not pass. Written at session start.
    limit: AtomicUsize,
    /// Bytes of the chunks that threads keep in rings. Changed by whoever appends one or lets one go.
    kept: AtomicUsize,
    /// Not 0 where the system had no memory when it was asked last. Changed by whoever asks.
    is_short: AtomicUsize,
    /// The same for any time since the session started.
    was_short: AtomicUsize,
}

/// The chunks that no thread has, and where others can be made.
#[derive(Debug)]
pub(crate) struct Free {
    small: Slabs,
    large: Slabs,
}

impl Free {
    const fn new() -> Self {
        Self { small: Slabs::new(SMALL), large: Slabs::new(LARGE) }
    }

    fn list(&mut self, capacity: usize) -> Option<&mut Slabs> {
        match capacity {
            SMALL => Some(&mut self.small),
            LARGE => Some(&mut self.large),
            _ => None,
        }
    }
}

impl Pool {
    #[cfg(not(zprof_loom))]
    pub(crate) const fn new() -> Self {
        Self {
            free: Mutex::new(Free::new()),
            allocated: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            kept: AtomicUsize::new(0),
            is_short: AtomicUsize::new(0),
            was_short: AtomicUsize::new(0),
        }
    }

    #[cfg(zprof_loom)]
    pub(crate) fn new() -> Self {
        Self {
            free: Mutex::new(Free::new()),
            allocated: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            kept: AtomicUsize::new(0),
            is_short: AtomicUsize::new(0),
            was_short: AtomicUsize::new(0),
        }
    }

    /// Sets how many bytes all chunks of the process may take.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.is_short.store(0, Ordering::Relaxed);
        self.was_short.store(0, Ordering::Relaxed);
    }

    /// Bytes of all chunks, free or not.
    pub(crate) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Slots of the chunk that a thread gets which has filled `filled` chunks, where there is memory.
    pub(crate) fn usual(filled: usize) -> usize {
        if filled < SMALL_CHUNKS { SMALL } else { LARGE }
    }

    /// A chunk of at least `needed` slots for a thread that has filled `filled` chunks, or `None` at the limit.
    pub(crate) fn take(&self, needed: usize, filled: usize) -> Option<ChunkBox> {
        for capacity in [Self::usual(filled), LARGE, SMALL] {
            if needed <= capacity {
                let free = self.free.lock().list(capacity).and_then(Slabs::pop);
                if let Some(chunk) = free.or_else(|| self.allocate(capacity)) {
                    return Some(chunk);
                }
            }
        }
        if needed > LARGE {
            // Twice what is needed, so that deep nesting doubles its chunks in place of asking at every scope.
            if let Some(chunk) = self.allocate(needed.saturating_mul(2)) {
                return Some(chunk);
            }
        }
        if needed > SMALL {
            // Memory may be left that is free in pieces too small.
            self.make_way(ChunkBox::bytes(needed));
            return self.allocate(needed);
        }
        None
    }

    /// Frees free chunks until `bytes` fit below the limit, where that is enough.
    fn make_way(&self, bytes: usize) {
        let limit = self.limit.load(Ordering::Relaxed);
        let (small, large) = (ChunkBox::bytes(SMALL), ChunkBox::bytes(LARGE));
        let over = || self.allocated.load(Ordering::Relaxed).saturating_add(bytes).saturating_sub(limit);
        {
            let free = self.free.lock();
            if over() > free.small.len() * small + free.large.len() * large {
                return;
            }
        }
        while over() > 0 {
            let mut free = self.free.lock();
            let Some(chunk) = free.large.pop().or_else(|| free.small.pop()) else { break };
            drop(free);
            self.free(chunk);
        }
        self.free_empty();
    }

    fn allocate(&self, capacity: usize) -> Option<ChunkBox> {
        let bytes = ChunkBox::bytes(capacity);
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = |allocated: usize| allocated.checked_add(bytes).filter(|&sum| sum <= limit);
        self.allocated.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let chunk = if capacity == SMALL || capacity == LARGE {
            self.place(capacity).map(|place| place.birth(capacity))
        } else {
            ChunkBox::new(capacity)
        };
        if chunk.is_none() {
            self.allocated.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.is_short.store(usize::from(chunk.is_none()), Ordering::Relaxed);
        if chunk.is_none() {
            self.was_short.store(1, Ordering::Relaxed);
        }
        chunk
    }

    /// A place for a chunk of a usual size, in a new slab if need be, which is mapped while nobody waits for the lock.
    fn place(&self, capacity: usize) -> Option<Place> {
        loop {
            if let Some(place) = self.free.lock().list(capacity)?.pop_empty() {
                return Some(place);
            }
            let block = Block::map(capacity)?;
            self.free.lock().list(capacity)?.add(block);
        }
    }

    /// Gives the memory of a chunk back to the system, but for the addresses of its place in a slab.
    fn free(&self, chunk: ChunkBox) {
        let capacity = chunk.capacity();
        if chunk.is_in_slab() {
            let place = Place::bury(chunk);
            if let Some(slabs) = self.free.lock().list(capacity) {
                slabs.push_empty(place);
            }
        } else {
            drop(chunk);
        }
        self.allocated.fetch_sub(ChunkBox::bytes(capacity), Ordering::Relaxed);
    }

    /// Gives slabs without a chunk back to the system.
    fn free_empty(&self) {
        let empty = {
            let mut free = self.free.lock();
            (free.small.take_empty(), free.large.take_empty())
        };
        // Here, without the lock.
        drop(empty);
    }

    /// Sets aside `bytes` for a ring that is about to take a chunk, or says that rings have all that they may.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let most = self.most_kept();
        let fits = |kept: usize| kept.checked_add(bytes).filter(|&sum| sum <= most);
        self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// A ring has taken this chunk, for which it had set aside `reserved` bytes.
    pub(crate) fn keep(&self, chunk: &ChunkBox, reserved: usize) {
        self.kept.fetch_add(ChunkBox::bytes(chunk.capacity()), Ordering::Relaxed);
        self.let_go(reserved);
    }

    /// A ring has let go of a chunk of that many bytes, or of what it had set aside.
    pub(crate) fn let_go(&self, bytes: usize) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that rings may take, and bytes that a snapshot may hold while they go on: both together leave an eighth of the
    /// memory for rings that cannot let go just now, but where that is so little that it would be no whole chunks.
    pub(crate) fn most_kept(&self) -> usize {
        const LEAST_LEFT: usize = 4 * ChunkBox::bytes(LARGE);
        let limit = self.limit.load(Ordering::Relaxed);
        let left = limit / 8;
        (limit - if left < LEAST_LEFT { 0 } else { left }) / 2
    }

    /// So few bytes for the rings of that many threads that each would have a few large chunks, or none.
    pub(crate) fn is_small(&self, threads: usize) -> bool {
        const LEAST_LARGE: usize = 4;
        self.most_kept() / threads < LEAST_LARGE * ChunkBox::bytes(LARGE)
    }

    /// Bytes that threads may take which have ended.
    pub(crate) fn most_ended(&self) -> usize {
        self.limit.load(Ordering::Relaxed) / 4
    }

    /// There are no rings.
    pub(crate) fn keep_nothing(&self) {
        self.kept.store(0, Ordering::Relaxed);
    }

    /// Takes a hold back, and the chunk if it was the last. A writer must have left it.
    ///
    /// Under the lock this sets a bit in the chunk's slab. It neither allocates nor frees there: the program's allocator may
    /// open scopes, which may need the lock.
    pub(crate) fn give_back(&self, chunk: ChunkBox) {
        let Some(chunk) = chunk.release() else { return };
        if chunk.is_in_slab() {
            if let Some(slabs) = self.free.lock().list(chunk.capacity()) {
                slabs.push(chunk);
            }
        } else {
            self.free(chunk);
        }
    }

    /// Frees free chunks until at most `keep` bytes of them are left.
    pub(crate) fn trim(&self, keep: usize) {
        let kept = self.trim_list(SMALL, keep);
        self.trim_list(LARGE, keep.saturating_sub(kept));
        self.free_empty();
    }

    /// Frees free chunks of one size until at most `keep` bytes of them are left. Gives the bytes that are left.
    fn trim_list(&self, capacity: usize, keep: usize) -> usize {
        let bytes = ChunkBox::bytes(capacity);
        let room = keep / bytes;
        loop {
            let mut free = self.free.lock();
            let Some(slabs) = free.list(capacity) else { return 0 };
            if slabs.len() <= room {
                return slabs.len() * bytes;
            }
            let Some(chunk) = slabs.pop() else { return 0 };
            drop(free);
            self.free(chunk);
        }
    }

    /// Fills the pool with faulted-in chunks up to `bytes`. Where the system has less, it gets all back: what is left is for
    /// the program, and for the chunks that threads need.
    pub(crate) fn prefault(&self, bytes: usize) {
        self.fill(READY_SMALL.min(bytes / ChunkBox::bytes(SMALL)), bytes / ChunkBox::bytes(LARGE));
        if self.is_short() {
            self.trim(0);
        }
    }

    /// How many small and large chunks the helper keeps ready. Threads that all take small chunks need no large ones, which
    /// would count against the memory limit and leave less for the small ones.
    fn ready(takes_small: bool) -> (usize, usize) {
        if takes_small { (READY_SMALL_ALONE, 0) } else { (READY_SMALL, READY_LARGE) }
    }

    /// Brings the pool back to what the helper keeps ready for threads that take only small chunks, or chunks of both sizes.
    pub(crate) fn refill(&self, takes_small: bool) {
        if takes_small {
            self.trim_list(LARGE, 0);
            self.free_empty();
        }
        if !self.is_short() {
            let (small, large) = Self::ready(takes_small);
            self.fill(small, large);
        }
    }

    /// Notes that the system had no memory for what goes with a chunk.
    pub(crate) fn note_short(&self) {
        self.was_short.store(1, Ordering::Relaxed);
    }

    /// Whether the system had no memory for a chunk at some time of this session.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn was_short(&self) -> bool {
        self.was_short.load(Ordering::Relaxed) != 0
    }

    /// Whether the system had no memory when it was asked last.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed) != 0
    }

    fn fill(&self, small: usize, large: usize) {
        for (capacity, wanted) in [(SMALL, small), (LARGE, large)] {
            loop {
                let have = self.free.lock().list(capacity).map_or(wanted, |list| list.len());
                if have >= wanted {
                    break;
                }
                let Some(chunk) = self.allocate(capacity) else { return };
                chunk.prefault();
                self.give_back(chunk);
            }
        }
    }

    /// In the child of a fork: forgets all chunks, which are the parent's. There is one, if any, of so many bytes, and so many
    /// are a ring's.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn begin_anew(&self, bytes: usize, kept: usize) {
        let mut free = self.free.lock();
        free.small.forget();
        free.large.forget();
        self.allocated.store(bytes, Ordering::Relaxed);
        self.kept.store(kept, Ordering::Relaxed);
    }

    /// Takes the lock that a fork must not find taken.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock()
    }

    /// Whether the helper should refill, and can, for threads that take only small chunks, or chunks of both sizes.
    pub(crate) fn is_low(&self, takes_small: bool) -> bool {
        let allocated = self.allocated.load(Ordering::Relaxed);
        let largest = ChunkBox::bytes(if takes_small { SMALL } else { LARGE });
        if allocated.saturating_add(largest) > self.limit.load(Ordering::Relaxed) || self.is_short() {
            return false;
        }
        let (small, large) = Self::ready(takes_small);
        let free = self.free.lock();
        free.large.len() < large / 2 || free.small.len() < small / 2
    }
}

#[cfg(all(test, not(zprof_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_free_and_used_chunks() {
        let pool = Pool::new();
        pool.set_limit(2 * ChunkBox::bytes(LARGE) + ChunkBox::bytes(SMALL));
        let first = pool.take(1, 9).expect("fits");
        let second = pool.take(1, 9).expect("fits");
        assert_eq!((first.capacity(), second.capacity()), (LARGE, LARGE));
        assert_eq!(pool.take(1, 9).expect("a small one is left").capacity(), SMALL);
        assert!(pool.take(1, 9).is_none());
        pool.give_back(first);
        assert!(pool.take(LARGE + 1, 9).is_none(), "a free chunk still counts");
        assert_eq!(pool.take(LARGE, 9).expect("the returned one").capacity(), LARGE);
    }

    #[test]
    fn threads_begin_with_small_chunks() {
        let pool = Pool::new();
        let sizes: Vec<_> = (0..6).map(|filled| pool.take(1, filled).expect("no limit").capacity()).collect();
        assert_eq!(sizes, [SMALL, SMALL, SMALL, SMALL, LARGE, LARGE]);
        assert_eq!(pool.take(LARGE + 1, 0).expect("no limit").capacity(), 2 * (LARGE + 1));
    }

    #[test]
    fn what_is_free_in_small_pieces_makes_way_for_a_large_one() {
        let pool = Pool::new();
        pool.set_limit(8 * ChunkBox::bytes(LARGE));
        pool.prefault(8 * ChunkBox::bytes(LARGE));
        let used = pool.take(1, 9).expect("one is free");
        let whole = pool.take(6 * LARGE, 9).expect("the free ones make way");
        assert_eq!(whole.capacity(), 6 * LARGE);
        let left = pool.allocated();
        assert!(pool.take(2 * LARGE, 9).is_none(), "what is used does not");
        assert_eq!(pool.allocated(), left, "nothing was freed in vain");
        pool.give_back(used);
        pool.give_back(whole);
    }

    #[test]
    fn the_helper_has_nothing_to_do_at_the_limit() {
        let pool = Pool::new();
        pool.set_limit(4 * ChunkBox::bytes(LARGE));
        assert!(pool.is_low(false));
        let taken: Vec<_> = (0..4).map(|_| pool.take(LARGE, 9).expect("fits")).collect();
        assert!(!pool.is_low(false), "it would be woken at each scope that is dropped");
        drop(taken);
    }

    #[test]
    fn the_helper_leaves_all_memory_to_small_chunks_where_threads_take_no_others() {
        let pool = Pool::new();
        let limit = 8 * ChunkBox::bytes(LARGE);
        pool.set_limit(limit);
        pool.refill(false);
        assert!(pool.allocated() > limit - ChunkBox::bytes(LARGE), "large chunks take it all");
        pool.refill(true);
        assert_eq!(pool.allocated(), READY_SMALL_ALONE * ChunkBox::bytes(SMALL));
        assert!(!pool.is_low(true));
        let fits = limit / ChunkBox::bytes(SMALL);
        let taken: Vec<_> = (0..fits).map(|_| pool.take(1, 0).expect("it fits")).collect();
        assert!(taken.iter().all(|chunk| chunk.capacity() == SMALL));
        taken.into_iter().for_each(|chunk| pool.give_back(chunk));
        pool.trim(0);
        assert_eq!(pool.allocated(), 0);
    }

    #[test]
    fn trim_frees_what_is_over() {
        let pool = Pool::new();
        pool.prefault(10 * ChunkBox::bytes(LARGE));
        pool.trim(2 * ChunkBox::bytes(LARGE) + READY_SMALL * ChunkBox::bytes(SMALL));
        assert_eq!(pool.allocated(), 2 * ChunkBox::bytes(LARGE) + READY_SMALL * ChunkBox::bytes(SMALL));
        pool.trim(0);
        assert_eq!(pool.allocated(), 0);
    }
}
