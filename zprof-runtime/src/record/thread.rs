//! The recorder of the calling thread, and the one registry of the program.

use std::cell::Cell;

use super::chunk::Moment;
#[cfg(unix)]
use super::inherit::Heir;
use super::log::Log;
use super::primitive::Arc;
use super::registry::{Shared, Word};
use super::ring::{COUNT_WORDS, Mark, NOTE_WORDS, Room, TASK_WORDS, Writer};
use crate::clock::Source;
use crate::site::Origin;
use crate::value::{Raw, RawArgs, Shape};

/// What all threads of the program share.
pub(crate) static SHARED: Shared = Shared::new();

/// The thread's part of the recorder. It has no destructor, so that reading it costs no check; [`Exit`] has it.
pub(crate) struct Local {
    pub(crate) writer: Writer,
    stage: Cell<Stage>,
    /// The thread is inside `make_room`: a scope of its allocator must not come in again.
    busy: Cell<bool>,
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
        const { Local { writer: Writer::new(), stage: Cell::new(Stage::New), busy: Cell::new(false) } };
    static EXIT: Exit = const { Exit };
}

/// Calls `f` with the calling thread's part.
///
/// Only the address goes through [`LocalKey::with`](std::thread::LocalKey::with), which is inlined only when what it is
/// given is small.
#[inline(always)]
pub(crate) fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R {
    let local: *const Local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: a thread-local without a destructor lives as long as its thread, and the reference does not leave this
    // call.
    f(unsafe { &*local })
}

/// Runs when the thread ends.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        LOCAL.with(Local::finish);
    }
}

