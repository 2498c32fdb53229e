//! Recording: what a scope does while the program runs, and how a session takes it.

#[allow(unsafe_code)] // chunks in a chain are held by it
mod chain;
#[allow(unsafe_code)] // a chunk is raw memory between threads
pub(crate) mod chunk;
#[allow(unsafe_code)] // addresses in records become references again
#[cfg_attr(zprof_loom, allow(dead_code))]
pub(crate) mod decode;
pub(crate) mod directives;
#[cfg(not(zprof_loom))]
pub(crate) mod drain;
#[cfg(not(zprof_loom))]
mod flow;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // gives functions to pthread_atfork
mod fork;
#[cfg(not(zprof_loom))]
#[cfg_attr(not(feature = "enable"), allow(dead_code, unreachable_pub))] // `off` stands in its place
mod guard;
#[cfg(not(zprof_loom))]
mod helper;
#[cfg(all(unix, not(zprof_loom)))]
#[allow(unsafe_code)] // keeps lists in memory of its own
mod inherit;
#[cfg(not(zprof_loom))]
pub(crate) mod lock;
#[allow(unsafe_code)] // joins chunks and writers
mod log;
#[cfg(not(zprof_loom))]
#[cfg_attr(not(feature = "enable"), allow(dead_code, unreachable_pub))] // as above
mod marks;
#[allow(unsafe_code)] // maps memory
mod memory;
#[cfg(all(test, zprof_loom))]
#[allow(unsafe_code)] // plays the part of thread.rs
mod model;
#[cfg(not(zprof_loom))]
mod name;
#[cfg_attr(zprof_loom, allow(dead_code))]
mod nest;
#[cfg(all(not(feature = "enable"), not(zprof_loom)))]
#[allow(unsafe_code)] // pins what a pinned future holds
mod off;
#[cfg(not(zprof_loom))]
pub(crate) mod outcome;
#[cfg(all(test, not(zprof_loom)))]
#[allow(unsafe_code)] // plays the part of thread.rs
mod overrun;
mod pool;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // values write themselves into slots of the stream
pub(crate) mod raw;
#[cfg_attr(zprof_loom, allow(dead_code))]
#[allow(unsafe_code)] // takes chunks from threads that have ended
mod reclaim;
#[cfg(not(zprof_loom))]
pub(crate) mod recording;
mod registry;
#[allow(unsafe_code)] // the stream is raw memory between two threads
pub(crate) mod ring;
mod share;
#[cfg(not(zprof_loom))]
mod shown;
#[allow(unsafe_code)] // finds chunks in blocks of memory
mod slab;
#[cfg(not(zprof_loom))]
pub(crate) mod steady;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // pins what a pinned future holds, and lets values write into memory of its own
#[cfg_attr(not(feature = "enable"), allow(dead_code, unreachable_pub))] // as above
pub(crate) mod task;
#[cfg(not(zprof_loom))]
#[cfg_attr(not(feature = "enable"), allow(dead_code, unreachable_pub))] // as above
#[allow(unsafe_code)] // calls the stream's unsafe functions for the calling thread
mod thread;

#[cfg(not(zprof_loom))]
pub(crate) use chain::Sampled;
#[cfg(not(zprof_loom))]
pub use flow::{Flow, Link, flow};
#[cfg(all(unix, not(zprof_loom)))]
pub(crate) use fork::silence;
#[cfg(not(zprof_loom))]
pub(crate) use fork::{gate, is_astray};
#[cfg(not(zprof_loom))]
pub(crate) use guard::probe;
#[cfg(all(feature = "enable", not(zprof_loom)))]
pub use guard::{Guard, Span, hears, inert, open_at, word, word_at};
#[cfg(not(zprof_loom))]
pub(crate) use guard::{has_tools, is_recorded};
#[cfg(all(unix, not(zprof_loom)))]
pub(crate) use helper::abort;
#[cfg(not(zprof_loom))]
pub(crate) use log::{Gone, Stream};
#[cfg(not(zprof_loom))]
pub use marks::{Sample, StepNumber};
#[cfg(all(feature = "enable", not(zprof_loom)))]
pub use marks::{count_at, mark_at};
#[cfg(not(zprof_loom))]
pub use name::{name_thread, name_worker};
#[cfg(all(not(feature = "enable"), not(zprof_loom)))]
pub use off::{
    Entered, Guard, Here, NUMBER, Span, Task, TraceFuture, Traced, count_at, described, entered, hears, inert, mark_at,
    open_at, polled, polled_and, traced, traced_and, undescribed, word, word_at,
};
#[cfg(not(zprof_loom))]
pub(crate) use outcome::cut;
#[cfg(not(zprof_loom))]
pub use outcome::{Fallible, Returned, Returns, always, call, never, returned};
pub use registry::Word;
#[cfg(not(zprof_loom))]
pub(crate) use registry::{Dropped, Interrupted, Reason};
#[cfg(not(zprof_loom))]
pub use shown::{Shown, debug, display};
#[cfg(all(feature = "enable", not(zprof_loom)))]
pub use task::{
    Entered, Here, NUMBER, Task, TraceFuture, Traced, described, entered, polled, polled_and, traced, traced_and,
    undescribed,
};

