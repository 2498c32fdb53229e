//! Children of forks, and scopes in the handlers that a program has for its forks.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;

use zprof::{Platform, ProfilerOptions};

type Outcome = Result<(), Box<dyn Error>>;

/// Runs `body` in the child of a fork and waits for its end.
///
/// # Errors
///
/// Where there is no child, or it fails.
#[allow(unsafe_code)] // there is no safe fork
pub fn in_child(body: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: the child only runs code that tolerates a fork, which is what the test is about.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            // A child that hangs shall not take the test with it.
            // SAFETY: alarm only sets a timer.
            unsafe { libc::alarm(60) };
            let outcome =
                catch_unwind(AssertUnwindSafe(body)).map_err(|_| "a panic".into()).and_then(|outcome| outcome);
            if let Err(error) = &outcome {
                eprintln!("child: {error}");
            }
            // SAFETY: ends the process at once, without the destructors, which belong to the parent.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer is to a live integer.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            if waited != child || status != 0 {
                return Err(format!("the child ended with status {status:#x}").into());
            }
            Ok(())
        }
    }
}

/// Forks from threads without a scope so far, in a program whose own handlers of forks have scopes. These handlers were there
/// before the recorder's, so that they run while it holds its locks.
///
/// # Errors
///
/// Where a session fails, or has none.
///
/// # Panics
///
/// Where scopes are neither recorded nor counted.
#[allow(unsafe_code)] // there is no safe pthread_atfork
pub fn handlers(folder: &Path) -> Outcome {
    extern "C" fn handler() {
        for n in 0..5000_u32 {
            zprof::scope!("in handler", n, {});
        }
    }
    // SAFETY: the function takes nothing, never unwinds, and lives as long as the program.
    assert_eq!(unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) }, 0);
    // SAFETY: alarm only sets a timer. A fork that hangs shall not take the test with it.
    unsafe { libc::alarm(60) };
    let options = ProfilerOptions::default().directives("zprof_tests=verbose,other=off");
    let mut profiler = Platform::host().profiler(options.repository_path(folder))?;
    profiler.start()?;
    let fork = || {
        in_child(|| {
            for n in 0..5000_u32 {
                zprof::scope!("in child", n, {});
            }
            Ok(())
        })
        .is_ok()
    };
    let forked = (0..4).map(|_| thread::spawn(fork).join()).filter(|forked| matches!(forked, Ok(true))).count();
    assert_eq!(forked, 4);
    let profile = profiler.stop()?.ok_or("no session")?;
    // Before and after each fork.
    assert_eq!(profile.scopes + profile.dropped_scopes, 4 * 2 * 5000);
    Ok(())
}

/// Makes a child that no handler of forks knows of, in a session with rings. It records, and is refused a stop, a snapshot and a
/// start; the parent's profile is whole.
///
/// # Errors
///
/// Where a session fails, or the child ends otherwise.
///
/// # Panics
///
/// Where the child is not refused, or the parent lacks scopes.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)] // there is no safe clone
pub fn without_handlers(folder: &Path) -> Outcome {
    let options = ProfilerOptions::default().repository_path(folder).keep_last_bytes(1 << 20);
    let mut profiler = Platform::host().profiler(options)?;
    profiler.start()?;
    zprof::scope!("before", {});
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: without a stack of its own the child goes on as after a fork; it has this thread alone.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, none, none, none, none) };
    if child == 0 {
        for n in 0..200_000_u32 {
            zprof::scope!("in child", n, {});
        }
        let refused = |error: &zprof::Error| error.kind() == zprof::ErrorKind::Unsupported;
        let snapshot = zprof::snapshot().is_err_and(|error| refused(&error));
        let stop = profiler.stop().is_err_and(|error| refused(&error));
        let start = profiler.start().is_err_and(|error| refused(&error));
        drop(profiler);
        // SAFETY: ends the process at once, without the destructors, which belong to the parent.
        unsafe { libc::_exit(if snapshot && stop && start { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    let waited = unsafe { libc::waitpid(i32::try_from(child)?, &raw mut status, 0) };
    if libc::c_long::from(waited) != child || status != 0 {
        return Err(format!("the child {child} ended with status {status:#x}").into());
    }
    zprof::scope!("after", {});
    let profile = profiler.stop()?.ok_or("zprof records nothing")?;
    assert_eq!((profile.scopes, profile.dropped_scopes), (2, 0));
    Ok(())
}
