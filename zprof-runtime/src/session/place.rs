//! The one place for a session that a process has.

use std::sync::atomic::Ordering;

use super::exit;
use crate::atomic::AtomicU64;
use crate::error::{Error, ErrorKind, Result};

/// The process that has a session, in the upper bits, and in the lowest whether a thread is starting or stopping it; 0 for
/// none. A session that runs goes on in the child of a fork, whose copy of the profiler may stop it. One that another thread
/// of the parent was starting or stopping has nobody there who could: the child has a place of its own then.
static ACTIVE: AtomicU64 = AtomicU64::new(0);

/// The one place for a session that a process has; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place;

impl Place {
    const AT_WORK: u64 = 1;

    fn own() -> u64 {
        u64::from(std::process::id()) << 1
    }

    pub(super) fn take() -> Result<Self> {
        let is_free =
            |active: u64| active == 0 || active & Self::AT_WORK != 0 && active & !Self::AT_WORK != Self::own();
        // Acquire pairs with the Release in `drop`: what the last session did has happened.
        let is_taken = || {
            let own = |active| is_free(active).then(|| Self::own() | Self::AT_WORK);
            ACTIVE.fetch_update(Ordering::Acquire, Ordering::Relaxed, own).is_err()
        };
        if is_taken() && (!exit::give_up_inherited() || is_taken()) {
            let message = if exit::is_running() {
                "failed to start the profiler: the session that `ZPROF` asked for lasts to the end of the program; unset \
                 `ZPROF` to have others"
            } else {
                "failed to start the profiler: another profiler of this process is running; stop it first"
            };
            return Err(Error::new(ErrorKind::AlreadyActive, message));
        }
        Ok(Self)
    }

    /// Whether nobody has it.
    pub(super) fn is_free() -> bool {
        ACTIVE.load(Ordering::Relaxed) == 0
    }

    /// The session runs from here on, and nobody is at work on it.
    pub(super) fn settle(&self) {
        // Relaxed: it says nothing of what else was done, and only a child of this process acts on it.
        ACTIVE.store(Self::own(), Ordering::Relaxed);
    }

    /// The calling thread is about to stop it.
    pub(super) fn unsettle(&self) {
        // Relaxed, as above.
        ACTIVE.store(Self::own() | Self::AT_WORK, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `take`.
        ACTIVE.store(0, Ordering::Release);
    }
}

/// An error where the system has no sessions; `what` could not be done.
pub(super) fn check_system(what: &str) -> Result<()> {
    if crate::record::is_astray() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{what}: this process was forked without the handlers of `pthread_atfork`, as by `_Fork` or `clone`, so nothing can be \
                 recorded in it; fork by `fork`, or run another program"
            ),
        ));
    }
    if crate::os::HAS_SESSIONS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "{what}: WebAssembly lacks the threads and clocks that a session needs; run the program elsewhere to profile it"
        ),
    ))
}
