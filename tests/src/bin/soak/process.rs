//! The process as the system sees it: its memory and its children.

use std::error::Error;
use std::fs;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Bytes of this process that are in memory, after the allocator has given back what it keeps for later.
pub(crate) fn resident_bytes() -> Outcome<u64> {
    // SAFETY: the function may be called at any time.
    unsafe { libc::malloc_trim(0) };
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).ok_or("statm has two numbers")?.parse()?;
    Ok(pages * 4096)
}

/// Runs `body` in a forked child, and gives its outcome here.
pub(crate) fn fork(body: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: the child runs `body` and ends by `_exit`; the allocator and the recorder can be used after a fork.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            let outcome = body();
            if let Err(error) = &outcome {
                eprintln!("in the child: {error}");
            }
            // SAFETY: ends the process at once, without the parent's exit functions.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is this process's own, and `status` outlives the call.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            if waited != child || status != 0 {
                return Err(format!("the child ended with status {status}").into());
            }
            Ok(())
        }
    }
}
