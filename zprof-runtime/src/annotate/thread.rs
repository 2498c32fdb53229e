//! What each thread has open with the tools: every push gets its pop, in the right order, once.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use super::{Label, Line, Seen, each};
use crate::atomic::AtomicU64;
use crate::os;
use crate::site::{Origin, Site};
use crate::thread_name::ThreadName;
use crate::value::RawArgs;

/// A range that is open on this thread.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: u64,
    /// Backends that saw it open.
    seen: Seen,
}

/// The calling thread's part. Borrowed while a backend is called, so that a scope of the tool's own making, of the allocator,
/// or of a signal handler that comes in between, is not annotated.
struct Thread {
    /// Innermost last.
    open: Vec<Open>,
    line: Line,
    /// Id of the next range; a multiple of [`IDS`] where the thread has none left.
    next_id: u64,
    /// Backends that know the thread's name.
    named: Seen,
}

thread_local! {
    static THREAD: RefCell<Thread> = const {
        RefCell::new(Thread { open: Vec::new(), line: Line::new(), next_id: 0, named: 0 })
    };
    /// The thread has had its part, so that asking for it allocates nothing.
    static IS_MADE: Cell<bool> = const { Cell::new(false) };
}

/// Ids that a thread takes at a time. A block begins at a multiple of this, and the first id is one more.
const IDS: u64 = 1 << 20;

/// Calls `with` with the thread's part; `None` late in the thread's life, where it is borrowed, and where it would have to be
/// made in a signal handler.
#[inline]
fn with_thread<T>(with: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    if !IS_MADE.get() && os::in_signal_handler() {
        return None;
    }
    let result = THREAD.try_with(|thread| {
        let mut thread = thread.try_borrow_mut().ok()?;
        // A signal handler that runs from here on finds it borrowed before anything has changed …
        compiler_fence(Ordering::SeqCst);
        let result = with(&mut thread);
        // … and one that runs later finds all changed.
        compiler_fence(Ordering::SeqCst);
        Some(result)
    });
    IS_MADE.set(true);
    result.ok().flatten()
}

/// Opens a range with the backends `seen`. Gives its id, or 0 where none was opened: late in a thread's life, from within a
/// backend, or in a signal handler for which something would have to be allocated.
#[cold]
#[inline(never)]
pub(crate) fn push<R: RawArgs>(seen: Seen, site: Origin, values: R) -> u64 {
    with_thread(|thread| {
        if !thread.prepare(seen) {
            return 0;
        }
        let site = site.site();
        let whole = site.is_whole();
        if !whole {
            thread.line.write(site, values);
        }
        thread.push(seen, site, whole)
    })
    .unwrap_or(0)
}

/// Shows the backends `seen` an instant; nothing happens where [`push`] opens nothing.
#[cold]
#[inline(never)]
pub(crate) fn mark<R: RawArgs>(seen: Seen, site: Origin, values: R) {
    with_thread(|thread| {
        if !thread.prepare(seen) {
            return;
        }
        let site = site.site();
        let whole = site.is_whole();
        if !whole {
            thread.line.write(site, values);
        }
        let label = Label { site, written: if whole { None } else { Some(&thread.line) } };
        each(seen, |backend| backend.mark(label));
    });
}

/// Tells the backends `seen` what the calling thread is called now. The others are told with the first range.
#[cold]
pub(crate) fn rename(seen: Seen) {
    with_thread(|thread| {
        thread.named = 0;
        thread.prepare(seen);
    });
}

/// Closes the range `id`, and those within it that are still open. Nothing happens if it is not open, or 0.
#[cold]
#[inline(never)]
pub(crate) fn pop(id: u64) {
    if id != 0 {
        // The thread's part goes when the thread ends, and has closed all ranges then.
        with_thread(|thread| thread.pop(id));
    }
}

/// In the child of a fork: the calling thread has another id, so that tools must be told its name again.
#[allow(dead_code)] // not everywhere is there a fork
pub(super) fn after_fork() {
    with_thread(|thread| thread.named = 0);
}

impl Thread {
    /// Makes ready for the next range of the backends `seen`; `false` where that would allocate in a signal handler.
    #[inline]
    fn prepare(&mut self, seen: Seen) -> bool {
        let is_ready = self.named & seen == seen && self.open.len() < self.open.capacity() && self.next_id % IDS != 0;
        is_ready || self.make_ready(seen)
    }

    #[cold]
    fn make_ready(&mut self, seen: Seen) -> bool {
        /// Blocks of ids that were taken.
        static BLOCKS: AtomicU64 = AtomicU64::new(0);

        if os::in_signal_handler() {
            return false;
        }
        self.open.reserve(1);
        if self.next_id % IDS == 0 {
            // Never 0, which is no id.
            self.next_id = BLOCKS.fetch_add(1, Ordering::Relaxed) * IDS + 1;
        }
        if self.named & seen != seen {
            self.introduce(seen);
        }
        true
    }

    #[inline]
    fn push(&mut self, seen: Seen, site: &'static Site, whole: bool) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let label = Label { site, written: if whole { None } else { Some(&self.line) } };
        each(seen, |backend| backend.push(label, id));
        self.open.push(Open { id, seen });
        id
    }

    /// Tells the backends that do not know this thread what it is called.
    #[cold]
    fn introduce(&mut self, seen: Seen) {
        // The state word was read without an ordering. Acquire pairs with the Release of the change that brought these
        // backends, so that what they attached is seen: they would leave the push out, but not its pop.
        fence(Ordering::Acquire);
        // The system's names have no NUL; the program's may.
        let name = CString::new(ThreadName::of_this_thread().text().replace('\0', " ")).unwrap_or_default();
        if !name.is_empty() {
            each(seen & !self.named, |backend| backend.name_thread(os::thread_id(), &name));
        }
        self.named |= seen;
    }

    #[inline]
    fn pop(&mut self, id: u64) {
        match self.open.pop() {
            Some(innermost) if innermost.id == id => close(innermost),
            Some(other) => {
                self.open.push(other);
                self.pop_down_to(id);
            }
            None => {}
        }
    }

    /// Ranges nest: what was opened within this one and not closed goes with it.
    #[cold]
    fn pop_down_to(&mut self, id: u64) {
        if let Some(place) = self.open.iter().rposition(|open| open.id == id) {
            self.open.drain(place..).rev().for_each(close);
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.open.drain(..).rev().for_each(close);
    }
}

#[inline]
fn close(open: Open) {
    each(open.seen, |backend| backend.pop(open.id));
}
