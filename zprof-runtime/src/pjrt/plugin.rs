//! A loaded plugin, and what it says of itself.

use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::abi::{ENTRY, KINDS};
use super::find;
use super::table::{self, Description, Table};
use crate::dylib::Library;
use crate::error::{Error, ErrorKind, Result};

/// A PJRT plugin, loaded for the rest of the process. Clones are the same plugin.
///
/// Loading reads the plugin's tables and starts nothing: no client is made, and `PJRT_Plugin_Initialize` is not called,
/// because both belong to the program.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    path: Option<PathBuf>,
    description: Description,
    /// Whether a thread is busy with a session of this plugin. Set and cleared by captures; never stale, as only the
    /// one who has set it goes on.
    busy: AtomicBool,
}

/// A plugin's only place for a session; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Busy(Plugin);

impl Plugin {
    /// Loads the plugin's library at `path`. Its initialisers run: name only files that you trust.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Plugin`] if it cannot be loaded, exports no `GetPjrtApi`, or speaks a PJRT of another major version.
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        Self::load_as(path, name.to_string_lossy().into_owned())
    }

    /// Loads a plugin under a name.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load).
    pub(super) fn load_as(path: &Path, name: String) -> Result<Self> {
        let what = || format!("failed to load PJRT plugin `{}`", path.display());
        let library = Library::open(path).map_err(|cause| Error::with_source(ErrorKind::Plugin, what(), cause))?;
        let description = table::enter(&library).map_err(|cause| {
            Error::with_source(ErrorKind::Plugin, format!("{}: missing symbol `{ENTRY}`", what()), cause)
        })?;
        let description = description.map_err(|why| Error::new(ErrorKind::Plugin, format!("{}: {why}", what())))?;
        Ok(Self::new(name, Some(path.to_owned()), description))
    }

    /// A plugin that the program has loaded by itself, by what its `GetPjrtApi` gave.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Plugin`] if `api` is null or a PJRT of another major version.
    ///
    /// # Safety
    ///
    /// `api` is null or a `PJRT_Api` that stays as it is for the rest of the process.
    pub unsafe fn from_api(api: *const c_void) -> Result<Self> {
        // SAFETY: the caller says so.
        let description = unsafe { table::describe(api) };
        let description = description.map_err(|why| {
            Error::new(ErrorKind::Plugin, format!("failed to use the PJRT plugin of the program: {why}"))
        })?;
        Ok(Self::new("the program's own".to_owned(), None, description))
    }

    /// The plugin that this process should use, if there is one, and in a sentence where it was found, or why there is
    /// none.
    #[must_use]
    pub fn find() -> (Option<Self>, String) {
        find::find()
    }

    fn new(name: String, path: Option<PathBuf>, description: Description) -> Self {
        Self { inner: Arc::new(Inner { name, path, description, busy: AtomicBool::new(false) }) }
    }

    /// The name: the library's without its ending, or the one that the environment gave.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The library, where zprof has loaded it.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Major and minor version of its PJRT.
    #[must_use]
    pub fn api_version(&self) -> (i32, i32) {
        self.inner.description.version
    }

    /// Names of its extensions, in its order.
    #[must_use]
    pub fn extensions(&self) -> Vec<String> {
        let name = |kind: &i32| {
            let known = usize::try_from(*kind).ok().and_then(|kind| KINDS.get(kind));
            known.map_or_else(|| format!("extension {kind}"), |name| (*name).to_owned())
        };
        self.inner.description.extensions.iter().map(name).collect()
    }

    /// Why it cannot profile; `None` if it can.
    #[must_use]
    pub fn lacks_profiler(&self) -> Option<&str> {
        self.inner.description.profiler.as_ref().err().map(String::as_str)
    }

    /// The profiler's functions.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] where it cannot profile.
    pub(super) fn profiler(&self) -> Result<Table> {
        self.inner.description.profiler.as_ref().copied().map_err(|why| {
            Error::new(
                ErrorKind::Unsupported,
                format!("PJRT plugin `{}` cannot profile: {why}; the host alone can be profiled", self.name()),
            )
        })
    }

    /// Takes the plugin's place for a session.
    pub(super) fn occupy(&self) -> Option<Busy> {
        // Acquire pairs with the Release in `drop`: the plugin has done with the last session.
        let taken = self.inner.busy.swap(true, Ordering::Acquire);
        (!taken).then(|| Busy(self.clone()))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `occupy`.
        self.0.inner.busy.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.api_version();
        f.debug_struct("Plugin")
            .field("name", &self.name())
            .field("path", &self.path())
            .field("api_version", &format_args!("{major}.{minor}"))
            .field("extensions", &self.extensions())
            .field("profiler", &self.lacks_profiler().unwrap_or("present"))
            .finish()
    }
}
