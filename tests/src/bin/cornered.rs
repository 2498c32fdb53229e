//! Opens scopes where tools are hard to serve: `cornered PART`. Each part is the first to open a scope in its process.
#![allow(unsafe_code)] // forks, and is its own allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::env;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use zprof::{Platform, ProfilerOptions, TraceFuture as _};

type Outcome = Result<(), Box<dyn Error>>;

/// Opens a scope in each allocation, once it is told to.
struct Scoped;

static SCOPED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ALLOCATES: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Scoped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if SCOPED.load(Ordering::Relaxed) && !ALLOCATES.replace(true) {
            {
                zprof::scope!("allocates", bytes = layout.size());
            }
            ALLOCATES.set(false);
        }
        // SAFETY: the caller's layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: what is freed came from `alloc`.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Scoped = Scoped;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["one"] => one(),
        ["again", folder] => again(folder)?,
        ["allocator"] => allocator(),
        ["crowd", count] => crowd(count.parse()?),
        ["fork"] => fork(),
        ["fork-in-probe"] => fork_in_probe()?,
        ["tasks"] => tasks(),
        ["storm", folder] => storm(folder)?,
        _ => return Err(format!("no such part: {arguments:?}").into()),
    }
    Ok(())
}

fn one() {
    zprof::scope!("one", {});
    zprof::scope!("two", value = 2, {});
}

/// Asks for tools three times: by a scope and by two sessions.
fn again(folder: &str) -> Outcome {
    one();
    let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder))?;
    for _ in 0..2 {
        profiler.start()?;
        profiler.stop()?;
    }
    Ok(())
}

/// The first scope is the allocator's, and so are those that allocate while others open.
fn allocator() {
    SCOPED.store(true, Ordering::Relaxed);
    let first = Box::new(1_u8);
    zprof::scope!("next", {});
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                for depth in 0..300_u64 {
                    kept.push(zprof::span!("deep", depth));
                }
                while let Some(span) = kept.pop() {
                    span.end();
                }
            });
        }
    });
    SCOPED.store(false, Ordering::Relaxed);
    drop(first);
}

/// The first scopes of many threads at once.
fn crowd(count: usize) {
    let ready = Barrier::new(count);
    thread::scope(|scope| {
        for _ in 0..count {
            let body = || {
                ready.wait();
                zprof::scope!("in the crowd", {});
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, body).expect("a thread starts");
        }
    });
}

/// A child of a process with a tool.
fn fork() {
    zprof::scope!("parent");
    let child = forked(|| {
        zprof::scope!("child", {});
        thread::scope(|scope| scope.spawn(|| zprof::scope!("thread of the child", {})).join()).is_ok()
    });
    assert!(child, "the child ends well");
    zprof::scope!("afterwards", {});
}

/// Whether the child gives `true` within some seconds.
fn forked(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls only what may be called after a fork: glibc has its locks in order there, and so must zprof.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(10) };
        let code = i32::from(!body());
        // SAFETY: never returns, and runs nothing of the parent's.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the status is a live variable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    waited == child && status == 0
}

/// A fork while a tool starts: `ZPROF_TEST_ENTERED` and `ZPROF_TEST_GATE` tell the tool which pipes to write and to read.
fn fork_in_probe() -> Outcome {
    let (mut entered, entered_end) = std::io::pipe()?;
    let (gate, gate_end) = std::io::pipe()?;
    let pass = |name: &str, end: RawFd| {
        // SAFETY: no other thread is there yet.
        unsafe { env::set_var(name, end.to_string()) };
    };
    let (entered_end, gate) = (OwnedFd::from(entered_end), OwnedFd::from(gate));
    pass("ZPROF_TEST_ENTERED", entered_end.as_raw_fd());
    pass("ZPROF_TEST_GATE", gate.as_raw_fd());
    let first = thread::spawn(one);
    std::io::Read::read_exact(&mut entered, &mut [0])?;
    let folder = tempfile::tempdir()?;
    let child = forked(|| {
        let begun = Instant::now();
        one();
        let profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder.path()));
        let recorded = profiler.and_then(|mut profiler| {
            profiler.start()?;
            one();
            profiler.stop()
        });
        let scopes = recorded.ok().flatten().map(|profile| profile.scopes);
        scopes == Some(2) && begun.elapsed() < Duration::from_secs(5)
    });
    drop(gate_end);
    first.join().expect("it does not panic");
    assert!(child, "the child does not wait for the probe of its parent");
    Ok(())
}

/// Polls of one task on threads in turn, with values of every kind.
fn tasks() {
    let mut polls = 0;
    let future = poll_fn(move |_| {
        polls += 1;
        if polls > 3 { Poll::Ready(()) } else { Poll::Pending }
    });
    let text = String::from("té#xt");
    let (single, double, none) = (0.1_f32, 0.1_f64, None::<u8>);
    zprof::scope!("values", single, some = Some(single), double, none, text, flag = true, letter = 'x', root = true, {
    });
    let task =
        zprof::task!("values", single, some = Some(single), double, none, text, flag = true, letter = 'x', root = true);
    let mut future = pin!(future.traced(task));
    loop {
        let polled = thread::scope(|scope| {
            let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            scope.spawn(poll).join()
        });
        if polled.expect("it does not panic") {
            return;
        }
    }
}

/// Sessions come and go while threads open scopes; what the last one records is told.
fn storm(folder: &str) -> Outcome {
    let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder))?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for index in 0..8 {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    zprof::scope!("outer", index);
                    let first = zprof::span!("first");
                    let second = zprof::span!("second", index);
                    drop((first, second));
                }
            });
        }
        let sessions = (|| -> Outcome {
            for _ in 0..20 {
                profiler.start()?;
                thread::yield_now();
                profiler.stop()?;
            }
            Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        sessions
    })
}
