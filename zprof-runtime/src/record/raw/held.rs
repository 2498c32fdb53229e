//! Scopes that a thread holds open for those who cannot hold a guard: each is known by a number.

use std::cell::{Cell, RefCell};

use super::{RawGuard, RawSite, RawValue, Values, is_dropped_in_handler, open};
use crate::record::flow::{Link, flow};

/// By what a guard is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// What [`begin`] gave.
    Handle(u64),
    /// A span of a bridge: the bridge's number, and the span's.
    Span(u32, u64),
}

thread_local! {
    /// Innermost last. What is left when the thread ends stays open, and is told as unfinished.
    static OPEN: RefCell<Vec<(Key, RawGuard)>> = const { RefCell::new(Vec::new()) };
    /// The thread has had its list, so that asking for it allocates nothing.
    static IS_MADE: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the guard that `open` gives under `key`; `false` where it gives none, or where the thread can keep none, as in a signal
/// handler for which memory would have to be allocated. Then nothing was opened.
#[inline]
pub fn hold(key: Key, open: impl FnOnce() -> Option<RawGuard>) -> bool {
    if !IS_MADE.get() && is_dropped_in_handler() {
        return false;
    }
    let held = OPEN.try_with(|held| {
        IS_MADE.set(true);
        // It is borrowed only here, so by the allocator at most, or by what a signal handler has interrupted.
        let Ok(mut held) = held.try_borrow_mut() else { return false };
        if held.len() == held.capacity() {
            if is_dropped_in_handler() {
                return false;
            }
            held.reserve(1);
        }
        let Some(guard) = open() else { return false };
        held.push((key, guard));
        true
    });
    held.unwrap_or(false)
}

/// Takes the innermost guard of `key`, if this thread holds one.
#[inline]
pub fn take(key: Key) -> Option<RawGuard> {
    let taken = OPEN.try_with(|held| {
        let mut held = held.try_borrow_mut().ok()?;
        // Nearly always the innermost of all, which leaves nothing to move.
        if held.last()?.0 == key {
            return held.pop().map(|open| open.1);
        }
        let place = held.iter().rposition(|open| open.0 == key)?;
        Some(held.remove(place).1)
    });
    taken.ok().flatten()
}

/// Calls `with` with the innermost guard of `key`; `false` where this thread holds none.
pub fn look(key: Key, with: impl FnOnce(&RawGuard)) -> bool {
    let looked = OPEN.try_with(|held| {
        let held = held.try_borrow().ok()?;
        held.iter().rfind(|open| open.0 == key).map(|open| with(&open.1))
    });
    looked.ok().flatten().is_some()
}

/// Opens a scope and gives its handle, unlike any other of the process; 0 where the thread can keep none.
#[must_use]
pub fn begin<V: Values + ?Sized>(site: &'static RawSite, values: &V) -> u64 {
    let handle = flow().number();
    if hold(Key::Handle(handle), || Some(open(site, values))) { handle } else { 0 }
}

/// Ends the scope of a handle; `false` where it is not open on this thread.
pub fn end(handle: u64) -> bool {
    take(Key::Handle(handle)).map(RawGuard::end).is_some()
}

/// Adds metadata to the open scope of a handle; `false` where it is not open on this thread.
pub fn note(handle: u64, key: &'static str, value: RawValue<'_>) -> bool {
    look(Key::Handle(handle), |guard| guard.note(key, value))
}
