//! Scopes in signal handlers: handlers that interrupt the recorder wherever it can be interrupted, and what is left of it.
//!
//! Whatever a handler makes is counted here, and must be found again: in the profile, or among what was dropped.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use libc::c_int;
use prost::Message as _;
use zprof::{Platform, Profile, Profiler, ProfilerOptions, TraceFuture as _};
use zprof_proto::x_event::Data;
use zprof_proto::{XLine, XPlane, XSpace};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Number of scopes that handlers have made while a session ran.
static MADE: AtomicU64 = AtomicU64::new(0);
/// How often a handler ran.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Names of what the handler makes.
const OF_HANDLER: [&str; 4] = ["handler", "handler mark", "handler inner", "handler count"];

/// Instructions that are interrupted yet before [`stepped`] gives up.
#[cfg(target_arch = "x86_64")]
static LEFT: AtomicU64 = AtomicU64::new(0);

/// The handler of SIGTRAP: like [`handler`], and lets the rest go uninterrupted when enough has been.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // looks at what was interrupted
extern "C" fn step(signal: c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    handler(signal);
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // SAFETY: the kernel gives the context of what it has interrupted, and takes it back.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
    }
}

/// The processor's trap flag.
#[cfg(target_arch = "x86_64")]
const TRAP_FLAG: i64 = 0x100;

/// The handler. The session cannot start or stop while it runs, where it interrupts the thread that would do that.
extern "C" fn handler(_signal: c_int) {
    RUNS.fetch_add(1, Ordering::Relaxed);
    let is_on = zprof_runtime::raw::STATE.load(Ordering::Relaxed) & 0xff != 0;
    MADE.fetch_add(if is_on { OF_HANDLER.len() as u64 } else { 0 }, Ordering::Relaxed);
    {
        zprof::scope!("handler", n = 1_u64, text = "a text in a handler");
        zprof::instant!("handler mark", n = 2_u64);
        let mut inner = zprof::span!("handler inner");
        inner.record("late", 3_u64);
    }
    zprof::counter!("handler count", 4_u64);
}

/// Installs the handler.
#[allow(unsafe_code)] // there is no safe way
fn catch(signal: c_int, handler: usize) {
    // SAFETY: all zeros are an action without a mask and without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: the action is whole, and the recorder says that its scopes may be opened in a handler.
    let status = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(status, 0);
}

/// The id of this process, as the system's functions take it.
fn own_process() -> libc::pid_t {
    libc::pid_t::try_from(std::process::id()).expect("ids of processes are small")
}

/// Blocks a signal for the calling thread. When this returns, no handler of it runs there any more.
#[allow(unsafe_code)] // there is no safe way
fn block(signal: c_int) {
    // SAFETY: all zeros are an empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: the set is live, and nobody asks for the old one.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    assert_eq!(status, 0);
}

/// Has the processor raise SIGTRAP behind each instruction of `run`, up to so many.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // sets the processor's trap flag
fn stepped<T>(most: u64, run: impl FnOnce() -> T) -> T {
    LEFT.store(most, Ordering::Relaxed);
    // SAFETY: the handler of SIGTRAP is installed; the flag changes nothing else. The stack is left as it was.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = run();
    // SAFETY: as above.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    result
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// How often each name comes in one round of [`work`]. The task is on a line of its own besides its two polls.
const OF_WORK: [(&str, u64); 8] =
    [("outer", 1), ("inner", 1), ("mark", 1), ("count", 1), ("named", 1), ("first", 1), ("second", 1), ("task", 3)];

/// One round of what is interrupted: each way to write a record.
fn work(n: u64) {
    zprof::scope!("outer", n, text = "a text that is interrupted");
    {
        let mut inner = zprof::span!("inner", n);
        inner.record("late", n);
        zprof::instant!("mark", n);
        zprof::counter!("count", n);
        let name = if n.is_multiple_of(2) { "named" } else { "named too" };
        zprof::scope!(dyn name, n, {});
    }
    // Out of order.
    let first = zprof::span!("first");
    let second = zprof::span!("second");
    drop(first);
    drop(second);
    let mut is_first = true;
    let once = poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) });
    block_on(once.traced(zprof::task!("task", n)));
}

fn profiler(folder: &Path, options: ProfilerOptions) -> Result<Profiler, zprof::Error> {
    Platform::host().profiler(options.repository_path(folder).prefault_bytes(1 << 20))
}

/// The plane of the host.
fn host(profile: &Profile) -> Outcome<XPlane> {
    let space = XSpace::decode(fs::read(&profile.protobuf_path)?.as_slice())?;
    Ok(space.planes.into_iter().find(|plane| plane.name == "/host:CPU").ok_or("no plane of the host")?)
}

/// How often each name is there. Names that are known at run time only count as one.
fn names(plane: &XPlane) -> BTreeMap<&str, u64> {
    let mut names = BTreeMap::new();
    for event in plane.lines.iter().flat_map(|line| &line.events) {
        let name = plane.event_metadata.get(&event.metadata_id).map_or("", |metadata| metadata.name.as_str());
        let name = name.strip_suffix(" too").unwrap_or(name);
        *names.entry(name).or_default() += 1;
    }
    names
}

