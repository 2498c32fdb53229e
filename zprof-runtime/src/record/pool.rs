//! Chunks that no thread has: handed out to writers, kept faulted in, and counted against the memory limit.

use super::chunk::ChunkBox;
use super::primitive::{AtomicUsize, Mutex, Ordering};

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
}

/// The chunks that no thread has.
#[derive(Debug)]
pub(crate) struct Free {
    small: Vec<ChunkBox>,
    large: Vec<ChunkBox>,
}

impl Free {
    fn list(&mut self, capacity: usize) -> Option<&mut Vec<ChunkBox>> {
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
            free: Mutex::new(Free { small: Vec::new(), large: Vec::new() }),
            allocated: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            kept: AtomicUsize::new(0),
        }
    }

    #[cfg(zprof_loom)]
    pub(crate) fn new() -> Self {
        Self {
            free: Mutex::new(Free { small: Vec::new(), large: Vec::new() }),
            allocated: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            kept: AtomicUsize::new(0),
        }
    }

    /// Sets how many bytes all chunks of the process may take.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
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
                let free = self.free.lock().list(capacity).and_then(Vec::pop);
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
        let mut extra = Vec::new();
        {
            let mut free = self.free.lock();
            let over = self.allocated.load(Ordering::Relaxed).saturating_add(bytes).saturating_sub(limit);
            let (small, large) = (ChunkBox::bytes(SMALL), ChunkBox::bytes(LARGE));
            if over > free.small.len() * small + free.large.len() * large {
                return;
            }
            let mut freed = 0;
            while freed < over {
                let Some(chunk) = free.large.pop().or_else(|| free.small.pop()) else { break };
                freed += ChunkBox::bytes(chunk.capacity());
                extra.push(chunk);
            }
        }
        for chunk in extra {
            self.free(chunk);
        }
    }

    fn allocate(&self, capacity: usize) -> Option<ChunkBox> {
        let bytes = ChunkBox::bytes(capacity);
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = |allocated: usize| allocated.checked_add(bytes).filter(|&sum| sum <= limit);
        self.allocated.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let chunk = ChunkBox::new(capacity);
        if chunk.is_none() {
            self.allocated.fetch_sub(bytes, Ordering::Relaxed);
        }
        chunk
    }

    fn free(&self, chunk: ChunkBox) {
        self.allocated.fetch_sub(ChunkBox::bytes(chunk.capacity()), Ordering::Relaxed);
        drop(chunk);
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
    pub(crate) fn give_back(&self, chunk: ChunkBox) {
        let Some(chunk) = chunk.release() else { return };
        let capacity = chunk.capacity();
        if capacity == SMALL || capacity == LARGE {
            let mut free = self.free.lock();
            if let Some(list) = free.list(capacity) {
                list.push(chunk);
            }
        } else {
            self.free(chunk);
        }
    }

    /// Frees free chunks until at most `keep` bytes of them are left.
    pub(crate) fn trim(&self, keep: usize) {
        let mut kept = 0;
        let mut extra = Vec::new();
        {
            let mut free = self.free.lock();
            let Free { small, large } = &mut *free;
            for (list, capacity) in [(small, SMALL), (large, LARGE)] {
                let bytes = ChunkBox::bytes(capacity);
                let room = keep.saturating_sub(kept) / bytes;
                extra.extend(list.drain(room.min(list.len())..));
                kept += list.len() * bytes;
            }
        }
        for chunk in extra {
            self.free(chunk);
        }
    }

    /// Fills the pool with faulted-in chunks up to `bytes`.
    pub(crate) fn prefault(&self, bytes: usize) {
        self.fill(READY_SMALL.min(bytes / ChunkBox::bytes(SMALL)), bytes / ChunkBox::bytes(LARGE));
    }

    /// Brings the pool back to what the helper keeps ready.
    pub(crate) fn refill(&self) {
        self.fill(READY_SMALL, READY_LARGE);
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

    /// In the child of a fork: besides the free chunks there are those of one thread, of so many bytes, and of so many that are
    /// a ring's. Those of other threads are nobody's here, and count no more.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn count_anew(&self, bytes: usize, kept: usize) {
        let free = self.free.lock();
        let sum = |list: &[ChunkBox]| list.iter().map(ChunkBox::size).sum::<usize>();
        self.allocated.store(sum(&free.small) + sum(&free.large) + bytes, Ordering::Relaxed);
        self.kept.store(kept, Ordering::Relaxed);
    }

    /// Takes the lock that a fork must not find taken.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock()
    }

    /// Whether the helper should refill, and can.
    pub(crate) fn is_low(&self) -> bool {
        let allocated = self.allocated.load(Ordering::Relaxed);
        if allocated.saturating_add(ChunkBox::bytes(LARGE)) > self.limit.load(Ordering::Relaxed) {
            return false;
        }
        let free = self.free.lock();
        free.large.len() < READY_LARGE / 2 || free.small.len() < READY_SMALL / 2
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
        assert!(pool.is_low());
        let taken: Vec<_> = (0..4).map(|_| pool.take(LARGE, 9).expect("fits")).collect();
        assert!(!pool.is_low(), "it would be woken at each scope that is dropped");
        drop(taken);
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
