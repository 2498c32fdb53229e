//! Scopes in signal handlers: whatever a handler interrupts, its scopes are recorded or counted as dropped, and what it has
//! interrupted is recorded whole.

use crate::actor::play;

/// Plays a part, which checks by itself what it has recorded, and gives what it said.
fn played(part: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (told, _) = play(part, folder.path());
    println!("{told}");
    told
}

#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_at_every_instruction_record_or_count() {
    let told = played("steps");
    let counts = told.lines().filter(|line| line.contains(" recorded, ")).count();
    assert_eq!(counts, 2, "both sessions were counted: {told}");
    assert!(
        told.contains("scopes were dropped: a signal handler ran while the recorder was at work on the same thread; "),
        "{told}"
    );
    assert!(!told.contains("memory limit"), "memory was not short: {told}");
}

#[test]
fn a_storm_of_signals_loses_nothing_uncounted() {
    let told = played("storm");
    assert!(!told.contains("memory limit"), "memory was not short: {told}");
}

#[test]
fn sessions_start_and_stop_in_a_storm_of_signals() {
    played("restarts");
}
