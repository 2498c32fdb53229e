//! Too little memory is an error or a counted loss, and never the end of the program.

use std::path::Path;
use std::process::{Command, Output};

use zprof_tests::profile::{Stats, read_file, stats};

/// Plays a part of `tests/src/bin/starved.rs`, which must end well: what it printed.
fn play(part: &str, folder: &Path, number: &str) -> String {
    run(&mut Command::new(env!("CARGO_BIN_EXE_starved")), part, folder, number)
}

/// Plays a part in a process whose environment asks for a profile.
fn play_profiled(part: &str, profile: &Path, number: &str) -> String {
    let folder = profile.parent().expect("a file is in a folder");
    // The standard library lists all variables, and ends the program where it finds no memory for the list.
    run(Command::new(env!("CARGO_BIN_EXE_starved")).env_clear().env("ZPROF", profile), part, folder, number)
}

fn run(command: &mut Command, part: &str, folder: &Path, number: &str) -> String {
    // Where the program is about to end for want of memory, the standard library would wait for itself.
    command.env_remove("RUST_BACKTRACE");
    let Output { status, stdout, stderr } =
        command.arg(part).arg(folder).arg(number).output().expect("the program can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "`{part} {number}` ended with {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn any_large_allocation_may_fail() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for part in ["one-fails", "all-fail"] {
        // All is kept; and a ring of a few chunks.
        for keep in ["0", "40000"] {
            let rounds = play(part, folder.path(), keep);
            let rounds: u64 = rounds.trim_end().parse().expect("a number");
            assert!(rounds > 50, "{part}: {rounds} allocations are too few to be all");
        }
    }
}

#[test]
fn an_allocator_that_opens_scopes_waits_for_no_lock_of_its_own_thread() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let scopes = play("scoped", folder.path(), "5");
    assert!(scopes.trim_end().parse::<u64>().expect("a number") > 0);
}

#[test]
fn scopes_that_the_recorder_causes_itself_are_dropped_for_that_reason_and_no_line_is_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let told = play("reentered", folder.path(), "100000");
    let mut lines = told.lines();
    let dropped: u64 = lines.next().and_then(|line| line.strip_suffix(" dropped")?.parse().ok()).expect("a number");
    assert!(dropped > 0, "the recorder allocates for its rings");
    let expected = format!(
        "{dropped} scopes were dropped: they came from code that the recorder had called on the same thread, such as the program's \
         allocator, and it records one thing at a time; a larger buffer changes nothing"
    );
    assert_eq!(lines.collect::<Vec<_>>(), [expected]);
    let (lines, ..) = read_file(&folder.path().join("plugins/profile/profiling/profiling.xplane.pb"));
    assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["main"]);
}

#[test]
fn a_fork_within_the_recorder_leaves_a_child_that_records() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("forks", folder.path(), "10000000");
    let after: Vec<Stats> = (0..3000).map(|n| stats([("n", i64::from(n).into())])).collect();
    for file in ["parent.pb", "child.pb"] {
        let (lines, ..) = read_file(&folder.path().join(file));
        let [main] = lines.as_slice() else { panic!("{file}: {lines:?}") };
        let told: Vec<_> = main.events.iter().filter(|event| event.name == "after").map(|event| &event.stats).collect();
        assert!(told.iter().copied().eq(&after), "{file}: {} scopes", told.len());
        assert!(main.events.iter().any(|event| event.name == "open"), "{file}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_limited_address_space_never_ends_the_program() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut kib = 0;
    let mut last = String::new();
    while kib <= 256 << 10 {
        last = play("address-space", folder.path(), &kib.to_string());
        kib += (kib / 4).max(256);
    }
    assert!(last.ends_with(" scopes, 0 dropped\n"), "{last}");
}

#[test]
fn any_large_allocation_of_the_environments_session_may_fail() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("profile.xplane.pb");
    for part in ["environment-one-fails", "environment-all-fail"] {
        let mut without = 0;
        for first in 1_u64.. {
            let seen: u64 = play_profiled(part, &file, &first.to_string()).trim_end().parse().expect("a number");
            let is_there = file.exists();
            if is_there {
                // Whole, whatever failed.
                let _whole = read_file(&file);
                std::fs::remove_file(&file).expect("it is ours");
            }
            without += u32::from(!is_there);
            if seen < first {
                assert!(is_there, "{part}: no profile though nothing failed");
                assert!(first > 50, "{part}: {first} allocations are too few to be all");
                break;
            }
        }
        assert!(without > 0, "{part}: no allocation was needed");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_limited_address_space_never_ends_a_program_that_the_environment_profiles() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("profile.xplane.pb");
    let mut kib = 0;
    let mut is_there = false;
    while kib <= 256 << 10 {
        play_profiled("environment-address-space", &file, &kib.to_string());
        is_there = file.exists();
        if is_there {
            let _whole = read_file(&file);
            std::fs::remove_file(&file).expect("it is ours");
        }
        kib += (kib / 4).max(256);
    }
    assert!(is_there, "there is no profile, though there is memory");
}
