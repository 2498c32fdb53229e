//! The cost of a session for a `fork`: the least time from the call until the child has ended, without a session, in a session that
//! has recorded nothing, and after as many scopes as fill its buffers.

use std::time::{Duration, Instant};

use zprof::{Platform, ProfilerOptions};

/// Forks of which the fastest counts.
const FORKS: usize = 200;

/// Forks a child that ends at once.
fn fork() -> Duration {
    let start = Instant::now();
    // SAFETY: the child calls nothing but `_exit`, which is allowed between a fork and an exec in a program with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: this ends the child without running what the parent would run at its end.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child ends well");
    start.elapsed()
}

fn least() -> Duration {
    (0..FORKS).map(|_| fork()).min().expect("there are forks")
}

fn main() {
    println!("{:<34}{:>10}{:>10}{:>12}{:>10}", "", "us", "ratio", "more by us", "resident");
    let row = |name: &str, base: Duration, took: Duration| {
        println!(
            "{name:<34}{:>10.1}{:>10.2}{:>12.1}{:>7} MiB",
            took.as_secs_f64() * 1e6,
            took.as_secs_f64() / base.as_secs_f64(),
            (took.as_secs_f64() - base.as_secs_f64()) * 1e6,
            resident() >> 20
        );
    };
    let _ = least();
    let base = least();
    row("no session", base, base);
    for scopes in [0_u64, 1_000_000, 5_000_000] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = ProfilerOptions::default().repository_path(folder.path());
        let mut profiler = Platform::host().profiler(options).expect("good options");
        profiler.start().expect("no other session");
        for n in 0..scopes {
            zprof::scope!("fill", n);
        }
        row(&format!("session with {scopes} scopes"), base, least());
        let profile = profiler.stop().expect("it writes").expect("it ran");
        assert_eq!((profile.scopes, profile.dropped_scopes), (scopes, 0));
    }
    let memory = vec![1_u8; 160 << 20];
    row("160 MiB of the program's own", base, least());
    drop(std::hint::black_box(memory));
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux shows it");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number");
    pages * 4096
}
