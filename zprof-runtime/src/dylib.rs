//! The only loader of shared libraries. What it has loaded stays until the process ends.
//!
//! Plugins start threads and register functions to be run at exit; few survive being unloaded, so none is.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::Path;

#[cfg(any(unix, windows))]
use libloading as loader;

/// The loader of a system without shared libraries, such as WebAssembly: it finds none.
#[cfg(not(any(unix, windows)))]
mod loader {
    use std::error;
    use std::fmt;
    use std::path::Path;

    /// Why no library was loaded.
    #[derive(Debug)]
    pub(crate) struct Error;

    impl fmt::Display for Error {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("this system has no shared libraries")
        }
    }

    impl error::Error for Error {}

    /// A loaded library, of which there is none.
    pub(crate) enum Library {}

    impl Library {
        /// # Safety
        ///
        /// None is needed: nothing is loaded. The function has the signature of the real one.
        pub(crate) unsafe fn new(_path: &Path) -> Result<Self, Error> {
            Err(Error)
        }

        /// # Safety
        ///
        /// None is needed: there is no library to call it on. The function has the signature of the real one.
        pub(crate) unsafe fn get<T>(&self, _name: &[u8]) -> Result<&T, Error> {
            match *self {}
        }
    }
}

/// Why a library or symbol could not be had; its message is the loader's.
pub(crate) type LoadError = loader::Error;

/// A shared library, loaded for good.
pub(crate) struct Library(ManuallyDrop<loader::Library>);

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
        let library = unsafe { loader::Library::new(path) }?;
        Ok(Self(ManuallyDrop::new(library)))
    }

    /// The program itself, with all libraries whose symbols are everybody's.
    #[cfg(any(feature = "nvtx", feature = "roctx"))]
    pub(crate) fn this() -> Result<Self, LoadError> {
        #[cfg(unix)]
        let library = libloading::os::unix::Library::this().into();
        #[cfg(windows)]
        let library = libloading::os::windows::Library::this()?.into();
        #[cfg(not(any(unix, windows)))]
        return Err(loader::Error);
        #[cfg(any(unix, windows))]
        Ok(Self(ManuallyDrop::new(library)))
    }

    /// The address of a symbol; good for the rest of the process.
    pub(crate) fn address(&self, name: &str) -> Result<*mut c_void, LoadError> {
        // SAFETY: the type is that of an address, which every symbol has; nothing is read or called through it here.
        let symbol = unsafe { self.0.get::<*mut c_void>(name.as_bytes()) }?;
        Ok(*symbol)
    }
}
