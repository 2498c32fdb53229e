//! Recording: what a scope does while the program runs, and how a session takes it.

#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // addresses in records become references again
pub(crate) mod decode;
#[cfg(not(zprof_loom))]
pub(crate) mod drain;
#[cfg(not(zprof_loom))]
mod flow;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // gives functions to pthread_atfork
mod fork;
#[cfg(not(zprof_loom))]
mod guard;
#[cfg(not(zprof_loom))]
mod helper;
#[cfg(not(zprof_loom))]
mod lock;
#[cfg(not(zprof_loom))]
mod marks;
#[cfg(all(test, zprof_loom))]
#[allow(unsafe_code)] // plays the part of thread.rs
mod model;
#[cfg(not(zprof_loom))]
pub(crate) mod outcome;
mod pool;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // values write themselves into slots of the stream, and guards are kept as words
pub(crate) mod raw;
#[cfg(not(zprof_loom))]
pub(crate) mod recording;
#[allow(unsafe_code)] // joins chunks and writers
mod registry;
#[allow(unsafe_code)] // the stream is raw memory between two threads
pub(crate) mod ring;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // pins what a pinned future holds, and lets values write into memory of its own
pub(crate) mod task;
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // calls the stream's unsafe functions for the calling thread
mod thread;

#[cfg(not(zprof_loom))]
pub use flow::{Flow, Link, flow};
#[cfg(not(zprof_loom))]
pub(crate) use guard::is_recorded;
#[cfg(not(zprof_loom))]
pub(crate) use guard::probe;
#[cfg(not(zprof_loom))]
pub use guard::{Guard, Span, hears, inert, open_at, word};
#[cfg(not(zprof_loom))]
pub use marks::{Sample, StepNumber, count_at, mark_at};
#[cfg(not(zprof_loom))]
pub use outcome::{Fallible, Returns, always, call, never, returned};
#[cfg(not(zprof_loom))]
pub(crate) use registry::Stream;
pub use registry::Word;
#[cfg(not(zprof_loom))]
pub use task::{Entered, Here, NUMBER, Task, TraceFuture, Traced, described, entered, traced, traced_and, undescribed};

/// The atomics, locks and cells of the recorder: the standard ones, or loom's under `cfg(zprof_loom)`.
#[cfg(not(zprof_loom))]
#[allow(unsafe_code)] // a slot is written and read through a raw pointer
pub(crate) mod primitive {
    use std::cell::UnsafeCell;

    pub(crate) use super::lock::Mutex;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

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
        /// As [`Slot::write`](super::ring::Slot::write).
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
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

    std::thread_local! {
        /// Set by the model that shows that too weak an ordering would be found out.
        pub(crate) static WEAKENED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
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
    }

    /// A word whose every access loom checks for races.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct RawSlot(UnsafeCell<u64>);

    impl RawSlot {
        /// # Safety
        ///
        /// As [`Slot::write`](super::ring::Slot::write).
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
        /// As [`Slot::read`](super::ring::Slot::read).
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
