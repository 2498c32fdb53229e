//! ROCTx: ranges and marks in rocprofv3 and AMD's older profilers.
//!
//! Nothing of AMD's is linked. A tool is taken to be there if ROCTx is in the process already, or if the environment is
//! that of a tool; only then is ROCTx loaded. Which of its libraries it is, is a matter of the tool: rocprofv3 sees what
//! goes through `librocprofiler-sdk-roctx`, older ones what goes through `libroctx64`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use super::{Backend, Label};
use crate::dylib::{Library, LoadError};
use crate::environment;
use crate::warn::warn;

/// The backend.
pub(super) struct Roctx;

/// Libraries that have the functions, the preferred first.
const LIBRARIES: [&str; 2] = ["librocprofiler-sdk-roctx.so.1", "libroctx64.so.4"];

/// Variables that AMD's tools set for the program that they start.
const TOOL_VARIABLES: [&str; 3] = ["ROCP_TOOL_LIBRARIES", "ROCPROFILER_TOOL_LIBRARIES", "HSA_TOOLS_LIB"];

type Push = unsafe extern "C" fn(*const c_char) -> c_int;
type Mark = unsafe extern "C" fn(*const c_char);
type Pop = unsafe extern "C" fn() -> c_int;
type Name = unsafe extern "C" fn(*const c_char) -> c_int;

/// The functions of the library.
struct Functions {
    push: Push,
    pop: Pop,
    mark: Mark,
    /// Newer libraries only.
    name_thread: Option<Name>,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

impl Backend for Roctx {
    fn may_load(&self) -> bool {
        TOOL_VARIABLES.iter().any(|name| environment::variable(name).is_some()) || loaded().is_some()
    }

    fn attach(&self) -> bool {
        if !self.may_load() {
            return false;
        }
        match Functions::find() {
            Ok(functions) => FUNCTIONS.set(functions).is_ok(),
            Err(error) => {
                let [preferred, older] = LIBRARIES;
                warn(format_args!("no ROCTx ranges: neither {preferred} nor {older} can be used: {error}"));
                false
            }
        }
    }

    fn push(&self, label: Label<'_>, _id: u64) {
        if let Some(functions) = FUNCTIONS.get() {
            // SAFETY: the function is the library's, and the label is a C string that it copies.
            unsafe { (functions.push)(label.as_ptr()) };
        }
    }

    fn pop(&self, _id: u64) {
        if let Some(functions) = FUNCTIONS.get() {
            // SAFETY: the function is the library's.
            unsafe { (functions.pop)() };
        }
    }

    fn mark(&self, label: Label<'_>) {
        if let Some(functions) = FUNCTIONS.get() {
            // SAFETY: the function is the library's, and the label is a C string that it copies.
            unsafe { (functions.mark)(label.as_ptr()) };
        }
    }

    fn name_thread(&self, _tid: u64, name: &CStr) {
        if let Some(name_thread) = FUNCTIONS.get().and_then(|functions| functions.name_thread) {
            // SAFETY: the function is the library's, and the name is a C string that it copies.
            unsafe { name_thread(name.as_ptr()) };
        }
    }
}

impl Functions {
    /// Those of the process where it has them, else those of the first library that loads.
    fn find() -> Result<Self, LoadError> {
        let of = |name| Library::open(Path::new(name)).and_then(|library| Self::of(&library));
        let [preferred, older] = if loaded() == Some(1) { [LIBRARIES[1], LIBRARIES[0]] } else { LIBRARIES };
        Library::this().and_then(|program| Self::of(&program)).or_else(|_| of(preferred)).or_else(|_| of(older))
    }

    fn of(library: &Library) -> Result<Self, LoadError> {
        let push = library.address("roctxRangePushA")?;
        let pop = library.address("roctxRangePop")?;
        let mark = library.address("roctxMarkA")?;
        let name_thread = library.address("roctxNameOsThread").ok();
        Ok(Self {
            // SAFETY: `int roctxRangePushA(const char*)` is the function of that name in all of AMD's releases.
            push: unsafe { std::mem::transmute::<*mut c_void, Push>(push) },
            // SAFETY: and `int roctxRangePop()`.
            pop: unsafe { std::mem::transmute::<*mut c_void, Pop>(pop) },
            // SAFETY: and `void roctxMarkA(const char*)`.
            mark: unsafe { std::mem::transmute::<*mut c_void, Mark>(mark) },
            // SAFETY: and `int roctxNameOsThread(const char*)`.
            name_thread: name_thread.map(|name| unsafe { std::mem::transmute::<*mut c_void, Name>(name) }),
        })
    }
}

/// Which of the libraries the process has. This goes through the list of what is loaded, which takes no lock that
/// constructors run under; asking the loader for a symbol would.
fn loaded() -> Option<usize> {
    let mut loaded = None;
    // SAFETY: the callback is called with the pointer that is given here, during this call only.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut loaded).cast()) };
    loaded
}

/// Looks at one library of the process; anything but 0 ends the search.
unsafe extern "C" fn look(library: *mut libc::dl_phdr_info, _size: usize, loaded: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid entry.
    let name = unsafe { (*library).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are C strings.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    // Whatever its version, as far as looking goes.
    let found =
        LIBRARIES.iter().position(|wanted| base.starts_with(wanted.trim_end_matches(char::is_numeric).as_bytes()));
    if found.is_some() {
        // SAFETY: `loaded` passes a pointer to its own place.
        unsafe { *loaded.cast::<Option<usize>>() = found };
    }
    c_int::from(found.is_some())
}
