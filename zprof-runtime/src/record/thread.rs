//! The recorder of the calling thread, and the one registry of the program.
//!
//! A thread-local without a destructor lives as long as its thread where the target has thread-locals of its own. Elsewhere
//! (`x86_64-pc-windows-gnu`, Android, OpenBSD) std keeps it in a box under a key of the system, frees the box when the thread
//! ends, and makes another one where a destructor that runs later asks for it. So a thread may have one [`Local`] after the
//! other, and guards of the first may still end. What holds everywhere: [`Exit`], which has a destructor, knows the log of the
//! thread's present `Local`, and ends it; and each `Local` begins at a position behind all that those before it have
//! written, so that none takes a mark of theirs for its own.

use std::cell::Cell;

use super::chunk::Moment;
#[cfg(unix)]
use super::inherit::Heir;
use super::log::Log;
use super::primitive::Arc;
use super::registry::{Interrupted, Reason, Shared, Word};
use super::ring::{COUNT_WORDS, Mark, NOTE_WORDS, NOWHERE_FROM, Room, TASK_WORDS, Writer};
use crate::clock::Source;
use crate::os::in_signal_handler;
use crate::site::Origin;
use crate::thread_name::{SystemName, ThreadName};
use crate::value::{Raw, RawArgs, Shape};

/// What all threads of the program share.
pub(crate) static SHARED: Shared = Shared::new();

/// The thread's part of the recorder. It has no destructor, so that reading it costs no check; [`Exit`] has it.
pub(crate) struct Local {
    pub(crate) writer: Writer,
    stage: Cell<Stage>,
}

#[derive(Clone, Copy)]
enum Stage {
    /// No scope yet.
    New,
    /// Registered. The pointer comes from `Arc::into_raw`, and `finish` gives it back.
    Live(*const Log),
    /// Thread-local storage is being torn down.
    Gone,
    /// The recorder's own thread.
    Ours,
}

thread_local! {
    pub(crate) static LOCAL: Local =
        const { Local { writer: Writer::new(), stage: Cell::new(Stage::New) } };
    static EXIT: Exit = const { Exit(Cell::new(std::ptr::null())) };
}

/// Calls `f` with the calling thread's part.
///
/// Only the address goes through [`LocalKey::with`](std::thread::LocalKey::with), which is inlined only when what it is
/// given is small.
#[inline(always)]
pub(crate) fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R {
    let local: *const Local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: a thread-local without a destructor lives until the destructors of its thread's other thread-locals run, and
    // none of them begins or ends while `f` runs. The reference does not leave this call.
    f(unsafe { &*local })
}

/// Runs when the thread ends. It has the log of the thread's [`Local`], from `Arc::into_raw`, or null where that has none:
/// the `Local` itself may be gone by then.
struct Exit(Cell<*const Log>);

impl Drop for Exit {
    fn drop(&mut self) {
        let log = self.0.get();
        LOCAL.with(|local| local.finish(log));
    }
}

/// Before a fork: what the child needs of the calling thread's record, whose chunks it does not get.
#[cfg(unix)]
pub(crate) fn heir() -> Option<Heir> {
    LOCAL.with(|local| {
        // With the gate shut, no signal handler records meanwhile. It is shut already where the fork comes from within the
        // recorder: then the writer is between two states, and cannot be looked at.
        let _shut = local.shut()?;
        let word = SHARED.word().bare();
        if word.is_off() || local.writer.epoch() != word.epoch() {
            return None;
        }
        local.log()?.heir(&local.writer)
    })
}

