//! What snapshots cost the threads that record: the longest times that a scope takes while none and while many are written.
//!
//! A thread that waits for a lock gives its processor up of its own accord, and the kernel counts that apart from taking it
//! away. So the pauses that a snapshot causes show even where there are more threads than processors.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zprof::{Platform, ProfilerOptions};

const TIME: Duration = Duration::from_secs(4);
/// Nanoseconds up to which each length is counted apart.
const FINE: usize = 4096;

/// How long the scopes of a thread took.
struct Lengths {
    fine: Vec<u64>,
    /// The longer ones.
    coarse: Vec<u64>,
    /// How often the thread has waited.
    waits: u64,
}

/// How often the calling thread has given its processor up to wait for something.
fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux shows its threads");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("it counts them");
    count.trim().parse().expect("a number")
}

fn work(stop: &AtomicBool) -> Lengths {
    zprof::scope!("outer", since = "the start");
    let (mut fine, mut coarse) = (vec![0_u64; FINE], Vec::with_capacity(1 << 20));
    let before = waits();
    let mut last = Instant::now();
    let mut n = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        zprof::scope!("item", n, {});
        n += 1;
        let now = Instant::now();
        let took = (now - last).as_nanos() as u64;
        match fine.get_mut(took as usize) {
            Some(count) => *count += 1,
            None => coarse.push(took),
        }
        last = now;
    }
    Lengths { waits: waits() - before, fine, coarse }
}

fn run(name: &str, threads: usize, snapshots: bool) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let options = ProfilerOptions::default().repository_path(folder.path()).keep_last_bytes(1 << 20);
    let mut profiler = Platform::host().profiler(options).expect("good options");
    profiler.start().expect("no other session");
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let mut taken = Vec::new();
    let lengths: Vec<Lengths> = std::thread::scope(|scope| {
        let run = || {
            ready.wait();
            work(&stop)
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        ready.wait();
        let start = Instant::now();
        while start.elapsed() < TIME {
            if snapshots {
                let profile = profiler.snapshot().expect("writes").expect("runs");
                assert_eq!(profile.dropped_scopes, 0);
                taken.push(profile.phases[0].1);
            } else {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("it ends well")).collect()
    });
    let profile = profiler.stop().expect("writes").expect("was running");
    assert_eq!(profile.dropped_scopes, 0);

    let (mut fine, mut coarse, mut waits) = (vec![0_u64; FINE], Vec::new(), 0);
    for thread in lengths {
        fine.iter_mut().zip(&thread.fine).for_each(|(sum, count)| *sum += count);
        coarse.extend(thread.coarse);
        waits += thread.waits;
    }
    coarse.sort_unstable();
    let all = fine.iter().sum::<u64>() + coarse.len() as u64;
    let quantile = |part: f64| {
        let mut left = (all as f64 * part) as u64;
        for (ns, count) in fine.iter().enumerate() {
            if left < *count {
                return ns as u64;
            }
            left -= count;
        }
        coarse[(left as usize).min(coarse.len() - 1)]
    };
    let long = coarse.iter().filter(|&&ns| ns > 1_000_000).count();
    let max = coarse.last().copied().unwrap_or_default() as f64 / 1e6;
    let (took, most) = (taken.iter().sum::<Duration>(), taken.iter().max().copied().unwrap_or_default());
    println!(
        "{name:<34}{:>9}{:>7}{:>9}{:>9}{max:>10.2}{long:>8}{waits:>7}{:>11}{:>12.0?}{most:>12.0?}",
        all / 1000,
        quantile(0.5),
        quantile(0.999),
        quantile(0.9999),
        taken.len(),
        took / u32::try_from(taken.len().max(1)).expect("few"),
    );
}

fn main() {
    println!(
        "{:<34}{:>9}{:>7}{:>9}{:>9}{:>10}{:>8}{:>7}{:>11}{:>12}{:>12}",
        "", "1000 sc.", "p50 ns", "p99.9", "p99.99", "max ms", "> 1 ms", "waits", "snapshots", "taken in", "at most"
    );
    for threads in [1, 8] {
        run(&format!("{threads} threads, no snapshots"), threads, false);
        run(&format!("{threads} threads, snapshots all the time"), threads, true);
    }
}
