//! Runs a part of `tests/src/bin/actor.rs` in a process of its own.

use std::path::Path;
use std::process::{Command, Output};

/// The command that plays a part; its folder comes first among the arguments.
pub(crate) fn actor(part: &str, folder: &Path, further: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_actor"));
    command.arg(part).arg(folder).args(further);
    command
}

/// Plays a part to its end, which must be a good one: what it wrote to standard output and to standard error.
pub(crate) fn play(part: &str, folder: &Path) -> (String, String) {
    let Output { status, stdout, stderr } = actor(part, folder, &[]).output().expect("the actor can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "`{part}` ended with {status}\n{stdout}\n{stderr}");
    (stdout.into_owned(), stderr.into_owned())
}
