//! Forks: a child has one thread, and none of the locks that another thread of the parent held at that moment.

use std::io;
use std::sync::MutexGuard;

use super::lock::Mutex;

/// The id of the process whose recorder this is, once forks are watched: of this process, unless it was forked without the
/// handlers below.
#[cfg(unix)]
static HOME: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Held by whoever has a lock of a session.
static GATE: Mutex<()> = Mutex::new(());

/// Takes the gate: no fork comes until it is dropped.
pub(crate) fn gate() -> MutexGuard<'static, ()> {
    // Also before the first session, when a snapshot is asked for in vain. Where forks cannot be watched, no session starts.
    let _ = watch();
    GATE.lock()
}

/// Sees to it that the recorder survives a fork; does so once.
///
/// A fork that comes while another thread is at it leaves a child in which nobody goes on with it: the child does it anew.
#[cfg(unix)]
pub(crate) fn watch() -> io::Result<()> {
    use std::process;
    use std::sync::atomic::Ordering;
    use std::thread;

    use crate::atomic::AtomicU64;

    /// 0, then this with the id of the process that is at it, then the other with the status.
    static WATCHING: AtomicU64 = AtomicU64::new(0);
    const AT_IT: u64 = 1 << 32;
    const DONE: u64 = 2 << 32;

    loop {
        // Acquire pairs with the Release below: the hooks are in place.
        let state = WATCHING.load(Ordering::Acquire);
        if state & DONE != 0 {
            let status = i32::try_from(state & !DONE).unwrap_or(libc::ENOMEM);
            return if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) };
        }
        let own = AT_IT | u64::from(process::id());
        if state == own {
            thread::yield_now();
        } else if WATCHING.compare_exchange(state, own, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // SAFETY: the three functions are `extern "C"`, never unwind, and live as long as the program.
            let status =
                unsafe { libc::pthread_atfork(Some(hooks::before), Some(hooks::in_parent), Some(hooks::in_child)) };
            if status == 0 {
                HOME.store(process::id(), Ordering::Relaxed);
            }
            WATCHING.store(DONE | u64::from(status.unsigned_abs()), Ordering::Release);
        }
    }
}

/// Whether this process was forked without the handlers of forks, as by `_Fork` or `clone`. The recorder's memory was wiped in it
/// then, and nobody has told the recorder: it must neither start nor stop a session, nor give memory back.
#[cfg(unix)]
pub(crate) fn is_astray() -> bool {
    use std::sync::atomic::Ordering;

    // Relaxed: a process asks for its own id, which it stored itself, or which its parent had stored before the fork.
    let home = HOME.load(Ordering::Relaxed);
    home != 0 && home != std::process::id()
}

/// Nothing forks here.
#[cfg(not(unix))]
pub(crate) fn is_astray() -> bool {
    false
}

/// Whether the calling thread has the recorder's locks because it forks. Other libraries' handlers of `pthread_atfork` run
/// between ours and may have scopes: these must not wait for a lock, which their own thread has.
#[cfg(unix)]
pub(crate) fn is_forking() -> bool {
    hooks::FORKING.get()
}

/// Nothing forks here.
#[cfg(not(unix))]
pub(crate) fn is_forking() -> bool {
    false
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

    use crate::record::inherit::Heir;
    use crate::record::{helper, registry, thread};
    use crate::{annotate, bridge};

    /// What the forking thread holds over the fork: all locks of the bridges and the recorder, and that of the look for tools.
    type Locks = (bridge::held::Held, MutexGuard<'static, ()>, registry::Held, helper::Held, annotate::Held);

    struct Held {
        locks: Locks,
        heir: Option<Heir>,
    }

    std::thread_local! {
        /// Without a destructor, so that a fork may come from a thread's last breath.
        static HELD: Cell<Option<ManuallyDrop<Held>>> = const { Cell::new(None) };
        /// Whether the thread has the locks, or is about to have them.
        pub(super) static FORKING: Cell<bool> = const { Cell::new(false) };
    }

    // Each of these may be called twice, where a process and its child have both asked for it. The second call does nothing.

    pub(super) extern "C" fn before() {
        if let Some(held) = HELD.take() {
            HELD.set(Some(held));
            return;
        }
        FORKING.set(true);
        let locks = (bridge::held::hold(), super::GATE.lock(), thread::SHARED.hold(), helper::hold(), annotate::hold());
        // With the locks, so that nobody else looks at the thread's chunks.
        HELD.set(Some(ManuallyDrop::new(Held { locks, heir: thread::heir() })));
    }

    pub(super) extern "C" fn in_parent() {
        drop(HELD.take().map(ManuallyDrop::into_inner));
        FORKING.set(false);
    }

    pub(super) extern "C" fn in_child() {
        super::HOME.store(std::process::id(), std::sync::atomic::Ordering::Relaxed);
        let Some(Held { locks, heir }) = HELD.take().map(ManuallyDrop::into_inner) else { return };
        drop(locks);
        FORKING.set(false);
        thread::keep_only_this_thread(heir);
        annotate::after_fork();
    }
}
