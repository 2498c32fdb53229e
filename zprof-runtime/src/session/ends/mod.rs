//! The ends of a process: each is caught where the system lets it, and lets the session be finished first.

#[cfg(unix)]
#[allow(unsafe_code)] // catches signals
mod unix;
#[cfg(unix)]
use self::unix as system;

#[cfg(not(unix))]
#[allow(unsafe_code)] // gives a function to atexit
mod elsewhere;
#[cfg(not(unix))]
use self::elsewhere as system;

pub(super) use system::{finish_now, is_watched, say, watch};