/// The atomics, locks and cells of the recorder: the standard ones, or loom's under `cfg(zprof_loom)`.
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // a slot is written and read through a raw pointer
pub(crate) mod primitive {
    use std::cell::UnsafeCell;

    pub(crate) use super::lock::Mutex;
    pub(crate) use crate::atomic::AtomicU64;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::MutexGuard;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

    /// Lets others run for a moment.
    pub(crate) fn pause() {
        #[expect(
            clippy::disallowed_methods,
            reason = "the owner of a lock that is only tried says nothing when it is free"
        )]
        std::thread::sleep(std::time::Duration::from_micros(50));
    }

    /// Ordering of the store that hands records to the drain.
    #[inline(always)]
    pub(crate) const fn publication() -> Ordering {
        Ordering::Release
    }

    /// A word that one thread writes and another reads later.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct RawSlot(UnsafeCell<u64>);

    impl RawSlot {
        /// # Safety
        ///
        /// As [`Slot::write`](super::chunk::Slot::write).
        #[inline(always)]
        pub(crate) unsafe fn write(this: *const Self, word: u64) {
            // SAFETY: the slot is live and only the caller touches it.
            unsafe { UnsafeCell::raw_get(this.cast::<UnsafeCell<u64>>()).write(word) }
        }

        /// Slots are plain memory and need no birth.
        pub(crate) fn init(_first: *const Self, _count: usize) {}

        /// Nor a death.
        pub(crate) fn drop_all(_first: *const Self, _count: usize) {}
    }
}

/// The same names over loom, which explores every order of threads.
#[cfg(zprof_loom)]
#[allow(unsafe_code)] // a slot is written and read through a raw pointer
pub(crate) mod primitive {
    use loom::cell::UnsafeCell;

    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    std::thread_local! {
        /// Set by the model that shows that too weak an ordering would be found out.
        pub(crate) static WEAKENED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Lets others run for a moment.
    pub(crate) fn pause() {
        loom::thread::yield_now();
    }

    /// Ordering of the store that hands records to the drain.
    pub(crate) fn publication() -> Ordering {
        if WEAKENED.get() { Ordering::Relaxed } else { Ordering::Release }
    }

    /// The face of `lock.rs` over loom's lock.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("loom's lock is never poisoned: a panic ends the model")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// A word whose every access loom checks for races.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct RawSlot(UnsafeCell<u64>);

    impl RawSlot {
        /// # Safety
        ///
        /// As [`Slot::write`](super::chunk::Slot::write).
        pub(crate) unsafe fn write(this: *const Self, word: u64) {
            // SAFETY: the slot is live.
            let slot = unsafe { &*this };
            slot.0.with_mut(|at| {
                // SAFETY: only the caller touches the slot; loom checks that.
                unsafe { at.write(word) }
            });
        }

        /// # Safety
        ///
        /// As [`Slot::read`](super::chunk::Slot::read).
        pub(crate) unsafe fn read(this: *const Self) -> u64 {
            // SAFETY: the slot is live.
            let slot = unsafe { &*this };
            slot.0.with(|at| {
                // SAFETY: nobody writes the slot now; loom checks that.
                unsafe { at.read() }
            })
        }

        /// Gives loom its book-keeping for each slot.
        pub(crate) fn init(first: *const Self, count: usize) {
            for index in 0..count {
                // SAFETY: the allocation has `count` slots.
                let slot = unsafe { first.add(index) };
                // SAFETY: as above; nothing stands there yet.
                unsafe { slot.cast_mut().write(Self(UnsafeCell::new(0))) };
            }
        }

        /// Takes it back.
        pub(crate) fn drop_all(first: *const Self, count: usize) {
            for index in 0..count {
                // SAFETY: the allocation has `count` slots.
                let slot = unsafe { first.add(index) };
                // SAFETY: `init` wrote a slot there.
                unsafe { std::ptr::drop_in_place(slot.cast_mut()) };
            }
        }
    }
}
