//! Cost of one scope on the calling thread: zprof and its peers as ratios to two clock reads and a 32-byte store.
//!
//! All cells of a table run in the same process, round by round in turn, and the least of the rounds counts: what else
//! the machine does can only add time.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zprof::{Platform, Profiler, ProfilerOptions};

/// Scopes in one measurement: few enough that all shapes stay inside `prefault_bytes`.
const SCOPES: u64 = 100_000;
const ROUNDS: usize = 60;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 5 } else { ROUNDS };
    one_thread(rounds);
    two_threads(rounds);
    ring(rounds);
    first_touch(rounds.div_ceil(4));
}

/// Nanoseconds per call of `body`.
fn time(mut body: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for index in 0..SCOPES {
        body(index);
    }
    start.elapsed().as_nanos() as f64 / SCOPES as f64
}

/// A named measurement; it returns ns per scope.
struct Cell {
    name: &'static str,
    run: Box<dyn FnMut() -> f64>,
    best: f64,
}

fn cell(name: &'static str, run: impl FnMut() -> f64 + 'static) -> Cell {
    Cell { name, run: Box::new(run), best: f64::INFINITY }
}

fn table(title: &str, rounds: usize, mut cells: Vec<Cell>) {
    for _ in 0..rounds {
        for cell in &mut cells {
            cell.best = cell.best.min((cell.run)());
        }
    }
    let floor = cells.iter().find(|cell| cell.name == FLOOR).map_or(f64::NAN, |cell| cell.best);
    println!("\n{title}\n{:<34}{:>10}{:>10}", "", "ns", "ratio");
    for cell in &cells {
        println!("{:<34}{:>10.2}{:>10.2}", cell.name, cell.best, cell.best / floor);
    }
}

const FLOOR: &str = "2 clock reads + 32-byte store";

static WORD: AtomicU64 = AtomicU64::new(0);

fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has rdtsc; it touches no memory.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Instant::now().elapsed().as_nanos() as u64
    }
}

thread_local! {
    static RING: UnsafeCell<Vec<[u64; 4]>> = UnsafeCell::new(vec![[1; 4]; 1 << 15]);
}

/// The physical limit: what any recorder with two time stamps must do.
fn floor() -> f64 {
    RING.with(|ring| {
        // SAFETY: this thread's own, and nothing else reaches it meanwhile.
        let ring = unsafe { &mut *ring.get() };
        time(|index| {
            let begin = ticks();
            let slot = &mut ring[index as usize & ((1 << 15) - 1)];
            *black_box(slot) = [begin, ticks(), index, 7];
        })
    })
}

fn profiler(options: ProfilerOptions) -> (tempfile::TempDir, Profiler) {
    let folder = tempfile::tempdir_in(if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" })
        .expect("a temporary folder");
    let profiler = Platform::host().profiler(options.repository_path(folder.path())).expect("good options");
    (folder, profiler)
}

fn recorded(options: ProfilerOptions, mut body: impl FnMut() -> f64) -> f64 {
    let (_folder, mut profiler) = profiler(options);
    profiler.start().expect("no other session");
    let ns = body();
    let profile = profiler.stop().expect("writes").expect("was running");
    assert_eq!(profile.dropped_scopes, 0);
    ns
}

fn zprof_none() -> f64 {
    time(|_| {
        zprof::scope!("none");
    })
}

fn zprof_ints() -> f64 {
    time(|index| {
        zprof::scope!("ints", a = index, b = 7_u32);
    })
}

fn zprof_text() -> f64 {
    let texts = ["greedy", "sample", "beam"];
    time(|index| {
        zprof::scope!("text", mode = black_box(texts[index as usize % 3]), b = index);
    })
}

/// The bodies of the zprof cells without the scope, to show what the loop itself costs.
fn loop_text() -> f64 {
    let texts = ["greedy", "sample", "beam"];
    time(|index| {
        black_box((texts[index as usize % 3], index));
    })
}

/// Directives that name this module, and what they say of it.
const TAKEN: &str = "hot_path=verbose,other=off";
const LEFT_OUT: &str = "hot_path=off";

struct Quiet;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Quiet {}

fn tracing_with(body: impl FnOnce() -> f64) -> f64 {
    use tracing_subscriber::layer::SubscriberExt as _;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(Quiet), body)
}

struct Drop;

impl fastrace::collector::Reporter for Drop {
    fn report(&mut self, spans: Vec<fastrace::prelude::SpanRecord>) {
        black_box(spans);
    }
}

fn fastrace_with(mut body: impl FnMut(u64)) -> f64 {
    // fastrace keeps at most 10,240 spans under one local parent, so there is a new one now and then.
    const PER_PARENT: u64 = 8_000;
    let mut total = 0;
    let mut index = 0;
    while index < SCOPES {
        let root = fastrace::Span::root("root", fastrace::prelude::SpanContext::random());
        let parent = root.set_local_parent();
        let start = Instant::now();
        for _ in 0..PER_PARENT.min(SCOPES - index) {
            body(index);
            index += 1;
        }
        total += start.elapsed().as_nanos();
        drop(parent);
        drop(root);
    }
    total as f64 / SCOPES as f64
}

fn puffin_with(body: impl FnMut(u64)) -> f64 {
    puffin::set_scopes_on(true);
    let ns = {
        puffin::profile_scope!("outer");
        time(body)
    };
    puffin::set_scopes_on(false);
    puffin::GlobalProfiler::lock().new_frame();
    ns
}

