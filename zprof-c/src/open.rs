//! Scopes that a thread has open, each known by a number: C keeps no guard that could be ended once and only once.
//!
//! Almost always the innermost one ends, and not many are open at once: these lie in an array of the thread, which needs no
//! destructor. Those that are deeper go to the recorder's own list.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::recorder::{self, AtomicU64, Key, RawGuard, RawSite, RawValue};

/// Scopes in the array of a thread.
const DEEP: usize = 32;
/// Set in every number, so that none is anybody else's in the recorder's list.
const OURS: u64 = 1 << 63;
/// Numbers that a thread takes at a time.
const BLOCK: u64 = 1 << 16;

/// First number that no thread has taken.
static NEXT: AtomicU64 = AtomicU64::new(OURS);

struct Open {
    /// Scopes in the array, innermost last.
    len: Cell<usize>,
    ids: [Cell<u64>; DEEP],
    guards: [Cell<[u64; 5]>; DEEP],
    /// Next number of this thread, and the end of its block.
    next: Cell<u64>,
    end: Cell<u64>,
}

thread_local! {
    static OPEN: Open = const {
        Open {
            len: Cell::new(0),
            ids: [const { Cell::new(0) }; DEEP],
            guards: [const { Cell::new([0; 5]) }; DEEP],
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

    /// Takes the guard at a place of the array.
    #[inline]
    fn take(&self, place: usize) -> RawGuard {
        let words = self.guards[place].get();
        let len = self.len.get() - 1;
        for place in place..len {
            self.ids[place].swap(&self.ids[place + 1]);
            self.guards[place].swap(&self.guards[place + 1]);
        }
        self.len.set(len);
        // SAFETY: they were put there by this thread, from a guard, and are nowhere any more.
        unsafe { RawGuard::from_words(words) }
    }

    /// Where in the array a scope is.
    fn place(&self, id: u64) -> Option<usize> {
        self.ids[..self.len.get().min(DEEP)].iter().rposition(|known| known.get() == id)
    }
}

/// Opens a scope, and gives its number; 0 where the thread can keep no more.
#[inline]
pub(crate) fn begin(site: &'static RawSite, values: &[RawValue<'_>]) -> u64 {
    let guard = recorder::open(site, values);
    OPEN.with(|open| {
        let id = open.number();
        // Read only now: what opens a scope for the first time may open others, as a program's allocator does.
        let len = open.len.get();
        if len < DEEP {
            open.ids[len].set(id);
            open.guards[len].set(guard.into_words());
            open.len.set(len + 1);
            id
        } else {
            keep_deep(id, guard)
        }
    })
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
        (last < DEEP && open.ids[last].get() == id).then(|| open.take(last))
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
    let found = OPEN.with(|open| open.place(id).map(|place| open.take(place)));
    found.or_else(|| recorder::take(Key::Handle(id))).map(RawGuard::end).is_some()
}

/// Adds metadata to an open scope; `false` where it is not open on this thread.
pub(crate) fn note(id: u64, key: &'static str, value: RawValue<'_>) -> bool {
    let place = OPEN.with(|open| {
        let place = open.place(id)?;
        Some(open.guards[place].get())
    });
    match place {
        Some(words) => {
            // SAFETY: they are a guard's of this thread; this one does not end, and the array keeps the words.
            let guard = unsafe { RawGuard::from_words(words) };
            guard.note(key, value);
            // A guard that is dropped ends nothing.
            let _ = guard.into_words();
            true
        }
        None => recorder::look(Key::Handle(id), |guard| guard.note(key, value)),
    }
}