/// In the child of a fork: this is the only thread, under a new id.
#[cfg(unix)]
pub(crate) fn keep_only_this_thread(heir: Option<Heir>) {
    LOCAL.with(|local| {
        let word = SHARED.word();
        let tick = if word.bare().is_off() { 0 } else { word.now() };
        let (log, shut) = (local.log(), local.shut());
        // `None` where the fork came from within the recorder: from a signal handler that has interrupted it, or from the
        // program's allocator, which it has called. Code that goes on when the fork returns may write to the old chunk still.
        let bytes = log.filter(|_| shut.is_some()).and_then(|log| log.inherit(&local.writer, heir, tick));
        SHARED.keep_only(log, bytes.unwrap_or(0), tick);
        if let Some(log) = log {
            log.set_tid(crate::os::thread_id());
            if bytes.is_none() {
                // That chunk is empty in the child, so that it must never be read. With another number of the session, the
                // thread leaves it at its next record.
                SHARED.renumber_session();
            }
        }
    });
}

impl Word {
    /// The present tick of the session's clock.
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        if self.counts() { Source::Counter.now() } else { system_now() }
    }
}

impl Word {
    /// The present moment.
    fn moment(self) -> Moment {
        Moment { tick: self.now(), ns: system_now() }
    }
}

#[cold]
fn system_now() -> u64 {
    Source::System.now()
}

/// Why there is no room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoRoom {
    /// The memory limit is reached, or the thread is past its end.
    Full,
    /// The thread would have to allocate or to wait, in a handler of a signal or of a fork.
    InHandler,
    /// The session of the record is over.
    Over,
}

/// The writer's gate, shut by this code; dropping it opens the gate again. See [`Writer`].
struct Shut<'a>(&'a Local);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.writer.open_gate_idle();
    }
}

impl Local {
    /// Opens a scope of a usual session: its begin's mark, or `None` where [`begin_slowly`](Self::begin_slowly) must.
    #[inline(always)]
    pub(crate) fn begin_fast<R: RawArgs>(&self, word: Word, shape: &'static Shape, raws: R) -> Option<Mark> {
        if self.writer.gate() != word.0 {
            return None;
        }
        self.writer.shut();
        let Some(room) = self.writer.room(2 + raws.words()) else {
            self.writer.open_gate(word.0);
            return None;
        };
        // SAFETY: the room is this writer's, for these words, and nothing was written since.
        let mark = unsafe { self.writer.begin(room, shape, raws, || Source::Counter.now()) };
        self.writer.open_gate(word.0);
        Some(mark)
    }

    /// Like [`begin_fast`](Self::begin_fast), but for sessions that are not the usual one, new sessions, and full chunks.
    /// `None` where the scope is dropped and counted.
    pub(crate) fn begin_slowly<R: RawArgs>(&self, word: Word, shape: &'static Shape, raws: R) -> Option<Mark> {
        let _shut = self.shut_or_count(word, Interrupted::Scope)?;
        let room = self.room_now(word, 2 + raws.words());
        // SAFETY: the room is this writer's, for these words, and nothing was written since.
        room.map(|room| unsafe { self.writer.begin(room, shape, raws, || word.now()) })
    }

    /// Records a scope without length, or counts it among the dropped.
    pub(crate) fn instant<R: RawArgs>(&self, word: Word, shape: &'static Shape, raws: R) {
        let Some(_shut) = self.shut_or_count(word, Interrupted::Scope) else { return };
        if let Some(room) = self.room_now(word, 3 + raws.words()) {
            // SAFETY: the room is this writer's, for these words, and nothing was written since.
            unsafe { self.writer.instant(room, shape, raws, || word.now()) }
        }
    }

    /// Records a sample of a counter, or counts it among the dropped.
    pub(crate) fn count(&self, word: Word, shape: &'static Shape, value: u64) {
        let Some(_shut) = self.shut_or_count(word, Interrupted::Scope) else { return };
        if let Some(room) = self.room_now(word, COUNT_WORDS) {
            // SAFETY: the room is this writer's, for these words, and nothing was written since.
            unsafe { self.writer.count(room, shape, value, word.now()) }
        }
    }

