//! Sessions for the tests of programs: kept in memory, on a clock that the test moves, and given back as plain values.
//!
//! ```
//! # extern crate zprof_runtime as zprof;
//! use std::time::Duration;
//!
//! # fn main() -> zprof::Result<()> {
//! # if !zprof::ENABLED { return Ok(()) }
//! let recorded = zprof::testing::record(|clock| {
//!     // zprof::scope!("work");
//!     clock.advance(Duration::from_millis(5)); // the only way for time to pass
//!     assert_eq!(clock.now(), Duration::from_millis(5));
//! })?;
//! println!("{}", recorded.tree()); // `work 5ms`
//! # assert_eq!(recorded, zprof::testing::record(|_| ())?);
//! # Ok(())
//! # }
//! ```
//!
//! What is recorded is what a profile would have, and by the same way: the recorder does not know that it is tested. Only
//! time differs, which stands still until [`Clock::advance`] moves it, so that durations are exact. Nothing is written, and no
//! accelerator is asked. Live tools see the marks as ever.
//!
//! A process has one session at a time. Tests that run at once in one process wait for each other here, and each gets what its
//! own thread did; see [`Clock::include_thread`] for more. What other threads did is apart, in [`Recorded::others`], and standard
//! error has a line on it, which test harnesses show where the test fails. A profiler of the program's own that runs meanwhile is an
//! error, as it is to another profiler.

mod read;
mod values;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::values::{Arg, Counter, Mark, Recorded, Scope, Thread};
use super::{Place, ProfilerOptions, check, check_system, settings};
use crate::clock::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::record::recording::Recording;
use crate::room::OutOfMemory;
use crate::{ENABLED, os};

/// Whose turn it is among the tests of this process.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// This thread has a session, so that waiting for another one would not end.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Records `body`, and gives back what the calling thread did in it, and the threads that it [includes](Clock::include_thread).
///
/// A panic in `body` ends the session and goes on.
///
/// ```
/// # extern crate zprof_runtime as zprof;
/// # fn main() -> zprof::Result<()> {
/// # if !zprof::ENABLED { return Ok(()) }
/// let recorded = zprof::testing::record(|_| {
///     // … what is tested
/// })?;
/// assert_eq!(recorded.scopes().count(), 0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`Session::start`].
pub fn record(body: impl FnOnce(&Clock)) -> Result<Recorded> {
    let session = Session::start()?;
    body(session.clock());
    session.stop()
}

/// Records `body`, and gives back what all threads of the process did meanwhile, those of other tests among them.
///
/// # Errors
///
/// Those of [`Session::start`].
pub fn record_all(body: impl FnOnce(&Clock)) -> Result<Recorded> {
    let session = Session::start()?;
    body(session.clock());
    session.stop_all()
}

/// A session under way. It stays on its thread; dropped, it ends and leaves nothing.
#[derive(Debug)]
#[must_use = "dropped, the session ends at once"]
pub struct Session {
    /// Taken by the stop.
    recording: Option<Recording>,
    clock: Clock,
    options: ProfilerOptions,
    tid: u64,
    // Given up in this order.
    _place: Place,
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    /// Waits until no other test has a session, and starts to record all levels.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) without the feature `enable`, since nothing would be recorded.
    /// [`WrongState`](ErrorKind::WrongState) if the calling thread has a session already, and
    /// [`AlreadyActive`](ErrorKind::AlreadyActive) while a [`Profiler`](crate::Profiler) runs.
    /// [`Io`](ErrorKind::Io) if no thread can be made.
    pub fn start() -> Result<Self> {
        Self::start_with(&ProfilerOptions::default())
    }

