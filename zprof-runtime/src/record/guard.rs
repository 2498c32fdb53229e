//! Guards: the open scopes that a program holds.

use std::fmt;
use std::marker::PhantomData;

use super::registry::Word;
use super::ring::{Mark, NOWHERE, NOWHERE_FROM};
use super::thread::{SHARED, with_local};
use crate::ceiling::{IS_LIMITED, absent, is_compiled};
use crate::site::{Callsite, Level, NO_FILTER, Origin, Site};
use crate::value::{Raw, RawArgs, Shape, ShapeOf, Value};
use crate::{ENABLED, annotate};

/// Why a guard must stay on its thread, in words that rustc prints.
#[allow(non_camel_case_types, dead_code)] // never made, only named
pub(super) trait a_scope_must_not_be_held_across_an_await_or_sent_to_another_thread {}

/// An open scope; it ends when this is dropped.
#[must_use = "the scope ends when its guard is dropped"]
pub struct Guard {
    mark: Mark,
    site: fn() -> &'static Site,
    /// The range that tools see, 0 if none does.
    range: u64,
    _stays: PhantomData<dyn a_scope_must_not_be_held_across_an_await_or_sent_to_another_thread>,
}

/// Position of a guard that was made when nothing listened: its end may still be of use.
const INERT: u64 = NOWHERE_FROM;
/// Position of a guard that the session of its opening did not take; its tick is that session's number. It never writes
/// into that session.
const SILENT: u64 = NOWHERE_FROM + 1;
/// Position of a guard whose site is above the compile-time ceiling: it does nothing, ever.
const ABSENT: u64 = NOWHERE_FROM + 2;

/// The state word that all scopes read.
#[inline(always)]
#[must_use]
pub fn word() -> Word {
    SHARED.word()
}

/// Whether a tool is attached.
pub(crate) fn has_tools() -> bool {
    SHARED.word().seen() != 0
}

/// The same for site `S`: where that is above the compile-time ceiling, nothing listens, and nothing is read.
#[inline(always)]
#[must_use]
pub fn word_at<S: Callsite>() -> Word {
    if const { is_compiled(S::LEVEL) } { word() } else { Word(0) }
}

/// Whether anything listens to site `S`.
#[inline(always)]
#[must_use]
pub fn hears<S: Callsite>(word: Word) -> bool {
    if const { !is_compiled(S::LEVEL) } {
        return false;
    }
    !word.is_off() && (word.is_usual() || is_heard(word, S::LEVEL, S::FILTER, S::site()))
}

/// The same where it is not a usual session without tools that listens.
#[cold]
pub(super) fn is_heard(word: Word, level: Level, filter: u64, site: &'static Site) -> bool {
    let word = if word.is_unprobed() { first_probe() } else { word };
    word.seen() != 0 || is_taken(word, level, filter, site)
}

/// Whether anything may listen to a site of this level and filter; directives may still leave it out.
#[cold]
pub(super) fn may_be_heard(word: Word, level: Level, filter: u64) -> bool {
    let word = if word.is_unprobed() { first_probe() } else { word };
    word.seen() != 0 || may_be_taken(word, level, filter)
}

/// Whether the session takes scopes of this site.
#[cold]
pub(crate) fn is_recorded(word: Word, site: &'static Site) -> bool {
    is_taken(word, site.level, site.filter, site)
}

/// The same where level and filter are known without a look at the site.
#[inline]
fn is_taken(word: Word, level: Level, filter: u64, site: &'static Site) -> bool {
    may_be_taken(word, level, filter) && (word.0 & Word::DIRECTED == 0 || SHARED.admits(word, site))
}

/// The same, if no directive leaves the site out.
#[inline]
fn may_be_taken(word: Word, level: Level, filter: u64) -> bool {
    word.level() >= level as u64 && (word.0 & Word::FILTERED == 0 || SHARED.passes(filter & NO_FILTER))
}

/// Looks for tools that nobody has found yet.
#[cold]
pub(crate) fn probe() {
    ask(|| Some(SHARED.word().seen()));
}

