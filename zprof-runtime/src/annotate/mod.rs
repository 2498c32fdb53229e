//! Live annotations: tools that are attached to the process see each scope as it opens and closes.
//!
//! A *backend* speaks to one kind of tool. Which backends there are is a matter of features; which of them have a tool
//! is found out at run time, by the first scope or session of the process, and kept in the state word that every scope
//! reads. While no tool is attached, nothing here is called again.

mod line;
#[cfg(feature = "nvtx")]
#[allow(unsafe_code)] // calls NVTX
mod nvtx;
mod probe;
#[cfg(all(feature = "roctx", target_os = "linux"))]
#[allow(unsafe_code)] // calls ROCTx
mod roctx;
#[cfg(any(all(feature = "signpost", target_os = "macos"), test))]
mod signpost;
mod thread;

use std::ffi::{CStr, c_char};

pub(crate) use line::Line;
pub(crate) use probe::{Asker, probe};
#[cfg(unix)]
pub(crate) use probe::{Held, hold};
pub(crate) use thread::{mark, pop, push, rename};

use crate::site::Site;

/// One kind of tool. A backend has no state of its own that a thread could find half made: its methods may be called
/// from any thread, and after [`attach`](Backend::attach) has said yes they never fail.
pub(crate) trait Backend: Sync {
    /// Whether a tool may be there whose library would have to be loaded first. Looks only, and takes no lock that a
    /// library's constructor could be run under.
    fn may_load(&self) -> bool;

    /// Whether a tool listens; looks for it, and loads what is needed for that.
    fn attach(&self) -> bool;

    /// A scope opens on this thread. `id` is its own among the open scopes of the process.
    fn push(&self, label: Label<'_>, id: u64);

    /// The innermost scope of this thread closes: the one that was pushed as `id`.
    fn pop(&self, id: u64);

    /// Something happens on this thread, now.
    fn mark(&self, label: Label<'_>);

    /// What the calling thread is called.
    fn name_thread(&self, tid: u64, name: &CStr);
}

/// The backends that are compiled in. The place of each is its bit in a [`Seen`].
const BACKENDS: &[&dyn Backend] = &[
    #[cfg(feature = "nvtx")]
    &nvtx::Nvtx,
    #[cfg(all(feature = "roctx", target_os = "linux"))]
    &roctx::Roctx,
    #[cfg(all(feature = "signpost", target_os = "macos"))]
    &signpost::OS,
];

/// Whether there is any backend, so that the first scope must ask.
pub(crate) const ANY: bool = !BACKENDS.is_empty();

/// A set of backends, a bit each.
pub(crate) type Seen = u8;

/// Calls `with` for each backend of a set. The set is small and known, so that this unrolls to direct calls.
#[inline(always)]
fn each(seen: Seen, mut with: impl FnMut(&'static dyn Backend)) {
    let mut place = 0;
    while place < BACKENDS.len() {
        if seen >> place & 1 != 0 {
            with(BACKENDS[place]);
        }
        place += 1;
    }
}

/// In the child of a fork: what other threads of the parent were at is not.
#[cfg(unix)]
pub(crate) fn after_fork() {
    probe::after_fork();
    thread::after_fork();
}

/// Returns when nothing else is being loaded or unloaded.
fn wait_for_loader() {
    #[cfg(any(feature = "nvtx", feature = "roctx"))]
    crate::dylib::wait();
}

/// What a tool shows of a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    site: &'static Site,
    /// The label with this scope's values; `None` where the site's own is the whole.
    written: Option<&'a Line>,
}

#[allow(dead_code)] // which of these are used is a matter of features
impl Label<'_> {
    /// The text, for C: it ends at a NUL, and stays as long as the label.
    #[inline]
    fn as_ptr(&self) -> *const c_char {
        match self.written {
            Some(line) => line.as_ptr(),
            // The macros put a NUL behind the label.
            None if self.site.label.ends_with('\0') => self.site.label.as_ptr().cast(),
            None => c"".as_ptr(),
        }
    }
}
