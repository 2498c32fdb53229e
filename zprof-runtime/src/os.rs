//! What the system says of the process and of the calling thread: names, ids, memory, and whether the thread is in a signal
//! handler.

use std::path::PathBuf;

/// Whether this system has what a session needs: threads, clocks, and processes that have ids. WebAssembly has marks alone.
pub(crate) const HAS_SESSIONS: bool = !cfg!(all(target_family = "wasm", not(target_os = "emscripten")));

/// The id of this process, or 0 on a system without processes, where the standard library would panic.
pub(crate) fn process_id() -> u32 {
    if HAS_SESSIONS { std::process::id() } else { 0 }
}

/// The name of the program: that of its file, without the ending that programs have on Windows. `None` if the system does not
/// tell it.
pub(crate) fn program_name() -> Option<String> {
    // The first argument is the second choice, since a program may write its own title there.
    let file = std::env::current_exe().ok().or_else(|| std::env::args_os().next().map(PathBuf::from))?;
    let name = file.file_name()?.to_string_lossy();
    // Linux marks the path of a file that was removed since, as a build does that replaces it.
    let name = if cfg!(target_os = "linux") { name.strip_suffix(" (deleted)").unwrap_or(&name) } else { &name };
    let name = name.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(name);
    (!name.is_empty()).then(|| name.to_owned())
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

/// The system's id of the calling thread, unique among threads that live at the same time.
#[cfg(windows)]
#[allow(unsafe_code)] // no safe binding
pub(crate) fn thread_id() -> u64 {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        safe fn GetCurrentThreadId() -> u32;
    }

    GetCurrentThreadId().into()
}

/// A number of the calling thread that no other thread of this process has, and the same at each call: this system's own id
/// needs a binding that is not built in. Late in a thread's life, when the number is gone, it is 0.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", windows)))]
pub(crate) fn thread_id() -> u64 {
    use std::sync::atomic::Ordering;

    use crate::atomic::AtomicU64;

    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.try_with(|own| *own).unwrap_or(0)
}

/// Whether the calling thread is in a signal handler, where it must not allocate nor wait for a lock: what it has interrupted
/// may be the allocator, or may have the lock. One call of the system, where the thread blocks no signals.
///
/// While a handler runs, its signal is blocked. So a thread that blocks no signals is in no handler. One that blocks some may
/// be in a handler, or may have blocked them itself, and the mask does not tell which: a thread that had blocked a signal and
/// unblocks it has the same mask again while it handles that signal. So the stack is searched for the frame of a signal then.
/// A handler that was installed with `SA_NODEFER` is not seen, and with musl none is, because the unwinder does not know its
/// frames of signals there.
#[cfg(all(unix, not(miri)))]
#[allow(unsafe_code)] // no safe binding
pub(crate) fn in_signal_handler() -> bool {
    use std::cell::Cell;

    type Mask = [u8; size_of::<libc::sigset_t>()];

    thread_local! {
        /// The thread is looking for the frame of a signal already: the unwinder may allocate, and the program's allocator may have
        /// scopes, which ask the same again.
        static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
    }
    // Zeroed, since the system may write fewer bytes than the type has.
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: with no new mask the call only writes the present one, into memory for one.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
    // SAFETY: each byte was set, to zero at least, and the two types have the same size.
    let mask = unsafe { std::mem::transmute_copy::<_, Mask>(&set) };
    if status != 0 || mask.iter().all(|byte| *byte == 0) {
        return false;
    }
    if IS_LOOKING.replace(true) {
        // Or a handler has interrupted the look: to be in one is the safe answer.
        return true;
    }
    let is_in = has_signal_frame();
    IS_LOOKING.set(false);
    is_in
}

/// Whether the kernel has put the frame of a signal on the calling thread's stack.
#[cfg(all(unix, not(target_arch = "arm"), not(miri)))]
#[allow(unsafe_code)] // the unwinder has no safe binding
fn has_signal_frame() -> bool {
    use std::ffi::{c_int, c_void};

    /// State of the unwinder for a frame.
    #[repr(C)]
    struct Context([u8; 0]);

    // The unwinder of the platform, which the standard library links.
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            trace: unsafe extern "C" fn(*mut Context, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIPInfo(context: *mut Context, is_exact: *mut c_int) -> usize;
    }

    /// Goes on with the walk at 0, and ends it at another status.
    unsafe extern "C" fn look(context: *mut Context, found: *mut c_void) -> c_int {
        const NORMAL_STOP: c_int = 4;
        let mut is_exact = 0;
        // SAFETY: the unwinder gives a context that is good for this call, and the other pointer is to a live integer.
        unsafe { _Unwind_GetIPInfo(context, &raw mut is_exact) };
        if is_exact == 0 {
            return 0;
        }
        // Only the address of an interrupted instruction is exact; that of a call is the one behind it.
        // SAFETY: it is the pointer to a live bool that is given below.
        unsafe { found.cast::<bool>().write(true) };
        NORMAL_STOP
    }

    let mut found = false;
    // SAFETY: `look` has the type that the unwinder calls, never unwinds, and gets the pointer to `found` during the call only.
    unsafe { _Unwind_Backtrace(look, (&raw mut found).cast()) };
    found
}

/// Unwinders of 32-bit Arm do not know the frames of signals.
#[cfg(all(unix, target_arch = "arm", not(miri)))]
fn has_signal_frame() -> bool {
    false
}

