//! What the system calls threads, for debuggers.

#[cfg(any(target_os = "macos", target_os = "ios"))]
use std::ffi::CString;

/// Names the calling thread; false where that cannot be. The main thread keeps its name, which is the program's.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn name(name: &str) -> bool {
    // The kernel keeps 15 bytes and refuses more.
    const MOST: usize = 15;
    let mut end = name.len().min(MOST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = [0_u8; MOST + 1];
    short[..end].copy_from_slice(&name.as_bytes()[..end]);
    // SAFETY: it has no arguments and does not fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    if u32::try_from(tid) == Ok(std::process::id()) {
        return false;
    }
    // SAFETY: it has no arguments and does not fail.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the thread is this one, and the name ends at a NUL.
    unsafe { libc::pthread_setname_np(this, short.as_ptr().cast()) == 0 }
}

/// Names the calling thread; false where that cannot be.
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub(crate) fn name(name: &str) -> bool {
    // SAFETY: it has no arguments and does not fail.
    if unsafe { libc::pthread_main_np() } == 1 {
        return false;
    }
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name ends at a NUL.
    unsafe { libc::pthread_setname_np(name.as_ptr()) == 0 }
}

/// Says that threads cannot be named here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios")))]
pub(crate) fn name(_name: &str) -> bool {
    false
}
