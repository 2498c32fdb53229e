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
use crate::warn::warn;

/// How long a scope waits for the loader to be free. Where it is not in time, tools attach as soon as it is.
const LOADER_LIMIT: Duration = Duration::from_millis(200);
/// How long a scope waits for the tools themselves.
const TOOL_LIMIT: Duration = Duration::from_secs(20);

/// How far the probe is that goes on.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// There is none.
    None,
    /// It waits for the loader's lock.
    Loader,
    /// It loads and asks.
    Tools,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::None);
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// This thread is in `probe`: a scope of its allocator must not wait for itself.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Asks each backend that is not `known` to have a tool whether there is one now. `found` takes those that have; it may
/// be called later and on another thread, where the loader is busy or a tool takes long.
#[cold]
pub(crate) fn probe(known: Seen, found: fn(Seen)) {
    if BACKENDS.is_empty() || WITHIN.replace(true) {
        return;
    }
    let mut stage = lock();
    if *stage == Stage::None {
        *stage = Stage::Loader;
        drop(stage);
        begin(known, found);
        stage = lock();
    }
    wait(stage);
    WITHIN.set(false);
}

/// Asks those backends that need no library, and has a thread ask the others.
fn begin(known: Seen, found: fn(Seen)) {
    let backends = BACKENDS.iter().copied().enumerate().filter(|(place, _)| known >> place & 1 == 0);
    let (loading, ready): (Vec<_>, Vec<_>) = backends.partition(|(_, backend)| backend.may_load());
    attach(ready, found);
    if loading.is_empty() {
        set(Stage::None);
        return;
    }
    let spawned = thread::Builder::new().name("zprof-probe".to_owned()).spawn(move || {
        WITHIN.set(true);
        wait_for_loader();
        set(Stage::Tools);
        attach(loading, found);
        set(Stage::None);
    });
    if let Err(error) = spawned {
        set(Stage::None);
        warn(format_args!("failed to look for profiling tools: no thread: {error}"));
    }
}

/// Waits for the end of the probe, as long as the stage that it is in allows.
fn wait(mut stage: MutexGuard<'_, Stage>) {
    let begun = Instant::now();
    loop {
        let limit = match *stage {
            Stage::None => return,
            Stage::Loader => LOADER_LIMIT,
            Stage::Tools => TOOL_LIMIT,
        };
        let Some(left) = limit.checked_sub(begun.elapsed()) else {
            log::debug!("profiling tools are not ready yet; scopes show up in them once they are");
            return;
        };
        stage = CHANGED.wait_timeout(stage, left).unwrap_or_else(PoisonError::into_inner).0;
    }
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
