//! Warnings: to the program's logger, or to standard error where there is none.

use std::fmt::Display;
use std::io::{self, Write};

/// Says a warning.
pub(crate) fn warn(message: impl Display) {
    if log::max_level() == log::LevelFilter::Off {
        // A warning that cannot be told must not end the program, as `eprintln` would.
        let _ = writeln!(io::stderr(), "zprof: warning: {message}");
    } else {
        log::warn!("{message}");
    }
}
