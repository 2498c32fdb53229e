//! Marks of every form and level: `zprof-tests-ceiling record FOLDER` records one of each, and
//! `zprof-tests-ceiling spin FORM COUNT` runs a verbose one again and again, without a session.

#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Waker};

use zprof::{Platform, ProfilerOptions, TraceFuture as _};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["record", folder] => record(folder),
        ["spin", form, count] => spin(form, count.parse()?),
        _ => Err(format!("no such part: {arguments:?}").into()),
    }
}

fn poll<F: Future>(future: F) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).poll(&mut context).is_ready()
}

macro_rules! marks {
    ($function:ident $level:tt $scope:tt $block:tt $span:tt $step:tt $instant:tt $counter:tt $traced:tt $later:tt $task:tt) => {
        fn $function(n: u64) -> bool {
            #[zprof::trace($traced, n, ret, level = $level)]
            fn traced(n: u64) -> u64 {
                n + 1
            }

            #[zprof::trace($later, n, level = $level)]
            async fn later(n: u64) -> u64 {
                n + 1
            }

            zprof::scope!($scope, n, level = $level);
            let next = zprof::scope!($block, n, level = $level, { n + 1 });
            let mut span = zprof::span!($span, n, level = $level);
            span.record("next", next);
            span.end();
            zprof::step!($step, n, level = $level, {});
            zprof::instant!($instant, n, level = $level);
            zprof::counter!($counter, n, level = $level);
            let is_ready = poll(later(n));
            let task = zprof::task!($task, n, level = $level);
            traced(n) == next && is_ready && poll(std::future::ready(()).traced(task))
        }
    };
}

marks! { critical critical
"critical scope" "critical block" "critical span" "critical step" "critical instant" "critical counter" "critical function"
"critical future" "critical task" }
marks! { info info
"info scope" "info block" "info span" "info step" "info instant" "info counter" "info function" "info future" "info task" }
marks! { verbose verbose
"verbose scope" "verbose block" "verbose span" "verbose step" "verbose instant" "verbose counter" "verbose function"
"verbose future" "verbose task" }

fn record(folder: &str) -> Result<(), Box<dyn Error>> {
    let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder))?;
    profiler.start()?;
    assert!(critical(1) && info(1) && verbose(1));
    let profile = profiler.stop()?.ok_or("no profile")?;
    println!("{:?} {}", zprof::MAX_LEVEL, profile.protobuf_path.display());
    Ok(())
}

#[zprof::trace("spun function", n, ret, level = verbose)]
#[inline]
fn function(n: u64) -> u64 {
    black_box(n)
}

#[zprof::trace("spun future", n, level = verbose)]
async fn future(n: u64) -> u64 {
    black_box(n)
}

#[allow(clippy::unused_async)] // it stands beside the one that is traced
async fn bare_future(n: u64) -> u64 {
    black_box(n)
}

fn times(count: u64, body: impl Fn(u64)) {
    for n in 0..count {
        body(n);
    }
}

fn spin(form: &str, count: u64) -> Result<(), Box<dyn Error>> {
    match form {
        "bare" => times(count, |n| {
            black_box(n);
        }),
        "scope" => times(count, |n| {
            zprof::scope!("spun scope", n, level = verbose);
            black_box(n);
        }),
        "block" => times(count, |n| {
            zprof::scope!("spun block", n, level = verbose, { black_box(n) });
        }),
        "span" => times(count, |n| {
            let mut span = zprof::span!("spun span", n, level = verbose);
            span.record("more", n);
            black_box(n);
            span.end();
        }),
        "step" => times(count, |n| {
            zprof::step!("spun step", n, level = verbose);
            black_box(n);
        }),
        "instant" => times(count, |n| {
            zprof::instant!("spun instant", n, level = verbose);
            black_box(n);
        }),
        "counter" => times(count, |n| {
            zprof::counter!("spun counter", n, level = verbose);
            black_box(n);
        }),
        "function" => times(count, |n| {
            function(n);
        }),
        "bare future" => times(count, |n| {
            poll(bare_future(n));
        }),
        "future" => times(count, |n| {
            poll(future(n));
        }),
        "task" => times(count, |n| {
            poll(bare_future(n).traced(zprof::task!("spun task", n, level = verbose)));
        }),
        _ => return Err(format!("no such form: {form}").into()),
    }
    Ok(())
}