/// Calls `spawn` with all signals blocked, so that a thread which it starts takes none of the program's: their handlers may have
/// scopes, and a thread of ours is none of the program's. Signals that tell of a fault are let through.
#[cfg(all(unix, not(miri)))]
#[allow(unsafe_code)] // no safe binding
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    use std::mem::MaybeUninit;

    const FAULTS: [libc::c_int; 7] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

    let (mut all, mut old) = (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed());
    // SAFETY: the pointer is to memory for a set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for fault in FAULTS {
        // SAFETY: the set has just been made.
        unsafe { libc::sigdelset(all.as_mut_ptr(), fault) };
    }
    // SAFETY: the one set was made, and the other is memory for one.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) };
    let result = spawn();
    if status == 0 {
        // SAFETY: the set is the one that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

/// Nothing takes signals here.
#[cfg(any(not(unix), miri))]
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    spawn()
}

/// Blocks, in the calling thread, the signal that a write past the process's limit of file sizes (`ulimit -f`) sends. Its default
/// effect ends the process, which would not have met the limit without a profile. While this lives, such a write is an error,
/// as on a disk that is full. When it is dropped, a signal that came meanwhile is taken away, and the mask is as before.
#[cfg(all(any(target_os = "linux", target_os = "android", target_os = "freebsd"), not(miri)))]
pub(crate) struct FileLimit {
    old: libc::sigset_t,
    /// A signal waited already, which is the program's.
    was_pending: bool,
}

#[cfg(all(any(target_os = "linux", target_os = "android", target_os = "freebsd"), not(miri)))]
#[allow(unsafe_code)] // no safe binding
mod file_limit {
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    use super::FileLimit;

    type Set = MaybeUninit<libc::sigset_t>;

    /// The set of this signal alone.
    fn signal() -> Set {
        let mut set = Set::zeroed();
        // SAFETY: the pointer is to memory for a set.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: the set has just been made, and the signal is one that the system knows.
        unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) };
        set
    }

    fn is_pending() -> bool {
        let mut pending = Set::zeroed();
        // SAFETY: the pointer is to memory for a set.
        unsafe { libc::sigpending(pending.as_mut_ptr()) };
        // SAFETY: the set is one, of zeros at least.
        unsafe { libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1 }
    }

    impl FileLimit {
        pub(crate) fn block() -> Self {
            let was_pending = is_pending();
            let mut old = Set::zeroed();
            // SAFETY: the one set was made, and the other is memory for one.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, signal().as_ptr(), old.as_mut_ptr()) };
            // SAFETY: all bits zero are a valid set, and so is what the system has written.
            Self { old: unsafe { old.assume_init() }, was_pending }
        }
    }

    impl Drop for FileLimit {
        fn drop(&mut self) {
            if !self.was_pending && is_pending() {
                let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: the set was made, the time is live, and nobody asks for the signal's account. This waits for nothing.
                unsafe { libc::sigtimedwait(signal().as_ptr(), null_mut(), &raw const no_time) };
            }
            // SAFETY: the mask is the one that the thread had.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.old, null_mut()) };
        }
    }
}

/// This system sends no such signal, or lets nobody take it away again.
#[cfg(not(all(any(target_os = "linux", target_os = "android", target_os = "freebsd"), not(miri))))]
pub(crate) struct FileLimit;

#[cfg(not(all(any(target_os = "linux", target_os = "android", target_os = "freebsd"), not(miri))))]
impl FileLimit {
    pub(crate) fn block() -> Self {
        Self
    }
}

/// There are no signal handlers here that run on top of other code of their thread.
#[cfg(any(not(unix), miri))]
pub(crate) fn in_signal_handler() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    // The unwinder does not know the frames of signals on 32-bit Arm and with musl.
    #[cfg(all(unix, not(target_arch = "arm"), not(target_env = "musl"), not(miri)))]
    #[test]
    #[allow(unsafe_code)] // installs a handler
    fn a_handler_of_a_signal_that_its_thread_has_blocked_before_is_seen() {
        use std::ffi::c_int;
        use std::mem::MaybeUninit;
        use std::ptr::null_mut;
        use std::sync::atomic::{AtomicU32, Ordering};

        static SEEN: AtomicU32 = AtomicU32::new(0);

        extern "C" fn handler(_: c_int) {
            SEEN.fetch_add(if in_signal_handler() { 1 } else { 100 }, Ordering::Relaxed);
        }

        // On a thread of its own, whose mask nobody else needs.
        let work = || {
            let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: the pointer is to memory for a set.
            unsafe { libc::sigemptyset(set.as_mut_ptr()) };
            // SAFETY: the set has just been made, and the signal is one that the system knows.
            unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGURG) };
            let handler: extern "C" fn(c_int) = handler;
            // SAFETY: the handler takes what a handler gets, and calls only what it may.
            unsafe { libc::signal(libc::SIGURG, handler as libc::sighandler_t) };
            for _ in 0..2 {
                // SAFETY: the set is live, and the old mask is not asked for.
                unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), null_mut()) };
                assert!(!in_signal_handler());
                // SAFETY: the set is live, and the old mask is not asked for.
                unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), null_mut()) };
                // SAFETY: raise only sends a signal, which is handled before it returns.
                unsafe { libc::raise(libc::SIGURG) };
            }
        };
        thread::spawn(work).join().expect("no panic");
        assert_eq!(SEEN.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_thread_has_one_id_and_no_other_thread_has_it() {
        let own = thread_id();
        assert_eq!(thread_id(), own);
        let other = thread::spawn(|| (thread_id(), thread_id())).join().expect("no panic");
        assert_eq!(other.0, other.1);
        assert_ne!(other.0, own);
    }
}
