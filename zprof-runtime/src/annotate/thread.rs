//! What each thread has open with the tools: every push gets its pop, in the right order, once.

use std::cell::RefCell;
use std::ffi::CString;
use std::sync::atomic::{Ordering, fence};

use super::{Label, Line, Seen, each};
use crate::atomic::AtomicU64;
use crate::os;
use crate::site::{Origin, Site};
use crate::value::RawArgs;

/// A range that is open on this thread.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: u64,
    /// Backends that saw it open.
    seen: Seen,
}

/// The calling thread's part. Borrowed while a backend is called, so that a scope of the tool's own making, or of the
/// allocator, is not annotated.
struct Thread {
    /// Innermost last.
    open: Vec<Open>,
    line: Line,
    /// Id of the next range, 0 before the first. The upper bits tell threads apart.
    next_id: u64,
    /// Backends that know the thread's name.
    named: Seen,
}

thread_local! {
    static THREAD: RefCell<Thread> = const {
        RefCell::new(Thread { open: Vec::new(), line: Line::new(), next_id: 0, named: 0 })
    };
}

/// Ids of one thread are below this.
const IDS_PER_THREAD: u64 = 1 << 40;

/// Opens a range with the backends `seen`. Gives its id, or 0 where none was opened: late in a thread's life, or from
/// within a backend.
#[cold]
#[inline(never)]
pub(crate) fn push<R: RawArgs>(seen: Seen, site: Origin, values: R) -> u64 {
    THREAD
        .try_with(|thread| {
            let Ok(mut thread) = thread.try_borrow_mut() else { return 0 };
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
    let _ = THREAD.try_with(|thread| {
        let Ok(mut thread) = thread.try_borrow_mut() else { return };
        if thread.named & seen != seen {
            thread.introduce(seen);
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
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            thread.named = 0;
            thread.introduce(seen);
        }
    });
}

/// Closes the range `id`, and those within it that are still open. Nothing happens if it is not open, or 0.
#[cold]
#[inline(never)]
pub(crate) fn pop(id: u64) {
    if id == 0 {
        return;
    }
    // The thread's part goes when the thread ends, and has closed all ranges then.
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            thread.pop(id);
        }
    });
}

/// In the child of a fork: the calling thread has another id, so that tools must be told its name again.
#[allow(dead_code)] // not everywhere is there a fork
pub(super) fn after_fork() {
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            thread.named = 0;
        }
    });
}

impl Thread {
    #[inline]
    fn push(&mut self, seen: Seen, site: &'static Site, whole: bool) -> u64 {
        if self.named & seen != seen {
            self.introduce(seen);
        }
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
        static THREADS: AtomicU64 = AtomicU64::new(0);
        // The state word was read without an ordering. Acquire pairs with the Release of the change that brought these
        // backends, so that what they attached is seen: they would leave the push out, but not its pop.
        fence(Ordering::Acquire);
        if self.next_id == 0 {
            // Never 0, which is no id.
            self.next_id = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_mul(IDS_PER_THREAD) + 1;
        }
        // The system's names have no NUL; the program's may.
        let name = CString::new(os::thread_name().replace('\0', " ")).unwrap_or_default();
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
