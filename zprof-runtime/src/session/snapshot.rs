//! Snapshots: what a session holds, written while it goes on, from whatever thread asks.

use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::device::Collected;
use super::exit::{self, Noted};
use super::files::RunFiles;
use super::options::ProfilerOptions;
use super::place::check_system;
use super::{Profile, Unwritten, assemble};
use crate::ENABLED;
use crate::atomic::AtomicU64;
use crate::error::{Error, ErrorKind, Result};
use crate::os::{FileLimit, HAS_SESSIONS};
use crate::record::lock::Mutex;
use crate::record::recording::{Live, Recorded};
use crate::room::OutOfMemory;
use crate::warn::warn;

/// The session that runs, and whose snapshot is being written.
#[derive(Debug)]
struct State {
    running: Option<Arc<Running>>,
    /// Process that writes a snapshot. In the child of a fork, what another thread of the parent was at does not count.
    writing: Option<u32>,
}

/// Held for moments only, and never over a fork: whoever locks it holds the recorder's gate.
static STATE: Mutex<State> = Mutex::new(State { running: None, writing: None });

/// A snapshot has been written.
static WRITTEN: Condvar = Condvar::new();

/// What a snapshot needs to know of the session.
#[derive(Debug)]
pub(super) struct Running {
    live: Live,
    options: ProfilerOptions,
    files: RunFiles,
    /// Name of the plugin that profiles too.
    plugin: Option<String>,
    /// Panics of which there is a snapshot, and panics in all.
    panics: [AtomicU64; 2],
    /// When the last of those snapshots was, in milliseconds from `started` and at least 1.
    last_panic_ms: AtomicU64,
    /// A snapshot of a panic has been captured and is not written yet.
    holds_panic: AtomicBool,
    started: Instant,
}

/// Panics of a session that leave a snapshot, at most.
const MOST_PANICS: u64 = 16;
/// Time between two of them, in milliseconds.
const PANICS_APART_MS: u64 = 10_000;

thread_local! {
    /// This thread is at work on a session: a panic of ours must not wait for ourselves.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Says that the calling thread is at work on a session, until it is dropped.
pub(super) struct Inside(bool);

impl Inside {
    pub(super) fn enter() -> Self {
        Self(INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true))
    }

    /// Whether the calling thread is at work on a session. Works also when the thread ends.
    pub(super) fn is_here() -> bool {
        INSIDE.try_with(Cell::get).unwrap_or(false)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(self.0));
    }
}

impl Running {
    /// Makes the session one that snapshots can be taken of.
    pub(super) fn publish(live: Live, options: &ProfilerOptions, files: &RunFiles, plugin: Option<&str>) {
        let running = Self {
            live,
            options: options.clone(),
            files: files.names(),
            plugin: plugin.map(str::to_owned),
            panics: [AtomicU64::new(0), AtomicU64::new(0)],
            last_panic_ms: AtomicU64::new(0),
            holds_panic: AtomicBool::new(false),
            started: Instant::now(),
        };
        if options.snapshot_on_panic {
            watch_panics();
        }
        let _gate = crate::record::gate();
        STATE.lock().running = Some(Arc::new(running));
    }

    /// The session is about to stop: no snapshot is taken any more. What to say of it then.
    pub(super) fn withdraw() -> Option<String> {
        let running = {
            let _gate = crate::record::gate();
            STATE.lock().running.take()
        }?;
        let [told, all] = running.panics.each_ref().map(|count| count.load(Ordering::Relaxed));
        (all > told).then(|| {
            format!("of {all} panics, {told} left a snapshot: at most {MOST_PANICS}, and one in {PANICS_APART_MS} ms")
        })
    }

    /// Whether a panic that happens now shall leave a snapshot.
    fn takes_panic(&self) -> bool {
        let [told, all] = &self.panics;
        all.fetch_add(1, Ordering::Relaxed);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let last = self.last_panic_ms.load(Ordering::Relaxed);
        let is_due = last == 0 || now.saturating_sub(last) >= PANICS_APART_MS;
        let takes = is_due
            // A program's hook may take longer than the time between two. One snapshot's memory is held for it, not more.
            && !self.holds_panic.load(Ordering::Relaxed)
            && told.load(Ordering::Relaxed) < MOST_PANICS
            // Of panics at once, one.
            && self.last_panic_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if takes {
            told.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }
}

/// The turn to write a snapshot.
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        let _gate = crate::record::gate();
        STATE.lock().writing = None;
        WRITTEN.notify_one();
    }
}

