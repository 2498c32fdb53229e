//! The fake PJRT plugin, told what to do: its library is built with the tests and lies beside them.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fmt};

use libloading::Library;
use zprof::Linkage;

/// The library of the fake plugin.
///
/// # Panics
///
/// Panics if it is not where cargo puts the libraries that tests depend on.
#[must_use]
pub fn library() -> PathBuf {
    built("zprof_fake_plugin")
}

/// A library that is built with the tests, by the name of its crate.
///
/// # Panics
///
/// Panics if it is not where cargo puts the libraries that tests depend on.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    let name = format!("{}{name}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let folders = program.ancestors().skip(1).take(2);
    let found =
        folders.flat_map(|folder| [folder.join(&name), folder.join("deps").join(&name)]).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("`{name}` does not lie beside `{}`", program.display()))
}

/// Does nothing, for longer than the clock of scopes differs from the fake's: an event of the fake's lies inside a scope
/// for sure if this stands between their ends.
pub fn spin() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(20) {
        std::hint::spin_loop();
    }
}

/// What the fake counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions that are not destroyed.
    pub sessions: u64,
    /// Errors that are not destroyed.
    pub errors: u64,
    /// Results of consume that are not destroyed.
    pub results: u64,
    /// Sessions made.
    pub created: u64,
    /// Calls of start.
    pub started: u64,
    /// Calls of stop.
    pub stopped: u64,
    /// Calls of collect.
    pub collected: u64,
    /// Calls in the wrong order or with what is no object of the fake's.
    pub misused: u64,
    /// Structs whose announced size is not the header's.
    pub missized: u64,
}

/// Hold on the fake plugin of this process; what it counted is compared with the time this was made.
pub struct Fake {
    library: Library,
    before: Counts,
}

impl Fake {
    /// Tells the fake what it shall do, in the words that its own documentation lists.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be loaded.
    #[must_use]
    pub fn new(words: &str) -> Self {
        // SAFETY: the library is the repository's own; its initialisers are those of Rust.
        let library = unsafe { Library::new(library()) }.expect("the fake plugin can be loaded");
        let mut fake = Self { library, before: Counts::default() };
        // SAFETY: the fake declares the symbol with this type.
        let configure = unsafe { fake.library.get::<unsafe extern "C" fn(*const u8, usize)>(b"zprof_fake_configure") };
        let configure = configure.expect("the fake has it");
        // SAFETY: pointer and size are those of a string.
        unsafe { configure(words.as_ptr(), words.len()) };
        fake.before = fake.total();
        fake
    }

    /// What it counted since this was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (now, before) = (self.total(), self.before);
        Counts {
            sessions: now.sessions - before.sessions,
            errors: now.errors - before.errors,
            results: now.results - before.results,
            created: now.created - before.created,
            started: now.started - before.started,
            stopped: now.stopped - before.stopped,
            collected: now.collected - before.collected,
            misused: now.misused - before.misused,
            missized: now.missized - before.missized,
        }
    }

    fn total(&self) -> Counts {
        let mut numbers = [0; 9];
        // SAFETY: the fake declares the symbol with this type.
        let counts = unsafe { self.library.get::<unsafe extern "C" fn(*mut u64)>(b"zprof_fake_counts") };
        // SAFETY: there is room for the nine numbers that it writes.
        unsafe { counts.expect("the fake has it")(numbers.as_mut_ptr()) };
        let [sessions, errors, results, created, started, stopped, collected, misused, missized] = numbers;
        Counts { sessions, errors, results, created, started, stopped, collected, misused, missized }
    }

    /// Lets calls return that were told to block.
    ///
    /// # Panics
    ///
    /// Panics if the fake is not what it was.
    pub fn release(&self) {
        // SAFETY: the fake declares the symbol with this type.
        let release = unsafe { self.library.get::<extern "C" fn()>(b"zprof_fake_release") };
        release.expect("the fake has it")();
    }

    /// Whether a call has blocked.
    ///
    /// # Panics
    ///
    /// Panics if the fake is not what it was.
    #[must_use]
    pub fn blocked(&self) -> bool {
        // SAFETY: the fake declares the symbol with this type.
        let blocked = unsafe { self.library.get::<extern "C" fn() -> bool>(b"zprof_fake_blocked") };
        blocked.expect("the fake has it")()
    }

    /// Launches a kernel of so many nanoseconds; gives its correlation id and its start since the epoch.
    ///
    /// # Panics
    ///
    /// Panics if the fake is not what it was.
    #[must_use]
    pub fn launch(&self, duration_ns: u64) -> (u64, u64) {
        // SAFETY: the fake declares the symbol with this type.
        let launch = unsafe { self.library.get::<unsafe extern "C" fn(u64, *mut u64) -> u64>(b"zprof_fake_launch") };
        let mut start_ns = 0;
        // SAFETY: the number may be written.
        let correlation = unsafe { launch.expect("the fake has it")(duration_ns, &mut start_ns) };
        (correlation, start_ns)
    }

    /// Executes nothing through the fake, linked or not; gives the caller's context that the fake found, or -1.
    ///
    /// # Panics
    ///
    /// Panics if the fake is not what it was.
    #[must_use]
    pub fn execute(&self, link: Option<&Linkage>) -> i64 {
        #[repr(C)]
        struct Args {
            struct_size: usize,
            extension_start: *const std::ffi::c_void,
        }
        let extension_start = link.map_or(std::ptr::null(), Linkage::as_ptr);
        let args = Args { struct_size: 80, extension_start };
        // SAFETY: the fake declares the symbol with this type.
        let execute = unsafe { self.library.get::<unsafe extern "C" fn(*const Args) -> i64>(b"zprof_fake_execute") };
        // SAFETY: the arguments begin as they should, and the link gives null or a chain.
        unsafe { execute.expect("the fake has it")(&args) }
    }

    /// The table that the fake's `GetPjrtApi` gives.
    ///
    /// # Panics
    ///
    /// Panics if the fake is not what it was.
    #[must_use]
    pub fn api(&self) -> *const std::ffi::c_void {
        // SAFETY: the fake declares the symbol with this type.
        let api = unsafe { self.library.get::<extern "C" fn() -> *const std::ffi::c_void>(b"GetPjrtApi") };
        api.expect("the fake has it")()
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
