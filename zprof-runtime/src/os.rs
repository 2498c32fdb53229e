//! What the system calls the calling thread, and what the program does.

use std::cell::RefCell;

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

/// The name of the calling thread: the program's, else the system's, or an empty one.
pub(crate) fn thread_name() -> String {
    let given = GIVEN.try_with(|given| given.try_borrow().ok().and_then(|given| given.as_deref().map(str::to_owned)));
    given.ok().flatten().unwrap_or_else(of_system)
}

/// Whether the process can have that many bytes more of address space, where the system limits that.
#[cfg(all(unix, not(miri)))]
#[allow(unsafe_code)] // no safe binding
pub(crate) fn has_headroom(bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
    // SAFETY: a new private mapping at an address of the system's choice touches no memory of this process.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the range was just mapped, and nothing points into it.
    unsafe { libc::munmap(at, bytes) };
    true
}

/// Whether the process can have that many bytes more of address space; this system is not asked.
#[cfg(not(all(unix, not(miri))))]
pub(crate) fn has_headroom(_bytes: usize) -> bool {
    true
}

/// The kernel's id of the calling thread, unique among threads that live at the same time.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code)] // no safe binding
pub(crate) fn thread_id() -> u64 {
    // SAFETY: gettid has no arguments and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    u64::try_from(tid).unwrap_or(0)
}

/// The kernel's id of the calling thread.
#[cfg(target_os = "macos")]
#[allow(unsafe_code)] // no safe binding
pub(crate) fn thread_id() -> u64 {
    let mut id = 0;
    // SAFETY: 0 means the calling thread, and the pointer is to a live u64.
    let status = unsafe { libc::pthread_threadid_np(0, &raw mut id) };
    if status == 0 { id } else { 0 }
}

/// A number that no other thread of this process has; this system's own id needs a binding that is not built in.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
pub(crate) fn thread_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What the system calls the calling thread, or an empty name. The main thread is `main`.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn of_system() -> String {
    if is_main() {
        return "main".to_owned();
    }
    let mut buffer = [0; 64];
    let Some(name) = system_name(&mut buffer) else { return String::new() };
    // Linux keeps 15 bytes; Rust knows the rest. Only then is it asked, since late in a thread's life asking panics.
    const CUT: usize = 15;
    if cfg!(target_os = "linux") && name.len() == CUT {
        if let Some(whole) = std::thread::current().name() {
            return whole.to_owned();
        }
    }
    String::from_utf8_lossy(name).into_owned()
}

/// Whether the system calls the calling thread so: 15 bytes at most. Neither allocates nor asks Rust, so that it may be
/// called while a thread starts.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn is_named(name: &str) -> bool {
    system_name(&mut [0; 64]) == Some(name.as_bytes())
}

/// The same where only Rust can be asked, which it cannot while a thread starts.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn is_named(_name: &str) -> bool {
    false
}

/// What the system calls the calling thread.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[allow(unsafe_code)] // no safe binding
fn system_name(buffer: &mut [u8; 64]) -> Option<&[u8]> {
    // SAFETY: pthread_self has no arguments and cannot fail.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the buffer is live and as long as said.
    let status = unsafe { libc::pthread_getname_np(this, buffer.as_mut_ptr().cast(), buffer.len()) };
    let len = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    (status == 0).then_some(&buffer[..len])
}

#[cfg(target_os = "linux")]
fn is_main() -> bool {
    thread_id() == u64::from(std::process::id())
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)] // no safe binding
fn is_main() -> bool {
    // SAFETY: the function has no arguments and cannot fail.
    unsafe { libc::pthread_main_np() == 1 }
}

/// What Rust calls the calling thread, or an empty name.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn of_system() -> String {
    std::thread::current().name().map(str::to_owned).unwrap_or_default()
}
