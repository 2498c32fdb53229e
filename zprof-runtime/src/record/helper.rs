//! The thread `zprof-helper`, alive from start to stop of a session: it keeps faulted-in chunks ready and takes clock
//! anchors.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::primitive::Mutex;
use super::thread::{LOCAL, Local, SHARED};
use crate::clock::{Anchor, Source};

/// The helper to wake, while there is one.
static AWAKE: Mutex<Option<Thread>> = Mutex::new(None);

/// Whether the process is being aborted.
static ABORTING: AtomicBool = AtomicBool::new(false);

/// Time between two anchors.
const ANCHOR_EVERY: Duration = Duration::from_secs(1);

/// Anchors that are kept at most. When there are more, every other one goes: the line through the rest is as good, since
/// the two clocks drift apart slowly.
const MOST_ANCHORS: usize = 4096;

/// The anchors that the helper has taken.
static ANCHORS: Mutex<Vec<Anchor>> = Mutex::new(Vec::new());

/// The anchors between start and now, but the first and the last.
pub(crate) fn anchors() -> Vec<Anchor> {
    ANCHORS.lock().clone()
}

fn keep(anchor: Anchor) {
    let mut anchors = ANCHORS.lock();
    if anchors.len() >= MOST_ANCHORS {
        let mut is_odd = false;
        anchors.retain(|_| {
            is_odd = !is_odd;
            is_odd
        });
    }
    anchors.push(anchor);
}

/// A running helper.
#[derive(Debug)]
pub(crate) struct Helper {
    thread: JoinHandle<()>,
    /// Says that it takes no more anchors.
    done: Mutex<Receiver<()>>,
    stop: Arc<AtomicBool>,
    process: u32,
}

impl Helper {
    /// Starts the helper; it takes its first anchor after a second.
    pub(crate) fn start(source: Source) -> io::Result<Self> {
        ANCHORS.lock().clear();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let (done, is_done) = channel();
        let work = move || run(source, &seen, &done);
        let spawn = || thread::Builder::new().name("zprof-helper".to_owned()).spawn(work);
        let thread = crate::os::without_signals(spawn)?;
        *AWAKE.lock() = Some(thread.thread().clone());
        Ok(Self { thread, done: Mutex::new(is_done), stop, process: std::process::id() })
    }

    /// Ends the helper. In the child of a fork there is none.
    pub(crate) fn stop(self) {
        *AWAKE.lock() = None;
        if self.process != std::process::id() {
            // The thread did not come along, and joining it would never end.
            std::mem::forget(self);
            return;
        }
        // Relaxed: the flag carries nothing.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // Its end says the same, and so does a panic's, by letting go of the other half.
        let _ = self.done.lock().recv();
        if !ABORTING.load(Ordering::Relaxed) {
            // It has nothing to say, and whether it panicked is told by the panic itself.
            let _ = self.thread.join();
        }
    }
}

/// Says that the process is being aborted: nobody waits for the helper's end then, only for its last anchor. Where a stack has
/// overflowed, the standard library holds what every thread needs at its end.
#[cfg(unix)]
pub(crate) fn abort() {
    ABORTING.store(true, Ordering::Relaxed);
}

/// Asks the helper to refill the pool. Never waits.
pub(crate) fn wake() {
    if let Some(awake) = AWAKE.try_lock() {
        if let Some(helper) = &*awake {
            helper.unpark();
        }
    }
}

/// The locks that a fork must not find taken.
#[cfg(unix)]
pub(crate) type Held = (std::sync::MutexGuard<'static, Option<Thread>>, std::sync::MutexGuard<'static, Vec<Anchor>>);

/// Takes them.
#[cfg(unix)]
pub(crate) fn hold() -> Held {
    (AWAKE.lock(), ANCHORS.lock())
}

fn run(source: Source, stop: &AtomicBool, done: &Sender<()>) {
    LOCAL.with(Local::keep_out);
    let mut next = Instant::now() + ANCHOR_EVERY;
    while !stop.load(Ordering::Relaxed) {
        SHARED.pool.refill();
        let now = Instant::now();
        if now >= next {
            keep(Anchor::take(source));
            next = now + ANCHOR_EVERY;
            if let Some(bounds) = SHARED.bounds() {
                SHARED.sweep(bounds, Source::System.now());
            }
        }
        thread::park_timeout(next.saturating_duration_since(now));
    }
    // Where nobody waits, nobody needs to know.
    let _ = done.send(());
}
