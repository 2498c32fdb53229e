//! Where there are no signals: Windows tells of a regular end.

use std::io::{self, Write as _};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::exit;

/// The process whose end is watched, or 0.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Sees to it that the session is finished before the process ends.
pub(in super::super) fn watch() -> io::Result<()> {
    if OWNER.swap(process::id(), Ordering::Relaxed) == process::id() {
        return Ok(());
    }
    register()
}

#[cfg(windows)]
fn register() -> io::Result<()> {
    extern "C" fn at_exit() {
        finish_now();
    }
    // SAFETY: the function never unwinds and lives as long as the program.
    let status = unsafe { libc::atexit(at_exit) };
    if status == 0 { Ok(()) } else { Err(io::Error::other("atexit takes no more functions")) }
}

#[cfg(not(windows))]
fn register() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not tell of it"))
}

/// Whether the end of this process is watched.
pub(in super::super) fn is_watched() -> bool {
    OWNER.load(Ordering::Relaxed) == process::id()
}

/// Finishes the session: the process is about to end.
pub(in super::super) fn finish_now() {
    if is_watched() {
        exit::finish(None);
    }
}

/// Writes to standard error, if that can be.
pub(in super::super) fn say(text: &str) -> bool {
    io::stderr().write_all(crate::display::line(text).as_bytes()).is_ok()
}
