//! What all threads share: the state word, the log of each thread, and the pool of chunks.

use super::pool::{LARGE, Pool};
use super::primitive::{Arc, AtomicU64, Mutex, Ordering};
use super::ring::{ChunkBox, Room, Writer};

/// The word that every scope reads.
///
/// | bits | |
/// |---|---|
/// | 0 to 7 | the session's host level, 0 for off |
/// | 8 | ticks come from the processor's counter |
/// | 9 | the session has a filter mask |
/// | 10 | nobody has asked yet whether a tool listens |
/// | 16 to 23 | the annotation backends that have a tool; once set, such a bit stays |
/// | 32 to 63 | the session's number |
///
/// The recorder itself never sees what concerns tools: it works with bare words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub(crate) u64);

impl Word {
    pub(crate) const COUNTER: u64 = 1 << 8;
    pub(crate) const FILTERED: u64 = 1 << 9;
    pub(crate) const UNPROBED: u64 = 1 << 10;
    const SEEN_SHIFT: u32 = 16;
    const SEEN: u64 = 0xff << Self::SEEN_SHIFT;
    /// What no session changes.
    const TOOLS: u64 = Self::UNPROBED | Self::SEEN;
    /// What belongs to a session, its number apart.
    const SESSION: u64 = 0xffff_ffff & !Self::TOOLS;

    /// Low half of the word of a usual session: all levels, no filter, ticks from the counter. Its scopes take the
    /// short way, where that one number is all they test.
    const USUAL: u64 = Self::COUNTER | Self::ALL_LEVELS;
    pub(crate) const ALL_LEVELS: u64 = 3;

    /// Whether the session takes every scope, with ticks from the counter.
    #[inline(always)]
    pub(crate) fn is_usual(self) -> bool {
        self.0 & 0xffff_ffff == Self::USUAL
    }

    /// Nobody listens.
    #[inline(always)]
    pub(crate) fn is_off(self) -> bool {
        self.0 & 0xffff_ffff == 0
    }

    /// The word without what concerns tools.
    #[inline(always)]
    pub(crate) fn bare(self) -> Self {
        Self(self.0 & !Self::TOOLS)
    }

    /// Nobody has asked yet whether a tool listens.
    pub(crate) fn is_unprobed(self) -> bool {
        self.0 & Self::UNPROBED != 0
    }

    /// The annotation backends that have a tool. Known to be none where none is compiled in.
    #[cfg(not(zprof_loom))]
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // shifted to 8 bits, and masked
    pub(crate) fn seen(self) -> u8 {
        if crate::annotate::ANY { ((self.0 & Self::SEEN) >> Self::SEEN_SHIFT) as u8 } else { 0 }
    }

    /// Level of the running session.
    #[inline(always)]
    pub(crate) fn level(self) -> u64 {
        self.0 & 0xff
    }

    /// Number of the running session, or of the last one.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // shifted to 32 bits
    pub(crate) fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether ticks come from the processor's counter.
    #[inline(always)]
    pub(crate) fn counts(self) -> bool {
        self.0 & Self::COUNTER != 0
    }
}

/// What the drain keeps of one thread.
#[derive(Debug)]
pub(crate) struct Log {
    /// The kernel's thread id. Changes in the child of a fork only.
    tid: AtomicU64,
    /// The thread's name at its first scope.
    pub(crate) name: String,
    chain: Mutex<Chain>,
    /// Scopes of this session that found no room. Written by the thread, under no lock; read by the drain.
    lost: AtomicU64,
    /// Notes of this session that found no room.
    lost_notes: AtomicU64,
    /// Tick at which the thread ended, or 0; the largest if there was no session then. Written once by the thread, with
    /// Release, after its last record.
    ended: AtomicU64,
}

#[derive(Debug)]
struct Chain {
    epoch: u32,
    /// In the order of the stream. The writer is in the last one, until it takes another or has ended.
    chunks: Vec<ChunkBox>,
}

/// The stream of one thread in one session, for the drain.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) log: Arc<Log>,
    /// Whole chunks and how many of their words count.
    pub(crate) chunks: Vec<(ChunkBox, usize)>,
    /// The chunk that the thread is still in.
    pub(crate) last: Option<(Tail, usize)>,
    /// Scopes that found no room.
    pub(crate) lost: u64,
    /// Metadata added later that found no room.
    pub(crate) lost_notes: u64,
    /// Tick at which the thread ended, or 0.
    pub(crate) ended: u64,
}

#[cfg(not(zprof_loom))]
impl Stream {
    /// The words of each chunk, in order.
    pub(crate) fn words(&self) -> impl Iterator<Item = super::decode::Words<'_>> {
        let whole = self.chunks.iter().map(|(chunk, len)| (chunk, *len));
        let last = self.last.iter().map(|(tail, len)| (tail.chunk(), *len));
        whole.chain(last).map(|(chunk, len)| {
            // SAFETY: `len` is what `ChunkBox::len` returned when the stream was taken. The chunks are this stream's
            // alone but for the last, which its thread gives away only when it sees a later session; the session
            // that drains this stream holds the only place there is, until after that.
            let words = unsafe { chunk.words(len) };
            // SAFETY: the length ends at a record, since a writer publishes only whole ones.
            unsafe { super::decode::Words::new(words, chunk.base()) }
        })
    }
}

