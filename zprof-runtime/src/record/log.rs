//! What is kept of one thread: its name, its chunks, and what found no room.

use super::chain::{Bounds, Carried, Chain, Locked, Own, Sampled, Taken};
use super::chunk::{ChunkBox, Moment};
use super::decode::{Record, Words};
#[cfg(all(unix, not(zprof_loom)))]
use super::inherit::{self, Heir};
use super::pool::{LARGE, Pool};
use super::primitive::{Arc, AtomicU64, Mutex, Ordering};
use super::registry::{Shared, Word};
use super::ring::{Room, Writer};
use crate::room::Result;
use crate::thread_name::{SystemName, ThreadName};

/// Chunks that a thread may take from rings to have one for itself: no more, since each may have to be read.
const MOST_TAKEN: usize = 64;

/// What the drain keeps of one thread.
#[derive(Debug)]
pub(crate) struct Log {
    /// The kernel's thread id. Changes in the child of a fork only.
    tid: AtomicU64,
    /// The thread's name at its first scope, or as the program has called it since; and how the system called it at its end.
    name: Mutex<ThreadName>,
    pub(super) chain: Chain,
    own: Mutex<Own>,
    /// Scopes of this session that found no room. Written by the thread, under no lock; read by the drain.
    lost: AtomicU64,
    /// Notes of this session that found no room.
    lost_notes: AtomicU64,
    /// Tick at which the thread ended, or 0; the largest if there was no session then. Written once by the thread, with
    /// Release, after its last record.
    ended: AtomicU64,
    /// The same on the monotonic clock. Written before `ended`.
    ended_ns: AtomicU64,
    /// Position at which its stream ended. Written before `ended`.
    ended_at: AtomicU64,
    /// Not 0 if the thread is one of the recorder's own, which no profile shows.
    is_ours: AtomicU64,
}

/// What a thread that has ended takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estate {
    /// Bytes of its chunks.
    pub(crate) bytes: usize,
    /// Bytes of its records.
    pub(crate) written: u64,
}

/// The stream of one thread in one session, for the drain.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) log: Arc<Log>,
    /// The thread's name when the stream was taken.
    pub(crate) name: ThreadName,
    /// The chunks, and how many of their words count.
    pub(crate) chunks: Vec<(ChunkBox, usize)>,
    /// Begins of open scopes from chunks that are gone.
    pub(crate) carried: Vec<Carried>,
    /// Tick from which on all is there that bounds have not ruled out; 0 for the session's start.
    pub(crate) since: u64,
    /// Bytes of records that were let go.
    pub(crate) released: u64,
    /// Begins of open scopes that could not be carried.
    pub(crate) uncarried: u64,
    /// The last sample of each counter among what was let go.
    pub(crate) counts: Vec<Sampled>,
    /// Scopes that found no room.
    pub(crate) lost: u64,
    /// Metadata added later that found no room.
    pub(crate) lost_notes: u64,
    /// Tick at which the thread ended, or 0.
    pub(crate) ended: u64,
    /// Tick at which the stream was taken, and `since` at least.
    pub(crate) held: u64,
}

impl Stream {
    /// Whether the stream shows what its thread did at tick `moment`: it goes back that far, and not all of its chunks were
    /// begun later. A ring that has gone round since then does not.
    pub(crate) fn covers(&self, moment: u64) -> bool {
        self.since == 0 || self.since <= moment && self.first_begin().is_none_or(|begin| begin <= moment)
    }

    /// Tick of the first begin in the oldest chunk.
    fn first_begin(&self) -> Option<u64> {
        let (chunk, len) = self.chunks.first()?;
        // SAFETY: `len` is what `ChunkBox::len` returned when the stream was taken.
        let words = unsafe { chunk.words(*len) };
        // SAFETY: the length ends at a record, since a writer publishes only whole ones.
        let words = unsafe { Words::new(AsRef::<[u64]>::as_ref(&words), chunk.base()) };
        words.records().find_map(|record| match record {
            Record::Begin { tick, .. } => Some(tick),
            _ => None,
        })
    }
}

