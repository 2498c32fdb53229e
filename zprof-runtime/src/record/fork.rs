//! Forks: a child has one thread, and none of the locks that another thread of the parent held at that moment.

use std::io;

/// Sees to it that the recorder survives a fork; does so once.
#[cfg(unix)]
pub(crate) fn watch() -> io::Result<()> {
    use std::sync::OnceLock;

    static WATCHING: OnceLock<i32> = OnceLock::new();
    let status = *WATCHING.get_or_init(|| {
        // SAFETY: the three functions are `extern "C"`, never unwind, and live as long as the program.
        unsafe { libc::pthread_atfork(Some(locks::before), Some(locks::in_parent), Some(locks::in_child)) }
    });
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Nothing forks here.
#[cfg(not(unix))]
pub(crate) fn watch() -> io::Result<()> {
    Ok(())
}

/// The recorder's locks, which the forking thread holds from before the fork to after it, in parent and child.
#[cfg(unix)]
mod locks {
    use std::cell::Cell;
    use std::mem::ManuallyDrop;
    use std::sync::{Arc, MutexGuard};
    use std::thread::Thread;

    use crate::record::helper;
    use crate::record::pool::Free;
    use crate::record::registry::Log;
    use crate::record::thread::{SHARED, keep_only_this_thread};

    type Held = (MutexGuard<'static, Option<Thread>>, MutexGuard<'static, Free>, MutexGuard<'static, Vec<Arc<Log>>>);

    thread_local! {
        // Without a destructor, so that a fork may come as late in a thread's life as it likes.
        static HELD: Cell<Option<ManuallyDrop<Held>>> = const { Cell::new(None) };
    }

    pub(super) extern "C" fn before() {
        let (free, logs) = SHARED.lock_for_fork();
        HELD.set(Some(ManuallyDrop::new((helper::lock_for_fork(), free, logs))));
    }

    pub(super) extern "C" fn in_parent() {
        drop(HELD.take().map(ManuallyDrop::into_inner));
    }

    pub(super) extern "C" fn in_child() {
        in_parent();
        keep_only_this_thread();
    }
}
