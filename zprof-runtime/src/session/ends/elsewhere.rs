//! Systems that say nothing of the end of a process.

use std::io::{self, Write as _};

use super::super::exit;

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this system does not say when a process ends")
}

/// Sessions cannot be finished at exit here.
pub(in super::super) fn watch_exit() -> io::Result<()> {
    Err(unsupported())
}

/// Sessions cannot be finished at the end of the process here.
pub(in super::super) fn watch() -> io::Result<()> {
    Err(unsupported())
}

/// Whether the end of this process is watched.
pub(in super::super) fn is_watched() -> bool {
    false
}

/// Finishes the session that the environment asked for, of which there is none, because [`watch`] fails.
pub(in super::super) fn finish_now() {
    exit::finish_env(None);
}

/// Writes to standard error, if that can be.
pub(in super::super) fn say(text: &str) -> bool {
    io::stderr().write_all(crate::display::line(text).as_bytes()).is_ok()
}