fn one_thread(rounds: usize) {
    fastrace::set_reporter(Drop, fastrace::collector::Config::default());
    let options = ProfilerOptions::default;
    table(
        "one thread",
        rounds,
        vec![
            cell("relaxed load", || {
                time(|_| {
                    black_box(WORD.load(Ordering::Relaxed));
                })
            }),
            cell("2 clock reads", || {
                time(|_| {
                    black_box((ticks(), ticks()));
                })
            }),
            cell(FLOOR, floor),
            cell("loop with a text", loop_text),
            cell("zprof off", zprof_none),
            cell("zprof off, 2 ints", zprof_ints),
            cell("zprof on", move || recorded(options(), zprof_none)),
            cell("zprof on, 2 ints", move || recorded(options(), zprof_ints)),
            cell("zprof on, text + int", move || recorded(options(), zprof_text)),
            cell("zprof on, taken by a directive", move || recorded(options().directives(TAKEN), zprof_none)),
            cell("zprof on, left out by one", move || recorded(options().directives(LEFT_OUT), zprof_none)),
            cell("tracing", || tracing_with(|| time(|_| drop(tracing::info_span!("none").entered())))),
            cell("tracing, 2 ints", || {
                tracing_with(|| time(|index| drop(tracing::info_span!("ints", a = index, b = 7).entered())))
            }),
            cell("tracing, text + int", || {
                tracing_with(|| time(|index| drop(tracing::info_span!("text", mode = "greedy", b = index).entered())))
            }),
            cell("fastrace", || fastrace_with(|_| drop(fastrace::local::LocalSpan::enter_with_local_parent("none")))),
            cell("fastrace, 2 ints", || {
                fastrace_with(|index| {
                    drop(
                        fastrace::local::LocalSpan::enter_with_local_parent("ints")
                            .with_properties(|| [("a", index.to_string()), ("b", "7".to_owned())]),
                    );
                })
            }),
            cell("fastrace, text + int", || {
                fastrace_with(|index| {
                    drop(
                        fastrace::local::LocalSpan::enter_with_local_parent("text")
                            .with_properties(|| [("mode", "greedy".to_owned()), ("b", index.to_string())]),
                    );
                })
            }),
            cell("puffin", || {
                puffin_with(|_| {
                    puffin::profile_scope!("none");
                })
            }),
            cell("puffin, text", || {
                puffin_with(|_| {
                    puffin::profile_scope!("text", "greedy");
                })
            }),
        ],
    );
}

/// Cost per thread when two threads run `body` at the same time.
fn twice(body: impl Fn() -> f64 + Sync) -> f64 {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let run = || {
            barrier.wait();
            body()
        };
        let other = scope.spawn(run);
        let mine = run();
        mine.max(other.join().expect("the other thread ends well"))
    })
}

/// Where only the latest megabyte is kept.
fn ring(rounds: usize) {
    let options = || ProfilerOptions::default().keep_last_bytes(1 << 20);
    /// Comes round several times.
    fn round(scopes: fn() -> f64) -> impl FnMut() -> f64 {
        move || (0..6).map(|_| scopes()).skip(2).fold(f64::INFINITY, f64::min)
    }
    fn inside(scopes: fn() -> f64) -> impl FnMut() -> f64 {
        move || {
            zprof::scope!("outer", since = "the start");
            (0..6).map(|_| scopes()).skip(2).fold(f64::INFINITY, f64::min)
        }
    }
    /// Three in another, as a program nests them: what is open when a chunk is full began in it.
    fn nested() -> f64 {
        time(|index| {
            if index % 4 == 0 {
                zprof::scope!("outer");
                for _ in 0..3 {
                    zprof::scope!("inner");
                }
            }
        })
    }
    table(
        "where only the latest megabyte is kept",
        rounds,
        vec![
            cell(FLOOR, floor),
            cell("all kept", || recorded(ProfilerOptions::default(), zprof_none)),
            cell("ring", move || recorded(options(), round(zprof_none))),
            cell("ring, inside a long scope", move || recorded(options(), inside(zprof_none))),
            cell("all kept, 2 ints", || recorded(ProfilerOptions::default(), zprof_ints)),
            cell("ring, 2 ints", move || recorded(options(), round(zprof_ints))),
            cell("all kept, nested", || recorded(ProfilerOptions::default(), nested)),
            cell("ring, nested", move || recorded(options(), round(nested))),
        ],
    );
}

fn two_threads(rounds: usize) {
    let options = ProfilerOptions::default;
    table(
        "two threads at once, per thread",
        rounds,
        vec![
            cell(FLOOR, || twice(floor)),
            cell("zprof on", move || recorded(options(), || twice(zprof_none))),
            cell("zprof on, 2 ints", move || recorded(options(), || twice(zprof_ints))),
            cell("zprof on, text + int", move || recorded(options(), || twice(zprof_text))),
            cell("tracing", || twice(|| tracing_with(|| time(|_| drop(tracing::info_span!("none").entered()))))),
            cell("puffin", || {
                twice(|| {
                    puffin_with(|_| {
                        puffin::profile_scope!("none");
                    })
                })
            }),
        ],
    );
}

/// Memory that is touched for the first time: within what start makes ready, and beyond it.
fn first_touch(rounds: usize) {
    fn beyond() -> f64 {
        // Spends what was made ready, at two integers' 40 bytes a scope, then measures.
        (0..12).map(|_| zprof_ints()).skip(9).fold(f64::INFINITY, f64::min)
    }
    let options = ProfilerOptions::default;
    table(
        "memory touched for the first time, 2 ints",
        rounds,
        vec![
            cell(FLOOR, floor),
            cell("within prefault_bytes", move || recorded(options(), zprof_ints)),
            cell("beyond prefault_bytes", move || recorded(options(), beyond)),
            cell("nothing made ready", move || recorded(options().prefault_bytes(0), beyond)),
        ],
    );
}
