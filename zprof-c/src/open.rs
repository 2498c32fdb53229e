//! Scopes that a thread has open, each known by a number: C keeps no guard that could be ended once and only once.
//!
//! Almost always the innermost one ends, and not many are open at once: these lie in an array of the thread, which needs no
//! destructor. Those that are deeper go to the recorder's own list.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::recorder::{self, AtomicU64, Key, RawGuard, RawSite, RawValue};

/// Scopes in the array of a thread.
const DEEP: usize = 32;
/// Set in every number, so that none is anybody else's in the recorder's list.
const OURS: u64 = 1 << 63;
/// Numbers that a thread takes at a time.
const BLOCK: u64 = 1 << 16;

/// First number that no thread has taken.
static NEXT: AtomicU64 = AtomicU64::new(OURS);

/// The scopes of a thread.
///
/// A signal handler may open and end scopes of its own between any two steps here. It leaves as many as it has found, and
/// touches only places from `len` on. So a place is counted before it is filled, and emptied before it is given up; until then
/// it has the number 0, which is no scope's.
struct Open {
    /// Scopes in the array, innermost last.
    len: Cell<usize>,
    ids: [Cell<u64>; DEEP],
    guards: [Cell<Option<RawGuard>>; DEEP],
    /// Next number of this thread, and the end of its block.
    next: Cell<u64>,
    end: Cell<u64>,
}

thread_local! {
    static OPEN: Open = const {
        Open {
            len: Cell::new(0),
            ids: [const { Cell::new(0) }; DEEP],
            guards: [const { Cell::new(None) }; DEEP],
            next: Cell::new(0),
            end: Cell::new(0),
        }
    };
}

impl Open {
    #[inline]
    fn number(&self) -> u64 {
        if self.next.get() == self.end.get() {
            self.more();
        }
        self.next.replace(self.next.get() + 1)
    }

    #[cold]
    fn more(&self) {
        let first = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
        self.next.set(first);
        self.end.set(first + BLOCK);
    }

    /// Puts a scope behind the others; gives the guard back where the array is full.
    #[inline]
    fn push(&self, id: u64, guard: RawGuard) -> Option<RawGuard> {
        let len = self.len.get();
        if len >= DEEP {
            return Some(guard);
        }
        self.len.set(len + 1);
        // For handlers on this thread: the place is counted before it is filled.
        compiler_fence(Ordering::SeqCst);
        self.guards[len].set(Some(guard));
        self.ids[len].set(id);
        None
    }

    /// Takes the guard at a place of the array.
    #[inline]
    fn take(&self, place: usize) -> Option<RawGuard> {
        let last = self.len.get() - 1;
        let guard = self.guards[place].take();
        self.ids[place].set(0);
        for place in place..last {
            self.ids[place].swap(&self.ids[place + 1]);
            self.guards[place].swap(&self.guards[place + 1]);
        }
        // For handlers on this thread: the place is empty before it is given up.
        compiler_fence(Ordering::SeqCst);
        self.len.set(last);
        guard
    }

    /// Where in the array a scope is.
    fn place(&self, id: u64) -> Option<usize> {
        self.ids[..self.len.get().min(DEEP)].iter().rposition(|known| known.get() == id)
    }
}

/// Opens a scope, and gives its number; 0 where the thread can keep no more.
#[inline]
pub(crate) fn begin(site: &'static RawSite, values: &[RawValue<'_>]) -> u64 {
    OPEN.with(|open| {
        let id = open.number();
        if open.len.get() >= DEEP {
            return begin_deep(id, site, values);
        }
        // What opens a scope for the first time may open others, as a program's allocator does, but ends them too.
        match open.push(id, recorder::open(site, values)) {
            None => id,
            Some(guard) => keep_deep(id, guard),
        }
    })
}

#[cold]
fn begin_deep(id: u64, site: &'static RawSite, values: &[RawValue<'_>]) -> u64 {
    if recorder::hold(Key::Handle(id), || Some(recorder::open(site, values))) { id } else { 0 }
}

#[cold]
fn keep_deep(id: u64, guard: RawGuard) -> u64 {
    if recorder::hold(Key::Handle(id), || Some(guard)) { id } else { 0 }
}

/// Ends a scope; `false` where it is not open on this thread.
#[inline]
pub(crate) fn end(id: u64) -> bool {
    let innermost = OPEN.with(|open| {
        let last = open.len.get().wrapping_sub(1);
        if last < DEEP && open.ids[last].get() == id { open.take(last) } else { None }
    });
    match innermost {
        Some(guard) => {
            guard.end();
            true
        }
        None => end_other(id),
    }
}

#[cold]
fn end_other(id: u64) -> bool {
    let found = OPEN.with(|open| open.place(id).and_then(|place| open.take(place)));
    found.or_else(|| recorder::take(Key::Handle(id))).map(RawGuard::end).is_some()
}

/// Adds metadata to an open scope; `false` where it is not open on this thread.
pub(crate) fn note(id: u64, key: &'static str, value: RawValue<'_>) -> bool {
    let noted = OPEN.with(|open| {
        let place = open.place(id)?;
        // Out of its place meanwhile, as it cannot be looked at there; nobody else ends the scope while this thread is here.
        let guard = open.guards[place].take()?;
        guard.note(key, value);
        open.guards[place].set(Some(guard));
        Some(())
    });
    noted.is_some() || recorder::look(Key::Handle(id), |guard| guard.note(key, value))
}
