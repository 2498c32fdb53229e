//! The ends of a process under Windows: exit, as the C library tells it, and what the console sends.
//!
//! `std::process::exit` calls `ExitProcess`. It ends all other threads first, wherever they are, and tells the program
//! afterwards. At that time a lock that another thread held is locked for ever, so nothing can be written safely. A line on
//! standard error then says that the profile is lost.

use std::ffi::c_void;
use std::io::{self, Write as _};
use std::process;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::snapshot::Inside;
use super::super::{exit, ongoing};
use crate::record::recording::keep_out;

/// The process whose end is watched, or 0.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Held by whoever finishes the session, so that another end of the process waits for the files.
static FINISHING: Mutex<()> = Mutex::new(());

/// Events of the console: its window is closed, the user logs off, the system shuts down. The process ends within 5 s of
/// the first one, whatever its handlers do.
const CLOSE: u32 = 2;

/// How long a plugin may take when the system ends the process soon.
const CLOSE_PLUGIN_LIMIT: Duration = Duration::from_secs(2);

#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetConsoleCtrlHandler(handler: Option<unsafe extern "system" fn(u32) -> i32>, add: i32) -> i32;
    fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut *mut c_void) -> i32;
    fn GetStdHandle(which: u32) -> *mut c_void;
    fn WriteFile(file: *mut c_void, bytes: *const u8, len: u32, written: *mut u32, overlapped: *mut c_void) -> i32;
}

/// Sees to it that the session is finished before the process ends.
pub(in super::super) fn watch() -> io::Result<()> {
    super::watch_exit()?;
    if OWNER.swap(process::id(), Ordering::Relaxed) == process::id() {
        return Ok(());
    }
    // SAFETY: the function never unwinds, and its code stays loaded until the process ends.
    let added = unsafe { SetConsoleCtrlHandler(Some(on_event), 1) };
    // A process without a console is sent no events.
    if added == 0 {
        log::debug!("events of the console are not caught: {}", io::Error::last_os_error());
    }
    Ok(())
}

/// Finishes the session, and leaves it to the next handler what becomes of the process. The system calls this in a thread
/// of its own.
unsafe extern "system" fn on_event(event: u32) -> i32 {
    const NEXT_HANDLER: i32 = 0;
    keep_out();
    finish_within((event >= CLOSE).then_some(CLOSE_PLUGIN_LIMIT));
    NEXT_HANDLER
}

/// Whether the end of this process is watched.
pub(in super::super) fn is_watched() -> bool {
    OWNER.load(Ordering::Relaxed) == process::id()
}

/// Finishes the session: the process is about to end.
pub(in super::super) fn finish_now() {
    finish_within(None);
}

fn finish_within(limit: Option<Duration>) {
    // A thread that is at work on the session must not wait for itself.
    if is_watched() && !Inside::is_here() {
        let _turn = FINISHING.lock().unwrap_or_else(PoisonError::into_inner);
        exit::finish_env(limit);
    }
}

/// Keeps the executable or library that holds this code loaded until the process ends.
pub(super) fn keep_loaded() {
    const PIN: u32 = 1;
    const FROM_ADDRESS: u32 = 4;
    let mut module = null_mut();
    let address: *const c_void = (&raw const OWNER).cast();
    // SAFETY: with FROM_ADDRESS the name is an address in a module, and the pointer for the answer is to a live variable.
    // Where this fails, nothing is changed.
    let _ = unsafe { GetModuleHandleExW(PIN | FROM_ADDRESS, address.cast(), &raw mut module) };
}

/// Writes to standard error, if that can be.
pub(in super::super) fn say(text: &str) -> bool {
    io::stderr().write_all(text.as_bytes()).is_ok()
}

/// Called by the loader: see the module's head. The standard library has its own callback in the same section.
#[used]
#[unsafe(link_section = ".CRT$XLB")]
static AT_DETACH: unsafe extern "system" fn(*mut c_void, u32, *mut c_void) = at_detach;

unsafe extern "system" fn at_detach(_module: *mut c_void, reason: u32, process_ends: *mut c_void) {
    const PROCESS_DETACH: u32 = 0;
    if reason != PROCESS_DETACH || process_ends.is_null() || !(exit::runs_env() || ongoing::are_left()) {
        return;
    }
    // Nothing here takes a lock.
    let line = b"zprof: no profile: the process exits, and Windows has ended the thread that would write it; \
                 `std::process::exit` does this: call `zprof::finish` or stop the profiler before\n";
    const STDERR: u32 = 0u32.wrapping_sub(12);
    // SAFETY: the function has no conditions.
    let stderr = unsafe { GetStdHandle(STDERR) };
    let len = u32::try_from(line.len()).unwrap_or(0);
    let mut written = 0;
    // SAFETY: bytes and length are those of the line, and the pointer for the answer is to a live variable. A handle that
    // is not valid is an error, which changes nothing.
    let _ = unsafe { WriteFile(stderr, line.as_ptr(), len, &raw mut written, null_mut()) };
}
