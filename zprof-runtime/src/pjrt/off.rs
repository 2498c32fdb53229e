//! What stands in for plugins where zprof is built without `pjrt`: there are none, and every way to one says so.

use std::convert::Infallible;
use std::ffi::c_void;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

const WHY: &str = "zprof is built without its feature `pjrt`; build with it to use PJRT plugins";

/// A plugin, of which there is none in this build.
#[derive(Clone, Debug)]
pub struct Plugin(Infallible);

/// A session of a plugin, of which there is none in this build.
#[derive(Debug)]
pub struct PluginSession(#[allow(dead_code)] Infallible);

/// An extension of a call of a plugin, of which there is none in this build.
pub(crate) struct CallNode(Infallible);

/// A running session of a plugin, of which there is none in this build.
#[derive(Debug)]
pub(crate) struct Capture(Infallible);

/// What a session gave at its end.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    /// Whether it stopped as it should.
    pub(crate) stopped: Result<()>,
    /// What was made of the collected bytes.
    pub(crate) collected: Result<T>,
}

impl Plugin {
    /// Does not load the plugin.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], always.
    pub fn load(path: &Path) -> Result<Self> {
        Err(Error::new(ErrorKind::Unsupported, format!("failed to load PJRT plugin `{}`: {WHY}", path.display())))
    }

    /// Does not use the program's plugin.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], always.
    ///
    /// # Safety
    ///
    /// Nothing is asked of `api` in this build.
    pub unsafe fn from_api(_api: *const c_void) -> Result<Self> {
        Err(Error::new(ErrorKind::Unsupported, format!("failed to use the PJRT plugin of the program: {WHY}")))
    }

    /// Finds none, and says why.
    #[must_use]
    pub fn find() -> (Option<Self>, String) {
        (None, WHY.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// The library.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self.0 {}
    }

    /// Major and minor version of its PJRT.
    #[must_use]
    pub fn api_version(&self) -> (i32, i32) {
        match self.0 {}
    }

    /// Names of its extensions.
    #[must_use]
    pub fn extensions(&self) -> Vec<String> {
        match self.0 {}
    }

    /// Why it cannot profile.
    #[must_use]
    pub fn lacks_profiler(&self) -> Option<&str> {
        match self.0 {}
    }

    /// The extension for a call.
    pub(crate) fn call_node(&self, _context: i64) -> Option<CallNode> {
        match self.0 {}
    }
}

/// What would be tried: nothing.
pub(crate) fn candidates() -> Vec<(std::path::PathBuf, String, bool)> {
    Vec::new()
}

impl CallNode {
    /// The start of the chain.
    pub(crate) fn as_ptr(&self) -> *const c_void {
        match self.0 {}
    }

    /// The caller's context.
    pub(crate) fn context(&self) -> i64 {
        match self.0 {}
    }
}

impl Capture {
    /// Starts nothing.
    pub(crate) fn start(plugin: &Plugin, _options: Vec<u8>, _limit: Duration) -> Result<Self> {
        match plugin.0 {}
    }

    /// Ends nothing.
    pub(crate) fn finish<T, F>(self, _limit: Option<Duration>, _look: F) -> Finished<T>
    where
        T: Send + 'static,
        F: FnOnce(&[u8]) -> T + Send + 'static,
    {
        match self.0 {}
    }
}