    /// Shuts the writer's gate; `None` where it is shut already.
    #[inline]
    fn shut(&self) -> Option<Shut<'_>> {
        if self.writer.is_shut() {
            return None;
        }
        self.writer.shut();
        Some(Shut(self))
    }

    /// Shuts the writer's gate. Where it is shut already, this code interrupts the recorder, as a signal handler does, or is
    /// called by it, as the program's allocator is: `what` it wanted to record is counted as dropped.
    #[inline]
    fn shut_or_count(&self, word: Word, what: Interrupted) -> Option<Shut<'_>> {
        let shut = self.shut();
        if shut.is_none() {
            self.count_interrupted(word, what);
        }
        shut
    }

    #[cold]
    fn count_interrupted(&self, word: Word, what: Interrupted) {
        if !matches!(self.stage.get(), Stage::Ours) && SHARED.is_current(word) {
            let why = if in_signal_handler() { Reason::InterruptedByHandler } else { Reason::Reentered };
            SHARED.count_interrupted(what, why);
        }
    }

    /// Room for a record; `None` where it is dropped and counted.
    #[inline]
    fn room_now(&self, word: Word, words: usize) -> Option<Room> {
        self.room_or_count(word, words, Interrupted::Scope, Log::count_lost)
    }

    /// Room for a record; `None` where it is dropped and counted, as `what` in a signal handler, and else by `lost`.
    #[inline]
    fn room_or_count(&self, word: Word, words: usize, what: Interrupted, lost: fn(&Log)) -> Option<Room> {
        let room = if self.writer.epoch() == word.epoch() { self.writer.room(words) } else { None };
        room.or_else(|| self.new_room(word, words, what, lost))
    }

    /// Ends the innermost scope of a usual session; `false` where [`end_slowly`](Self::end_slowly) must.
    #[inline(always)]
    pub(crate) fn end_fast(&self, word: Word, mark: Mark) -> bool {
        if self.writer.gate() != word.0 {
            return false;
        }
        self.writer.shut();
        if self.writer.top() != mark.position {
            self.writer.open_gate(word.0);
            return false;
        }
        self.writer.end_top(mark, Source::Counter.now());
        self.writer.open_gate(word.0);
        true
    }

    /// Ends a scope.
    pub(crate) fn end_slowly(&self, word: Word, mark: Mark, site: Origin) {
        let Some(_shut) = self.shut() else {
            self.count_interrupted_end(word, mark, site);
            return;
        };
        if self.writer.top() == mark.position && self.writer.epoch() == word.epoch() {
            self.writer.end_top(mark, word.now());
        } else {
            self.end_elsewhere(word, mark, site);
        }
    }

    /// Counts an end that cannot be written, since this code interrupts the recorder. The scope of a session that goes on
    /// looks as if it never ended.
    #[cold]
    fn count_interrupted_end(&self, word: Word, mark: Mark, site: Origin) {
        if mark.position < NOWHERE_FROM && self.writer.epoch() == word.epoch() {
            self.count_interrupted(word, Interrupted::End);
        } else if super::is_recorded(word, site.site()) {
            self.count_interrupted(word, Interrupted::Scope);
        }
    }

    /// Room for a record where the chunk has none. The gate is shut.
    #[cold]
    #[inline(never)]
    fn new_room(&self, word: Word, words: usize, what: Interrupted, lost: fn(&Log)) -> Option<Room> {
        match self.make_room(word, words) {
            Ok(room) => return Some(room),
            Err(NoRoom::Over) => {}
            Err(NoRoom::InHandler) if SHARED.is_current(word) => {
                SHARED.count_interrupted(what, Reason::AllocatesInHandler);
            }
            Err(NoRoom::InHandler) => {}
            Err(NoRoom::Full) if SHARED.is_current(word) => self.with_log(lost),
            Err(NoRoom::Full) => {}
        }
        None
    }

    fn make_room(&self, word: Word, words: usize) -> Result<Room, NoRoom> {
        // Between the load of the word and this, the scope's values were evaluated. Sessions may have come and gone
        // meanwhile, and this thread may have recorded for them; it never goes back to an older one.
        if self.writer.epoch() != word.epoch() && !SHARED.is_current(word) {
            return Err(NoRoom::Over);
        }
        // What is interrupted may have a lock that is needed from here on, ours or the allocator's; and so has a thread that
        // forks. A child that no handler of forks knows of has neither the chunks nor the pool.
        if in_signal_handler() || super::fork::is_forking() || super::fork::is_astray() {
            return Err(NoRoom::InHandler);
        }
        if let Stage::New = self.stage.get() {
            self.register();
        }
        let room = self.log().and_then(|log| log.make_room(&SHARED, &self.writer, word, words, || word.moment()));
        if SHARED.pool.is_low(SHARED.takes_small()) {
            super::helper::wake();
        }
        room.ok_or(NoRoom::Full)
    }

    fn log(&self) -> Option<&Log> {
        match self.stage.get() {
            // SAFETY: the pointer comes from `Arc::into_raw`, and the count it stands for is given up in `finish`
            // only, which ends the stage first.
            Stage::Live(log) => Some(unsafe { &*log }),
            Stage::New | Stage::Gone | Stage::Ours => None,
        }
    }

    fn with_log(&self, count: impl FnOnce(&Log)) {
        match (self.log(), self.stage.get()) {
            (Some(log), _) => count(log),
            (None, Stage::Ours) => {}
            // Room was asked for, which registers the thread where there is memory for that.
            (None, Stage::New) => SHARED.count_unregistered(),
            (None, _) => SHARED.count_orphan(),
        }
    }

    /// Makes the calling thread one of the recorder's own. Its scopes are those of the program's allocator, which runs
    /// under the recorder's locks there: they are none of the program's work, and taking a lock again would not end.
    ///
    /// What the standard library allocates before it calls the thread's own code may have been recorded by then. That is none of
    /// the program's work either, and no line of the profile.
    pub(crate) fn keep_out(&self) {
        let stage = self.stage.replace(Stage::Ours);
        self.writer.shut();
        let Stage::Live(log) = stage else { return };
        self.writer.leave();
        // SAFETY: `register` made the pointer with `Arc::into_raw`, and its count is given up below at the earliest.
        unsafe { &*log }.disown();
        if EXIT.try_with(|exit| exit.0.replace(std::ptr::null())).is_ok_and(|own| !own.is_null()) {
            end(log, Some(&self.writer));
        }
    }

    /// The program calls the thread otherwise now.
    pub(crate) fn rename(&self) {
        // A name that is given within a scope of the allocator's, or in a signal handler, is taken up by the next one.
        let Some(_shut) = self.shut() else { return };
        if in_signal_handler() {
            return;
        }
        if let Some(log) = self.log() {
            log.rename(ThreadName::of_this_thread());
        }
    }

    /// Makes a log for the thread's records. The gate is shut.
    fn register(&self) {
        // Asking for the guard arms its destructor. Late in a thread's life it may be gone already.
        let Ok(before) = EXIT.try_with(|exit| exit.0.replace(std::ptr::null())) else {
            self.stage.set(Stage::Gone);
            return;
        };
        if !before.is_null() {
            // The `Local` before this one was freed; nobody writes to its log any more.
            end(before, None);
        }
        self.writer.begin_at(SHARED.first_position());
        let log = Arc::new(Log::new(crate::os::thread_id(), ThreadName::of_this_thread()));
        // Where there is no memory for it, the scope is counted as one without a thread, and the next one tries again.
        if SHARED.register(Arc::clone(&log)).is_ok() {
            let raw = Arc::into_raw(log);
            self.stage.set(Stage::Live(raw));
            // It was there just now, and only the end of the thread takes it away.
            let _ = EXIT.try_with(|exit| exit.0.set(raw));
        }
    }

    /// The thread ends, and its log with it: what it has written stays, and it writes no more.
    fn finish(&self, log: *const Log) {
        let stage = self.stage.get();
        if let Stage::Ours = stage {
            return;
        }
        // A signal handler that runs meanwhile finds the gate shut.
        self.writer.shut();
        self.stage.set(Stage::Gone);
        self.writer.leave();
        if !log.is_null() {
            let is_own = matches!(stage, Stage::Live(own) if std::ptr::eq(own, log));
            end(log, is_own.then_some(&self.writer));
        }
        self.writer.open_gate_idle();
    }

    /// Ends a scope that is not the innermost one of the current chunk: it began in another chunk, out of order, or
    /// before the session. The gate is shut.
    fn end_elsewhere(&self, word: Word, mark: Mark, site: Origin) {
        if self.writer.is_of_another(mark) {
            // The log that has the begin ended with its writer, and the scope with it.
            return;
        }
        let tick = word.now();
        if self.writer.epoch() == word.epoch() && self.writer.is_ours(mark) {
            if !matches!(self.stage.get(), Stage::Gone) {
                let at = self.writer.position();
                // SAFETY: no other writer of this thread has the mark's position, so it comes from `begin` of this one, in
                // this session; and a guard ends once.
                unsafe { self.writer.end_by_position(mark, tick) };
                self.tell_log(|log| log.close(&self.writer, at, mark.position, SHARED.bounds().is_some()));
            }
        } else if super::is_recorded(word, site.site()) {
            let room = self.room_or_count(word, super::ring::END_WORDS, Interrupted::Scope, Log::count_lost);
            if let Some(room) = room {
                // SAFETY: the room was just made for these words.
                unsafe { self.writer.end_early(room, site, tick) }
            }
        }
    }

    /// Tells the thread's log of something that may concern an earlier chunk. The gate is shut.
    fn tell_log(&self, tell: impl FnOnce(&Log)) {
        self.log().map(tell);
    }

    /// Ends a task.
    pub(crate) fn end_task(&self, word: Word, task: u64, site: Origin) {
        let Some(_shut) = self.shut_or_count(word, Interrupted::Scope) else { return };
        if let Some(room) = self.room_now(word, TASK_WORDS) {
            // SAFETY: the room is for these words, and nothing was written since.
            unsafe { self.writer.end_task(room, task, site, word.now()) }
        }
    }

    /// Adds metadata to an open scope.
    pub(crate) fn note<R: Raw>(&self, word: Word, mark: Mark, key: &'static str, value: R) {
        let Some(_shut) = self.shut_or_count(word, Interrupted::Note) else { return };
        if self.writer.epoch() != word.epoch() || !self.writer.is_ours(mark) {
            return;
        }
        let words = NOTE_WORDS + value.words();
        if let Some(room) = self.room_or_count(word, words, Interrupted::Note, Log::count_lost_note) {
            // SAFETY: the room is for these words, and nothing was written since.
            unsafe { self.writer.note(room, mark, key, value, word.now()) };
            self.tell_log(|log| log.note(&self.writer, mark.position));
        }
    }
}

/// Ends the log of a thread, with the writer that wrote to it and has left its last chunk; with none, where that writer is
/// gone.
fn end(log: *const Log, writer: Option<&Writer>) {
    // SAFETY: `register` made the pointer with `Arc::into_raw`, and gave it to `Exit` alone, which has given it up.
    let log = unsafe { Arc::from_raw(log) };
    log.note_name(SystemName::of_this_thread());
    let (position, epoch) = writer.map_or_else(|| log.written(), |writer| (writer.position(), writer.epoch()));
    SHARED.leave_positions(position);
    // With no session there is nothing that this could end, and no telling which clock the last one had.
    let word = SHARED.word();
    let tick = if word.bare().is_off() { u64::MAX } else { word.now() };
    log.end(position, Moment { tick, ns: system_now() });
    SHARED.one_less(epoch);
}
