//! Budgets at full size, by the optimised recorder: eight threads with a million scopes each.

use std::path::Path;
use std::process::Command;

use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;

use crate::actor::optimised;

const THREADS: u64 = 8;
const SCOPES: u64 = 1_000_000;

/// Runs a part of the actor and gives what it printed.
fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the actor can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?} ended with {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

/// Eight million scopes under a memory limit: how many were kept and dropped, and the most memory of it all in KiB.
fn eight_million(folder: &Path, limit: &str) -> [u64; 3] {
    let program = optimised();
    let folder = folder.to_str().expect("temporary folders have plain names");
    let (threads, scopes) = (THREADS.to_string(), SCOPES.to_string());
    let told = run(&program, &["many", folder, &threads, &scopes, limit]);
    let first = told.lines().next().expect("a line of numbers");
    let numbers: Vec<u64> = first.split(' ').map(|number| number.parse().expect("a number")).collect();
    let checked = run(&program, &["check", folder, &threads, &scopes]);
    assert_eq!(checked.trim_end(), numbers[0].to_string(), "the profile has what the session counted");
    numbers.try_into().expect("three numbers")
}

#[test]
fn every_one_of_eight_million_scopes_is_there() {
    const GIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let [kept, dropped, memory_kib] = eight_million(folder.path(), "2000000000");
    assert_eq!((kept, dropped), (THREADS * SCOPES, 0));
    // 40 bytes a scope are recorded, some 30 are written; records go as they are converted.
    assert!(memory_kib < GIB, "{memory_kib} KiB");
}

#[test]
fn under_the_default_limit_whole_scopes_are_dropped_and_counted() {
    const LIMIT: u64 = 256 << 20;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let [kept, dropped, _] = eight_million(folder.path(), &LIMIT.to_string());
    assert_eq!(kept + dropped, THREADS * SCOPES);
    // Eight chunks may be half full at the limit.
    let fit = LIMIT / 40;
    assert!((fit - fit / 50..=fit).contains(&kept), "{kept} of {fit} that fit");
    let path = folder.path().join("plugins/profile/profiling/profiling.xplane.pb");
    let space = XSpace::decode(std::fs::read(path).expect("it is there").as_slice()).expect("it is an XSpace");
    let counts = space.warnings.iter().map(|warning| {
        let (_, rest) = warning.split_once(" dropped ").unwrap_or_else(|| panic!("`{warning}`"));
        rest.split(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a number")
    });
    assert_eq!(counts.sum::<u64>(), dropped);
}
