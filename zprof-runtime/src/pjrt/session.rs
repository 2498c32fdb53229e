//! A plugin's session: created, started, stopped, collected and destroyed in that order or not at all.

use super::plugin::{Busy, Plugin};
use super::table::{Failure, Handle};
use crate::error::{Error, ErrorKind, Result};

/// A profiling session of a plugin, which has one at a time.
///
/// Calls that do not fit the state are refused before the plugin hears of them. One that is dropped is stopped if it
/// runs, and destroyed.
///
/// Calls block as long as the plugin does. A session may move between threads, though some tracers of plugins note the
/// thread that started them.
#[derive(Debug)]
pub struct PluginSession {
    // Before `_busy`: the session is destroyed, then the plugin is free.
    handle: Handle,
    plugin: String,
    stage: Stage,
    _busy: Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Created,
    Running,
    /// Stopped, or at least told to stop.
    Stopped,
    /// Asked for its data, which a session gives once.
    Collected,
    /// Refused to start.
    Refused,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "not started",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Collected => "collected",
            Self::Refused => "refused",
        }
    }
}

impl PluginSession {
    /// Makes a session; `options` is a serialised `tensorflow.ProfileOptions` of version 1.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the plugin cannot profile, [`ErrorKind::AlreadyActive`] while it has another
    /// session of zprof's, [`ErrorKind::Plugin`] if it refuses.
    pub fn create(plugin: &Plugin, options: &[u8]) -> Result<Self> {
        let table = plugin.profiler()?;
        let name = plugin.name();
        let busy = plugin.occupy().ok_or_else(|| {
            Error::new(
                ErrorKind::AlreadyActive,
                format!("failed to create a profiler of PJRT plugin `{name}`: it is busy with an earlier session"),
            )
        })?;
        let handle = Handle::create(table, options).map_err(|failure| failed("create", name, failure))?;
        Ok(Self { handle, plugin: name.to_owned(), stage: Stage::Created, _busy: busy })
    }

    /// Starts to record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongState`] if it was started before, [`ErrorKind::Plugin`] if the plugin refuses; all that is left
    /// to do then is to drop it.
    pub fn start(&mut self) -> Result<()> {
        self.expect(&[Stage::Created], "start")?;
        self.stage = Stage::Refused;
        self.handle.start().map_err(|status| failed("start", &self.plugin, status.into()))?;
        self.stage = Stage::Running;
        Ok(())
    }

    /// Stops recording.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongState`] if it is not running, [`ErrorKind::Plugin`] if the plugin refuses; it can be asked for
    /// its data all the same.
    pub fn stop(&mut self) -> Result<()> {
        self.expect(&[Stage::Running], "stop")?;
        self.stage = Stage::Stopped;
        self.handle.stop().map_err(|status| failed("stop", &self.plugin, status.into()))
    }

    /// What it has recorded: a serialised XSpace, perhaps with a stray 0 at its end, or nothing.
    ///
    /// # Errors
    ///
    /// Those of [`collect_with`](Self::collect_with).
    pub fn collect(&mut self) -> Result<Vec<u8>> {
        self.collect_with(<[u8]>::to_vec)
    }

    /// Hands what it has recorded to `look`, without a copy where the plugin keeps it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongState`] if it is not stopped or was asked before, [`ErrorKind::Plugin`] if the plugin refuses or
    /// its answer does not fit together; `look` is not called then.
    pub fn collect_with<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.expect(&[Stage::Stopped], "collect")?;
        self.stage = Stage::Collected;
        self.handle.collect(look).map_err(|failure| failed("collect", &self.plugin, failure))
    }

    /// Whether [`consume`](Self::consume) is possible: the plugin gives events away before the end of a session.
    #[must_use]
    pub fn can_consume(&self) -> bool {
        self.handle.gives_chunks()
    }

    /// Takes what was recorded since the last such call, as a serialised XSpace; empty if nothing was. What is taken
    /// is not collected again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongState`] before the start and after the data was collected, [`ErrorKind::Plugin`] if the plugin
    /// refuses or [cannot](Self::can_consume) do this.
    pub fn consume(&mut self) -> Result<Vec<u8>> {
        self.expect(&[Stage::Running, Stage::Stopped], "consume")?;
        self.handle.chunk(<[u8]>::to_vec).map_err(|failure| failed("consume", &self.plugin, failure))
    }

    fn expect(&self, stages: &[Stage], what: &str) -> Result<()> {
        if stages.contains(&self.stage) {
            return Ok(());
        }
        let (plugin, stage) = (&self.plugin, self.stage.name());
        Err(Error::new(
            ErrorKind::WrongState,
            format!("failed to {what} the profiler of PJRT plugin `{plugin}`: its session is {stage}"),
        ))
    }
}

impl Drop for PluginSession {
    fn drop(&mut self) {
        if self.stage == Stage::Running {
            if let Err(error) = self.stop() {
                log::debug!("{}", error.told());
            }
        }
    }
}

fn failed(what: &str, plugin: &str, failure: Failure) -> Error {
    let message = format!("failed to {what} the profiler of PJRT plugin `{plugin}`");
    match failure {
        Failure::Refused(status) => Error::with_source(ErrorKind::Plugin, message, status),
        Failure::Broken(why) => Error::new(ErrorKind::Plugin, format!("{message}: {why}")),
    }
}