    /// The same with the level, the filter, the directives and the memory limit of these options. The others are of no matter:
    /// all is kept, also with [`keep_last`](ProfilerOptions::keep_last).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and [`InvalidInput`](ErrorKind::InvalidInput) where an option cannot work.
    pub fn start_with(options: &ProfilerOptions) -> Result<Self> {
        if !ENABLED {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "failed to start a session for a test: zprof is built without its feature `enable`, so that nothing would be \
                 recorded; give zprof `features = [\"enable\"]` in [dev-dependencies]",
            ));
        }
        if BUSY.get() {
            return Err(Error::new(
                ErrorKind::WrongState,
                "failed to start a session for a test: this thread has one already; stop that first, or record both parts in it",
            ));
        }
        check_system("failed to start a session for a test")?;
        check(options)?;
        // A test that failed has not harmed the next.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::take()?;
        let mut settings = settings(options)?;
        // A test is short; and its threads may meet page faults.
        settings.prefault_bytes = 0;
        // It looks at all that was recorded.
        (settings.keep_ns, settings.keep_bytes) = (None, None);
        let recording = Recording::start(settings)
            .map_err(|error| Error::io("failed to start a session for a test: no helper thread", error))?;
        BUSY.set(true);
        let tid = os::thread_id();
        let clock = Clock(Arc::new(Inner { source: recording.source(), state: Mutex::default() }));
        place.settle();
        Ok(Self { recording: Some(recording), clock, options: options.clone(), tid, _place: place, _turn: turn })
    }

    /// The clock of this session.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stops, and gives back what the calling thread did, and the threads that were [included](Clock::include_thread); what others
    /// did is in [`others`](Recorded::others). A scope that is still open is [`Unfinished`](Mark::Unfinished).
    ///
    /// # Errors
    ///
    /// [`InvalidData`](ErrorKind::InvalidData) if what was recorded cannot be read back, which is a fault of zprof's.
    pub fn stop(self) -> Result<Recorded> {
        let mut threads = self.clock.state().threads.clone();
        threads.insert(self.tid);
        let recorded = self.read(Some(&threads))?;
        if let Some(told) = recorded.told_of_others() {
            // Only this way is it the test's output; where that is closed, nobody reads it.
            let _ = catch_unwind(|| eprintln!("{told}"));
        }
        Ok(recorded)
    }

    /// Stops, and gives back what all threads of the process did, those of other tests among them.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn stop_all(self) -> Result<Recorded> {
        self.read(None)
    }

    fn read(mut self, threads: Option<&BTreeSet<u64>>) -> Result<Recorded> {
        let Some(recording) = self.recording.take() else { return Ok(Recorded::default()) };
        let recorded = recording.stop().map_err(OutOfMemory::error)?;
        let steps = std::mem::take(&mut self.clock.state().steps);
        read::read(recorded, threads, self.tid, &steps, &self.options)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(recording) = self.recording.take() {
            // Dropped, a record gives its chunks back.
            drop(recording.stop());
        }
        BUSY.set(false);
    }
}

/// The clock of a session for tests: it stands at zero when the session starts, and goes on only where it is told to.
///
/// It may be cloned, and given to other threads.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their ticks.
    steps: Vec<Step>,
    /// Kernel ids of the included threads.
    threads: BTreeSet<u64>,
}

/// From this tick on, so much time has passed.
#[derive(Clone, Copy, Debug)]
struct Step {
    tick: u64,
    passed: Duration,
}

/// Ticks that go by at each step, so that what comes before it and after it is told apart, also on another processor.
const MARGIN: u64 = 1_000;

impl Clock {
    /// Lets time pass: what was recorded before this is `by` earlier than what follows, on all threads.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        let before = self.0.source.now();
        while self.0.source.now() < before.saturating_add(MARGIN) {
            std::hint::spin_loop();
        }
        let passed = state.steps.last().map_or(Duration::ZERO, |last| last.passed).saturating_add(by);
        state.steps.push(Step { tick: before + MARGIN / 2, passed });
    }

    /// How much time has passed since the session started.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.state().steps.last().map_or(Duration::ZERO, |last| last.passed)
    }

    /// Makes the calling thread one of the test's: what it does is recorded too, before this call as after it.
    ///
    /// ```
    /// # extern crate zprof_runtime as zprof;
    /// # fn main() -> zprof::Result<()> {
    /// # if !zprof::ENABLED { return Ok(()) }
    /// let recorded = zprof::testing::record(|clock| {
    ///     std::thread::scope(|threads| {
    ///         threads.spawn(|| {
    ///             clock.include_thread();
    ///             // … marks
    ///         });
    ///     });
    /// })?;
    /// # assert_eq!(recorded.threads, []);
    /// # Ok(())
    /// # }
    /// ```
    pub fn include_thread(&self) {
        self.state().threads.insert(os::thread_id());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
