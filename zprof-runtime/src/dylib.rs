//! The only loader of shared libraries. What it has loaded stays until the process ends.
//!
//! Plugins start threads and register functions to be run at exit; few survive being unloaded, so none is.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::Path;

/// Why a library or symbol could not be had; its message is the loader's.
pub(crate) type LoadError = libloading::Error;

/// A shared library, loaded for good.
pub(crate) struct Library(ManuallyDrop<libloading::Library>);

/// Returns when nothing else is being loaded or unloaded: the loader takes its lock to find the program itself.
#[cfg(any(feature = "nvtx", feature = "roctx"))]
pub(crate) fn wait() {
    // What comes back is of no interest.
    let _ = Library::this();
}

impl Library {
    /// Loads the library at `path`, or the one of that name on the system's search path if there is no slash in it.
    /// One that the process has loaded already is the same one.
    ///
    /// The library's own initialisers run: whoever names a library trusts it, as whoever names a program to start.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: what the initialisers of the library do cannot be known, only trusted as is said above; the
        // destructors never run, because the handle is never dropped.
        let library = unsafe { libloading::Library::new(path) }?;
        Ok(Self(ManuallyDrop::new(library)))
    }

    /// The program itself, with all libraries whose symbols are everybody's.
    #[cfg(any(feature = "nvtx", feature = "roctx"))]
    pub(crate) fn this() -> Result<Self, LoadError> {
        #[cfg(unix)]
        let library = libloading::os::unix::Library::this().into();
        #[cfg(windows)]
        let library = libloading::os::windows::Library::this()?.into();
        Ok(Self(ManuallyDrop::new(library)))
    }

    /// The address of a symbol; good for the rest of the process.
    pub(crate) fn address(&self, name: &str) -> Result<*mut c_void, LoadError> {
        // SAFETY: the type is that of an address, which every symbol has; nothing is read or called through it here.
        let symbol = unsafe { self.0.get::<*mut c_void>(name.as_bytes()) }?;
        Ok(*symbol)
    }
}
