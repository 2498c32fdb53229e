//! Cost of one span and one event of `tracing`, recorded by zprof's layer and by its peers, as ratios to the registry alone.
//!
//! All cells of a table run in the same process, round by round in turn, and the least of the rounds counts. Each has a
//! subscriber of its own, which is gone when the next one runs: callsites ask no other.

use std::hint::black_box;
use std::time::Instant;

use tracing::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use zprof::{Platform, ProfilerOptions};

/// Spans in one measurement: few enough that all stay inside `prefault_bytes`.
const SPANS: u64 = 100_000;
const ROUNDS: usize = 30;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 3 } else { ROUNDS };
    fastrace::set_reporter(Gone, fastrace::collector::Config::default());
    log::set_boxed_logger(Box::new(zprof::log::Recorder::around(log::logger()))).expect("the first logger");
    log::set_max_level(log::LevelFilter::Info);
    for (title, body) in
        [("no fields", none as fn() -> f64), ("2 ints", ints), ("text + int", text), ("an event", event)]
    {
        table(title, rounds, cells(body));
    }
    table("two threads at once, 2 ints, per thread", rounds, pairs());
    table("a message of `log`", rounds, vec![cell("zprof off", || logged(false)), cell("zprof on", || logged(true))]);
}

/// Nanoseconds per call of `body`.
fn time(mut body: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for index in 0..SPANS {
        body(index);
    }
    start.elapsed().as_nanos() as f64 / SPANS as f64
}

fn none() -> f64 {
    time(|_| drop(tracing::info_span!("none").entered()))
}

fn ints() -> f64 {
    time(|index| drop(tracing::info_span!("ints", a = index, b = 7).entered()))
}

fn text() -> f64 {
    let texts = ["greedy", "sample", "beam"];
    time(|index| drop(tracing::info_span!("text", mode = black_box(texts[index as usize % 3]), b = index).entered()))
}

fn event() -> f64 {
    time(|index| tracing::info!(a = index, "a message"))
}

/// A named measurement; it returns ns per span.
struct Cell {
    name: &'static str,
    run: Box<dyn FnMut() -> f64>,
    best: f64,
}

fn cell(name: &'static str, run: impl FnMut() -> f64 + 'static) -> Cell {
    Cell { name, run: Box::new(run), best: f64::INFINITY }
}

const BASE: &str = "registry, an empty layer";

fn table(title: &str, rounds: usize, mut cells: Vec<Cell>) {
    // `--only NAME`: that row alone, for a look with perf.
    if let Some(name) = std::env::args().skip_while(|argument| argument != "--only").nth(1) {
        cells.retain(|cell| cell.name == name);
    }
    for _ in 0..rounds {
        for cell in &mut cells {
            cell.best = cell.best.min((cell.run)());
        }
    }
    let base = cells.iter().find(|cell| cell.name == BASE).map_or(f64::NAN, |cell| cell.best);
    println!("\n{title}\n{:<34}{:>10}{:>10}", "", "ns", "ratio");
    for cell in &cells {
        println!("{:<34}{:>10.2}{:>10.2}", cell.name, cell.best, cell.best / base);
    }
}

struct Quiet;

impl<S: Subscriber> Layer<S> for Quiet {}

/// What passes per-layer filters and does nothing.
fn filtered<S: Subscriber + for<'lookup> LookupSpan<'lookup>>() -> impl Layer<S> + Send + Sync {
    Quiet.with_filter(tracing_subscriber::filter::filter_fn(|_| true))
}

fn within(subscriber: impl Into<Dispatch>, body: impl FnOnce() -> f64) -> f64 {
    tracing::dispatcher::with_default(&subscriber.into(), body)
}

fn ours() -> Dispatch {
    tracing_subscriber::registry().with(zprof::tracing::layer()).into()
}

fn recorded(body: impl FnOnce() -> f64) -> f64 {
    let folder = tempfile::tempdir_in(if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
    let folder = folder.expect("a temporary folder");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let mut profiler = Platform::host().profiler(options).expect("good options");
    profiler.start().expect("no other session");
    let ns = body();
    let profile = profiler.stop().expect("writes").expect("was running");
    assert!(profile.scopes >= SPANS && profile.dropped_scopes == 0, "{} of {SPANS}", profile.scopes);
    ns
}

fn chrome(body: impl FnOnce() -> f64) -> f64 {
    let sink = std::io::sink();
    let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new().writer(sink).include_args(true).build();
    let ns = within(tracing_subscriber::registry().with(layer), body);
    drop(guard);
    ns
}

struct Gone;

impl fastrace::collector::Reporter for Gone {
    fn report(&mut self, spans: Vec<fastrace::prelude::SpanRecord>) {
        black_box(spans);
    }
}

/// fastrace keeps at most 10,240 spans under one local parent; what comes after that costs it less.
fn fastrace_layer(body: impl FnOnce() -> f64) -> f64 {
    let root = fastrace::Span::root("root", fastrace::prelude::SpanContext::random());
    let _parent = root.set_local_parent();
    within(tracing_subscriber::registry().with(fastrace_tracing::FastraceCompatLayer::new()), body)
}

fn cells(body: fn() -> f64) -> Vec<Cell> {
    let registry = tracing_subscriber::registry;
    vec![
        cell("no subscriber", body),
        cell(BASE, move || within(registry().with(Quiet), body)),
        cell("registry, an empty filtered layer", move || within(registry().with(filtered()), body)),
        cell("zprof off", move || within(ours(), body)),
        cell("zprof on", move || within(ours(), || recorded(body))),
        cell("tracing-chrome", move || chrome(body)),
        cell("fastrace-tracing", move || fastrace_layer(body)),
    ]
}

/// Two threads at once, each with the subscriber.
fn twice(dispatch: &Dispatch, body: fn() -> f64) -> f64 {
    let barrier = std::sync::Barrier::new(2);
    let run = || {
        tracing::dispatcher::with_default(dispatch, || {
            barrier.wait();
            body()
        })
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(run);
        let mine = run();
        mine.max(other.join().expect("the other thread ends well"))
    })
}

fn pairs() -> Vec<Cell> {
    vec![
        cell(BASE, || twice(&tracing_subscriber::registry().with(Quiet).into(), ints)),
        cell("zprof on", || {
            let ours = ours();
            recorded(|| twice(&ours, ints))
        }),
    ]
}

fn logged(is_recorded: bool) -> f64 {
    let body = || time(|index| log::info!("message {index}"));
    if is_recorded { recorded(body) } else { body() }
}
