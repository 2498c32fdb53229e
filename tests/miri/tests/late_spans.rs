//! Spans that end when their thread does. Where the target has no thread-locals of its own, as `x86_64-pc-windows-gnu` has none,
//! the recorder of the thread has been freed by then, and a scope that opens still later gets another one.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::thread;

/// More than fit in a thread's first chunk, ends included.
const SPANS: usize = 200;

/// Opens a scope late in its thread's life, and then ends the spans.
struct Held(RefCell<Vec<zprof::Span>>);

impl Drop for Held {
    fn drop(&mut self) {
        zprof::scope!("late", {});
        drop(self.0.take());
    }
}

thread_local! {
    static HELD: Held = const { Held(RefCell::new(Vec::new())) };
}

fn hold(count: usize) {
    HELD.with(|held| held.0.borrow_mut().extend((0..count).map(|_| zprof::span!("held"))));
}

#[test]
fn spans_that_end_after_their_recorder_write_nothing_elsewhere() {
    let session = zprof::testing::Session::start().expect("no other session runs");
    // On one thread the spans are made before the recorder, so that they go after it; on the other it is the other way round.
    thread::spawn(|| {
        HELD.with(|_| ());
        hold(SPANS);
    })
    .join()
    .expect("the thread ends well");
    thread::spawn(|| {
        zprof::scope!("first", {});
        hold(SPANS);
    })
    .join()
    .expect("the thread ends well");
    let recorded = session.stop_all().expect("the session can be read");
    let scopes = || recorded.threads.iter().flat_map(|thread| &thread.scopes);
    let count = |name: &str| scopes().filter(|scope| scope.name == name).count();
    assert_eq!((count("held"), count("first")), (2 * SPANS, 1));
    // Recorded or counted, by the order in which the system runs destructors.
    let late = u64::try_from(count("late")).expect("a few");
    assert_eq!(late + recorded.dropped_scopes, 2);
}
