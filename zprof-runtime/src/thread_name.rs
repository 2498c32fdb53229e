//! Names of threads: those that the program gives with zprof, and those that the system keeps, which any code may change at any
//! time (`pthread_setname_np`, `prctl`).
//!
//! A thread's line has its last name. So the system is asked when the thread records for the first time, when the thread ends,
//! and, for threads that live, when a profile is made. A name that was given with [`name_thread`](crate::name_thread) holds
//! whatever the system says.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::room::{Result, Room as _};

/// Bytes of a name of the system's that are kept: more than Linux and macOS keep.
const MOST: usize = 64;

/// A name that the system keeps for a thread. It takes no memory of the allocator's, so that it can be read and compared where
/// a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemName {
    bytes: [u8; MOST],
    len: usize,
}

#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), allow(dead_code))] // only these systems are asked
impl SystemName {
    /// The name in a buffer, up to its first NUL.
    fn of(bytes: [u8; MOST]) -> Self {
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(MOST);
        Self { bytes, len }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The name of a thread, and what it depends on.
#[derive(Debug, Default)]
pub(crate) struct ThreadName {
    text: String,
    /// Whether the program has given it with zprof.
    is_given: bool,
    /// What the system called the thread when the name was made.
    system: Option<SystemName>,
    /// What the system has called it since, if that is something else.
    renamed: Option<SystemName>,
}

impl From<String> for ThreadName {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl ThreadName {
    /// The name of the calling thread: the program's, else the system's, or an empty one.
    pub(crate) fn of_this_thread() -> Self {
        let given =
            GIVEN.try_with(|given| given.try_borrow().ok().and_then(|given| given.as_deref().map(str::to_owned)));
        let given = given.ok().flatten();
        let is_given = given.is_some();
        let system = SystemName::of_this_thread();
        Self { text: given.unwrap_or_else(|| of_system(system)), is_given, system, renamed: None }
    }

    /// Notes what the system calls the thread now, if it tells.
    pub(crate) fn note(&mut self, now: Option<SystemName>) {
        if now.is_some() && !self.is_given {
            self.renamed = now.filter(|_| now != self.system);
        }
    }

    /// Bytes of the name as it was made, which [`copy_into`](Self::copy_into) takes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Copies the name over another one, whose text has room for it, without an allocation.
    pub(crate) fn copy_into(&self, other: &mut Self) {
        other.text.clear();
        other.text.push_str(&self.text);
        (other.is_given, other.system, other.renamed) = (self.is_given, self.system, self.renamed);
    }

    /// Makes room for a name of so many bytes.
    pub(crate) fn room(&mut self, bytes: usize) -> Result<()> {
        self.text.room(bytes)
    }

    /// Bytes that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.text.capacity()
    }

    /// The name to show: the last one.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match &self.renamed {
            Some(name) => String::from_utf8_lossy(name.as_bytes()),
            None => Cow::Borrowed(&self.text),
        }
    }
}

thread_local! {
    /// The name that the program has given the thread.
    static GIVEN: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Notes what the program calls the calling thread; nothing for the system's name. `false` late in a thread's life, when it
/// cannot be kept.
pub(crate) fn give_name(name: Option<&str>) -> bool {
    let name = name.map(Box::from);
    let old = GIVEN.try_with(|given| given.try_borrow_mut().ok().map(|mut given| std::mem::replace(&mut *given, name)));
    // What is freed is freed when it is no longer borrowed: the program's allocator may have scopes.
    matches!(old, Ok(Some(_)))
}

/// What to call the calling thread, for which the system has this name; an empty name if there is none.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn of_system(name: Option<SystemName>) -> String {
    let name = name.as_ref().map_or(&b""[..], SystemName::as_bytes);
    if is_main() && is_programs_own(name) {
        return "main".to_owned();
    }
    // Linux keeps 15 bytes; Rust knows the rest. Only then is it asked, since late in a thread's life asking panics.
    if cfg!(target_os = "linux") && name.len() == CUT {
        if let Some(whole) = std::thread::current().name().filter(|whole| whole.as_bytes().starts_with(name)) {
            return whole.to_owned();
        }
    }
    String::from_utf8_lossy(name).into_owned()
}

/// What Rust calls the calling thread, or an empty name.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn of_system(_: Option<SystemName>) -> String {
    std::thread::current().name().map(str::to_owned).unwrap_or_default()
}

/// Bytes of a thread's name that Linux keeps.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const CUT: usize = 15;

/// Whether the system calls the calling thread so: 15 bytes at most. Neither allocates nor asks Rust, so that it may be
/// called while a thread starts.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn is_named(name: &str) -> bool {
    SystemName::of_this_thread().is_some_and(|own| own.as_bytes() == name.as_bytes())
}

