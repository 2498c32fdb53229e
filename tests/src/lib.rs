//! Helpers of the test suite.

pub mod annotations;
pub mod blocks;
pub mod canonical;
#[allow(unsafe_code)] // calls functions of the fake
pub mod fake;
#[cfg(unix)]
pub mod forked;
#[cfg(unix)]
pub mod interrupted;
pub mod make;
pub mod marks;
pub mod oracle;
pub mod profile;
#[allow(unsafe_code)] // is an allocator
pub mod starved;
pub mod viewers;

pub use canonical::{Canonical, canonical};

use std::ffi::OsStr;
use std::process::Command;

/// A command that runs a program of the tests' own target. Where this machine cannot run it, as with one for another
/// processor, `TEST_RUNNER` has the words of the command that can.
#[must_use]
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let runner = std::env::var("TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else { return Command::new(path) };
    let mut command = Command::new(first);
    command.args(words).arg(path);
    command
}