/// Before a fork: what the child needs of the calling thread's record, whose chunks it does not get.
#[cfg(unix)]
pub(crate) fn heir() -> Option<Heir> {
    LOCAL.with(|local| {
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
        let log = local.log();
        // None where the fork came from within the recorder, by the program's allocator.
        let bytes = log.and_then(|log| log.inherit(&local.writer, heir, tick));
        SHARED.keep_only(log, bytes.unwrap_or(0), tick);
        if let Some(log) = log {
            log.set_tid(crate::os::thread_id());
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

impl Local {
    /// Opens a scope of a usual session: its begin's mark, or `None` where [`begin_slowly`](Self::begin_slowly) must.
    #[inline(always)]
    pub(crate) fn begin_fast<R: RawArgs>(&self, word: Word, shape: &'static Shape, raws: R) -> Option<Mark> {
        if self.writer.usual() != word.0 {
            return None;
        }
        let room = self.writer.room(2 + raws.words())?;
        // SAFETY: the room is this writer's, for these words, and nothing was written since.
        Some(unsafe { self.writer.begin(room, shape, raws, || Source::Counter.now()) })
    }

    /// The same for sessions that are not the usual one, new sessions, and full chunks. `None` where the scope is dropped
    /// and counted.
    pub(crate) fn begin_slowly<R: RawArgs>(&self, word: Word, shape: &'static Shape, raws: R) -> Option<Mark> {
        let room = self.room_now(word, 2 + raws.words());
        // SAFETY: the room is this writer's, for these words, and nothing was written since.
        room.map(|room| unsafe { self.writer.begin(room, shape, raws, || word.now()) })
    }

    /// Records a scope without length, or counts it among the dropped.
    pub(crate) fn instant<R: RawArgs>(&self, word: Word, shape: &'static Shape, raws: R) {
        if let Some(room) = self.room_now(word, 3 + raws.words()) {
            // SAFETY: the room is this writer's, for these words, and nothing was written since.
            unsafe { self.writer.instant(room, shape, raws, || word.now()) }
        }
    }

    /// Records a sample of a counter, or counts it among the dropped.
    pub(crate) fn count(&self, word: Word, shape: &'static Shape, value: u64) {
        if let Some(room) = self.room_now(word, COUNT_WORDS) {
            // SAFETY: the room is this writer's, for these words, and nothing was written since.
            unsafe { self.writer.count(room, shape, value, word.now()) }
        }
    }

    /// Room for a record; `None` where it is dropped and counted.
    #[inline]
    fn room_now(&self, word: Word, words: usize) -> Option<Room> {
        let room = if self.writer.epoch() == word.epoch() { self.writer.room(words) } else { None };
        room.or_else(|| self.room_for_begin(word, words))
    }

    /// Ends the innermost scope of a usual session; `false` where [`end_slowly`](Self::end_slowly) must.
    #[inline(always)]
    pub(crate) fn end_fast(&self, word: Word, mark: Mark) -> bool {
        let fast = self.writer.top() == mark.position && self.writer.usual() == word.0;
        if fast {
            self.writer.end_top(mark, Source::Counter.now());
        }
        fast
    }

    /// Ends a scope.
    pub(crate) fn end_slowly(&self, word: Word, mark: Mark, site: Origin) {
        if self.writer.top() == mark.position && self.writer.epoch() == word.epoch() {
            self.writer.end_top(mark, word.now());
        } else {
            self.end_elsewhere(word, mark, site);
        }
    }

    /// Room for a scope's begin when the fast path found none.
    #[cold]
    #[inline(never)]
    fn room_for_begin(&self, word: Word, words: usize) -> Option<Room> {
        let room = self.make_room(word, words);
        if room.is_none() && SHARED.is_current(word) {
            self.with_log(Log::count_lost);
        }
        room
    }

    fn make_room(&self, word: Word, words: usize) -> Option<Room> {
        // Between the load of the word and this, the scope's values were evaluated. Sessions may have come and gone
        // meanwhile, and this thread may have recorded for them; it never goes back to an older one.
        if self.writer.epoch() != word.epoch() && !SHARED.is_current(word) {
            return None;
        }
        if self.busy.replace(true) {
            return None;
        }
        if let Stage::New = self.stage.get() {
            self.register();
        }
        let room = self.log().and_then(|log| log.make_room(&SHARED, &self.writer, word, words, || word.moment()));
        if SHARED.pool.is_low() {
            super::helper::wake();
        }
        self.busy.set(false);
        room
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
            (None, _) => SHARED.count_orphan(),
        }
    }

    /// Makes the calling thread one of the recorder's own. Its scopes are those of the program's allocator, which runs
    /// under the recorder's locks there: they are none of the program's work, and taking a lock again would not end.
    pub(crate) fn keep_out(&self) {
        self.stage.set(Stage::Ours);
        self.busy.set(true);
    }

    /// The program calls the thread otherwise now.
    pub(crate) fn rename(&self) {
        // A name that is given within a scope of the allocator's is taken up by the next one.
        if !self.busy.replace(true) {
            if let Some(log) = self.log() {
                log.rename(crate::os::thread_name());
            }
            self.busy.set(false);
        }
    }

    fn register(&self) {
        // Asking for the guard arms its destructor. Late in a thread's life it may be gone already.
        if EXIT.try_with(|_| ()).is_err() {
            self.stage.set(Stage::Gone);
            return;
        }
        let log = Arc::new(Log::new(crate::os::thread_id(), crate::os::thread_name()));
        let own = Arc::clone(&log);
        // Where there is no memory for it, the scope is counted as one without a thread, and the next one tries again.
        if SHARED.register(log).is_ok() {
            self.stage.set(Stage::Live(Arc::into_raw(own)));
        }
    }

    /// The thread ends: what it has written stays, and it writes no more.
    fn finish(&self) {
        let stage = self.stage.replace(Stage::Gone);
        self.writer.leave();
        if let Stage::Live(log) = stage {
            // SAFETY: `register` made the pointer with `Arc::into_raw`, and the stage has just been ended.
            let log = unsafe { Arc::from_raw(log) };
            // With no session there is nothing that this could end, and no telling which clock the last one had.
            let word = SHARED.word();
            let tick = if word.bare().is_off() { u64::MAX } else { word.now() };
            log.end(&self.writer, Moment { tick, ns: system_now() });
            SHARED.one_less(self.writer.epoch());
        }
    }

    /// Ends a scope that is not the innermost one of the current chunk: it began in another chunk, out of order, or
    /// before the session.
    fn end_elsewhere(&self, word: Word, mark: Mark, site: Origin) {
        let tick = word.now();
        if self.writer.epoch() == word.epoch() && self.writer.is_ours(mark) {
            if !matches!(self.stage.get(), Stage::Gone) {
                let at = self.writer.position();
                // SAFETY: marks of this session come from `begin` of this writer, and a guard ends once.
                unsafe { self.writer.end_by_position(mark, tick) };
                self.tell_log(|log| log.close(&self.writer, at, mark.position, SHARED.bounds().is_some()));
            }
        } else if super::is_recorded(word, site.site()) {
            let room = self.make_room(word, super::ring::END_WORDS);
            match room {
                // SAFETY: the room was just made for these words.
                Some(room) => unsafe { self.writer.end_early(room, site, tick) },
                None => self.with_log(Log::count_lost),
            }
        }
    }

    /// Tells the thread's log of something that may concern an earlier chunk.
    fn tell_log(&self, tell: impl FnOnce(&Log)) {
        if !self.busy.replace(true) {
            self.log().map(tell);
            self.busy.set(false);
        }
    }

    /// Ends a task.
    pub(crate) fn end_task(&self, word: Word, task: u64, site: Origin) {
        let mut room = None;
        if self.writer.epoch() == word.epoch() {
            room = self.writer.room(TASK_WORDS);
        }
        match room.or_else(|| self.make_room(word, TASK_WORDS)) {
            // SAFETY: the room is for these words, and nothing was written since.
            Some(room) => unsafe { self.writer.end_task(room, task, site, word.now()) },
            None => self.with_log(Log::count_lost),
        }
    }

    /// Adds metadata to an open scope.
    pub(crate) fn note<R: Raw>(&self, word: Word, mark: Mark, key: &'static str, value: R) {
        if self.writer.epoch() != word.epoch() || !self.writer.is_ours(mark) {
            return;
        }
        let words = NOTE_WORDS + value.words();
        match self.writer.room(words).or_else(|| self.make_room(word, words)) {
            Some(room) => {
                // SAFETY: the room is for these words, and nothing was written since.
                unsafe { self.writer.note(room, mark, key, value, word.now()) };
                self.tell_log(|log| log.note(&self.writer, mark.position));
            }
            None => self.with_log(Log::count_lost_note),
        }
    }
}
