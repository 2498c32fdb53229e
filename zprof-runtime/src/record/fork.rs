//! Forks: a child has one thread, and none of the locks that another thread of the parent held at that moment.

use std::io;

/// Sees to it that the recorder survives a fork; does so once.
#[cfg(unix)]
pub(crate) fn watch() -> io::Result<()> {
    use std::sync::OnceLock;

    static WATCHING: OnceLock<i32> = OnceLock::new();
    let status = *WATCHING.get_or_init(|| {
        // SAFETY: the three functions are `extern "C"`, never unwind, and live as long as the program.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) }
    });
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Nothing forks here.
#[cfg(not(unix))]
pub(crate) fn watch() -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
extern "C" fn before() {
    super::thread::SHARED.lock_for_fork();
    super::helper::lock_for_fork();
}

#[cfg(unix)]
extern "C" fn in_parent() {
    super::helper::unlock_after_fork();
    super::thread::SHARED.unlock_after_fork();
}

#[cfg(unix)]
extern "C" fn in_child() {
    super::helper::unlock_after_fork();
    super::thread::SHARED.unlock_after_fork();
    super::thread::keep_only_this_thread();
}
