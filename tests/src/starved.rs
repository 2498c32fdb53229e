//! An allocator that fails on demand, for programs of the tests: `#[global_allocator] static ALLOCATOR: Starved = Starved;`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The system's allocator, but for allocations of [`LEAST`] bytes or more that [`fail`] has asked to fail.
#[derive(Debug)]
pub struct Starved;

/// Bytes from which on an allocation may fail.
pub const LEAST: usize = 4096;

/// Which allocations fail: those from the first on, and before the second. They are counted from 1.
static FROM: AtomicU64 = AtomicU64::new(u64::MAX);
static UNTIL: AtomicU64 = AtomicU64::new(u64::MAX);
/// How many have come.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Lets large allocations fail from the `first` on, `count` of them: counted from now on, and from 1. Gives how many have come
/// since the last call.
pub fn fail(first: u64, count: u64) -> u64 {
    FROM.store(u64::MAX, Ordering::SeqCst);
    let seen = SEEN.swap(0, Ordering::SeqCst);
    UNTIL.store(first.saturating_add(count), Ordering::SeqCst);
    FROM.store(first, Ordering::SeqCst);
    seen
}

/// Lets no allocation fail any more. Gives how many large ones have come since [`fail`].
pub fn feed() -> u64 {
    fail(u64::MAX, 0)
}

/// The function that is called before each allocation and before memory is freed, if there is one.
static HOOK: RwLock<Option<fn()>> = RwLock::new(None);

thread_local! {
    /// The thread is in the hook.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Lets each allocation call `hook`, and memory that is freed as well; but for those of the hook itself.
pub fn hook(hook: Option<fn()>) {
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook;
}

fn call_hook() {
    // Late in a thread's life, and while the hook is being set, there is none.
    if let Ok(false) = INSIDE.try_with(|inside| inside.replace(true)) {
        if let Ok(Some(hook)) = HOOK.try_read().map(|hook| *hook) {
            hook();
        }
        INSIDE.set(false);
    }
}

fn fails(bytes: usize) -> bool {
    if bytes < LEAST {
        return false;
    }
    let number = SEEN.fetch_add(1, Ordering::SeqCst) + 1;
    number >= FROM.load(Ordering::SeqCst) && number < UNTIL.load(Ordering::SeqCst)
}

// SAFETY: the system's allocator does the work; an allocation that fails gives null, as allocators may.
unsafe impl GlobalAlloc for Starved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        call_hook();
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's layout is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if bytes > layout.size() && fails(bytes) {
            return null_mut();
        }
        // SAFETY: what the caller says of them is passed on.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        call_hook();
        // SAFETY: what is freed came from this allocator, which is the system's.
        unsafe { System.dealloc(at, layout) };
    }
}
