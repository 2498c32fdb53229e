//! Sessions that profilers have started and whose profiles are not written yet. A profiler shares its session with the
//! process: the end of the process finishes what no profiler has stopped, such as the session of a profiler in a static.

use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::device::Device;
use super::files::RunFiles;
use super::options::ProfilerOptions;
use super::place::Place;
use super::snapshot::{Inside, Running};
use super::{Profile, Unwritten, convert, discard, lost};
use crate::atomic::AtomicU64;
use crate::error::Result;
use crate::os::FileLimit;
use crate::record::lock::Mutex;
use crate::record::recording::{Recording, trim};

/// Sessions that the end of this process finishes. Held for moments only, and never over a fork: whoever locks it holds
/// the recorder's gate.
static SESSIONS: Mutex<Vec<Arc<Ongoing>>> = Mutex::new(Vec::new());

/// How many there are, for one that must not take the lock.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// How often a thread looks whether another one has finished a session.
const POLL: Duration = Duration::from_millis(1);

/// A session from its start until its profile has been handed out.
///
/// The profiler and the end of the process may want to finish it at the same time. [`state`](Self::state) decides: whoever
/// changes it from a stage at rest to `AT_WORK` has the content for itself until it stores the next stage at rest. The other
/// one waits for that. So `content` is never locked by two threads, and no thread of a forked child finds it locked.
#[derive(Debug)]
pub(super) struct Ongoing {
    /// The stage in the lowest bits. In stage `AT_WORK` the id of the process that is at work is above them, because a child
    /// of a fork that was made meanwhile has no thread that goes on with it.
    state: AtomicU64,
    content: Mutex<Option<Content>>,
    options: ProfilerOptions,
    /// The process that started it.
    process: u32,
}

/// What there is of a session in each stage at rest.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there is one of a session
pub(super) enum Content {
    Running {
        recording: Box<Recording>,
        device: Box<Device>,
        files: Box<RunFiles>,
        place: Place,
    },
    /// Stopped, but the files could not be written: whoever finishes it next tries again.
    Unwritten(Box<Unwritten>),
    /// Written by the end of the process, and not yet handed to the profiler.
    Written(Box<Profile>),
}

const STAGE_BITS: u32 = 3;
const STAGE: u64 = (1 << STAGE_BITS) - 1;
/// Nothing is left of it.
const OVER: u64 = 0;
const RUNNING: u64 = 1;
const UNWRITTEN: u64 = 2;
const WRITTEN: u64 = 3;
/// A thread is stopping it or writing its files.
const AT_WORK: u64 = 4;

impl Ongoing {
    /// A session that runs. The end of the process finishes it, unless the environment asked for it: that one has a watch of
    /// its own, in `exit`.
    pub(super) fn begin(content: Content, options: &ProfilerOptions) -> Arc<Self> {
        let session = Arc::new(Self {
            state: AtomicU64::new(RUNNING),
            content: Mutex::new(Some(content)),
            options: options.clone(),
            process: process::id(),
        });
        if !options.is_from_env {
            remember(&session);
        }
        session
    }

    pub(super) fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RUNNING
    }

    /// Whether it is over, and nothing is left to stop, to write or to hand out.
    pub(super) fn is_over(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OVER
    }

    /// Where the XSpace of the session shall be, if it has been stopped and could not be written.
    pub(super) fn unwritten_path(&self) -> Option<PathBuf> {
        if self.state.load(Ordering::Relaxed) != UNWRITTEN {
            return None;
        }
        let work = Work::claim(self)?;
        match &work.content {
            Some(Content::Unwritten(unwritten)) => Some(unwritten.files.protobuf()),
            _ => None,
        }
    }

    /// Stops the session and writes its files, or tries again to write them. Waits for the plugin no longer than `limit`.
    /// `None` where nothing is left of it.
    pub(super) fn finish(&self, limit: Option<Duration>) -> Result<Option<Profile>> {
        self.finish_and(limit, |_| None)
    }

    /// Like [`finish`](Self::finish), and keeps the profile for a thread that is about to stop the session at the same time.
    pub(super) fn finish_at_exit(&self, limit: Duration) -> Result<Option<Profile>> {
        self.finish_and(Some(limit), |profile| Some(Content::Written(Box::new(profile.clone()))))
    }

    fn finish_and(
        &self,
        limit: Option<Duration>,
        left: impl FnOnce(&Profile) -> Option<Content>,
    ) -> Result<Option<Profile>> {
        let _inside = Inside::enter();
        let _limit = FileLimit::block();
        let Some(mut work) = Work::claim(self) else { return Ok(None) };
        let mut unwritten = match work.content.take() {
            None => return Ok(None),
            Some(Content::Written(profile)) => return Ok(Some(*profile)),
            Some(Content::Unwritten(unwritten)) => unwritten,
            Some(Content::Running { recording, device, files, place }) => {
                place.unsettle();
                let unwritten = convert(*recording, *device, *files, &self.options, limit);
                trim(if unwritten.is_ok() { self.options.prefault_bytes } else { 0 });
                drop(place);
                Box::new(unwritten.map_err(|error| lost(&error.error(), &self.options))?)
            }
        };
        match unwritten.write() {
            Ok(()) => {
                work.content = left(&unwritten.profile);
                Ok(Some(unwritten.profile))
            }
            Err(error) => {
                work.content = Some(Content::Unwritten(unwritten));
                Err(error)
            }
        }
    }

    /// Ends the session, or what is left of it, without a profile.
    pub(super) fn abandon(&self) {
        let Some(mut work) = Work::claim(self) else { return };
        if let Some(Content::Running { recording, device, files: _, place }) = work.content.take() {
            place.unsettle();
            let _told = Running::withdraw();
            discard(*recording);
            drop(device);
        }
    }
}

