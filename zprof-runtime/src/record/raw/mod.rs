//! Scopes, instants and samples of sites that are made while the program runs: for bridges from other libraries and other
//! languages.
//!
//! A site is made once for each place and lives as long as the program. Its keys are fixed; the kinds of its values may
//! differ from scope to scope. What the macros know when the program is compiled is looked up here: a site keeps a short
//! list of the shapes that it has met, and when there are too many, each value brings its kind along.

mod held;
mod site;
mod unknown;
mod value;
mod whole;

use std::marker::PhantomData;
use std::panic::catch_unwind;
use std::sync::OnceLock;

pub use held::{Key, begin, end, hold, look, note, take};
pub use site::{Description, MOST_KEYS, MOST_SITES, RawSite, sites};
pub use unknown::count_unknown;
pub(crate) use unknown::{Unknown, unknown};
pub use value::{RawValue, Values};
pub use whole::Whole;
pub(crate) use whole::any_crossed;

use super::guard::{end_parts, is_heard, is_recorded, may_be_heard, open_parts, unheard, word};
use super::marks::heard;
use super::registry::{Interrupted, Reason, Word};
use super::ring::{Mark, NOWHERE_FROM};
use super::thread::{SHARED, with_local};
use crate::atomic::AtomicU64;
use crate::ceiling::is_compiled;
use crate::site::{Level, NO_FILTER, Origin, Site};
use crate::value::{One, ReceivesWord, SendsWord, Value as _};
use crate::{ENABLED, annotate, warn};
use value::Slice;

/// An open scope. It ends by [`end`](Self::end); one that is dropped stays open, and is told as leaked or unfinished.
#[derive(Debug)]
#[must_use = "the scope stays open until `end` is called"]
pub struct RawGuard {
    mark: Mark,
    site: &'static RawSite,
    /// The range that tools see, 0 if none does.
    range: u64,
    _stays: PhantomData<*const ()>,
}

/// The word that says who listens: while nobody does, its low half is 0. For code that can call nothing of ours before it
/// knows.
pub static STATE: &AtomicU64 = SHARED.state();

/// Whether anything listens to sites of this level and filter.
#[inline]
#[must_use]
pub fn listens(level: Level, filter: u64) -> bool {
    hears_by(word(), level, |word| may_be_heard(word, level, filter))
}

/// The highest level that a session records or a tool sees; `None` where nothing listens.
#[must_use]
pub fn heard_level() -> Option<Level> {
    [Level::Verbose, Level::Info, Level::Critical].into_iter().find(|level| listens(*level, NO_FILTER))
}

/// Who is told when a session starts or stops.
static WATCHER: OnceLock<fn()> = OnceLock::new();

/// Has `told` called whenever a session has started or stopped, and looks for tools. There is one such function; it is kept
/// from the first call on.
pub fn watch(told: fn()) {
    let _ = WATCHER.set(told);
    super::probe();
}

/// Tells the watcher. What it panics of is its own affair: the session goes on.
pub(super) fn changed() {
    if let Some(told) = WATCHER.get() {
        let _ = catch_unwind(told);
    }
}

#[inline]
fn hears(word: Word, site: &'static Site) -> bool {
    hears_by(word, site.level, |word| is_heard(word, site.level, site.filter, site))
}

#[inline]
fn hears_by(word: Word, level: Level, is_heard: impl FnOnce(Word) -> bool) -> bool {
    // A logger that speaks of how tools are looked for must not wait for that.
    let waits = || word.is_unprobed() && warn::is_saying();
    is_compiled(level) && !word.is_off() && (word.is_usual() || (!waits() && is_heard(word)))
}

/// Opens a scope. Where nothing listens its values are not looked at.
#[inline]
pub fn open<V: Values + ?Sized>(site: &'static RawSite, values: &V) -> RawGuard {
    open_slice(site, values, |_| Slice::Alone)
}