/// Checks that no event of a line crosses another one.
fn check_nesting(line: &XLine) -> Outcome {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for event in &line.events {
        let Some(Data::OffsetPs(start)) = event.data else { return Err("an event without a time".into()) };
        spans.push((start, start + event.duration_ps));
    }
    spans.sort_unstable_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    let mut open: Vec<(i64, i64)> = Vec::new();
    for (start, end) in spans {
        while open.last().is_some_and(|around| around.1 <= start && around.0 < start) {
            open.pop();
        }
        if let Some(around) = open.last().filter(|around| end > around.1 && around.1 > start) {
            return Err(format!("{start}..{end} crosses {around:?} on line {}", line.name).into());
        }
        open.push((start, end));
    }
    Ok(())
}

/// Checks a profile of `rounds` rounds of work and of `made` things that handlers made: all that was made is there or counted,
/// and what was interrupted is there whole.
fn check(profile: &Profile, rounds: u64, made: u64) -> Outcome {
    let plane = host(profile)?;
    let found = names(&plane);
    let of_handler: u64 = OF_HANDLER.iter().filter_map(|name| found.get(name)).sum();
    let expected: BTreeMap<&str, u64> = OF_WORK.iter().map(|&(name, count)| (name, rounds * count)).collect();
    let of_work: BTreeMap<&str, u64> =
        expected.keys().map(|name| (*name, found.get(name).copied().unwrap_or(0))).collect();
    println!("{of_handler} of {made} recorded, {} dropped", profile.dropped_scopes);
    for warning in &profile.warnings {
        println!("{warning}");
    }
    if of_work != expected {
        return Err(format!("{of_work:?} instead of {expected:?}").into());
    }
    if of_handler + profile.dropped_scopes != made {
        return Err(format!("{of_handler} recorded and {} dropped of {made}", profile.dropped_scopes).into());
    }
    let others: Vec<&&str> =
        found.keys().filter(|name| !expected.contains_key(**name) && !OF_HANDLER.contains(name)).collect();
    if !others.is_empty() {
        return Err(format!("nobody made {others:?}").into());
    }
    plane.lines.iter().filter(|line| !line.name.ends_with("(overlap)")).try_for_each(check_nesting)?;
    let marks = ["unfinished", "leaked"];
    let marked = |name: &str| marks.contains(&name);
    if let Some(stat) = plane.stat_metadata.values().find(|stat| marked(&stat.name)) {
        return Err(format!("a scope is {}", stat.name).into());
    }
    Ok(())
}

/// Interrupts every instruction of a session behind its start: a first scope, rounds of work, the beginning of a snapshot and
/// of the stop.
#[cfg(target_arch = "x86_64")]
pub fn steps(folder: &Path) -> Outcome {
    const ROUNDS: u64 = 2;
    // The beginning of a snapshot or a stop is what has to do with recording.
    const MOST: u64 = 5_000;
    catch(libc::SIGTRAP, step as extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize);
    for (name, options) in [
        ("plain", ProfilerOptions::default()),
        ("levels", ProfilerOptions::default().directives("zprof_tests=verbose,other=off").host_traceme_filter_mask(1)),
    ] {
        let mut profiler = profiler(&folder.join(name), options)?;
        MADE.store(0, Ordering::Relaxed);
        // Not stepped: it starts a thread, for which the C library blocks all signals.
        profiler.start()?;
        stepped(u64::MAX, || (0..ROUNDS).for_each(work));
        // A thread of its own: its first scope, a few chunks, and its end.
        thread::Builder::new()
            .name("stepped".to_owned())
            .spawn(|| stepped(u64::MAX, || (0..ROUNDS).for_each(work)))?
            .join()
            .map_err(|_| "a panic")?;
        let snapshot = stepped(MOST, zprof::snapshot)?.ok_or("no snapshot")?;
        host(&snapshot)?;
        let profile = stepped(MOST, || profiler.stop())?.ok_or("no profile")?;
        check(&profile, 2 * ROUNDS, MADE.load(Ordering::Relaxed))?;
    }
    // A ring lets go of records, so that they cannot be counted.
    let mut profiler = profiler(&folder.join("ring"), ProfilerOptions::default().keep_last_bytes(1))?;
    profiler.start()?;
    stepped(u64::MAX, || (0..ROUNDS).for_each(work));
    let snapshot = stepped(MOST, zprof::snapshot)?.ok_or("no snapshot")?;
    host(&snapshot)?;
    let profile = stepped(MOST, || profiler.stop())?.ok_or("no profile")?;
    let plane = host(&profile)?;
    plane.lines.iter().filter(|line| !line.name.ends_with("(overlap)")).try_for_each(check_nesting)?;
    if profile.released_bytes == 0 {
        return Err("the ring did not go round".into());
    }
    println!("{} instructions", RUNS.load(Ordering::Relaxed));
    Ok(())
}

