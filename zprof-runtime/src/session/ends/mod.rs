//! The ends of a process: each is caught where the system lets it, and lets the sessions be finished first.
//!
//! Each system has two kinds of watch. [`watch_exit`] is for every session: it asks the C library to call a function at exit.
//! [`watch`] is for the session that the environment asked for: it also catches signals, or what the system has in their place.

#[cfg(unix)]
#[allow(unsafe_code)] // catches signals
mod unix;
#[cfg(unix)]
use self::unix as system;

#[cfg(windows)]
#[allow(unsafe_code)] // catches what the console sends
mod windows;
#[cfg(windows)]
use self::windows as system;

#[cfg(not(any(unix, windows)))]
mod elsewhere;
#[cfg(not(any(unix, windows)))]
use self::elsewhere as system;

#[cfg(any(unix, windows))]
#[allow(unsafe_code)] // gives a function to atexit
mod at_exit;
#[cfg(any(unix, windows))]
pub(super) use self::at_exit::watch_exit;
#[cfg(not(any(unix, windows)))]
pub(super) use self::elsewhere::watch_exit;

pub(super) use self::system::{finish_now, is_watched, say, watch};
