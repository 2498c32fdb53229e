//! Exit: the C library calls a function of ours when the program returns from `main` or calls `exit`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::exit;
use super::system::keep_loaded;
use crate::record::gate;

/// Sees to it that sessions are finished when the process exits. Does so once for the process and its children.
pub(in super::super) fn watch_exit() -> io::Result<()> {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.load(Ordering::Acquire) {
        return Ok(());
    }
    // The C library would otherwise call a function that is no longer there. This asks the loader, whose lock another
    // thread may hold while it waits for the gate. So it comes before the gate is taken.
    keep_loaded();
    // With the gate no fork comes between the two steps, which would leave a child that registers once more.
    let _gate = gate();
    if !REGISTERED.load(Ordering::Relaxed) {
        // SAFETY: the function never unwinds, and its code stays loaded until the process ends.
        let status = unsafe { libc::atexit(at_exit) };
        if status != 0 {
            return Err(io::Error::other("atexit takes no more functions"));
        }
        REGISTERED.store(true, Ordering::Release);
    }
    Ok(())
}

extern "C" fn at_exit() {
    exit::finish();
}
