//! What snapshots do to the threads that record: whether any waits, and whether any is kept busy for long.
//!
//! The system puts threads aside as it likes, so that a long time between two scopes says nothing. A pause that the recorder
//! makes is one of two things: the thread gives its processor up by itself, to wait for a lock, which the system counts; or it
//! works, which is processor time of its own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zprof_tests::profile::Session;

use super::options;

const ROUNDS: usize = 9;
/// Scopes of each thread in a round, at least. Until then, snapshots are taken one right after the other.
const SCOPES: u64 = 4_000;
/// Between two looks at the thread's own time, at most.
const LOOK_EVERY: u64 = 64;
const LONG: Duration = Duration::from_millis(1);

/// Processor time of the calling thread, and how often it has given its processor up by itself.
#[derive(Clone, Copy)]
struct Own {
    busy: Duration,
    waits: i64,
}

#[allow(unsafe_code)] // the system's calls are foreign functions
fn own() -> Own {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "Linux has that clock");
    let busy = Duration::new(time.tv_sec.try_into().expect("positive"), time.tv_nsec.try_into().expect("below 10^9"));
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory for one rusage.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(status, 0, "Linux counts for threads");
    // SAFETY: all of its fields are integers, for which zeros do.
    let usage = unsafe { usage.assume_init() };
    #[allow(clippy::useless_conversion)] // the type is shorter on 32-bit systems
    Own { busy, waits: usage.ru_nvcsw.into() }
}

/// What one thread has met in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    scopes: u64,
    /// The longest processor time of a scope that took long by the wall clock, an upper bound: with what ran since the last
    /// look.
    busy: Duration,
    /// The longest time by the wall clock, in which the system may have run others.
    longest: Duration,
    waits: i64,
}

/// Records until the rounds are over.
fn work(round: &AtomicUsize, stop: &AtomicBool, count: &AtomicU64, met: &mut [Met]) {
    zprof::scope!("outer", since = "the start");
    let (mut looked, mut last) = (own(), Instant::now());
    for n in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        zprof::scope!("item", n);
        zprof::scope!("inner", n, {});
        let took = last.elapsed();
        let met = &mut met[round.load(Ordering::Relaxed)];
        met.scopes += 2;
        count.store(2 * n, Ordering::Relaxed);
        met.longest = met.longest.max(took);
        if took > LONG || n % LOOK_EVERY == 0 {
            let now = own();
            met.waits += now.waits - looked.waits;
            if took > LONG {
                met.busy = met.busy.max(now.busy - looked.busy);
            }
            looked = now;
        }
        last = Instant::now();
    }
}

fn no_pause(threads: usize) {
    let mut session = Session::new(options().keep_last_bytes(64 << 10));
    session.start();
    let (round, stop, ready) = (AtomicUsize::new(0), AtomicBool::new(false), Barrier::new(threads + 1));
    let counts: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let met: Vec<[Met; ROUNDS]> = thread::scope(|scope| {
        let (round, stop, ready) = (&round, &stop, &ready);
        let run = |count| {
            move || {
                let mut met = [Met::default(); ROUNDS];
                ready.wait();
                work(round, stop, count, &mut met);
                met
            }
        };
        let workers: Vec<_> = counts.iter().map(|count| scope.spawn(run(count))).collect();
        ready.wait();
        for next in 1..=ROUNDS {
            let goal = |count: &AtomicU64| count.load(Ordering::Relaxed) + SCOPES;
            let goals: Vec<u64> = counts.iter().map(goal).collect();
            while counts.iter().zip(&goals).any(|(count, goal)| count.load(Ordering::Relaxed) < *goal) {
                let profile = zprof::snapshot().expect("it is written").expect("zprof is enabled");
                assert_eq!(profile.dropped_scopes, 0);
            }
            if next < ROUNDS {
                round.store(next, Ordering::Relaxed);
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("it ends well")).collect()
    });
    session.stop();
    // A pause that a snapshot makes is there in each round. One that the machine makes is in some: by an interrupt, as the guest
    // of another, or by putting aside a thread that has the pool's lock for some nanoseconds. Beside other work it may be most.
    let mut rounds: Vec<Met> = (0..ROUNDS)
        .map(|round| {
            let all = met.iter().map(|thread| thread[round]);
            all.fold(Met::default(), |sum, one| Met {
                scopes: sum.scopes + one.scopes,
                busy: sum.busy.max(one.busy),
                longest: sum.longest.max(one.longest),
                waits: sum.waits + one.waits,
            })
        })
        .collect();
    println!("{threads} threads: {rounds:#?}");
    rounds.sort_unstable_by_key(|round| round.busy);
    assert!(rounds[ROUNDS / 4].busy < LONG, "{rounds:?}");
    rounds.sort_unstable_by_key(|round| round.waits);
    assert_eq!(rounds[ROUNDS / 4].waits, 0, "{rounds:?}");
}

#[test]
fn a_snapshot_makes_no_thread_wait_and_keeps_none_busy() {
    // As many as leave a processor for the snapshot, and many more.
    let alone = thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
    no_pause(alone);
    no_pause(8);
}
