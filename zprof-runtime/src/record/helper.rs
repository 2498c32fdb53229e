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
use crate::room::{self, Result};

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

/// The anchors between start and now, but the first and the last, behind `first` and with room for one more.
pub(crate) fn anchors(first: Anchor) -> Result<Vec<Anchor>> {
    // Room for all that there may be, so that nothing is allocated under the lock.
    let mut all = room::with_room(MOST_ANCHORS + 2)?;
    all.push(first);
    all.extend_from_slice(&ANCHORS.lock());
    Ok(all)
}

/// Keeps an anchor in the room that was made for all when the helper started.
fn keep(anchor: Anchor) {
    let mut anchors = ANCHORS.lock();
    if anchors.len() >= MOST_ANCHORS.min(anchors.capacity()) {
        let mut is_odd = false;
        anchors.retain(|_| {
            is_odd = !is_odd;
            is_odd
        });
    }
    if anchors.len() < anchors.capacity() {
        anchors.push(anchor);
    }
}

/// Bytes of the helper's stack: as much as the standard library gives a thread, since the program's allocator runs there.
const STACK: usize = 2 << 20;

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
        let no_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let mut anchors = room::with_room(MOST_ANCHORS).map_err(no_memory)?;
        std::mem::swap(&mut *ANCHORS.lock(), &mut anchors);
        drop(anchors);
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let (done, is_done) = channel();
        let work = move || run(source, &seen, &done);
        // A thread that has a stack, but finds no memory for what the standard library makes when it begins, ends the program.
        if !crate::os::has_headroom(STACK + (1 << 20)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let spawn = || thread::Builder::new().stack_size(STACK).name("zprof-helper".to_owned()).spawn(work);
        let thread = crate::os::without_signals(spawn)?;
        let old = AWAKE.lock().replace(thread.thread().clone());
        drop(old);
        Ok(Self { thread, done: Mutex::new(is_done), stop, process: std::process::id() })
    }

    /// Ends the helper. In the child of a fork there is none.
    pub(crate) fn stop(self) {
        let old = AWAKE.lock().take();
        drop(old);
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
        SHARED.pool.refill(SHARED.takes_small());
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