#[cfg(not(zprof_loom))]
impl Stream {
    /// Looks up what the system calls the thread now, or has called it at its end.
    pub(crate) fn look_up_name(&mut self) -> Result<()> {
        let now = if self.ended == 0 { SystemName::of_thread(self.log.tid()) } else { None };
        if self.ended == 0 && self.log.is_ended() {
            // It has ended meanwhile, so that the system may have given its id to another thread.
            self.name = self.log.name_copy()?;
        } else {
            self.name.note(now);
        }
        Ok(())
    }

    /// The last tick that is to be read where the record of all threads ends at `stop`. A stream that does not cover
    /// `stop` has a window of its own, which ends where it was taken; else its thread would be missing, with all that it
    /// has open. Nothing is read behind the end of its thread.
    pub(crate) fn last(&self, stop: u64) -> u64 {
        let last = if self.covers(stop) { stop } else { self.held };
        if self.ended == 0 { last } else { last.min(self.ended) }
    }

    /// Tick of the oldest record, or from which on all is there.
    pub(crate) fn first(&self) -> Option<u64> {
        if self.since != 0 {
            return Some(self.since);
        }
        let (chunk, len) = self.chunks.first()?;
        // SAFETY: `len` is what `ChunkBox::len` returned when the stream was taken.
        let words = unsafe { chunk.words(*len) };
        words.first().map(|head| super::ring::tick(*head))
    }

    /// The words of each chunk, in order, and of what is carried before them.
    pub(crate) fn words(&self) -> impl Iterator<Item = Words<'_>> {
        // Notes stand behind all begins, as they do in chunks, and have no position of their own.
        let begins = self.carried.iter().map(|carried| (&carried.words, carried.position));
        let notes = self.carried.iter().flat_map(|carried| carried.notes.iter().map(|note| (note, 0)));
        // SAFETY: these were copied from a chunk of the writer's, record by record.
        let carried = begins.chain(notes).map(|(words, base)| unsafe { Words::new(words, base) });
        let chunks = self.chunks.iter().map(|(chunk, len)| {
            // SAFETY: `len` is what `ChunkBox::len` returned when the stream was taken.
            let words = unsafe { chunk.words(*len) };
            // SAFETY: the length ends at a record, since a writer publishes only whole ones.
            unsafe { Words::new(words, chunk.base()) }
        });
        carried.chain(chunks)
    }
}

/// What was let go of a thread as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) threads: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
}

impl Gone {
    pub(crate) const NONE: Self = Self { threads: 0, bytes: 0, lost: 0 };

    pub(crate) fn add(&mut self, other: Self) {
        self.threads += other.threads;
        self.bytes += other.bytes;
        self.lost += other.lost;
    }
}

impl Log {
    pub(crate) fn new(tid: u64, name: impl Into<ThreadName>) -> Self {
        Self {
            tid: AtomicU64::new(tid),
            name: Mutex::new(name.into()),
            chain: Chain::new(),
            own: Mutex::new(Own::default()),
            lost: AtomicU64::new(0),
            lost_notes: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            ended_at: AtomicU64::new(0),
            is_ours: AtomicU64::new(0),
        }
    }

