//! Sessions, snapshots, forks and ends of threads at random, with failing allocations and files: the short form of the program
//! `soak`. `scripts/test-long` runs the long one.

use std::process::Command;

/// Runs some rounds. The program itself checks that numbers add up, files are sound, nothing is left behind, and memory is
/// back.
fn soak(rounds: u32, faults: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    let output = command.arg(folder.path()).args([&rounds.to_string(), "1", faults]).output().expect("it can be run");
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{faults}: {}\n{told}{wrong}", output.status);
    assert!(told.starts_with(&format!("{rounds} rounds: ")), "{told}");
    println!("{told}");
}

#[test]
fn a_soak_without_faults_adds_up() {
    soak(20, "none");
}

#[test]
fn a_soak_with_failing_allocations_and_files_adds_up() {
    soak(30, "all");
}