/// Threads that work and start other threads, while another one sends them signals as fast as it can.
#[allow(unsafe_code)] // sends signals to threads
pub fn storm(folder: &Path) -> Outcome {
    const THREADS: usize = 4;
    /// The storm goes on until this many handlers have run.
    const HANDLERS: u64 = 5_000;
    /// How many rounds a thread works for each handler at most: where signals are slow to come, it waits for them, so that
    /// what it records fits the memory on every machine.
    const ROUNDS_EACH: u64 = 4;
    /// How many rounds a thread works before it starts another one for a round.
    const ROUNDS: u64 = 200;
    const SIGNAL: c_int = libc::SIGUSR1;
    catch(SIGNAL, handler as extern "C" fn(c_int) as usize);
    let mut profiler = profiler(folder, ProfilerOptions::default().max_buffer_bytes(1 << 30))?;
    profiler.start()?;
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let (ready, is_ready) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (ready, is_over, rounds) = (ready.clone(), &is_over, &rounds);
            scope.spawn(move || {
                // SAFETY: the function has no arguments and cannot fail.
                let this = unsafe { libc::pthread_self() };
                let _ = ready.send(Receiver(this));
                let mut n = 0;
                loop {
                    let handlers = RUNS.load(Ordering::Relaxed);
                    if handlers >= HANDLERS {
                        break;
                    }
                    if n > (handlers + 1) * ROUNDS_EACH {
                        thread::yield_now();
                        continue;
                    }
                    work(n);
                    n += 1;
                    // Memory comes and goes, so that handlers interrupt the allocator too.
                    let texts: Vec<String> = (0..8).map(|i| format!("{n} {i}")).collect();
                    std::hint::black_box(texts);
                    if n % ROUNDS == 0 {
                        rounds.fetch_add(1, Ordering::Relaxed);
                        thread::scope(|scope| {
                            scope.spawn(|| {
                                work(n);
                                block(SIGNAL);
                            });
                        });
                    }
                }
                rounds.fetch_add(n, Ordering::Relaxed);
                block(SIGNAL);
                // The thread stays until nobody sends it a signal any more.
                is_over.store(true, Ordering::Release);
                while !IS_QUIET.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            });
        }
        let threads: Vec<Receiver> = is_ready.iter().take(THREADS).collect();
        while !is_over.load(Ordering::Acquire) {
            for &Receiver(thread) in &threads {
                // SAFETY: the thread waits for `IS_QUIET`.
                unsafe { libc::pthread_kill(thread, SIGNAL) };
            }
            // To whichever thread takes it, this one too.
            // SAFETY: the signal has a handler.
            unsafe { libc::kill(own_process(), SIGNAL) };
            thread::yield_now();
        }
        block(SIGNAL);
        IS_QUIET.store(true, Ordering::Release);
    });
    let profile = profiler.stop()?.ok_or("no profile")?;
    println!("{} signals", RUNS.load(Ordering::Relaxed));
    check(&profile, rounds.into_inner(), MADE.load(Ordering::Relaxed))
}

/// A thread that signals are sent to.
struct Receiver(libc::pthread_t);

#[allow(unsafe_code)] // of a handle of the C library
// SAFETY: the handle names the same thread in every thread of the process. With musl it is a pointer, which is not used as one.
unsafe impl Send for Receiver {}

/// Nobody sends signals any more.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Sessions that start and stop, and snapshots, while other threads work under a storm of signals.
#[allow(unsafe_code)] // sends signals
pub fn restarts(folder: &Path) -> Outcome {
    const SESSIONS: u32 = 30;
    const SIGNAL: c_int = libc::SIGUSR1;
    catch(SIGNAL, handler as extern "C" fn(c_int) as usize);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut n = 0;
                while !is_over.load(Ordering::Relaxed) {
                    work(n);
                    n += 1;
                    if n % 64 == 0 {
                        thread::scope(|scope| {
                            scope.spawn(|| work(n));
                        });
                    }
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the signal has a handler; whichever thread takes it.
                unsafe { libc::kill(own_process(), SIGNAL) };
            }
        });
        let outcome = (0..SESSIONS).try_for_each(|session| {
            let options = match session % 3 {
                0 => ProfilerOptions::default(),
                1 => ProfilerOptions::default().keep_last_bytes(1 << 14),
                _ => ProfilerOptions::default().directives("zprof_tests=verbose,other=off").max_buffer_bytes(1 << 20),
            };
            let mut profiler = profiler(folder, options.session_id(zprof::SessionId::Unique))?;
            profiler.start()?;
            work(u64::from(session));
            let snapshot = zprof::snapshot()?.ok_or("no snapshot")?;
            host(&snapshot)?;
            let profile = profiler.stop()?.ok_or("no profile")?;
            let plane = host(&profile)?;
            plane.lines.iter().filter(|line| !line.name.ends_with("(overlap)")).try_for_each(check_nesting)
        });
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}
