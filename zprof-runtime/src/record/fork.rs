//! Forks: a child has one thread, and none of the locks that another thread of the parent held at that moment.

use std::io;
use std::sync::MutexGuard;

use super::lock::Mutex;

/// Held by whoever has a lock of a session.
static GATE: Mutex<()> = Mutex::new(());

/// Takes the gate: no fork comes until it is dropped.
pub(crate) fn gate() -> MutexGuard<'static, ()> {
    // Also before the first session, when a snapshot is asked for in vain. Where forks cannot be watched, no session starts.
    let _ = watch();
    GATE.lock()
}

/// Sees to it that the recorder survives a fork; does so once.
#[cfg(unix)]
pub(crate) fn watch() -> io::Result<()> {
    use std::sync::OnceLock;

    static WATCHING: OnceLock<i32> = OnceLock::new();
    let status = *WATCHING.get_or_init(|| {
        // SAFETY: the three functions are `extern "C"`, never unwind, and live as long as the program.
        unsafe { libc::pthread_atfork(Some(hooks::before), Some(hooks::in_parent), Some(hooks::in_child)) }
    });
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Nothing forks here.
#[cfg(not(unix))]
pub(crate) fn watch() -> io::Result<()> {
    Ok(())
}

/// Lets scopes go unrecorded from now on, though the recording goes on: in a child where nobody stops it. Calls only what
/// a signal handler may.
#[cfg(unix)]
pub(crate) fn silence() {
    super::thread::SHARED.close_session();
}

#[cfg(unix)]
mod hooks {
    use std::cell::Cell;
    use std::mem::ManuallyDrop;
    use std::sync::MutexGuard;

    use crate::record::{helper, registry, thread};
    use crate::{annotate, bridge};

    /// What the forking thread holds over the fork: all locks of the bridges and the recorder, and that of the look for tools.
    type Held = (bridge::held::Held, MutexGuard<'static, ()>, registry::Held, helper::Held, annotate::Held);

    std::thread_local! {
        /// Without a destructor, so that a fork may come from a thread's last breath.
        static HELD: Cell<Option<ManuallyDrop<Held>>> = const { Cell::new(None) };
    }

    pub(super) extern "C" fn before() {
        let held = (bridge::held::hold(), super::GATE.lock(), thread::SHARED.hold(), helper::hold(), annotate::hold());
        HELD.set(Some(ManuallyDrop::new(held)));
    }

    pub(super) extern "C" fn in_parent() {
        drop(HELD.take().map(ManuallyDrop::into_inner));
    }

    pub(super) extern "C" fn in_child() {
        in_parent();
        thread::keep_only_this_thread();
        annotate::after_fork();
    }
}