impl Turn {
    /// Waits until nobody else writes one.
    fn wait() -> Self {
        let mut gate = crate::record::gate();
        loop {
            {
                let mut state = STATE.lock();
                if state.writing != Some(std::process::id()) {
                    state.writing = Some(std::process::id());
                    return Self;
                }
            }
            gate = WRITTEN.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Waits until no other thread writes a snapshot, but no longer than `limit`: the process is about to exit, which would leave
/// half of one.
pub(super) fn settle(limit: Duration) {
    let begun = Instant::now();
    let is_writing = || {
        let _gate = crate::record::gate();
        STATE.lock().writing == Some(std::process::id())
    };
    while is_writing() && begun.elapsed() < limit {
        #[allow(clippy::disallowed_methods)] // the process exits, and waits for a limited time
        thread::sleep(Duration::from_millis(1));
    }
}

/// Writes what the session holds that runs in this process, wherever it was started, while it goes on; can be called
/// from any thread, such as one that serves an administrator or waits for a signal.
///
/// With [`keep_last`](ProfilerOptions::keep_last) or [`keep_last_bytes`](ProfilerOptions::keep_last_bytes) that is what
/// those keep, else all from the start on. Each snapshot has a run's folder of its own beside the session's,
/// `<session_id>-snapshot-1` and so on with the first number that is free, so that none replaces another. All threads
/// are shown up to one moment, that of the call; what is open then is marked `unfinished`. Where threads record so fast
/// that their buffers, within `max_buffer_bytes`, no longer hold that moment when the snapshot reaches them, each of these
/// is shown up to a later moment of its own, and a warning says so. Recording threads do not wait for a snapshot; they drop scopes only where `max_buffer_bytes` is reached, and count them. An accelerator's part is not in it: a plugin gives its profile at the stop only.
///
/// `None` where zprof is built without `enable`. Of several calls at once, one writes at a time.
///
/// ```
/// # extern crate zprof_runtime as zprof;
/// use std::time::Duration;
/// use zprof::{ErrorKind, Platform, ProfilerOptions};
///
/// # fn main() -> zprof::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # if zprof::ENABLED {
/// assert_eq!(zprof::snapshot().expect_err("nothing runs").kind(), ErrorKind::WrongState);
/// # }
/// let options = ProfilerOptions::default().repository_path(folder.path()).keep_last(Duration::from_secs(10));
/// let mut profiler = Platform::host().profiler(options)?;
/// profiler.start()?;
/// let admin = std::thread::spawn(zprof::snapshot);
/// if let Some(profile) = admin.join().expect("no panic")? {
///     assert!(profile.protobuf_path.ends_with("plugins/profile/profiling-snapshot-1/profiling.xplane.pb"));
/// }
/// # profiler.stop()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`WrongState`](ErrorKind::WrongState) where no session runs. [`Io`](ErrorKind::Io) where the files cannot be written, and
/// [`OutOfMemory`](ErrorKind::OutOfMemory) where there is too little to make them; the session goes on, and another call tries
/// anew.
pub fn snapshot() -> Result<Option<Profile>> {
    if !ENABLED {
        return Ok(None);
    }
    let profile = take_quietly()?;
    if let Some(profile) = &profile {
        profile.report();
    }
    Ok(profile)
}

/// [`snapshot`] that tells nobody.
pub(super) fn take_quietly() -> Result<Option<Profile>> {
    let none = no_session();
    if !HAS_SESSIONS {
        return Err(none);
    }
    check_system("failed to take a snapshot")?;
    let _inside = Inside::enter();
    let turn = Turn::wait();
    let captured = Captured::take(|_| true)?.ok_or(none)?;
    captured.write(None, turn).map(Some)
}

fn no_session() -> Error {
    Error::new(ErrorKind::WrongState, "failed to take a snapshot: no session runs; start a profiler first")
}

/// The records of a snapshot, held in the threads' buffers where they were made. Recording goes on beside them, and what is
/// evicted from a ring stays here until this is written or dropped.
struct Captured {
    running: Arc<Running>,
    recorded: Recorded,
    /// How long it took to get hold of all chunks.
    taking: Duration,
    /// The process whose memory this is. In the child of a fork, chunks are empty and their counts of holders are nobody's.
    process: u32,
}

impl Captured {
    /// Captures what the session holds at this moment. `None` where no session runs, or where `wants` says no of the one that does.
    fn take(wants: impl FnOnce(&Running) -> bool) -> Result<Option<Self>> {
        let is_inherited = exit::is_inherited();
        let started = Instant::now();
        // With the gate: a stop comes before or after, not between.
        let _gate = crate::record::gate();
        let running = STATE.lock().running.clone().filter(|_| !is_inherited);
        let Some(running) = running.filter(|running| wants(running)) else { return Ok(None) };
        let recorded = running.live.snapshot().map_err(no_memory)?;
        Ok(Some(Self { running, recorded, taking: started.elapsed(), process: std::process::id() }))
    }

    /// Writes the snapshot; `reason` is a warning in it. The session may have been stopped since it was captured.
    fn write(self, reason: Option<String>, turn: Turn) -> Result<Profile> {
        let Self { running, mut recorded, taking, .. } = self;
        let _limit = FileLimit::block();
        let started = Instant::now();
        recorded.cut().map_err(no_memory)?;
        let mut files = running.files.snapshot()?;
        let mut warnings: Vec<String> = reason.into_iter().chain(files.take_notes()).collect();
        warnings.extend(running.plugin.as_ref().map(|name| {
            format!("only the host is in this snapshot: PJRT plugin `{name}` gives its profile when the session stops")
        }));
        let collected = Collected::none(warnings);
        let mut unwritten =
            match assemble(&mut recorded, collected, &files, &running.options, [taking, started.elapsed()]) {
                Ok(assembled) => assembled.for_files(files),
                Err(error) => {
                    files.give_back();
                    return Err(no_memory(error));
                }
            };
        let written = unwritten.write();
        let Unwritten { files, profile, .. } = unwritten;
        if written.is_err() {
            files.give_back();
        }
        drop(turn);
        written.map(|()| profile)
    }
}

/// The error of a snapshot that found too little memory.
#[cold]
fn no_memory(error: OutOfMemory) -> Error {
    error.error().context("failed to take a snapshot; the session goes on, and a later one may find enough")
}

/// Sees to it that panics leave snapshots; does so once.
fn watch_panics() {
    static WATCHING: Once = Once::new();
    if thread::panicking() {
        warn("panics leave no snapshot: the session was started by a thread that panics, which cannot set a hook");
        return;
    }
    WATCHING.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // The records are captured before the program says anything: a backtrace may take longer to print than records are
            // kept. They are written after it, since that takes a while too and the message must not wait for it.
            let _noted = Noted::of(info);
            let captured = capture_for_panic();
            next(info);
            write_for_panic(info, captured);
        }));
    });
}

