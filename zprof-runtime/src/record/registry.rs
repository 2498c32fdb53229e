//! What all threads share: the state word, the logs of the threads, the pool of chunks, and how much is kept.

use super::chain::Bounds;
use super::directives::Directives;
#[cfg(not(zprof_loom))]
use super::fork::is_forking;
use super::log::{Estate, Gone, Log};
use super::pool::Pool;
use super::primitive::{Arc, AtomicU64, Mutex, Ordering, fence};
#[cfg(not(zprof_loom))]
use crate::os::in_signal_handler;
use crate::room::{self, Result};
use crate::site::Site;

/// The word that every scope reads.
///
/// | bits | |
/// |---|---|
/// | 0 to 7 | the session's host level, 0 for off |
/// | 8 | ticks come from the processor's counter |
/// | 9 | the session has a filter mask |
/// | 10 | nobody has asked yet whether a tool listens |
/// | 12 | the session has directives |
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
    pub(crate) const DIRECTED: u64 = 1 << 12;
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

    /// Whether what the session takes is written in the short way: with ticks from the counter, and no tool to tell.
    pub(crate) fn is_short(self) -> bool {
        let choice = 0xff | Self::FILTERED | Self::DIRECTED;
        self.0 & 0xffff_ffff & !choice == Self::COUNTER
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

/// Models have no signals.
#[cfg(zprof_loom)]
fn in_signal_handler() -> bool {
    false
}

/// Models do not fork.
#[cfg(zprof_loom)]
fn is_forking() -> bool {
    false
}

/// What may be dropped since the recorder is at work on the same thread: a signal handler has interrupted it, or it has called
/// the program's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(zprof_loom, allow(dead_code))]
pub(crate) enum Interrupted {
    /// A scope, an instant, a sample of a counter, or the end of a task.
    Scope,
    /// A value added to an open scope.
    Note,
    /// The end of a scope whose begin was recorded.
    End,
}

/// Why something is dropped though there is memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(zprof_loom, allow(dead_code))]
pub(crate) enum Reason {
    /// The recorder has called the code that records, such as the program's allocator, on the same thread.
    Reentered,
    /// A signal handler has interrupted the recorder on the same thread.
    InterruptedByHandler,
    /// A signal handler would have to allocate.
    AllocatesInHandler,
}

/// How much was dropped: by [`Interrupted`], then by [`Reason`].
pub(crate) type Dropped = [[u64; 3]; 3];

#[cfg(all(unix, not(zprof_loom)))]
type Guard<T> = super::primitive::MutexGuard<'static, T>;

/// The locks that a fork must not find taken.
#[cfg(all(unix, not(zprof_loom)))]
pub(crate) type Held = (Guard<()>, Guard<Vec<Arc<Log>>>, Guard<super::pool::Free>, Guard<Gone>, Guard<Directives>);

/// All that threads share. The program has one, in a static; tests have their own.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Written by start and stop, read by every scope.
    state: AtomicU64,
    /// Filter mask of the session. Written before `state`, read when the state says that there is one.
    filter: AtomicU64,
    /// Directives of the session. Set before `state`, read when the state says that there are any: under this lock, a thread
    /// that has seen the state sees them.
    directives: Mutex<Directives>,
    pub(super) logs: Mutex<Vec<Arc<Log>>>,
    pub(crate) pool: Pool,
    /// Scopes of threads whose own storage was gone already.
    orphans: AtomicU64,
    /// What was dropped since the recorder was at work on the same thread, by what it was and why.
    interrupted: [[AtomicU64; 3]; 3],
    /// Scopes of threads that could not be registered, since there was no memory.
    unregistered: AtomicU64,
    /// No thread that has ended has used this position or a later one.
    first_position: AtomicU64,
    /// Tick of the fork by which the session came into this process, or 0 where it began here; and the process that it came
    /// from.
    forked_at: AtomicU64,
    forked_from: AtomicU64,
    /// What is kept of each thread. Written before `state`.
    keep_ns: AtomicU64,
    keep_bytes: AtomicU64,
    /// Not 0 while a snapshot gets hold of the chunks: nothing is let go then. Written by the snapshot, read by all
    /// threads; what one lets go because it does not see this yet was out of bounds before the snapshot's moment.
    pub(super) held: AtomicU64,
    /// Threads that record in this session and have not ended, and how many there have been at most.
    threads: AtomicU64,
    most_threads: AtomicU64,
    /// What was let go of threads that have ended.
    gone: Mutex<Gone>,
    /// Taken by whoever looks at the chain of another thread, so that a fork finds no chain locked.
    pub(super) visit: Mutex<()>,
}

