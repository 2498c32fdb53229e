//! Finding out which tools listen, without ever waiting long for the loader's lock.
//!
//! A tool's library may have to be loaded, and runs code of its own then. That happens on a thread of its own, since the
//! scope that asks may be in a constructor of a library, which runs under the loader's lock, or in the destructor of a
//! thread-local.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{BACKENDS, Backend, Seen, wait_for_loader};
use crate::thread_name;
use crate::warn::warn;

/// Name of the thread that asks.
const NAME: &str = "zprof-probe";

/// How long scopes wait for the loader to be free. Where it is not in time, tools attach as soon as it is.
const LOADER_LIMIT: Duration = Duration::from_millis(200);
/// How long scopes wait for the tools themselves, from when these are asked.
const TOOL_LIMIT: Duration = Duration::from_secs(20);

/// How far the probe is that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    /// There is none.
    None,
    /// Since then it waits for the loader's lock.
    Loader(Instant),
    /// Since then it loads and asks.
    Tools(Instant),
    /// A fork took it away while it loaded: what it has left half done, nobody can ask again.
    Lost,
}

impl Stage {
    /// How long a scope still waits for the probe; `None` where it goes on without.
    fn left(self, now: Instant) -> Option<Duration> {
        let (since, limit) = match self {
            Self::None | Self::Lost => return None,
            Self::Loader(since) => (since, LOADER_LIMIT),
            Self::Tools(since) => (since, TOOL_LIMIT),
        };
        limit.checked_sub(now.saturating_duration_since(since)).filter(|left| !left.is_zero())
    }
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::None);
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// This thread is in `probe`: a scope of its allocator must not wait for itself.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Who asks, and what becomes of the answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// The backends that are known to have a tool; `None` where it is no longer of interest which others have.
    pub(crate) known: fn() -> Option<Seen>,
    /// Takes backends that have a tool; called on another thread too, and later, where the loader is busy or a tool
    /// takes long.
    pub(crate) found: fn(Seen),
    /// All have been asked, or take so long that scopes go on without.
    pub(crate) asked: fn(),
}

/// Asks each backend that is not known to have a tool whether there is one now.
#[cold]
pub(crate) fn probe(asker: Asker) {
    // The start of the thread that asks allocates, and a scope of its allocator must not wait for it either.
    if BACKENDS.is_empty() || thread_name::is_named(NAME) || WITHIN.replace(true) {
        return;
    }
    let mut stage = lock();
    if *stage == Stage::None {
        // Known under the lock only: a probe may have ended since the scope looked.
        if let Some(known) = (asker.known)() {
            *stage = Stage::Loader(Instant::now());
            drop(stage);
            begin(known, asker);
            stage = lock();
        }
    }
    if !wait(stage) {
        (asker.asked)();
        log::debug!("profiling tools are not ready yet; scopes show up in them once they are");
    }
    WITHIN.set(false);
}

/// The probe that goes on; it is over when this is dropped, by a panic of the program's logger too.
struct Probe(Asker);

impl Drop for Probe {
    fn drop(&mut self) {
        (self.0.asked)();
        set(Stage::None);
    }
}

/// Asks those backends that need no library, and has a thread ask the others.
fn begin(known: Seen, asker: Asker) {
    let probe = Probe(asker);
    let backends = BACKENDS.iter().copied().enumerate().filter(|(place, _)| known >> place & 1 == 0);
    let (loading, ready): (Vec<_>, Vec<_>) = backends.partition(|(_, backend)| backend.may_load());
    attach(ready, asker.found);
    if loading.is_empty() {
        return;
    }
    let spawned = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
        WITHIN.set(true);
        let probe = probe;
        wait_for_loader();
        set(Stage::Tools(Instant::now()));
        attach(loading, asker.found);
        drop(probe);
    });
    if let Err(error) = spawned {
        warn(format_args!("failed to look for profiling tools: no thread: {error}"));
    }
}

/// Waits for the end of the probe, as long as the stage that it is in allows; `false` if that was too short.
fn wait(mut stage: MutexGuard<'_, Stage>) -> bool {
    while *stage != Stage::None {
        let Some(left) = stage.left(Instant::now()) else { return false };
        stage = CHANGED.wait_timeout(stage, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

fn lock() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set(stage: Stage) {
    *lock() = stage;
    CHANGED.notify_all();
}

fn attach(backends: Vec<(usize, &'static dyn Backend)>, found: fn(Seen)) {
    for (place, backend) in backends {
        if backend.attach() {
            found(1 << place);
        }
    }
}

/// The lock that a fork must not find taken.
pub(crate) type Held = MutexGuard<'static, Stage>;

/// Takes it.
#[allow(dead_code)] // not everywhere is there a fork
pub(crate) fn hold() -> Held {
    lock()
}

/// In the child of a fork: the probe's thread did not come along.
#[allow(dead_code)] // as above
pub(super) fn after_fork() {
    let mut stage = lock();
    *stage = match *stage {
        Stage::None | Stage::Loader(_) => Stage::None,
        Stage::Tools(_) | Stage::Lost => Stage::Lost,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_waits_no_longer_than_who_came_first() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(Stage::Tools(begun).left(after(5)), Some(Duration::from_secs(15)));
        assert_eq!(Stage::Tools(begun).left(after(20)), None);
        assert_eq!(Stage::Tools(begun).left(after(100)), None);
        assert_eq!(Stage::Loader(begun).left(begun), Some(LOADER_LIMIT));
        assert_eq!(Stage::Loader(begun).left(after(1)), None);
        // A clock that another thread read a little earlier.
        assert_eq!(Stage::Tools(after(1)).left(begun), Some(TOOL_LIMIT));
        assert_eq!([Stage::None, Stage::Lost].map(|stage| stage.left(begun)), [None, None]);
    }
}