    /// The session of what was written, and a position that is behind all of it; for when the writer is gone.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn written(&self) -> (u64, u32) {
        let chain = self.chain.lock();
        (chain.end(), chain.epoch())
    }

    /// Says that the thread writes no more. Its writer has left the last chunk at `position`.
    pub(crate) fn end(&self, position: u64, at: Moment) {
        if let Some(mut chain) = self.chain.try_lock() {
            chain.tell(&mut self.own.lock().closed, position);
        }
        self.ended_ns.store(at.ns, Ordering::Relaxed);
        self.ended_at.store(position, Ordering::Relaxed);
        // Release pairs with the Acquire in `is_ended` and `stream`.
        self.ended.store(at.tick.max(1), Ordering::Release);
    }

    /// Says that the thread is one of the recorder's own.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn disown(&self) {
        // Relaxed: the flag carries nothing, and whoever waits for the thread sees it.
        self.is_ours.store(1, Ordering::Relaxed);
    }

    /// Whether the thread is one of the recorder's own.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_ended(&self) -> bool {
        // Acquire pairs with the Release in `end`.
        self.ended.load(Ordering::Acquire) != 0
    }

    /// When the thread ended on the monotonic clock, where it has.
    pub(crate) fn ended_ns(&self) -> Option<u64> {
        self.is_ended().then(|| self.ended_ns.load(Ordering::Relaxed))
    }

    /// Gives the thread another name. Only for the log's own thread, so that a fork finds the lock taken by none but those
    /// that it waits for, who visit the logs.
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn rename(&self, name: ThreadName) {
        let old = std::mem::replace(&mut *self.name.lock(), name);
        drop(old);
    }

    /// Notes what the system calls the thread. Only for the log's own thread, like [`rename`](Self::rename).
    #[cfg_attr(zprof_loom, allow(dead_code))]
    pub(crate) fn note_name(&self, now: Option<SystemName>) {
        self.name.lock().note(now);
    }

    pub(crate) fn count_lost_note(&self) {
        // Only this thread writes the counter.
        self.lost_notes.store(self.lost_notes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a scope that found no room.
    pub(crate) fn count_lost(&self) {
        // Only this thread writes the counter.
        self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A scope that began at `begin` has ended at position `at`. Only for the log's own thread.
    pub(crate) fn close(&self, writer: &Writer, at: u64, begin: u64, is_ring: bool) {
        if begin < writer.base() {
            self.own.lock().close(at, begin, is_ring);
        }
    }

    /// A scope that began at `begin` was given metadata. Only for the log's own thread.
    pub(crate) fn note(&self, writer: &Writer, begin: u64) {
        if begin < writer.base() {
            self.own.lock().note();
        }
    }

    /// Room for a record of `words` in session `word`, from a new chunk if need be. `None` at the memory limit. Only for
    /// the log's own thread.
    #[cold]
    pub(crate) fn make_room(
        &self,
        shared: &Shared,
        writer: &Writer,
        word: Word,
        words: usize,
        now: impl FnOnce() -> Moment,
    ) -> Option<Room> {
        let mut own = self.own.lock();
        if writer.epoch() != word.epoch() {
            self.roll(shared, writer, word);
            own.begin();
        }
        if let Some(room) = writer.room(words) {
            return Some(room);
        }
        let mut needed = writer.needed(words);
        if writer.needed(0) > LARGE / 2 {
            // So deep that a usual chunk would be kept for ends alone: the next scope would ask for another.
            needed = needed.max(LARGE + 1);
        }
        let (mut at, mut chunk) = (Moment::default(), None);
        let bounds = shared.bounds();
        if let Some(bounds) = bounds {
            at = now();
            chunk = self.let_go(shared, &mut own, bounds, writer.position(), at, needed);
        }
        if bounds.is_some() && own.prepare(writer.open()).is_err() {
            shared.pool.note_short();
            return Self::without(shared, chunk);
        }
        let filled = if bounds.is_some_and(|bounds| shared.has_small_rings(bounds)) { 0 } else { own.filled };
        let chunk = chunk.or_else(|| match bounds {
            None => shared.pool.take(needed, filled),
            Some(bounds) => self.take_from_rings(shared, bounds, at, needed, filled),
        })?;
        let left = own.leave(writer.open(), writer.take_counts(), at);
        // SAFETY: the chain is this thread's own, as is the writer; the chunk has the slots that `needed` asked for, and
        // comes from the pool, or from a ring that held it last.
        unsafe { self.chain.append(writer, chunk, left) };
        writer.room(words)
    }

    /// No room, for want of other memory than a chunk: one that a ring has taken goes back.
    fn without(shared: &Shared, chunk: Option<ChunkBox>) -> Option<Room> {
        let chunk = chunk?;
        shared.pool.let_go(chunk.size());
        shared.pool.give_back(chunk);
        None
    }

    fn roll(&self, shared: &Shared, writer: &Writer, word: Word) {
        let mut chain = self.chain.lock();
        writer.roll(word);
        let _of_another_session = writer.take_counts();
        shared.one_more();
        self.lost.store(0, Ordering::Relaxed);
        self.lost_notes.store(0, Ordering::Relaxed);
        // The drain has taken what counted of the old session.
        // SAFETY: the writer has left its last chunk just now.
        unsafe { chain.clear(|chunk| shared.pool.give_back(chunk)) };
        chain.begin(word.epoch(), writer.position());
    }

    /// Lets go of what is out of bounds, unless somebody reads the chain: then it is let go another time. Gives a chunk
    /// that the writer may use at once, and that counts among those of rings.
    fn let_go(
        &self,
        shared: &Shared,
        own: &mut Own,
        bounds: Bounds,
        position: u64,
        at: Moment,
        needed: usize,
    ) -> Option<ChunkBox> {
        let mut chain = self.chain.try_lock()?;
        chain.tell(&mut own.closed, position);
        if shared.is_held() {
            return None;
        }
        let mut spare = None;
        chain.let_go(bounds, position, at.ns, |chunk| {
            let bytes = chunk.size();
            match chunk.release() {
                Some(chunk) => {
                    if let Some(other) = spare.replace(chunk) {
                        shared.pool.let_go(other.size());
                        shared.pool.give_back(other);
                    }
                }
                None => shared.pool.let_go(bytes),
            }
        });
        drop(chain);
        let spare: ChunkBox = spare?;
        if spare.capacity() >= needed && spare.capacity() <= LARGE {
            return Some(spare);
        }
        shared.pool.let_go(spare.size());
        shared.pool.give_back(spare);
        None
    }

    /// A chunk of the pool, where rings may have more; else in the place of one of this ring, of a thread that has ended, or
    /// of the longest ring. It counts among those of rings.
    ///
    /// Rings that have all they may let go of any chunk, of such too as a snapshot has: it has them in the other half of
    /// the memory. Where memory itself is short, that helps nobody, and chunks that nobody has go first. Where rings have too
    /// much, each lets two of its chunks go for one, so that no single one shrinks to nothing. Where others look at the rings
    /// just now, so that none can be let go, rings have more for a while.
    fn take_from_rings(
        &self,
        shared: &Shared,
        bounds: Bounds,
        at: Moment,
        needed: usize,
        filled: usize,
    ) -> Option<ChunkBox> {
        let bytes = ChunkBox::bytes(needed.max(Pool::usual(filled)));
        if bytes > shared.pool.most_kept() {
            return None;
        }
        let mut paid = 0;
        for _ in 0..MOST_TAKEN {
            let has_room = shared.pool.reserve(bytes);
            let has_more = if has_room || paid >= 2 * bytes {
                if let Some(chunk) = shared.pool.take(needed, filled) {
                    shared.pool.keep(&chunk, if has_room { bytes } else { 0 });
                    return Some(chunk);
                }
                if has_room {
                    shared.pool.let_go(bytes);
                }
                self.let_go_oldest(shared, true).is_some()
                    || shared.sweep(bounds, at.ns)
                    || shared.squeeze(true)
                    || self.let_go_oldest(shared, false).is_some()
                    || shared.squeeze(false)
            } else if let Some(bytes) = self.let_go_oldest(shared, false) {
                paid += bytes;
                true
            } else {
                paid < bytes && (shared.sweep(bounds, at.ns) || shared.squeeze(false))
            };
            if !has_more {
                break;
            }
        }
        let chunk = shared.pool.take(needed, filled)?;
        shared.pool.keep(&chunk, 0);
        Some(chunk)
    }

    /// Lets go of the oldest chunk, if that gives memory back or need not, and gives its bytes.
    pub(crate) fn let_go_oldest(&self, shared: &Shared, must_be_free: bool) -> Option<usize> {
        let chunk = self.chain.try_lock()?.let_go_oldest(must_be_free, u64::MAX)?;
        let bytes = chunk.size();
        shared.pool.let_go(bytes);
        shared.pool.give_back(chunk);
        Some(bytes)
    }

    /// Lets go of what is too old, though the thread writes nothing now. Only in session `epoch`.
    pub(crate) fn age(&self, shared: &Shared, epoch: u32, bounds: Bounds, now_ns: u64) {
        let Some(mut chain) = self.chain.try_lock().filter(|chain| chain.epoch() == epoch) else { return };
        chain.let_go(Bounds { bytes: u64::MAX, ..bounds }, 0, now_ns, |chunk| {
            shared.pool.let_go(chunk.size());
            shared.pool.give_back(chunk);
        });
    }

    /// Bytes of chunks in session `epoch`; 0 where somebody else looks at them.
    pub(crate) fn bytes(&self, epoch: u32) -> usize {
        self.chain.try_lock().filter(|chain| chain.epoch() == epoch).map_or(0, |chain| chain.bytes())
    }

    /// What a thread that has ended takes in session `epoch`; nothing where somebody else looks at it.
    pub(crate) fn estate(&self, epoch: u32) -> Option<Estate> {
        let chain = self.chain.try_lock().filter(|chain| chain.epoch() == epoch)?;
        let start = chain.start()?;
        let written = self.ended_at.load(Ordering::Relaxed).saturating_sub(start);
        Some(Estate { bytes: chain.bytes(), written })
    }

    /// Lets go of a thread that has ended.
    pub(crate) fn let_go_whole(&self, shared: &Shared) -> Gone {
        let mut gone = Gone { threads: 1, bytes: 0, lost: self.lost.load(Ordering::Relaxed) };
        if !self.is_ended() {
            return Gone::NONE;
        }
        let mut chain = self.chain.lock();
        let each = |chunk: ChunkBox| {
            gone.bytes += 8 * u64::try_from(chunk.len()).unwrap_or(0);
            shared.pool.let_go(chunk.size());
            shared.pool.give_back(chunk);
        };
        // SAFETY: the thread has ended, and left its last chunk before.
        unsafe { chain.clear(each) };
        gone
    }

    /// The chain under its lock; `None` where somebody else has it, unless `waits`.
    pub(crate) fn lock_chain(&self, waits: bool) -> Option<Locked<'_>> {
        if waits { Some(self.chain.lock()) } else { self.chain.try_lock() }
    }

    /// What the thread has written in session `epoch`, which goes on, for a snapshot of tick `moment`; `chain` is the
    /// thread's. More than `most` bytes of it, which is what a snapshot may hold yet, are let go, but nothing that is
    /// younger than the snapshot.
    pub(crate) fn share(
        this: &Arc<Self>,
        mut chain: Locked<'_>,
        shared: &Shared,
        epoch: u32,
        most: &mut usize,
        moment: u64,
        now: &impl Fn() -> u64,
    ) -> Result<Option<Stream>> {
        // First whether the writer is gone, then what it wrote: nothing can come after that.
        let ended = this.ended.load(Ordering::Acquire);
        if chain.epoch() != epoch || this.is_ours() {
            return Ok(None);
        }
        let mut bytes = chain.bytes();
        while bytes > *most {
            let Some(chunk) = chain.let_go_oldest(false, moment) else { break };
            bytes -= chunk.size();
            shared.pool.let_go(chunk.size());
            shared.pool.give_back(chunk);
        }
        *most = most.saturating_sub(bytes);
        let name = this.name_copy()?;
        let taken = chain.share()?;
        // Under the lock, so that `since` is not later.
        let held = now();
        drop(chain);
        Ok(Some(Self::stream_of(this, name, taken, ended, held)))
    }

    /// Takes what the thread has written in session `epoch`.
    pub(crate) fn stream(this: &Arc<Self>, epoch: u32, now: &impl Fn() -> u64) -> Result<Option<Stream>> {
        // First whether the writer is gone, then what it wrote: nothing can come after that.
        let ended = this.ended.load(Ordering::Acquire);
        let mut chain = this.chain.lock();
        if chain.epoch() != epoch || this.is_ours() {
            return Ok(None);
        }
        let name = this.name_copy()?;
        // SAFETY: a writer that has ended has left its chunk before it said so.
        let taken = unsafe { chain.take(ended != 0) }?;
        // Under the lock, so that `since` is not later.
        let held = now();
        drop(chain);
        Ok(Some(Self::stream_of(this, name, taken, ended, held)))
    }

    /// The thread's name. Nothing is allocated under the lock of the name, which a thread takes when it is renamed.
    fn name_copy(&self) -> Result<ThreadName> {
        let mut copy = ThreadName::default();
        loop {
            let name = self.name.lock();
            if name.len() <= copy.capacity() {
                name.copy_into(&mut copy);
                return Ok(copy);
            }
            let len = name.len();
            drop(name);
            copy.room(len)?;
        }
    }

    fn stream_of(this: &Arc<Self>, name: ThreadName, taken: Taken, ended: u64, held: u64) -> Stream {
        let Taken { chunks, carried, since, released, uncarried, counts } = taken;
        let (lost, lost_notes) = (this.lost.load(Ordering::Relaxed), this.lost_notes.load(Ordering::Relaxed));
        let log = Arc::clone(this);
        // The owner reads its ticks on another processor, whose counter may be a few ticks ahead.
        let held = held.max(since);
        Stream { log, name, chunks, carried, since, released, uncarried, counts, lost, lost_notes, ended, held }
    }

    /// The begins of the open scopes, for the child of a fork. Only for the log's own thread; `None` where it is at work on its
    /// chunks, has no open scopes, or finds no memory.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn heir(&self, writer: &Writer) -> Option<Heir> {
        let (chain, own) = (self.chain.try_lock()?, self.own.try_lock()?);
        if chain.epoch() != writer.epoch() || writer.open() == 0 {
            return None;
        }
        inherit::heir(&chain, writer.open(), own.crossing())
    }

    /// Goes on in the child of a fork, at this tick, with what `heir` has. Only for the log's own thread. Gives the bytes of its
    /// chunks; `None` where it is at work on them.
    #[cfg(all(unix, not(zprof_loom)))]
    pub(crate) fn inherit(&self, writer: &Writer, heir: Option<Heir>, tick: u64) -> Option<usize> {
        let (mut chain, mut own) = (self.chain.try_lock()?, self.own.try_lock()?);
        let heir = heir.filter(|heir| heir.epoch == chain.epoch() && heir.epoch == writer.epoch());
        // Other handlers of the fork may have opened scopes since then, for whose ends there must be room as well.
        let heir = heir.filter(|heir| heir.words + writer.needed(0) <= heir.chunk.capacity());
        let bytes = heir.as_ref().map_or(0, |heir| heir.chunk.size());
        // The begins that a ring carries are older than all that are copied, and are in the child.
        let copied_from = heir.as_ref().map_or(writer.position(), |heir| heir.floor);
        let floor = if chain.carries() { 0 } else { copied_from };
        let first = chain.inherit(&mut own, writer.position(), tick);
        let copies = heir.map(|heir| (heir.chunk, heir.words));
        let _of_the_parent = writer.take_counts();
        // SAFETY: the chain is this thread's own, as is the writer, and has just become empty; the chunk has the slots, and
        // the words are written, says `inherit::heir`.
        unsafe { writer.inherit(first, copies, floor) };
        Some(bytes)
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
}
