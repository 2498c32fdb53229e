//! Records where memory is short: `starved PART FOLDER NUMBER`. Whatever fails, the program ends well.
#![allow(unsafe_code)] // limits its address space

use std::cell::Cell;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::{env, fs, thread};

use zprof::{ErrorKind, Platform, Profile, ProfilerOptions, TraceFuture as _};
use zprof_tests::starved::{Starved, fail, feed, hook};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[global_allocator]
static ALLOCATOR: Starved = Starved;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["one-fails", folder, keep] => each_fails(Path::new(folder), keep.parse()?, 1),
        ["all-fail", folder, keep] => each_fails(Path::new(folder), keep.parse()?, u64::MAX),
        ["reentered", folder, rounds] => reentered(Path::new(folder), rounds.parse()?),
        ["scoped", folder, rounds] => scoped(Path::new(folder), rounds.parse()?),
        #[cfg(unix)]
        ["forks", folder, keep] => forks(Path::new(folder), keep.parse()?),
        ["address-space", folder, kib] => address_space(Path::new(folder), kib.parse()?),
        ["environment-one-fails", _, first] => environment(first.parse()?, 1),
        ["environment-all-fail", _, first] => environment(first.parse()?, u64::MAX),
        ["environment-address-space", _, kib] => environment_in_address_space(kib.parse()?),
        _ => Err(format!("no such part: {arguments:?}").into()),
    }
}

/// Scopes that one thread records, at least.
const SCOPES: u64 = 3 * 700;

/// All kinds of records, many of each.
fn work(thread: u32) {
    let mut held = zprof::span!("held", thread);
    for n in 0..700_u32 {
        zprof::scope!("outer", n, text = "some text");
        zprof::counter!("level", n);
        if n % 7 == 0 {
            zprof::scope!(dyn format!("named {}", n % 70), n, {});
        }
        let other = zprof::span!("other");
        let crossing = zprof::span!("crossing");
        drop(other);
        drop(crossing);
        held.record("n", n);
        let mut future = pin!(async { black_box(n) }.traced(zprof::task!("task", n)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(_)));
    }
}

/// Whether a failure is one of those that short memory may have.
fn tolerable(error: &zprof::Error) -> Outcome {
    match error.kind() {
        ErrorKind::OutOfMemory | ErrorKind::Io => Ok(()),
        kind => Err(format!("{kind:?}: {error}").into()),
    }
}

/// Another thread, which works each time that it is told to. It is there before memory is short: at the begin of a thread the
/// standard library ends the program where it finds none.
struct Other {
    begin: mpsc::SyncSender<()>,
    done: mpsc::Receiver<()>,
}

impl Other {
    fn start() -> Outcome<Self> {
        let (begin, may_begin) = mpsc::sync_channel(1);
        let (is_done, done) = mpsc::sync_channel(1);
        thread::Builder::new().name("other".to_owned()).spawn(move || {
            // Says that it is there, then that the work is done.
            while is_done.send(()).is_ok() && may_begin.recv().is_ok() {
                work(1);
            }
        })?;
        done.recv()?;
        Ok(Self { begin, done })
    }
}

/// One session with a snapshot: the profile of the stop, where there is one.
fn session(folder: &Path, options: ProfilerOptions, other: &Other) -> Outcome<Option<Profile>> {
    let mut profiler = Platform::host().profiler(options.repository_path(folder))?;
    if let Err(error) = profiler.start() {
        tolerable(&error)?;
        return Ok(None);
    }
    other.begin.send(())?;
    work(0);
    other.done.recv()?;
    match zprof::snapshot() {
        Ok(Some(snapshot)) => fs::remove_dir_all(snapshot.protobuf_path.parent().ok_or("no folder")?)?,
        Ok(None) => return Err("zprof records nothing".into()),
        Err(error) => tolerable(&error)?,
    }
    let stopped = match profiler.stop() {
        // What was made and could not be written is written the second time.
        Err(error) if error.kind() == ErrorKind::Io => profiler.stop(),
        other => other,
    };
    match stopped {
        Ok(profile) => Ok(profile),
        Err(error) => {
            tolerable(&error)?;
            Ok(None)
        }
    }
}

/// Runs sessions in which the first large allocation fails, then the second, and so on until there are no more; `count` fail
/// then. In the end one has memory again, and is whole. Prints how many there were.
fn each_fails(folder: &Path, keep: usize, count: u64) -> Outcome {
    let options = ProfilerOptions::default().prefault_bytes(1 << 20);
    let options = if keep == 0 { options } else { options.keep_last_bytes(keep) };
    let other = Other::start()?;
    let mut rounds = 0;
    for first in 1.. {
        fail(first, count);
        let outcome = session(folder, options.clone(), &other);
        let seen = feed();
        outcome?;
        rounds = first;
        if seen < first {
            break;
        }
    }
    let profile = session(folder, options, &other)?.ok_or("no profile, though there is memory")?;
    let whole = profile.dropped_scopes == 0 && (keep != 0 || profile.scopes >= 2 * SCOPES);
    if !whole {
        return Err(format!("{} scopes and {} dropped", profile.scopes, profile.dropped_scopes).into());
    }
    println!("{rounds}");
    Ok(())
}

thread_local! {
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}
/// Whether a session runs in [`reentered`].
static RUNS: AtomicBool = AtomicBool::new(false);

