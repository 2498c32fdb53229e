//! Runs a part of `tests/src/bin/actor.rs` in a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command that plays a part; its folder comes first among the arguments.
pub(crate) fn actor(part: &str, folder: &Path, further: &[&str]) -> Command {
    let mut command = zprof_tests::program(env!("CARGO_BIN_EXE_actor"));
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

/// Builds the actor with optimisation, where that is not done yet, and gives its path.
pub(crate) fn optimised() -> PathBuf {
    let arguments =
        ["build", "--quiet", "--release", "-p", "zprof-tests", "--bin", "actor", "--message-format", "json"];
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("cargo can be run");
    made(&output)
}

/// The program that cargo says, message by message, to have made.
pub(crate) fn made(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = str::from_utf8(&output.stdout).expect("cargo writes UTF-8");
    let path = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).expect("cargo writes one message a line");
        message["executable"].as_str().map(PathBuf::from)
    });
    path.unwrap_or_else(|| panic!("cargo made no program: {messages}"))
}