/// The same where only Rust can be asked, which it cannot while a thread starts.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn is_named(_name: &str) -> bool {
    false
}

/// Whether this is the name that the main thread has because nobody has named it: that of the program's file.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)] // no safe binding
fn is_programs_own(name: &[u8]) -> bool {
    // A program that an emulator runs has the emulator's name.
    if name.is_empty() || name.starts_with(b"qemu-") {
        return true;
    }
    // SAFETY: the call takes a number and reads what the kernel has given to the process.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) };
    let path: *const libc::c_char = std::ptr::with_exposed_provenance(usize::try_from(path).unwrap_or(0));
    if path.is_null() {
        return true;
    }
    // SAFETY: the kernel has put a text there that ends in NUL and stays for the life of the process.
    let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name == &file[..file.len().min(CUT)]
}

/// Whether nobody has named the main thread: then it has no name.
#[cfg(target_os = "macos")]
fn is_programs_own(name: &[u8]) -> bool {
    name.is_empty()
}

#[cfg(target_os = "linux")]
fn is_main() -> bool {
    crate::os::thread_id() == u64::from(std::process::id())
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)] // no safe binding
fn is_main() -> bool {
    // SAFETY: the function has no arguments and cannot fail.
    unsafe { libc::pthread_main_np() == 1 }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
impl SystemName {
    /// What the system calls the calling thread.
    #[allow(unsafe_code)] // no safe binding
    pub(crate) fn of_this_thread() -> Option<Self> {
        let mut bytes = [0; MOST];
        // SAFETY: pthread_self has no arguments and cannot fail.
        let this = unsafe { libc::pthread_self() };
        // SAFETY: the buffer is live and as long as said.
        let status = unsafe { libc::pthread_getname_np(this, bytes.as_mut_ptr().cast(), bytes.len()) };
        (status == 0).then(|| Self::of(bytes))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
impl SystemName {
    /// What the system calls the calling thread; this one is not asked.
    pub(crate) fn of_this_thread() -> Option<Self> {
        None
    }
}

impl SystemName {
    /// What the system calls a thread of this process that lives, by its id.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_thread(tid: u64) -> Option<Self> {
        use std::io::Read as _;

        let mut bytes = [0; MOST];
        // Where file systems of processes are not mounted, the name stays the one at the first scope.
        let mut file = std::fs::File::open(format!("/proc/self/task/{tid}/comm")).ok()?;
        let len = file.read(&mut bytes[..MOST - 1]).ok()?;
        if bytes[..len].last() == Some(&b'\n') {
            bytes[len - 1] = 0;
        }
        Some(Self::of(bytes))
    }

    /// What the system calls a thread of this process that lives, by its id.
    #[cfg(target_os = "macos")]
    #[allow(unsafe_code)] // no safe binding
    pub(crate) fn of_thread(tid: u64) -> Option<Self> {
        /// Asks for a thread by the id that `pthread_threadid_np` gives.
        const PROC_PIDTHREADID64INFO: libc::c_int = 15;

        let process = libc::c_int::try_from(std::process::id()).ok()?;
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut info = unsafe { std::mem::zeroed::<libc::proc_threadinfo>() };
        let size = libc::c_int::try_from(size_of_val(&info)).ok()?;
        // SAFETY: the buffer is live and as long as said.
        let len = unsafe { libc::proc_pidinfo(process, PROC_PIDTHREADID64INFO, tid, (&raw mut info).cast(), size) };
        if len != size {
            return None;
        }
        let mut bytes = [0; MOST];
        for (byte, given) in bytes.iter_mut().zip(info.pth_name) {
            *byte = given.to_ne_bytes()[0];
        }
        Some(Self::of(bytes))
    }

    /// What the system calls a thread of this process that lives; this one is not asked.
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    pub(crate) fn of_thread(_tid: u64) -> Option<Self> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_the_system_until_the_program_gives_one() {
        std::thread::Builder::new()
            .name("a name of more than fifteen bytes".to_owned())
            .spawn(|| {
                let mut name = ThreadName::of_this_thread();
                assert_eq!(name.text, "a name of more than fifteen bytes");
                assert_eq!(SystemName::of_thread(crate::os::thread_id()), SystemName::of_this_thread());
                name.note(SystemName::of_this_thread());
                assert_eq!(name.renamed, None, "the system has the same name, cut");
                name.note(Some(SystemName::of([b'x'; MOST])));
                name.note(None);
                assert_eq!(name.text(), "x".repeat(MOST));

                assert!(give_name(Some("given")));
                let mut name = ThreadName::of_this_thread();
                name.note(Some(SystemName::of([b'x'; MOST])));
                assert_eq!(name.text(), "given");
            })
            .expect("a thread")
            .join()
            .expect("no panic");
    }
}
