//! The C API of zprof: what a program does in C, C++ and Zig, recorded on one timeline with its Rust parts.
//!
//! The header is `include/zprof.h`; `docs/c.md` in the repository is the chapter that goes with it. There are two ways to
//! use this crate:
//!
//! - A program in C links the shared or the static library. `cargo build --release -p zprof-c` makes both, and
//!   `scripts/install-c` puts them, the header and a file for pkg-config where compilers find them.
//! - A Rust program with parts in C depends on this crate beside `zprof`, and says so once, in `main.rs`:
//!
//!   ```
//!   use zprof_c as _;
//!   ```
//!
//!   Its C parts include the header and call what is linked into the program: both languages record into one recorder, and
//!   whoever starts the session gets the scopes of both. Without that line the compiler leaves the crate out, and the linker
//!   misses `zprof_begin`.
//!
//! There is one recorder for each copy of zprof in a process. A Rust program that loads a `libzprof.so` besides has two, and
//! neither knows of the other's scopes.
//!
//! Nothing panics across the boundary, and nothing here is meant to be called from Rust but [`flow_number`].

#[cfg(not(target_has_atomic = "64"))]
compile_error!("the header of zprof-c reads a 64-bit atomic, and this target has none; leave zprof-c out there");

#[allow(unsafe_code)] // reads what C points to
pub mod abi;
#[allow(unsafe_code)] // as above
mod names;
mod open;
mod recorder;
#[allow(unsafe_code)] // as above
mod scope;
#[allow(unsafe_code)] // as above
mod session;
#[allow(unsafe_code)] // as above
mod site;
#[allow(unsafe_code)] // calls the system
mod thread;

use std::ffi::c_char;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

pub use scope::{
    zprof_begin, zprof_begin_named, zprof_counter, zprof_end, zprof_flow, zprof_instant, zprof_note, zprof_state,
    zprof_thread_name,
};
pub use session::{
    Handle, zprof_init_from_env, zprof_last_error, zprof_profiler_free, zprof_profiler_is_running, zprof_profiler_new,
    zprof_profiler_snapshot, zprof_profiler_start, zprof_profiler_stop,
};
pub use site::Variant;

/// The number of a flow of the Rust part, for a C part to name in `ZPROF_SENDS` or `ZPROF_RECEIVES`.
///
/// ```
/// let flow = zprof_runtime::flow(); // in programs, `zprof::flow()`
/// assert_ne!(zprof_c::flow_number(flow), 0);
/// ```
#[must_use]
pub fn flow_number(flow: recorder::Flow) -> u64 {
    recorder::number_of(flow)
}

/// The version of this library.
#[allow(unsafe_code)] // its name is C's
#[unsafe(no_mangle)]
pub extern "C" fn zprof_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Whether the recorder is compiled in.
#[allow(unsafe_code)] // its name is C's
#[unsafe(no_mangle)]
pub extern "C" fn zprof_enabled() -> bool {
    recorder::ENABLED
}

/// Says once what was lost: to the program's logger, or to standard error where there is none, as in programs that are all C.
#[cold]
fn warn_once(told: &AtomicBool, message: impl FnOnce() -> String) {
    if told.swap(true, Ordering::Relaxed) {
        return;
    }
    if log::max_level() == log::LevelFilter::Off {
        // A warning that cannot be told must not end the program, as `eprintln` would.
        let _ = writeln!(io::stderr(), "zprof: warning: {}", message());
    } else {
        log::warn!("{}", message());
    }
}

/// Calls `call`; where that panics, which would be a fault of ours or of the program's logger, C gets `otherwise`.
#[inline]
fn shielded<R>(otherwise: R, call: impl FnOnce() -> R) -> R {
    // What is left half done belongs to the recorder or to a profiler, which are made to be dropped at any point.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}
