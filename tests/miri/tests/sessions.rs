//! Sessions in memory while threads record, so small that Miri can try many orders of the threads' steps.
#![forbid(unsafe_code)]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use zprof::TraceFuture as _;
use zprof::testing::Session;

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

#[zprof::trace(n)]
async fn fetch(n: u32) -> u32 {
    let mut is_first = true;
    poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
    n + 1
}

/// Each way to record, once.
fn work(n: u32) {
    zprof::name_thread("worker");
    zprof::scope!("outer", n, text = "some text", opt = Some(n), c = 'x');
    zprof::scope!(dyn if n.is_multiple_of(2) { "even" } else { "odd" }, n);
    let mut first = zprof::span!("first", n);
    let second = zprof::span!("second");
    first.record("bytes", n);
    first.end();
    drop(second);
    zprof::instant!("mark", n);
    zprof::counter!("queue", n);
    let flow = zprof::flow();
    zprof::scope!("submit", sends = flow, { zprof::scope!("run", receives = flow, {}) });
    assert_eq!(block_on(fetch(n).traced(zprof::task!("task", shard = n))), n + 1);
}

/// Held by the test whose turn it is: threads of one must not record in the session of another.
static TURN: Mutex<()> = Mutex::new(());

fn session() -> Session {
    let options = zprof::ProfilerOptions::default().max_buffer_bytes(64 << 10);
    Session::start_with(&options).expect("no other session runs")
}

#[test]
fn threads_that_end_before_the_stop_are_there_whole() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let session = session();
    let threads: Vec<_> = (0..2).map(|n| thread::spawn(move || work(n))).collect();
    for thread in threads {
        thread.join().expect("it ends well");
    }
    let recorded = session.stop_all().expect("the session can be read");
    // What ended out of order is on a line of its own beside its thread's.
    let workers = recorded.threads.iter().filter(|thread| thread.name == "worker").count();
    assert_eq!((workers, recorded.dropped_scopes), (2, 0));
}

#[test]
fn a_stop_reads_what_threads_have_written_so_far() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let first = session();
    let threads: Vec<_> = (0..2).map(|n| thread::spawn(move || work(n))).collect();
    work(9);
    let recorded = first.stop_all().expect("the session can be read");
    assert_eq!(recorded.dropped_scopes, 0);
    // Another session, while threads still end scopes of the first.
    let second = session();
    work(8);
    for thread in threads {
        thread.join().expect("it ends well");
    }
    let recorded = second.stop_all().expect("the session can be read");
    assert_eq!(recorded.dropped_scopes, 0);
}