/// Looks for tools if nobody has yet. Gives the state word as it is then.
#[cold]
fn first_probe() -> Word {
    if crate::os::in_signal_handler() {
        // Looking for tools takes locks and starts a thread. A scope outside of handlers will do it.
        return SHARED.word();
    }
    ask(|| {
        let word = SHARED.word();
        word.is_unprobed().then(|| word.seen())
    });
    SHARED.word()
}

fn ask(known: fn() -> Option<annotate::Seen>) {
    // Where a fork cannot be watched, a child may wait for a probe that does not end, as long as a scope ever does.
    let _ = super::fork::watch();
    let (found, asked): (fn(annotate::Seen), fn()) = (|seen| SHARED.add_seen(seen), || SHARED.set_probed());
    annotate::probe(annotate::Asker { known, found, asked });
}

/// Opens a scope that [`hears`] has said yes to: with the site as a value and each metadata value read already. So the
/// call has no type arguments and no bound on the values' types, and rustc shows a value of a wrong type once and in its
/// own place.
#[inline(always)]
pub fn open_at<S: Callsite, R: RawArgs>(_: S, word: Word, raws: R) -> Guard {
    match with_local(|local| local.begin_fast(word, ShapeOf::<S, R>::SHAPE, raws)) {
        Some(mark) => Guard::new(mark, S::site),
        None => open_slowly::<S, R>(word, raws),
    }
}

/// The same for what is not a usual session without tools, and for full chunks.
#[cold]
#[inline(never)]
fn open_slowly<S: Callsite, R: RawArgs>(word: Word, raws: R) -> Guard {
    // It was a scope's own probe that let this one in.
    let word = if word.is_unprobed() { self::word() } else { word };
    let seen = word.seen();
    // Tools first, and last at the end: what they take is no part of the scope's time in the profile.
    let range = if seen == 0 { 0 } else { annotate::push(seen, Origin::Coded(S::site), raws) };
    let bare = word.bare();
    let mut guard = if bare.is_off() { inert::<S>(bare) } else { record_slowly::<S, R>(seen, bare, raws) };
    guard.range = range;
    guard
}

/// What [`open_slowly`] does for the session.
#[cold]
#[inline(never)]
fn record_slowly<S: Callsite, R: RawArgs>(seen: annotate::Seen, word: Word, raws: R) -> Guard {
    // With a tool, nobody has asked yet whether the session listens too.
    if seen != 0 && !is_recorded(word, S::site()) {
        return inert::<S>(word);
    }
    match with_local(|local| local.begin_slowly(word, ShapeOf::<S, R>::SHAPE, raws)) {
        Some(mark) => Guard::new(mark, S::site),
        None => Guard::silent(word, S::site),
    }
}

/// Opens a scope whose shape is known only here: a poll of a task. What [`open_at`] does at each of its scopes, all polls
/// share.
pub(super) fn open_as<R: RawArgs>(site: fn() -> &'static Site, shape: &'static Shape, word: Word, raws: R) -> Guard {
    let (mark, range) = open_parts(Origin::Coded(site), shape, word, raws);
    let mut guard = Guard::new(mark, site);
    guard.range = range;
    guard
}

/// The same without a guard: what that would keep.
pub(super) fn open_parts<R: RawArgs>(site: Origin, shape: &'static Shape, word: Word, raws: R) -> (Mark, u64) {
    let word = if word.is_unprobed() { self::word() } else { word };
    let seen = word.seen();
    let range = if seen == 0 { 0 } else { annotate::push(seen, site, raws) };
    let bare = word.bare();
    // With a tool, nobody has asked yet whether the session listens too.
    let is_recorded = !bare.is_off() && (seen == 0 || is_recorded(bare, site.site()));
    let mark = if is_recorded { with_local(|local| local.begin_slowly(bare, shape, raws)) } else { None };
    (mark.unwrap_or_else(|| unheard(bare)), range)
}

/// What a guard keeps that nothing listens to now.
pub(super) fn unheard(word: Word) -> Mark {
    let bare = word.bare();
    if bare.is_off() {
        Mark { position: INERT, outer: NOWHERE, tick: 0 }
    } else {
        Mark { position: SILENT, outer: NOWHERE, tick: u64::from(bare.epoch()) }
    }
}