/// A session in the hands of the calling thread. When this is dropped, also by a panic, the session is at the stage of what
/// is left in `content`.
struct Work<'a> {
    session: &'a Ongoing,
    content: Option<Content>,
}

impl<'a> Work<'a> {
    /// Takes the session into the hands of this thread, after another thread that has it is done. `None` where nothing is
    /// left of it, or where only a thread of the parent could go on with it.
    fn claim(session: &'a Ongoing) -> Option<Self> {
        let own = u64::from(process::id()) << STAGE_BITS | AT_WORK;
        loop {
            let state = session.state.load(Ordering::Relaxed);
            if state == OVER || (state & STAGE == AT_WORK && state != own) {
                return None;
            }
            if state == own {
                #[allow(clippy::disallowed_methods)] // no event says that another thread is done
                thread::sleep(POLL);
                continue;
            }
            // Acquire pairs with the Release in `drop`: what the last one at work has left is there.
            if session.state.compare_exchange(state, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                let content = session.content.lock().take();
                return Some(Self { session, content });
            }
        }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let stage = match &self.content {
            None => OVER,
            Some(Content::Running { .. }) => RUNNING,
            Some(Content::Unwritten(_)) => UNWRITTEN,
            Some(Content::Written(_)) => WRITTEN,
        };
        *self.session.content.lock() = self.content.take();
        // Release pairs with the Acquire in `claim`.
        self.session.state.store(stage, Ordering::Release);
    }
}

/// Adds a session to those that the end of the process finishes. Nothing is allocated or freed under the lock, because the
/// program's allocator may have scopes.
fn remember(session: &Arc<Ongoing>) {
    let mut most = 1;
    loop {
        let mut grown = Vec::with_capacity(most);
        let _gate = crate::record::gate();
        let mut sessions = SESSIONS.lock();
        if sessions.len() < most {
            grown.append(&mut sessions);
            grown.push(Arc::clone(session));
            std::mem::swap(&mut *sessions, &mut grown);
            LEFT.store(sessions.len(), Ordering::Relaxed);
            drop(sessions);
            return;
        }
        most = sessions.len() + 1;
    }
}

/// Removes a session from those that the end of the process finishes.
pub(super) fn forget(session: &Arc<Ongoing>) {
    let forgotten = {
        let _gate = crate::record::gate();
        let mut sessions = SESSIONS.lock();
        let index = sessions.iter().position(|known| Arc::ptr_eq(known, session));
        let forgotten = index.map(|index| sessions.swap_remove(index));
        LEFT.store(sessions.len(), Ordering::Relaxed);
        forgotten
    };
    drop(forgotten);
}

/// Whether there is any session that exit has to finish. Takes no lock.
#[cfg_attr(not(windows), allow(dead_code))]
pub(super) fn are_left() -> bool {
    LEFT.load(Ordering::Relaxed) != 0
}

/// A session of this process that the end of the process has to finish.
pub(super) fn left() -> Option<Arc<Ongoing>> {
    let _gate = crate::record::gate();
    let sessions = SESSIONS.lock();
    sessions.iter().find(|session| session.process == process::id()).cloned()
}