/// A chunk that its thread may still hold: readable up to the length that was seen, and not to be reused.
#[derive(Debug)]
pub(crate) struct Tail(std::mem::ManuallyDrop<ChunkBox>);

impl Tail {
    pub(crate) fn chunk(&self) -> &ChunkBox {
        &self.0
    }
}

impl Log {
    pub(crate) fn new(tid: u64, name: String) -> Self {
        Self {
            tid: AtomicU64::new(tid),
            name,
            chain: Mutex::new(Chain { epoch: 0, chunks: Vec::new() }),
            lost: AtomicU64::new(0),
            lost_notes: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Says that the thread writes no more.
    pub(crate) fn end(&self, tick: u64) {
        // Release pairs with the Acquire in `is_ended` and `stream`.
        self.ended.store(tick.max(1), Ordering::Release);
    }

    pub(crate) fn is_ended(&self) -> bool {
        // Acquire pairs with the Release in `end`.
        self.ended.load(Ordering::Acquire) != 0
    }

    pub(crate) fn count_lost_note(&self) {
        // Only this thread writes the counter.
        self.lost_notes.store(self.lost_notes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Room for a record of `words` in session `word`, from a new chunk if need be. `None` at the memory limit.
    #[cold]
    pub(crate) fn make_room(&self, pool: &Pool, writer: &Writer, word: Word, words: usize) -> Option<Room> {
        if writer.epoch() != word.epoch() {
            let mut chain = self.chain.lock();
            writer.roll(word);
            chain.epoch = word.epoch();
            self.lost.store(0, Ordering::Relaxed);
            self.lost_notes.store(0, Ordering::Relaxed);
            // The drain has taken what counted of the old session; the writer has left its last chunk just now.
            for chunk in chain.chunks.drain(..) {
                pool.give_back(chunk);
            }
        }
        if let Some(room) = writer.room(words) {
            return Some(room);
        }
        let filled = self.chain.lock().chunks.len();
        let mut needed = writer.needed(words);
        if writer.needed(0) > LARGE / 2 {
            // So deep that a usual chunk would be kept for ends alone: the next scope would ask for another.
            needed = needed.max(LARGE + 1);
        }
        let chunk = pool.take(needed, filled)?;
        let mut chain = self.chain.lock();
        // SAFETY: the chunk goes into this thread's chain at once, and leaves it only when the writer has rolled to
        // another session, above, or has ended; it has the slots that `needed` asked for.
        unsafe { writer.enter(&chunk) };
        chain.chunks.push(chunk);
        writer.room(words)
    }

    /// Counts a scope that found no room.
    pub(crate) fn count_lost(&self) {
        // Only this thread writes the counter.
        self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Takes what the thread has written in session `epoch`.
    fn stream(this: &Arc<Self>, epoch: u32) -> Option<Stream> {
        // First whether the writer is gone, then what it wrote: nothing can come after that.
        let ended = this.ended.load(Ordering::Acquire);
        let mut chain = this.chain.lock();
        if chain.epoch != epoch {
            return None;
        }
        let mut chunks = std::mem::take(&mut chain.chunks);
        let mut last = None;
        if ended == 0 {
            if let Some(chunk) = chunks.pop() {
                let len = chunk.len();
                // SAFETY: the copy is never dropped, and read only while this session is being drained; the thread
                // gives the chunk away only once it sees a later session, which starts after that.
                let copy = unsafe { std::ptr::read(&raw const chunk) };
                last = Some((Tail(std::mem::ManuallyDrop::new(copy)), len));
                chain.chunks.push(chunk);
            }
        }
        let chunks = chunks
            .into_iter()
            .map(|chunk| {
                let len = chunk.len();
                (chunk, len)
            })
            .collect();
        let (lost, lost_notes) = (this.lost.load(Ordering::Relaxed), this.lost_notes.load(Ordering::Relaxed));
        Some(Stream { log: Arc::clone(this), chunks, last, lost, lost_notes, ended })
    }

    /// Gives the log the id that its thread has after a fork.
    #[cfg(unix)]
    pub(crate) fn set_tid(&self, tid: u64) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// The kernel's thread id.
    pub(crate) fn tid(&self) -> u64 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Takes the chunks of a thread that has ended.
    fn reclaim(&self, pool: &Pool) {
        for chunk in self.chain.lock().chunks.drain(..) {
            pool.give_back(chunk);
        }
    }
}

/// The locks that a fork must not find taken.
#[cfg(all(unix, not(zprof_loom)))]
pub(crate) type Held =
    (std::sync::MutexGuard<'static, Vec<Arc<Log>>>, std::sync::MutexGuard<'static, super::pool::Free>);

/// All that threads share. The program has one, in a static; tests have their own.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Written by start and stop, read by every scope.
    state: AtomicU64,
    /// Filter mask of the session. Written before `state`, read when the state says that there is one.
    filter: AtomicU64,
    logs: Mutex<Vec<Arc<Log>>>,
    pub(crate) pool: Pool,
    /// Scopes of threads whose own storage was gone already.
    orphans: AtomicU64,
}

impl Shared {
    #[cfg(not(zprof_loom))]
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU64::new(if crate::annotate::ANY { Word::UNPROBED } else { 0 }),
            filter: AtomicU64::new(u64::MAX),
            logs: Mutex::new(Vec::new()),
            pool: Pool::new(),
            orphans: AtomicU64::new(0),
        }
    }

    #[cfg(zprof_loom)]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            filter: AtomicU64::new(u64::MAX),
            logs: Mutex::new(Vec::new()),
            pool: Pool::new(),
            orphans: AtomicU64::new(0),
        }
    }

