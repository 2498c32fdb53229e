//! Scopes that a thread holds open for those who cannot hold a guard: each is known by a number.

use std::cell::RefCell;

use super::{RawGuard, RawSite, RawValue, Values, open};
use crate::record::flow::{Link, flow};

thread_local! {
    /// Innermost last. What is left when the thread ends stays open, and is told as unfinished.
    static OPEN: RefCell<Vec<(u64, RawGuard)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the guard that `open` gives under `key`; `false` where the thread can keep none, and then nothing was opened.
#[inline]
pub fn hold(key: u64, open: impl FnOnce() -> RawGuard) -> bool {
    let held = OPEN.try_with(|held| {
        // It is borrowed only here, so by the allocator at most.
        let Ok(mut held) = held.try_borrow_mut() else { return false };
        held.reserve(1);
        held.push((key, open()));
        true
    });
    held.unwrap_or(false)
}

/// Takes the innermost guard of `key`, if this thread holds one.
#[inline]
pub fn take(key: u64) -> Option<RawGuard> {
    let taken = OPEN.try_with(|held| {
        let mut held = held.try_borrow_mut().ok()?;
        let place = held.iter().rposition(|open| open.0 == key)?;
        Some(held.remove(place).1)
    });
    taken.ok().flatten()
}

/// Calls `with` with the innermost guard of `key`; `false` where this thread holds none.
pub fn look(key: u64, with: impl FnOnce(&RawGuard)) -> bool {
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
    if hold(handle, || open(site, values)) { handle } else { 0 }
}

/// Ends the scope of a handle; `false` where it is not open on this thread.
pub fn end(handle: u64) -> bool {
    take(handle).map(RawGuard::end).is_some()
}

/// Adds metadata to the open scope of a handle; `false` where it is not open on this thread.
pub fn note(handle: u64, key: &'static str, value: RawValue<'_>) -> bool {
    look(handle, |guard| guard.note(key, value))
}
