//! Warnings: to the program's logger, or to standard error where there is none that takes them.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{self, Write};

use crate::display::printable;

thread_local! {
    static SAYING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is saying a warning: what its logger does is to wait for nothing of ours.
pub(crate) fn is_saying() -> bool {
    SAYING.get()
}

/// Says a warning.
pub(crate) fn warn(message: impl Display) {
    let before = SAYING.replace(true);
    say(message);
    SAYING.set(before);
}

fn say(message: impl Display) {
    // It quotes names of threads, scopes and files, which others chose.
    let message = message.to_string();
    let message = printable(&message);
    // A logger that takes no warnings is none here.
    if log::max_level() < log::LevelFilter::Warn {
        // A warning that cannot be told must not end the program, as `eprintln` would.
        let _ = writeln!(io::stderr(), "zprof: warning: {message}");
    } else {
        log::warn!("{message}");
    }
}
