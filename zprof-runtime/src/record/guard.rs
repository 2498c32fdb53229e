//! Guards: the open scopes that a program holds.

use std::fmt;
use std::marker::PhantomData;

use super::registry::Word;
use super::ring::{Mark, NOWHERE, NOWHERE_FROM};
use super::thread::{SHARED, with_local};
use crate::ENABLED;
use crate::site::{Callsite, Level, NO_FILTER, Site};
use crate::value::{RawArgs, ShapeOf, Value};

/// Why a guard must stay on its thread, in words that rustc prints.
#[allow(non_camel_case_types, dead_code)] // never made, only named
trait a_scope_must_not_be_held_across_an_await_or_sent_to_another_thread {}

/// An open scope; it ends when this is dropped.
#[must_use = "the scope ends when its guard is dropped"]
pub struct Guard {
    mark: Mark,
    site: fn() -> &'static Site,
    _stays: PhantomData<dyn a_scope_must_not_be_held_across_an_await_or_sent_to_another_thread>,
}

/// Position of a guard that was made when nothing listened: its end may still be of use.
const INERT: u64 = NOWHERE_FROM;
/// Position of a guard that the session of its opening did not take; its tick is that session's number. It never writes
/// into that session.
const SILENT: u64 = NOWHERE_FROM + 1;

/// The state word that all scopes read.
#[inline(always)]
#[must_use]
pub fn word() -> Word {
    SHARED.word()
}

/// Whether anything listens to site `S`.
#[inline(always)]
#[must_use]
pub fn hears<S: Callsite>(word: Word) -> bool {
    ENABLED && !word.is_off() && (word.is_usual() || is_heard(word, S::LEVEL, S::FILTER))
}

/// Whether the session takes scopes of this level and filter.
#[cold]
pub(crate) fn is_heard(word: Word, level: Level, filter: u64) -> bool {
    word.level() >= level as u64 && (word.0 & Word::FILTERED == 0 || SHARED.passes(filter & NO_FILTER))
}

/// Opens a scope that [`hears`] has said yes to: with the site as a value and each metadata value read already. So the
/// call has no type arguments and no bound on the values' types, and rustc shows a value of a wrong type once and in its
/// own place.
#[inline(always)]
pub fn open_at<S: Callsite, R: RawArgs>(_: S, word: Word, raws: R) -> Guard {
    let shape = ShapeOf::<S, R>::SHAPE;
    match with_local(|local| local.begin(word, shape, raws)) {
        Some(mark) => Guard::new(mark, S::site),
        None => Guard::silent(word, S::site),
    }
}

/// A guard for a site that nothing listens to now.
#[inline(always)]
pub fn inert<S: Callsite>(word: Word) -> Guard {
    if word.is_off() {
        Guard::new(Mark { position: INERT, outer: NOWHERE, tick: 0 }, S::site)
    } else {
        Guard::silent(word, S::site)
    }
}

impl Guard {
    #[inline(always)]
    fn new(mark: Mark, site: fn() -> &'static Site) -> Self {
        Self { mark, site, _stays: PhantomData }
    }

    #[inline(always)]
    fn silent(word: Word, site: fn() -> &'static Site) -> Self {
        Self::new(Mark { position: SILENT, outer: NOWHERE, tick: u64::from(word.epoch()) }, site)
    }

    /// Adds metadata while the scope is open.
    fn record<V: Value + ?Sized>(&self, key: &'static str, value: &V) {
        let word = word();
        if ENABLED && !word.is_off() && self.mark.position < NOWHERE_FROM {
            with_local(|local| local.note(word, self.mark, key, value.raw()));
        }
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if !ENABLED {
            return;
        }
        let word = word();
        if word.is_off() || (self.mark.position == SILENT && self.mark.tick == u64::from(word.epoch())) {
            return;
        }
        with_local(|local| local.end(word, self.mark, self.site));
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
#[must_use = "the span ends when it is dropped"]
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
        self.0.record(key, &value);
    }

    /// Ends the span now.
    #[inline]
    pub fn end(self) {
        drop(self);
    }
}
