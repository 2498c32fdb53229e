//! One program with and without marks, built twice to be compared: with `--cfg zprof_marked` it has marks of every form.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[cfg(zprof_marked)]
use zprof::TraceFuture as _;

#[cfg_attr(zprof_marked, derive(zprof::Value))]
#[derive(Clone, Copy)]
enum Mode {
    Greedy,
    Sampled,
}

#[cfg_attr(zprof_marked, zprof::trace("marked.function", n, mode, level = info, ret))]
#[inline(never)]
fn function(n: u64, mode: Mode) -> u64 {
    n.rotate_left(3) ^ if matches!(mode, Mode::Sampled) { 7 } else { 9 }
}

#[inline(never)]
fn body(words: &[u64], name: &str) -> Result<u64, u64> {
    let _ = name;
    #[cfg(zprof_marked)]
    zprof::scope!("marked.statement", words = words.len(), name, root = true);
    #[cfg(zprof_marked)]
    zprof::scope!(dyn name, n = expensive(name));
    #[cfg(zprof_marked)]
    let mut span = zprof::span!("marked.span", last = words.last().copied());
    #[cfg(zprof_marked)]
    let flow = zprof::flow();
    #[cfg(zprof_marked)]
    zprof::name_thread("marked.thread");
    #[cfg(zprof_marked)]
    zprof::name_worker("marked.pool")(words.len());
    let mut sum = 0_u64;
    for word in words {
        #[cfg(zprof_marked)]
        zprof::step!("marked.step", *word, sends = flow);
        sum = sum.wrapping_mul(31).wrapping_add(*word);
        #[cfg(zprof_marked)]
        zprof::counter!("marked.counter", unit = sum);
        if sum == 17 {
            #[cfg(zprof_marked)]
            zprof::instant!("marked.instant", sum, receives = flow);
            return Err(sum);
        }
    }
    #[cfg(zprof_marked)]
    span.record("marked.late", sum);
    #[cfg(zprof_marked)]
    span.end();
    Ok(sum)
}

#[cfg(zprof_marked)]
#[inline(never)]
fn expensive(name: &str) -> usize {
    black_box(name).len()
}

#[cfg_attr(zprof_marked, zprof::trace("marked.future", n, err))]
async fn future(n: u64) -> Result<u64, String> {
    let half = half(n);
    #[cfg(zprof_marked)]
    let half = half.traced(zprof::task!("marked.task", n, text = "x"));
    Ok(half.await + 1)
}

async fn half(n: u64) -> u64 {
    n / 2
}

#[inline(never)]
fn asynchronous(n: u64) -> u64 {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future(n)).poll(&mut context) {
        Poll::Ready(Ok(value)) => value,
        Poll::Ready(Err(_)) | Poll::Pending => 0,
    }
}

fn main() {
    let words: Vec<u64> = (0..std::env::args().count() as u64).collect(); // a count fits
    let modes = [Mode::Greedy, Mode::Sampled];
    println!(
        "twins: {} {:?} {}",
        function(3, modes[words.len() % 2]),
        body(black_box(&words), "name"),
        asynchronous(9)
    );
}
