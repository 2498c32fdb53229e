//! Cost of a stop per scope: drain, conversion to XSpace and writing it; and the JSON after that.

use std::time::Duration;

use zprof::{Platform, Profile, ProfilerOptions};

const SCOPES: u64 = 1_000_000;

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 2 } else { 10 };
    println!("{:<14}{:>12}{:>12}{:>12}{:>16}", "ns per scope", "convert", "write", "both", "JSON");
    row("no metadata", rounds, |_| {
        zprof::scope!("none");
    });
    row("2 ints", rounds, |index| {
        zprof::scope!("ints", a = index, b = 7_u32);
    });
    row("text + int", rounds, |index| {
        let texts = ["greedy", "sample", "beam"];
        zprof::scope!("text", mode = texts[index as usize % 3], b = index);
    });
}

fn row(name: &str, rounds: usize, body: impl Fn(u64)) {
    let mut best = [f64::INFINITY; 3];
    for _ in 0..rounds {
        let profile = record(&body);
        let ns = |phase| duration(&profile, phase).as_nanos() as f64 / SCOPES as f64;
        for (best, phase) in best.iter_mut().zip(["convert", "write XSpace", "write JSON"]) {
            *best = best.min(ns(phase));
        }
    }
    println!("{name:<14}{:>12.1}{:>12.1}{:>12.1}{:>16.1}", best[0], best[1], best[0] + best[1], best[2]);
}

fn record(body: impl Fn(u64)) -> Profile {
    let folder = tempfile::tempdir_in(if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" })
        .expect("a temporary folder");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let mut profiler = Platform::host().profiler(options).expect("good options");
    profiler.start().expect("no other session");
    (0..SCOPES).for_each(body);
    let profile = profiler.stop().expect("writes").expect("was running");
    assert_eq!((profile.scopes, profile.dropped_scopes), (SCOPES, 0));
    profile
}

fn duration(profile: &Profile, phase: &str) -> Duration {
    profile.phases.iter().find(|(name, _)| *name == phase).expect("a phase of the stop").1
}
