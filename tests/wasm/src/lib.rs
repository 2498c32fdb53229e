//! A program for WebAssembly, where marks work and sessions are an error: `scripts/wasm-check` builds and runs it.
#![allow(unsafe_code)] // exports functions

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use zprof::{ErrorKind, Platform, ProfilerOptions, TraceFuture as _};

#[zprof::trace(n, ret)]
fn work(n: u32) -> u32 {
    zprof::scope!("inner", k = n, text = "some");
    zprof::instant!("mark", n);
    zprof::counter!("queue", n);
    let flow = zprof::flow();
    zprof::scope!("submit", sends = flow, {});
    let mut span = zprof::span!("span");
    span.record("late", n);
    span.end();
    log::warn!("message");
    zprof::step!("train", n, { n + 1 })
}

#[zprof::trace]
async fn later(n: u32) -> u32 {
    async move { work(n) }.traced(zprof::task!("task", n)).await
}

fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// 0 where everything is as it shall be, else the number of the first check that is not. A panic is a trap, which ends the
/// program.
#[unsafe(no_mangle)]
pub extern "C" fn run(is_asked: bool) -> u32 {
    let kind = |error: zprof::Error| error.kind();
    log::set_max_level(log::LevelFilter::Off);
    zprof::name_thread("main");
    let Ok(mut profiler) = Platform::host().profiler(ProfilerOptions::default()) else { return 100 };
    let from_env = || zprof::init_from_env().map_err(kind);
    let of_env = if is_asked { Err(ErrorKind::Unsupported) } else { Ok(false) };
    let recorded = zprof::testing::record(|_| {
        work(5);
    });
    let checks = [
        from_env() == of_env,
        work(1) == 2,
        now(later(3)) == Some(4),
        Platform::auto().is_ok_and(|platform| platform.name() == "host"),
        profiler.start().map_err(kind) == Err(ErrorKind::Unsupported),
        profiler.snapshot().map_err(kind).err() == Some(ErrorKind::WrongState),
        matches!(profiler.stop(), Ok(None)),
        zprof::snapshot().map_err(kind).err() == Some(ErrorKind::WrongState),
        recorded.map_err(kind).err() == Some(ErrorKind::Unsupported),
        Platform::load("plugin.so").map_err(kind).err() == Some(ErrorKind::Plugin),
    ];
    zprof::finish();
    drop(profiler);
    let again = [work(6) == 7, from_env() == of_env];
    let failed = checks.into_iter().chain(again).position(|passed| !passed);
    failed.map_or(0, |index| u32::try_from(index + 1).unwrap_or(u32::MAX))
}