/// A guard for a site that nothing listens to now.
#[inline(always)]
pub fn inert<S: Callsite>(word: Word) -> Guard {
    if const { !is_compiled(S::LEVEL) } {
        return Guard::new(Mark { position: ABSENT, outer: NOWHERE, tick: 0 }, absent);
    }
    // The first is the usual case, and known where this is inlined.
    if word.is_off() || word.bare().is_off() {
        Guard::new(Mark { position: INERT, outer: NOWHERE, tick: 0 }, S::site)
    } else {
        Guard::silent(word, S::site)
    }
}

impl Guard {
    #[inline(always)]
    fn new(mark: Mark, site: fn() -> &'static Site) -> Self {
        Self { mark, site, range: 0, _stays: PhantomData }
    }

    #[inline(always)]
    fn silent(word: Word, site: fn() -> &'static Site) -> Self {
        Self::new(Mark { position: SILENT, outer: NOWHERE, tick: u64::from(word.epoch()) }, site)
    }

    /// Ends a scope that is not the innermost one of a usual session without tools.
    #[cold]
    #[inline(never)]
    fn end_slowly(&self, word: Word) {
        end_parts(Origin::Coded(self.site), self.mark, self.range, word);
    }

    /// Where its begin is, if it has one.
    #[inline]
    pub(super) fn mark(&self) -> Option<Mark> {
        (self.mark.position < NOWHERE_FROM).then_some(self.mark)
    }

    /// Whether metadata that is added now is recorded.
    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        ENABLED && self.mark().is_some() && !word().bare().is_off()
    }

    /// Adds metadata while the scope is open.
    #[inline]
    pub(super) fn note<R: Raw>(&self, key: &'static str, value: R) {
        if self.is_recorded() {
            with_local(|local| local.note(word().bare(), self.mark, key, value));
        }
    }
}

/// Ends a scope by what its guard keeps, where [`Local::end_fast`](super::thread::Local::end_fast) does not.
#[inline]
pub(super) fn end_parts(site: Origin, mark: Mark, range: u64, word: Word) {
    if range == 0 && is_silent(mark, word) {
        return;
    }
    let bare = word.bare();
    if !bare.is_off() {
        end_recorded(site, mark, bare);
    }
    annotate::pop(range);
}

/// What [`end_parts`] does for the session.
#[cold]
#[inline(never)]
fn end_recorded(site: Origin, mark: Mark, word: Word) {
    if !is_silent(mark, word) {
        with_local(|local| local.end_slowly(word, mark, site));
    }
}

/// Whether the session of its opening did not take the scope, and is the present one.
#[inline]
fn is_silent(mark: Mark, word: Word) -> bool {
    mark.position == SILENT && mark.tick == u64::from(word.epoch())
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if !ENABLED || IS_LIMITED && self.mark.position == ABSENT {
            return;
        }
        let word = word();
        if !word.is_off() && !with_local(|local| local.end_fast(word, self.mark)) {
            self.end_slowly(word);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", &(self.site)().name).finish_non_exhaustive()
    }
}

/// A scope held as a value: ended early, or given metadata that is known only later.
///
/// Made by `zprof::span!`. It ends when it is dropped or by [`end`](Span::end), and stays on its thread.
#[derive(Debug)]
#[must_use = "the span ends at once unless it is held by a name: `let span = …`, as `let _ = …` ends it too"]
pub struct Span(Guard);

impl Span {
    #[doc(hidden)]
    #[inline(always)]
    pub fn __new(guard: Guard) -> Self {
        Self(guard)
    }

    /// Adds the metadata `key = value` to the open span. Where nothing listens, or where no memory is left, this does
    /// nothing; the profile counts what found no memory. Of values with one key, viewers show the last. Keys that begin
    /// with `_` have meanings of XProf's.
    #[inline]
    pub fn record<V: Value>(&mut self, key: &'static str, value: V) {
        self.0.note(key, value.raw());
    }

    /// Ends the span now.
    #[inline]
    pub fn end(self) {
        drop(self);
    }
}