impl Shared {
    #[cfg(not(zprof_loom))]
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU64::new(if crate::annotate::ANY { Word::UNPROBED } else { 0 }),
            filter: AtomicU64::new(u64::MAX),
            directives: Mutex::new(Directives::none()),
            logs: Mutex::new(Vec::new()),
            pool: Pool::new(),
            orphans: AtomicU64::new(0),
            interrupted: [const { [const { AtomicU64::new(0) }; 3] }; 3],
            unregistered: AtomicU64::new(0),
            first_position: AtomicU64::new(0),
            forked_at: AtomicU64::new(0),
            forked_from: AtomicU64::new(0),
            keep_ns: AtomicU64::new(u64::MAX),
            keep_bytes: AtomicU64::new(u64::MAX),
            held: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            most_threads: AtomicU64::new(0),
            gone: Mutex::new(Gone::NONE),
            visit: Mutex::new(()),
        }
    }

    #[cfg(zprof_loom)]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            filter: AtomicU64::new(u64::MAX),
            directives: Mutex::new(Directives::none()),
            logs: Mutex::new(Vec::new()),
            pool: Pool::new(),
            orphans: AtomicU64::new(0),
            interrupted: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            unregistered: AtomicU64::new(0),
            first_position: AtomicU64::new(0),
            forked_at: AtomicU64::new(0),
            forked_from: AtomicU64::new(0),
            keep_ns: AtomicU64::new(u64::MAX),
            keep_bytes: AtomicU64::new(u64::MAX),
            held: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            most_threads: AtomicU64::new(0),
            gone: Mutex::new(Gone::NONE),
            visit: Mutex::new(()),
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

    /// Number of the present session, or of the last one where there is none.
    #[cfg(not(zprof_loom))]
    pub(crate) fn latest_epoch(&self) -> u32 {
        // Acquire pairs with the Release in `change`: whoever asks next whether a session runs knows of this one.
        Word(self.state.load(Ordering::Acquire)).epoch()
    }

    /// Whether `word` is of the present session, or of the last one where there is none.
    pub(crate) fn is_current(&self, word: Word) -> bool {
        // Acquire pairs with the Release in `open_session`: whoever drained the session before is done with it.
        Word(self.state.load(Ordering::Acquire)).epoch() == word.epoch()
    }

    /// Whether the filter of the session whose state word the caller has seen lets a site with these bits through.
    #[inline]
    pub(crate) fn passes(&self, filter: u64) -> bool {
        // The word was loaded without an ordering. Acquire pairs with the Release in `change`: the mask of that session, or
        // of a later one, is seen.
        fence(Ordering::Acquire);
        self.filter.load(Ordering::Relaxed) & filter != 0
    }

    /// Whether the session's directives take this site. One load, once that is known.
    #[inline]
    pub(crate) fn admits(&self, word: Word, site: &'static Site) -> bool {
        site.memo.verdict(word.epoch()).unwrap_or_else(|| self.decide(word, site))
    }

    /// The verdict on a site that is met for the first time in this session. Whoever asks with the word of a session that is
    /// over gets a verdict of the next one, which is of use to nobody.
    #[cold]
    fn decide(&self, word: Word, site: &'static Site) -> bool {
        // In a signal handler nobody may wait for a lock, which may be what the handler has interrupted, and in a handler of a
        // fork the thread itself has it. It is held for a moment only, so that the code that comes next outside of the handler
        // finds it free.
        let mut directives = match self.directives.try_lock() {
            Some(directives) => directives,
            None if in_signal_handler() || is_forking() => {
                if self.is_current(word) {
                    self.count_interrupted(Interrupted::Scope, Reason::InterruptedByHandler);
                }
                return false;
            }
            None => self.directives.lock(),
        };
        let is_taken = directives.level(site.module_path) >= site.level as u8;
        drop(directives);
        site.memo.set_verdict(word.epoch(), is_taken);
        is_taken
    }

    /// Sets the directives of the next session, and gives back those of the last. What was there is freed when the lock is free:
    /// the program's allocator may have scopes.
    pub(crate) fn direct(&self, directives: Directives) -> Directives {
        std::mem::replace(&mut *self.directives.lock(), directives)
    }

    /// Whether rings within these bounds are to be made of small chunks: those of large ones would have a few each, or none.
    pub(crate) fn has_small_rings(&self, bounds: Bounds) -> bool {
        let threads = self.threads.load(Ordering::Relaxed).max(1);
        bounds.are_narrow() || self.pool.is_small(usize::try_from(threads).unwrap_or(usize::MAX))
    }

    /// Whether threads take only small chunks in this session.
    pub(crate) fn takes_small(&self) -> bool {
        self.bounds().is_some_and(|bounds| self.has_small_rings(bounds))
    }

    /// Adds a thread, where there is memory. Under the lock nothing is allocated or freed, since the program's allocator may have
    /// scopes: a longer list is made before.
    pub(crate) fn register(&self, log: Arc<Log>) -> Result<()> {
        let mut longer: Vec<Arc<Log>> = Vec::new();
        loop {
            let mut logs = self.logs.lock();
            if logs.len() == logs.capacity() && longer.capacity() > logs.len() {
                longer.append(&mut logs);
                std::mem::swap(&mut *logs, &mut longer);
            }
            let count = logs.len();
            if count < logs.capacity() {
                logs.push(log);
                return Ok(());
            }
            drop(logs);
            longer = room::with_room(2 * count + 8)?;
        }
    }

    /// All threads. Under the lock nothing is allocated, since the program's allocator may have scopes, and this thread none yet.
    pub(super) fn all_logs(&self) -> Result<Vec<Arc<Log>>> {
        let mut all = Vec::new();
        loop {
            let logs = self.logs.lock();
            let count = logs.len();
            if count <= all.capacity() {
                all.extend(logs.iter().map(Arc::clone));
                return Ok(all);
            }
            drop(logs);
            all = room::with_room(count)?;
        }
    }

    /// A thread records in this session for the first time.
    pub(crate) fn one_more(&self) {
        let threads = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_threads.fetch_max(threads, Ordering::Relaxed);
    }

    /// A thread that has recorded in session `epoch` ends.
    pub(crate) fn one_less(&self, epoch: u32) {
        if self.word().epoch() == epoch {
            // None is left where another session begins just now.
            let _ = self.threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |threads| threads.checked_sub(1));
        }
    }

    /// Counts a scope of a thread that is past its end.
    pub(crate) fn count_orphan(&self) {
        self.orphans.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what is dropped since the recorder is at work on the calling thread. A signal handler may call this.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn count_interrupted(&self, what: Interrupted, why: Reason) {
        self.interrupted[what as usize][why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What was dropped in this session since the recorder was at work on the same thread.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn interrupted(&self) -> Dropped {
        self.interrupted.each_ref().map(|counts| counts.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Counts a scope of a thread that could not be registered.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn count_unregistered(&self) {
        self.unregistered.fetch_add(1, Ordering::Relaxed);
    }

    /// Scopes of threads that could not be registered in this session.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn unregistered(&self) -> u64 {
        self.unregistered.load(Ordering::Relaxed)
    }

    /// A position that no writer of a thread that has ended has used, nor any later one: where a writer may begin that takes
    /// the place of another one on its thread.
    ///
    /// Positions count bytes. Writers that live at the same time count side by side, so this grows no faster than the fastest
    /// thread writes, and takes centuries to come near the end of a `u64`.
    pub(crate) fn first_position(&self) -> u64 {
        // Relaxed: a thread sees what it has stored itself.
        self.first_position.load(Ordering::Relaxed)
    }

    /// The calling thread, or its writer, ends, and has used no position from this one on.
    pub(crate) fn leave_positions(&self, end: u64) {
        self.first_position.fetch_max(end, Ordering::Relaxed);
    }

    /// Opens the next session: `flags` are the low bits of its state word, level included.
    pub(crate) fn open_session(&self, flags: u64, filter: u64, bounds: Bounds) -> Word {
        self.forget_ended(self.word().epoch());
        self.keep_ns.store(bounds.ns, Ordering::Relaxed);
        self.keep_bytes.store(bounds.bytes, Ordering::Relaxed);
        self.pool.keep_nothing();
        *self.gone.lock() = Gone::NONE;
        self.orphans.store(0, Ordering::Relaxed);
        self.unregistered.store(0, Ordering::Relaxed);
        self.interrupted.iter().flatten().for_each(|count| count.store(0, Ordering::Relaxed));
        self.forked_at.store(0, Ordering::Relaxed);
        self.threads.store(0, Ordering::Relaxed);
        self.most_threads.store(0, Ordering::Relaxed);
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
        // Release pairs with the Acquire in `is_current`, `passes` and `bounds`.
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

    /// What is to be kept of each thread, where that is not all, in the session whose state word the caller has seen.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        // The word was loaded without an ordering. Acquire pairs with the Release in `change`: the bounds of that session, or
        // of a later one, are seen.
        fence(Ordering::Acquire);
        let (ns, bytes) = (self.keep_ns.load(Ordering::Relaxed), self.keep_bytes.load(Ordering::Relaxed));
        let bounds = Bounds { ns, bytes };
        (bounds != Bounds::NONE).then_some(bounds)
    }

    /// Whether a snapshot is getting hold of the chunks.
    pub(crate) fn is_held(&self) -> bool {
        // Acquire pairs with the Release in `share`, as far as anything must be ordered at all.
        self.held.load(Ordering::Acquire) != 0
    }

    /// What was let go of threads that have ended.
    pub(crate) fn gone(&self) -> Gone {
        *self.gone.lock()
    }

    /// Lets go of what is too old on threads that write nothing, and of threads that have ended: where they ended too long
    /// ago, and the first to end where they have more records than as many threads as have recorded at once may have, or
    /// take more than a quarter of the memory. Gives whether any went.
    pub(crate) fn sweep(&self, bounds: Bounds, now_ns: u64) -> bool {
        // Where there is no memory to look, nothing goes now.
        self.sweep_in(bounds, now_ns).unwrap_or(false)
    }

    fn sweep_in(&self, bounds: Bounds, now_ns: u64) -> Result<bool> {
        let Some(_visit) = self.visit.try_lock() else { return Ok(false) };
        let epoch = self.word().epoch();
        let logs = self.all_logs()?;
        let mut ended: Vec<(u64, Estate, &Arc<Log>)> = room::with_room(logs.len())?;
        let mut without: Vec<*const Log> = room::with_room(logs.len())?;
        for log in &logs {
            match log.ended_ns() {
                Some(ns) => ended.extend(log.estate(epoch).map(|estate| (ns, estate, log))),
                None if bounds.ns != u64::MAX => log.age(self, epoch, bounds, now_ns),
                None => {}
            }
        }
        ended.sort_unstable_by_key(|(ns, ..)| *ns);
        let mut bytes: usize = ended.iter().map(|(_, estate, _)| estate.bytes).sum();
        let most = self.pool.most_ended();
        // A ring has a little more than its bound.
        let records = |estate: &Estate| estate.written.min(bounds.bytes);
        let mut written: u64 = ended.iter().map(|(_, estate, _)| records(estate)).fold(0, u64::saturating_add);
        let most_written = bounds.bytes.saturating_mul(self.most_threads.load(Ordering::Relaxed));
        let mut gone = Gone::NONE;
        for (ns, estate, log) in ended {
            if bytes <= most && written <= most_written && now_ns.saturating_sub(ns) <= bounds.ns {
                break;
            }
            bytes -= estate.bytes;
            written -= records(&estate);
            gone.add(log.let_go_whole(self));
            without.push(Arc::as_ptr(log));
        }
        if without.is_empty() {
            return Ok(false);
        }
        without.sort_unstable();
        self.logs.lock().retain(|log| without.binary_search(&Arc::as_ptr(log)).is_err());
        self.gone.lock().add(gone);
        Ok(true)
    }

    /// Lets go of the oldest chunk of the longest ring that has one: only of such as nobody reads, where that is what
    /// `must_be_free` asks for. Gives whether there was one.
    pub(crate) fn squeeze(&self, must_be_free: bool) -> bool {
        let Some(_visit) = self.visit.try_lock() else { return false };
        let epoch = self.word().epoch();
        // Where there is no memory to look, there is none to be had either.
        let Ok(logs) = self.all_logs() else { return false };
        let rings = room::collect(logs.iter().map(|log| (log.bytes(epoch), log)), logs.len());
        let Ok(mut rings): Result<Vec<(usize, &Arc<Log>)>> = rings else { return false };
        rings.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        rings
            .iter()
            .take_while(|(bytes, _)| *bytes != 0)
            .any(|(_, log)| log.let_go_oldest(self, must_be_free).is_some())
    }

    /// Takes the locks that a fork must not find taken.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn hold(&'static self) -> Held {
        (self.visit.lock(), self.logs.lock(), self.pool.hold(), self.gone.lock(), self.directives.lock())
    }

    /// In the child of a fork: forgets the threads that did not come along, and all chunks. What they have is in the parent. The
    /// thread that is kept has chunks of so many bytes; the tick is that of the fork, or 0 where no session runs.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn keep_only(&self, keep: Option<&Log>, bytes: usize, tick: u64) {
        self.held.store(0, Ordering::Release);
        self.threads.store(u64::from(keep.is_some()), Ordering::Relaxed);
        self.pool.begin_anew(bytes, bytes);
        self.forked_from.store(u64::from(std::os::unix::process::parent_id()), Ordering::Relaxed);
        self.forked_at.store(tick, Ordering::Relaxed);
        // Under the lock nothing is allocated and nothing freed: the program's allocator may have scopes.
        let mut logs = self.logs.lock();
        let mut kept = None;
        for log in logs.drain(..) {
            if keep.is_some_and(|keep| std::ptr::eq(keep, &raw const *log)) {
                kept = Some(log);
            } else {
                // Its own lock may be taken for ever, so that not even dropping it is safe.
                std::mem::forget(log);
            }
        }
        logs.extend(kept);
    }

    /// In the child of a fork: gives the session that goes on another number. Its thread begins anew with its next record, as in
    /// a new session, and what it has of this one is never read.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn renumber_session(&self) {
        self.threads.store(0, Ordering::Relaxed);
        self.change(|word| {
            let epoch = u64::from(Word(word).epoch().wrapping_add(1).max(1));
            epoch << 32 | word & 0xffff_ffff
        });
    }

    /// Tick of the fork by which this session came into this process, and the process that it came from.
    pub(crate) fn fork(&self) -> Option<(u64, u64)> {
        let at = self.forked_at.load(Ordering::Relaxed);
        (at != 0).then(|| (at, self.forked_from.load(Ordering::Relaxed)))
    }

    /// Scopes of this session that came from threads past their end.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans.load(Ordering::Relaxed)
    }
}