/// A session that keeps little and has memory enough, with an allocator that opens a scope in each call. The recorder's own thread
/// allocates only once the session runs, as it does where the system is late to start it. Prints what was dropped and why, and the
/// names of all lines.
fn reentered(folder: &Path, rounds: u32) -> Outcome {
    IS_MAIN.set(true);
    hook(Some(|| {
        while !IS_MAIN.get() && !RUNS.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        zprof::scope!("allocate", {});
    }));
    let options = ProfilerOptions::default().repository_path(folder).keep_last_bytes(1 << 16);
    let mut profiler = Platform::host().profiler(options)?;
    profiler.start()?;
    RUNS.store(true, Ordering::SeqCst);
    for round in 0..rounds {
        zprof::scope!("outer", round);
        black_box(Box::new(round));
    }
    let profile = profiler.stop()?.ok_or("zprof records nothing")?;
    hook(None);
    println!("{} dropped", profile.dropped_scopes);
    for warning in &profile.warnings {
        println!("{warning}");
    }
    Ok(())
}

/// Takes snapshots of rings, in a program whose allocator opens scopes that fill most of a chunk: each of them needs the pool.
fn scoped(folder: &Path, rounds: u32) -> Outcome {
    static TEXT: [u8; 30_000] = [b'x'; 30_000];
    let opens = || {
        let text = str::from_utf8(&TEXT).unwrap_or_default();
        zprof::scope!("allocates", text, {});
    };
    let options = ProfilerOptions::default().repository_path(folder).keep_last_bytes(1 << 20).prefault_bytes(0);
    let mut profiler = Platform::host().profiler(options)?;
    profiler.start()?;
    let other = Other::start()?;
    for _ in 0..rounds {
        hook(Some(opens));
        other.begin.send(())?;
        let taken = zprof::snapshot();
        other.done.recv()?;
        hook(None);
        let snapshot = taken?.ok_or("zprof records nothing")?;
        fs::remove_dir_all(snapshot.protobuf_path.parent().ok_or("no folder")?)?;
    }
    hook(Some(opens));
    let stopped = profiler.stop();
    hook(None);
    let profile = stopped?.ok_or("zprof records nothing")?;
    println!("{}", profile.scopes);
    Ok(())
}

/// Forks within the recorder: in an allocation that it makes under its locks. Parent and child go on, and each keeps its profile.
#[cfg(unix)]
fn forks(folder: &Path, keep: usize) -> Outcome {
    use std::cell::Cell;

    thread_local! {
        /// The next allocation of this thread forks.
        static ARMED: Cell<bool> = const { Cell::new(false) };
        /// The number that the fork has returned.
        static CHILD: Cell<libc::pid_t> = const { Cell::new(-1) };
    }
    let fork = || {
        if ARMED.take() {
            // SAFETY: the child has this thread alone, and neither takes a lock that another thread had nor ends in `main`.
            CHILD.set(unsafe { libc::fork() });
        }
    };
    let options = ProfilerOptions::default().repository_path(folder).keep_last_bytes(keep);
    let mut profiler = Platform::host().profiler(options)?;
    profiler.start()?;
    let open = zprof::span!("open");
    hook(Some(fork));
    ARMED.set(true);
    // A ring makes room for what it is to note whenever it goes on to another chunk.
    while ARMED.get() {
        zprof::scope!("before", {});
    }
    hook(None);
    for n in 0..3000_u32 {
        zprof::scope!("after", n);
    }
    drop(open);
    let profile = profiler.stop()?.ok_or("zprof records nothing")?;
    let child = CHILD.get();
    fs::copy(profile.protobuf_path, folder.join(if child == 0 { "child.pb" } else { "parent.pb" }))?;
    if child == 0 {
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child || status != 0 {
        return Err(format!("the child {child} ended with status {status}").into());
    }
    Ok(())
}

/// Bytes of address space that this process has.
fn address_space_now() -> Outcome<u64> {
    let numbers = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = numbers.split(' ').next().ok_or("no first number")?.parse()?;
    Ok(pages * 4096)
}

/// Runs the session that the environment asks for, from its start until the profile is written.
fn environment_session(other: &Other) -> Outcome {
    if let Err(error) = zprof::init_from_env() {
        tolerable(&error)?;
        return Ok(());
    }
    other.begin.send(())?;
    work(0);
    other.done.recv()?;
    zprof::finish();
    Ok(())
}

/// Lets `count` large allocations fail in the session of the environment, the `first` one and those behind it. Prints how many
/// there were.
fn environment(first: u64, count: u64) -> Outcome {
    let other = Other::start()?;
    fail(first, count);
    let outcome = environment_session(&other);
    let seen = feed();
    outcome?;
    println!("{seen}");
    Ok(())
}

/// Runs the session of the environment in a process that can have so many KiB more than it has.
fn environment_in_address_space(kib: u64) -> Outcome {
    let other = Other::start()?;
    limit_address_space(kib)?;
    environment_session(&other)
}

/// Runs a session in a process that can have so many KiB more than it has. Prints what became of it.
fn address_space(folder: &Path, kib: u64) -> Outcome {
    let other = Other::start()?;
    limit_address_space(kib)?;
    match session(folder, ProfilerOptions::default(), &other)? {
        Some(profile) => println!("{} scopes, {} dropped", profile.scopes, profile.dropped_scopes),
        None => println!("no profile"),
    }
    Ok(())
}

/// Limits the address space to so many KiB more than this process has.
fn limit_address_space(kib: u64) -> Outcome {
    let now = address_space_now()?;
    // The program's own small allocations find room in what it has had before.
    drop(black_box(vec![1_u8; 100 << 10]));
    let limit = libc::rlimit { rlim_cur: now + (kib << 10), rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a live rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}
