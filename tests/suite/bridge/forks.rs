//! Forks while other threads tell `tracing` and `log` of things: a child finds no lock taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use log::LevelFilter;
use tracing::Dispatch;
use zprof::ProfilerOptions;
use zprof::log::Recorder;
use zprof_tests::profile::Session;

use super::dispatch;

/// A span, an event in it and a message.
fn tell(subscriber: &Dispatch, recorder: &Recorder<&dyn log::Log>) {
    tracing::dispatcher::with_default(subscriber, || {
        let _span = tracing::info_span!("forked").entered();
        tracing::info!("event");
        log::info!(logger: recorder, "message");
    });
}

/// Whether a child of a fork comes to its end.
#[allow(unsafe_code)] // there is no safe fork
fn child_ends(body: impl FnOnce()) -> bool {
    // SAFETY: the child only runs what tolerates a fork, which is what the test is about.
    match unsafe { libc::fork() } {
        0 => {
            // A child that hangs shall not take the test with it.
            // SAFETY: alarm only sets a timer.
            unsafe { libc::alarm(20) };
            body();
            // SAFETY: ends the process at once, without the destructors, which belong to the parent.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = -1;
            // SAFETY: the pointer is to a live integer.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            waited == child && status == 0
        }
    }
}

#[test]
fn a_child_waits_for_no_lock_of_a_thread_that_did_not_come_along() {
    log::set_max_level(LevelFilter::Trace);
    let (subscriber, recorder) = (dispatch(), Recorder::around(log::logger()));
    let mut session = Session::new(ProfilerOptions::default().keep_last_bytes(1 << 16));
    session.start();
    let over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    tell(&subscriber, &recorder);
                }
            });
        }
        let ended = (0..300).take_while(|_| child_ends(|| (0..50).for_each(|_| tell(&subscriber, &recorder)))).count();
        over.store(true, Ordering::Relaxed);
        ended
    });
    assert_eq!(ended, 300);
    session.stop();
}
