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
    /// Older than the recorder's own thread-locals, so that its destructor runs after theirs on Windows.
    static OLDER: Held = const { Held(RefCell::new(Vec::new())) };
    /// Newer than these.
    static NEWER: Held = const { Held(RefCell::new(Vec::new())) };
}

#[test]
fn spans_that_end_after_their_recorder_write_nothing_elsewhere() {
    OLDER.with(|_| ());
    let session = zprof::testing::Session::start().expect("no other session runs");
    thread::spawn(|| {
        for held in [&OLDER, &NEWER] {
            held.with(|held| held.0.borrow_mut().extend((0..SPANS).map(|_| zprof::span!("held"))));
        }
    })
    .join()
    .expect("the thread ends well");
    let recorded = session.stop_all().expect("the session can be read");
    let scopes = || recorded.threads.iter().flat_map(|thread| &thread.scopes);
    let count = |name: &str| scopes().filter(|scope| scope.name == name).count();
    assert_eq!(count("held"), 2 * SPANS);
    // Recorded or counted, by the order in which the system runs destructors.
    let late = u64::try_from(count("late")).expect("a few");
    assert_eq!(late + recorded.dropped_scopes, 2);
}