#[inline]
fn open_slice<V: Values + ?Sized>(site: &'static RawSite, values: &V, slice: impl FnOnce(Word) -> Slice) -> RawGuard {
    let word = word();
    let guard = |(mark, range)| RawGuard { mark, site, range, _stays: PhantomData };
    if !hears(word, &site.site) {
        return guard((unheard(word), 0));
    }
    let slice = slice(word);
    let count = site.count(slice);
    let (shape, args) = site.args(values, count, slice);
    match with_local(|local| local.begin_fast(word, shape, args)) {
        Some(mark) => guard((mark, 0)),
        None => guard(open_parts(Origin::Made(&site.site), shape, word, args)),
    }
}

impl RawGuard {
    /// The guard of a scope that opened while nothing listened.
    pub fn unheard(site: &'static RawSite) -> Self {
        Self { mark: unheard(Word(0)), site, range: 0, _stays: PhantomData }
    }

    /// Ends the scope.
    #[inline]
    pub fn end(self) {
        if !ENABLED {
            return;
        }
        let word = word();
        if !word.is_off() && !with_local(|local| local.end_fast(word, self.mark)) {
            end_parts(Origin::Made(&self.site.site), self.mark, self.range, word);
        }
    }

    /// Adds metadata, where the scope is recorded.
    pub fn note(&self, key: &'static str, value: RawValue<'_>) {
        let word = word().bare();
        if !ENABLED || word.is_off() || self.mark.position >= NOWHERE_FROM {
            return;
        }
        with_local(|local| match value {
            RawValue::Absent => {}
            RawValue::Bool(value) => local.note(word, self.mark, key, value.raw()),
            RawValue::Signed(value) => local.note(word, self.mark, key, value.raw()),
            RawValue::Unsigned(value) => local.note(word, self.mark, key, value.raw()),
            RawValue::Float(value) => local.note(word, self.mark, key, value.raw()),
            RawValue::Text(text) => local.note(word, self.mark, key, text.raw()),
            RawValue::Sends(flow) => local.note(word, self.mark, key, One::<SendsWord>::new(flow)),
            RawValue::Receives(flow) => local.note(word, self.mark, key, One::<ReceivesWord>::new(flow)),
        });
    }
}

/// Whether the calling thread is in a signal handler, where no site can be made, since that allocates. What was to be recorded at
/// the site is counted as dropped then.
pub fn is_dropped_in_handler() -> bool {
    let is_in = crate::os::in_signal_handler();
    if is_in && !word().bare().is_off() {
        SHARED.count_interrupted(Interrupted::Scope, Reason::AllocatesInHandler);
    }
    is_in
}

/// Records that something happens now.
pub fn instant<V: Values + ?Sized>(site: &'static RawSite, values: &V) {
    let word = word();
    if !hears(word, &site.site) {
        return;
    }
    let slice = Slice::Alone;
    let count = site.count(slice);
    let (shape, args) = site.args(values, count, slice);
    let word = heard(word);
    let (seen, bare) = (word.seen(), word.bare());
    if seen != 0 {
        annotate::mark(seen, Origin::Made(&site.site), args);
    }
    if !bare.is_off() && (seen == 0 || is_recorded(bare, &site.site)) {
        with_local(|local| local.instant(bare, shape, args));
    }
}

/// Records the value that a counter has now: a number. The site's only key is its unit, `value` where it has none.
pub fn count(site: &'static RawSite, value: RawValue<'_>) {
    let word = word();
    if !hears(word, &site.site) {
        return;
    }
    let bare = heard(word).bare();
    let is_number = matches!(value, RawValue::Signed(_) | RawValue::Unsigned(_) | RawValue::Float(_));
    if is_number && !bare.is_off() && is_recorded(bare, &site.site) {
        let slice = Slice::Sample;
        let (shape, _) = site.args([value].as_slice(), site.count(slice), slice);
        with_local(|local| local.count(bare, shape, value.bits()));
    }
}