/// Captures what is recorded, where the session that runs has snapshots of panics and this one is due.
#[cold]
fn capture_for_panic() -> Result<Option<Captured>> {
    if Inside::is_here() {
        return Ok(None);
    }
    let _inside = Inside::enter();
    let _limit = FileLimit::block();
    let captured = Captured::take(|running| running.options.snapshot_on_panic && running.takes_panic())?;
    if let Some(captured) = &captured {
        captured.running.holds_panic.store(true, Ordering::Relaxed);
    }
    Ok(captured)
}

#[cold]
fn write_for_panic(info: &PanicHookInfo<'_>, captured: Result<Option<Captured>>) {
    let written = captured.and_then(|captured| {
        let Some(captured) = captured else { return Ok(None) };
        if captured.process != std::process::id() {
            // The program's hook has forked, and this is the child. The records are the parent's, which writes them.
            std::mem::forget(captured.recorded);
            return Ok(None);
        }
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        let at = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let reason = format!("this snapshot was taken because thread `{name}` panicked{at}");
        let _inside = Inside::enter();
        let running = Arc::clone(&captured.running);
        let written = captured.write(Some(reason), Turn::wait());
        running.holds_panic.store(false, Ordering::Relaxed);
        written.map(Some)
    });
    match written {
        Ok(Some(profile)) => {
            profile.report();
            warn(format_args!("what came before that panic is in `{}`", profile.protobuf_path.display()));
        }
        Ok(None) => {}
        Err(error) => warn(format_args!("{}", error.told())),
    }
}
