//! The thread that a plugin's session has for itself, so that a plugin that never returns holds up nobody for long.
//!
//! It makes every call of one session, from create to destroy. Whoever waits for an answer may give up: the thread then
//! ends the session by itself once the plugin returns, and until that the plugin takes no other session.

use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::plugin::Plugin;
use super::session::PluginSession;
use crate::error::{Error, ErrorKind, Result};

/// How often a wait without limit says that it goes on.
const REPORT: Duration = Duration::from_secs(10);
/// How long a session that nobody wants is waited for.
const FAREWELL: Duration = Duration::from_secs(10);

/// What a session is made to do at its end.
type Job = Box<dyn FnOnce(PluginSession) + Send>;

/// A running session of a plugin, on a thread of its own. One that is dropped is stopped and destroyed.
#[derive(Debug)]
pub(crate) struct Capture {
    plugin: String,
    jobs: Option<Sender<Job>>,
    /// Hears nothing; ends when the thread has done all.
    ended: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a fork's child has not.
    process: u32,
}

/// What a session gave at its end.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    /// Whether it stopped as it should.
    pub(crate) stopped: Result<()>,
    /// What was made of the collected bytes.
    pub(crate) collected: Result<T>,
}

impl Capture {
    /// Creates and starts a session with a serialised `ProfileOptions`, and waits for that no longer than `limit`.
    ///
    /// # Errors
    ///
    /// Those of [`PluginSession::create`] and [`PluginSession::start`]. [`ErrorKind::Plugin`] if the plugin takes
    /// longer, [`ErrorKind::Io`] if there is no thread to be had.
    pub(crate) fn start(plugin: &Plugin, options: Vec<u8>, limit: Duration) -> Result<Self> {
        let (started, answer) = channel();
        let (jobs, inbox) = channel::<Job>();
        let (ending, ended) = channel();
        let (name, plugin) = (plugin.name().to_owned(), plugin.clone());
        let work = move || {
            // Dropped last: whoever waits for the end has waited for all.
            let _ending = ending;
            match PluginSession::create(&plugin, &options).and_then(|mut session| session.start().map(|()| session)) {
                Err(error) => drop(started.send(Err(error))),
                Ok(session) => {
                    if started.send(Ok(())).is_ok() {
                        if let Ok(job) = inbox.recv() {
                            job(session);
                        }
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("zprof-plugin".to_owned()).spawn(work);
        let thread = thread
            .map_err(|cause| Error::io(format!("failed to start PJRT plugin `{name}`: no thread for it"), cause))?;
        let mut capture = Self {
            plugin: name,
            jobs: Some(jobs),
            ended: Mutex::new(ended),
            thread: Some(thread),
            process: process::id(),
        };
        let name = &capture.plugin;
        let silent =
            |why: String| Error::new(ErrorKind::Plugin, format!("failed to start PJRT plugin `{name}`: {why}"));
        match answer.recv_timeout(limit) {
            Ok(outcome) => outcome.map(|()| capture),
            Err(RecvTimeoutError::Disconnected) => Err(silent("its thread panicked".to_owned())),
            Err(RecvTimeoutError::Timeout) => {
                let error = silent(format!("it did not answer within {limit:?}; it is left to itself"));
                capture.thread = None;
                Err(error)
            }
        }
    }

    /// Stops the session, hands what it collected to `look`, destroys it and waits for all that: no longer than `limit`,
    /// or as long as it takes, and says so in the log every ten seconds then. Without a copy where the plugin keeps the
    /// bytes.
    ///
    /// A session that does not stop as it should is asked for its data all the same.
    pub(crate) fn finish<T, F>(mut self, limit: Option<Duration>, look: F) -> Finished<T>
    where
        T: Send + 'static,
        F: FnOnce(&[u8]) -> T + Send + 'static,
    {
        let (result, answer) = channel();
        let job = move |mut session: PluginSession| {
            let stopped = session.stop();
            let collected = session.collect_with(look);
            drop(session);
            drop(result.send(Finished { stopped, collected }));
        };
        if let Some(jobs) = self.jobs.take() {
            // A thread that is gone shows as an answer that never comes.
            drop(jobs.send(Box::new(job)));
        }
        let began = Instant::now();
        loop {
            match answer.recv_timeout(limit.unwrap_or(REPORT)) {
                Ok(finished) => return finished,
                Err(RecvTimeoutError::Timeout) if limit.is_some() => {
                    // Left to itself: waiting once more, when this is dropped, would pass the limit.
                    self.thread = None;
                    let (name, limit) = (&self.plugin, limit.unwrap_or_default());
                    let message = format!(
                        "failed to collect from PJRT plugin `{name}`: it did not end its profile within {limit:?}"
                    );
                    return Finished { stopped: Ok(()), collected: Err(Error::new(ErrorKind::Plugin, message)) };
                }
                Err(RecvTimeoutError::Timeout) => {
                    log::info!("PJRT plugin `{}` has been ending its profile for {:?}", self.plugin, began.elapsed());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let message = format!("failed to collect from PJRT plugin `{}`: its thread panicked", self.plugin);
                    return Finished { stopped: Ok(()), collected: Err(Error::new(ErrorKind::Plugin, message)) };
                }
            }
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Where nothing is asked any more, the thread ends.
        self.jobs = None;
        let Some(thread) = self.thread.take() else { return };
        if self.process != process::id() {
            return;
        }
        match self.ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(FAREWELL) {
            Err(RecvTimeoutError::Timeout) => {
                log::warn!(
                    "PJRT plugin `{}` does not end its session within {FAREWELL:?}; it is left to itself",
                    self.plugin
                );
            }
            // It has panicked, or is about to return.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(thread.join()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_can_be_part_of_what_crosses_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Capture>();
        crosses::<Plugin>();
    }
}
