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

/// A running helper.
#[derive(Debug)]
pub(crate) struct Helper {
    thread: JoinHandle<()>,
    /// Gives its anchors when it stops.
    anchors: Mutex<Receiver<Vec<Anchor>>>,
    stop: Arc<AtomicBool>,
    process: u32,
}

impl Helper {
    /// Starts the helper; it takes its first anchor after a second.
    pub(crate) fn start(source: Source) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let (give, anchors) = channel();
        let work = move || run(source, &seen, &give);
        let thread = thread::Builder::new().name("zprof-helper".to_owned()).spawn(work)?;
        *AWAKE.lock() = Some(thread.thread().clone());
        Ok(Self { thread, anchors: Mutex::new(anchors), stop, process: std::process::id() })
    }

    /// Ends the helper and returns its anchors. In the child of a fork there is no helper, and no anchors.
    pub(crate) fn stop(self) -> Vec<Anchor> {
        *AWAKE.lock() = None;
        if self.process != std::process::id() {
            // The thread did not come along, and joining it would never end.
            std::mem::forget(self);
            return Vec::new();
        }
        // Relaxed: the flag carries nothing.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let anchors = self.anchors.lock().recv().unwrap_or_default();
        if !ABORTING.load(Ordering::Relaxed) {
            // What it panics with is told.
            drop(self.thread.join());
        }
        anchors
    }
}

/// Says that the process is being aborted: nobody waits for the helper's end then, only for its anchors. Where a stack has
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

/// The lock that a fork must not find taken.
#[cfg(unix)]
pub(crate) type Held = std::sync::MutexGuard<'static, Option<Thread>>;

/// Takes it.
#[cfg(unix)]
pub(crate) fn hold() -> Held {
    AWAKE.lock()
}

fn run(source: Source, stop: &AtomicBool, give: &Sender<Vec<Anchor>>) {
    LOCAL.with(Local::keep_out);
    let mut anchors = Vec::new();
    let mut next = Instant::now() + ANCHOR_EVERY;
    while !stop.load(Ordering::Relaxed) {
        SHARED.pool.refill();
        let now = Instant::now();
        if now >= next {
            anchors.push(Anchor::take(source));
            next = now + ANCHOR_EVERY;
        }
        thread::park_timeout(next.saturating_duration_since(now));
    }
    // Where nobody takes them, nobody needs them.
    let _ = give.send(anchors);
}
