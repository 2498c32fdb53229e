//! A session whose plugin brings a large space: what each phase of the stop takes, and how much memory.
//!
//! `device [MEGABYTES]`; 500 where nothing is said.

use std::{env, fs};

use zprof::{Platform, Profile, ProfilerOptions};
use zprof_tests::fake::{Fake, library};

fn main() {
    let megabytes = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(500);
    let space = (megabytes << 20) as f64;
    println!("{megabytes} MB, {} events", (megabytes << 20) / 64);
    for (name, further) in
        [("in order", ""), ("unsorted", "unsorted"), ("early, unsorted", "unsorted,shift-ns=-5000000000")]
    {
        let (profile, taken) = stop(megabytes, further);
        let phases: Vec<String> =
            profile.phases.iter().map(|(phase, took)| format!("{phase} {:.3} s", took.as_secs_f64())).collect();
        println!(
            "{name:<16} {}; {:.2} times the space at most, the plugin's own among it",
            phases.join(", "),
            taken as f64 / space
        );
    }
}

/// Stops a session that collects so much; gives the most memory that it took meanwhile.
fn stop(megabytes: usize, further: &str) -> (Profile, usize) {
    let _fake = Fake::new(&format!("megabytes={megabytes},{further}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let platform = Platform::load(library()).expect("the fake plugin");
    let mut profiler = platform.profiler(options).expect("good options");
    profiler.start().expect("no other session");
    (0..1000_u32).for_each(|index| {
        zprof::scope!("launch", index = index);
    });
    fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process forget its peak");
    let before = peak();
    let profile = profiler.stop().expect("writes").expect("was running");
    (profile, peak() - before)
}

/// The most memory that the process had since it forgot, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of the peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}