    /// The state word: one relaxed load, since whatever a scope then touches is ordered by locks or by its thread.
    #[inline(always)]
    pub(crate) fn word(&self) -> Word {
        Word(self.state.load(Ordering::Relaxed))
    }

    /// Where the state word is.
    #[cfg(not(zprof_loom))]
    pub(crate) const fn state(&self) -> &AtomicU64 {
        &self.state
    }

    /// Whether `word` is of the present session, or of the last one where there is none.
    pub(crate) fn is_current(&self, word: Word) -> bool {
        // Acquire pairs with the Release in `open_session`: whoever drained the session before is done with it.
        Word(self.state.load(Ordering::Acquire)).epoch() == word.epoch()
    }

    /// Whether the session's filter lets a site with these bits through.
    #[inline]
    pub(crate) fn passes(&self, filter: u64) -> bool {
        self.filter.load(Ordering::Relaxed) & filter != 0
    }

    /// Adds a thread.
    pub(crate) fn register(&self, log: Arc<Log>) {
        self.logs.lock().push(log);
    }

    /// Counts a scope of a thread that is past its end.
    pub(crate) fn count_orphan(&self) {
        self.orphans.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens the next session: `flags` are the low bits of its state word, level included.
    pub(crate) fn open_session(&self, flags: u64, filter: u64) -> Word {
        let mut logs = self.logs.lock();
        logs.retain(|log| {
            let ended = log.is_ended();
            if ended {
                log.reclaim(&self.pool);
            }
            !ended
        });
        self.orphans.store(0, Ordering::Relaxed);
        self.filter.store(filter, Ordering::Relaxed);
        let epoch = u64::from(self.word().epoch().wrapping_add(1).max(1));
        let flags = if filter == u64::MAX { flags } else { flags | Word::FILTERED };
        let session = epoch << 32 | flags;
        self.change(|word| word & Word::TOOLS | session);
        Word(session)
    }

    /// Changes the state word. Sessions change it one at a time, but a tool may be found at any moment.
    fn change(&self, change: impl Fn(u64) -> u64) {
        let mut old = self.state.load(Ordering::Relaxed);
        // Release pairs with the Acquire in `is_current`.
        while let Err(other) = self.state.compare_exchange_weak(old, change(old), Ordering::Release, Ordering::Relaxed)
        {
            old = other;
        }
    }

    /// Adds annotation backends that have a tool.
    #[cfg(not(zprof_loom))]
    pub(crate) fn add_seen(&self, seen: u8) {
        self.change(|word| word | u64::from(seen) << Word::SEEN_SHIFT);
    }

    /// Says that somebody has asked whether a tool listens.
    #[cfg(not(zprof_loom))]
    pub(crate) fn set_probed(&self) {
        self.change(|word| word & !Word::UNPROBED);
    }

    /// Closes the session: from now on nothing is recorded.
    pub(crate) fn close_session(&self) {
        self.change(|word| word & !Word::SESSION);
    }

    /// Takes what each thread has written in session `epoch`, in the order in which the threads came.
    pub(crate) fn streams(&self, epoch: u32) -> Vec<Stream> {
        let logs = self.logs.lock();
        logs.iter().filter_map(|log| Log::stream(log, epoch)).collect()
    }

    /// Takes the locks that a fork must not find taken.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn hold(&'static self) -> Held {
        (self.logs.lock(), self.pool.hold())
    }

    /// In the child of a fork: forgets the threads that did not come along. What they recorded is in the parent.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn keep_only(&self, keep: Option<&Log>) {
        let mut logs = self.logs.lock();
        for log in std::mem::take(&mut *logs) {
            if keep.is_some_and(|keep| std::ptr::eq(keep, &raw const *log)) {
                logs.push(log);
            } else {
                // Its own lock may be taken for ever, so that not even dropping it is safe.
                std::mem::forget(log);
            }
        }
    }

    /// Scopes of this session that came from threads past their end.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans.load(Ordering::Relaxed)
    }
}
