//! The ends of a process under Unix. A thread, `zprof-exit`, sleeps until it is asked to finish the session: by a function
//! at exit, which then waits for it, or by a signal, which it then lets have its way. One signal asks for a snapshot.
//!
//! A handler here belongs to a signal that had its default effect. It does nothing once the program has put another in
//! its place. A library of handlers would not tell that: it calls all of them, and ours must not end a program that means
//! to end itself.
//!
//! A process may hold several copies of zprof, such as a program's and a plugin's, with a session each. A handler of another
//! copy is recognised by the signals that it blocks. The copy that comes later takes its place, and puts it back when its own
//! session is finished, before it sends the signal again. So each copy finishes its session in turn, and the first one ends
//! the process.

use std::ffi::{c_int, c_void};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixStream;
use std::process;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::{
    SIG_DFL, SIGABRT, SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGURG, SIGUSR2, SIGVTALRM, SIGWINCH, siginfo_t, sigset_t,
};

use super::super::exit;
use crate::atomic::AtomicU64;
use crate::os::{FileLimit, thread_id};
use crate::record::recording::keep_out;
use crate::record::{abort, silence};

const CAUGHT: [c_int; 5] = [SIGTERM, SIGINT, SIGHUP, SIGABRT, SIGUSR2];

/// The handlers of another copy of zprof that ours stand in the place of, in the order of `CAUGHT`, or 0.
static BEFORE: [AtomicUsize; CAUGHT.len()] = [const { AtomicUsize::new(0) }; CAUGHT.len()];

/// Signals that are blocked while a handler of zprof runs. They could well wait; that just these are blocked, and no others,
/// marks the handler as one of zprof's, in whichever copy. So they must stay what they are in all versions.
const BLOCKED: [c_int; 4] = [SIGCHLD, SIGURG, SIGVTALRM, SIGWINCH];

const HANDLER_FLAGS: c_int = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;

/// Signals that stay unblocked everywhere: a thread that makes one itself ends the process anyhow.
const OWN_FAULTS: [c_int; 6] = [SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// From when on a second signal ends the process at once. `timeout` sends two at the same time.
const IMPATIENT: Duration = Duration::from_secs(1);
/// How long an abort waits: the thread that finishes may need what the aborting one holds.
const ABORT_LIMIT: Duration = Duration::from_secs(20);
/// How long an abort lets the plugin take.
const ABORT_PLUGIN_LIMIT: Duration = Duration::from_secs(5);
/// How long an exit waits for a signal that came first to end the process.
const DEATH_LIMIT: Duration = Duration::from_secs(1);

/// The process whose ends are watched, or 0. A child of a fork sees its parent here.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The kernel's id of its `zprof-exit`.
static WATCHER: AtomicU64 = AtomicU64::new(0);
/// What a byte is sent to that wakes `zprof-exit`: the number of a signal, `ABORT`, or 0.
static BELL: AtomicI32 = AtomicI32::new(-1);
static STAGE: AtomicU8 = AtomicU8::new(IDLE);
/// Milliseconds from `BASE` to the first signal, plus one.
static FIRST: AtomicU64 = AtomicU64::new(0);
static BASE: OnceLock<Instant> = OnceLock::new();
/// A signal is about to end the process.
static DYING: AtomicBool = AtomicBool::new(false);

/// In place of a signal's number: the process aborts itself, and waits in the handler.
const ABORT: c_int = 255;

/// No session.
const IDLE: u8 = 0;
/// It runs.
const RUNNING: u8 = 1;
/// It is finished, and all is told.
const FINISHED: u8 = 2;

/// Sees to it that the session is finished before the process ends.
pub(in super::super) fn watch() -> io::Result<()> {
    let (reader, writer) = UnixStream::pair()?;
    BASE.get_or_init(Instant::now);
    register()?;
    {
        let _blocked = Blocked::all_but_faults()?;
        thread::Builder::new().name("zprof-exit".to_owned()).spawn(move || attend(reader))?;
    }
    // In the child of a fork, the old one is the parent's too: it is left open.
    BELL.store(writer.into_raw_fd(), Ordering::Relaxed);
    FIRST.store(0, Ordering::Relaxed);
    DYING.store(false, Ordering::Relaxed);
    STAGE.store(RUNNING, Ordering::Relaxed);
    // Release pairs with the Acquire of `is_watched`: what is above is in place.
    OWNER.store(process::id(), Ordering::Release);
    CAUGHT.into_iter().try_for_each(catch)
}

/// Whether the ends of this process are watched.
pub(in super::super) fn is_watched() -> bool {
    OWNER.load(Ordering::Acquire) == process::id()
}

/// What `exit` and `fork` are to call, once for the process and its children.
fn register() -> io::Result<()> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    super::watch_exit()?;
    let registered = *REGISTERED.get_or_init(|| {
        // SAFETY: the function never unwinds, and its code stays loaded until the process ends.
        let at_fork = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        at_fork == 0
    });
    if registered { Ok(()) } else { Err(io::Error::other("pthread_atfork takes no more functions")) }
}

/// Keeps the shared library that holds this code loaded until the process ends: `exit`, signals and forks call functions
/// in it. In the program itself this does nothing.
#[cfg(not(target_feature = "crt-static"))]
pub(super) fn keep_loaded() {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let address: *const c_void = (&raw const OWNER).cast();
    // SAFETY: any address may be asked for, and the answer goes to a live variable.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: all bits zero are a valid Dl_info, of numbers and pointers, and so is what dladdr has filled in.
    let info = unsafe { info.assume_init() };
    if found != 0 && !info.dli_fname.is_null() {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the name ends at a NUL and belongs to the loader. With NOLOAD nothing is loaded, so no code runs. The handle
        // is of no interest: the flag holds, also where the handle is closed.
        unsafe { libc::dlopen(info.dli_fname, flags) };
    }
}

/// A program that is linked statically has no libraries that could be unloaded.
#[cfg(target_feature = "crt-static")]
pub(super) fn keep_loaded() {}

/// The thread `zprof-exit`.
fn attend(mut reader: UnixStream) {
    keep_out();
    WATCHER.store(thread_id(), Ordering::Relaxed);
    let mut byte = [0];
    while reader.read_exact(&mut byte).is_ok() {
        let signal = c_int::from(byte[0]);
        if signal == SIGUSR2 {
            exit::take_snapshot();
            continue;
        }
        let dies = signal != 0 && signal != ABORT;
        DYING.fetch_or(dies, Ordering::Relaxed);
        {
            let _finished = Finished;
            if signal == ABORT {
                abort();
                exit::finish_env(Some(ABORT_PLUGIN_LIMIT));
            } else {
                exit::finish_env(None);
            }
        }
        if dies {
            // Process 1 of a container lives on, as it would have without us.
            die_of(signal);
            DYING.store(false, Ordering::Relaxed);
        }
    }
}

/// Says at its end that the session is finished, also by a panic: whoever waits would wait for ever.
struct Finished;

impl Drop for Finished {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `is_finished`: the files are whole.
        STAGE.store(FINISHED, Ordering::Release);
    }
}

/// Finishes the session: the process is about to end.
pub(in super::super) fn finish_now() {
    if !is_watched() || WATCHER.load(Ordering::Relaxed) == thread_id() {
        return;
    }
    if !is_finished() && !ring(0) {
        // The program has closed what is not its own.
        return exit::finish_env(None);
    }
    wait(None, is_finished);
    if DYING.load(Ordering::Relaxed) {
        wait(Some(DEATH_LIMIT), || false);
    }
}

fn is_finished() -> bool {
    // Acquire pairs with the Release in `Finished`.
    STAGE.load(Ordering::Acquire) == FINISHED
}

/// Waits. A handler may call this.
fn wait(limit: Option<Duration>, until: fn() -> bool) {
    let begun = Instant::now();
    while !until() && limit.is_none_or(|limit| begun.elapsed() < limit) {
        let step_ms = if begun.elapsed() < Duration::from_millis(50) { 1 } else { 10 };
        // SAFETY: without descriptors, this only lets time pass.
        unsafe { libc::poll(null_mut(), 0, step_ms) };
    }
}

/// Wakes `zprof-exit`; `false` if that cannot be. A handler may call this.
fn ring(signal: c_int) -> bool {
    let byte = [u8::try_from(signal).unwrap_or(0)];
    // Not `write`: if the program has closed the descriptor and has a file there now, it must not get our byte.
    // SAFETY: the pointer is to one live byte.
    let sent = unsafe { libc::send(BELL.load(Ordering::Relaxed), byte.as_ptr().cast(), 1, libc::MSG_DONTWAIT) };
    sent == 1
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = errno::keep();
    if !is_watched() {
        // The child of a fork that called no function of ours.
        if is_ours(signal) {
            end_by(signal);
        }
    } else if signal == SIGABRT && !is_sent(signal, info) {
        if WATCHER.load(Ordering::Relaxed) != thread_id() && ring(ABORT) {
            wait(Some(ABORT_LIMIT), is_finished);
        }
        // `abort` goes on by itself when this returns; `raise` does not.
        if is_ours(signal) {
            end_by(signal);
        }
    } else if signal == SIGUSR2 {
        // Where it cannot be taken there is no snapshot, and nothing else.
        let _asked = is_ours(signal) && ring(signal);
        pass_on(signal, info, context);
    } else if is_ours(signal) {
        end_soon(signal);
    }
    errno::restore(errno);
}

/// Whether the signal is another process's, which then need not wait in the handler: that may have come between any two
/// instructions, so `zprof-exit` may need what the thread holds. A handler that calls ours counts as an abort: it may have
/// given no account.
fn is_sent(signal: c_int, info: *const siginfo_t) -> bool {
    if !is_ours(signal) {
        return false;
    }
    // SAFETY: while the handler is ours, the system has called it, with its account of the signal.
    let Some(info) = (unsafe { info.as_ref() }) else { return false };
    // SAFETY: the signal is no fault or timer of the system's: the field is its sender, or 0 where that cannot be told.
    let sender = unsafe { info.si_pid() };
    u32::try_from(sender) != Ok(process::id())
}

/// Lets the first signal finish the session, and an impatient second one have its effect at once.
fn end_soon(signal: c_int) {
    let now = BASE.get().map_or(0, |base| u64::try_from(base.elapsed().as_millis()).unwrap_or(0)) + 1;
    match FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            if !ring(signal) {
                end_by(signal);
            }
        }
        Err(first) => {
            if u128::from(now.saturating_sub(first)) >= IMPATIENT.as_millis() {
                end_by(signal);
            }
        }
    }
}

/// Calls the handler of another copy that ours stands in the place of, if there is one. A handler may call this.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(handler) = before(signal) else { return };
    // SAFETY: `catch` has found that address as the handler of another copy of zprof, which takes what SA_SIGINFO gives, and
    // which keeps its code loaded.
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
    handler(signal, info, context);
}

/// The handler of another copy that ours stands in the place of.
fn before(signal: c_int) -> Option<usize> {
    let index = CAUGHT.iter().position(|caught| *caught == signal)?;
    Some(BEFORE[index].load(Ordering::Relaxed)).filter(|handler| *handler != 0)
}

/// Gives the signal back to another copy of zprof, or else its default effect, and sends it to this thread. A handler may
/// call this: it comes when that returns.
fn end_by(signal: c_int) {
    let action = before(signal).map_or_else(no_action, action_of);
    // SAFETY: the action is a valid one, and the old one is not asked for.
    unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
    // SAFETY: raise only sends a signal.
    unsafe { libc::raise(signal) };
}

/// Ends the process by the signal, unless the program has taken it over meanwhile.
fn die_of(signal: c_int) {
    if is_ours(signal) {
        let mut set = no_signals();
        // SAFETY: the set is live, and the signal is one that the system knows.
        unsafe { libc::sigaddset(&raw mut set, signal) };
        // SAFETY: the set is whole, and the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut()) };
        end_by(signal);
    }
}

/// Catches the signal if it has its default effect or a handler of another copy of zprof.
fn catch(signal: c_int) -> io::Result<()> {
    let Some(present) = present(signal) else { return Ok(()) };
    let is_copy = is_zprof(&present) && present.sa_sigaction != our_handler();
    if present.sa_sigaction != SIG_DFL && !is_copy {
        return Ok(());
    }
    if let Some(index) = CAUGHT.iter().position(|caught| *caught == signal) {
        BEFORE[index].store(if is_copy { present.sa_sigaction } else { 0 }, Ordering::Relaxed);
    }
    let action = action_of(our_handler());
    // SAFETY: the handler takes what SA_SIGINFO gives and calls only what a handler may call.
    let status = unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn our_handler() -> usize {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
    // An address is as long as a usize.
    handler as usize
}

/// Whether the signal has our handler, or one of another copy, which calls ours. A handler may call this.
fn is_ours(signal: c_int) -> bool {
    present(signal).is_some_and(|present| present.sa_sigaction == our_handler() || is_zprof(&present))
}

/// What the signal does now. A handler may call this.
fn present(signal: c_int) -> Option<libc::sigaction> {
    let mut action = no_action();
    // SAFETY: no new action is given, and the old one goes to a live variable.
    let status = unsafe { libc::sigaction(signal, null(), &raw mut action) };
    (status == 0).then_some(action)
}

/// Whether an action is a handler of zprof's, in whichever copy. A handler may call this.
fn is_zprof(action: &libc::sigaction) -> bool {
    // SAFETY: the set is live, and the signal is one that the system knows.
    let blocks = |signal: c_int| unsafe { libc::sigismember(&raw const action.sa_mask, signal) } == 1;
    const OTHERS: [c_int; 6] = [SIGHUP, SIGINT, SIGTERM, SIGUSR2, libc::SIGALRM, libc::SIGPIPE];
    action.sa_flags & libc::SA_SIGINFO != 0 && BLOCKED.into_iter().all(blocks) && !OTHERS.into_iter().any(blocks)
}

/// A handler of zprof's, with the signals that mark it as one.
fn action_of(handler: usize) -> libc::sigaction {
    let mut action = no_action();
    action.sa_sigaction = handler;
    action.sa_flags = HANDLER_FLAGS;
    for signal in BLOCKED {
        // SAFETY: the set is live and valid, and the signal is one that the system knows.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, signal) };
    }
    action
}

/// The default action, without flags and without signals that it blocks.
fn no_action() -> libc::sigaction {
    // SAFETY: all bits zero are a valid sigaction: numbers, an address that is `SIG_DFL`, and an empty set.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn no_signals() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is good for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset has filled it, and cannot fail.
    unsafe { set.assume_init() }
}

/// Signals are blocked in this thread while this lives, and in threads that it starts, for as long as they live.
struct Blocked(sigset_t);

impl Blocked {
    fn all_but_faults() -> io::Result<Self> {
        let (mut all, mut before) = (no_signals(), no_signals());
        // SAFETY: the set is live.
        unsafe { libc::sigfillset(&raw mut all) };
        for signal in OWN_FAULTS {
            // SAFETY: the set is live, and the signal is one that the system knows.
            unsafe { libc::sigdelset(&raw mut all, signal) };
        }
        // SAFETY: both sets are live.
        let status = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        if status == 0 { Ok(Self(before)) } else { Err(io::Error::from_raw_os_error(status)) }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is what the thread had, and the present one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

/// In the child of a fork: signals have the effect that they would have had without us, and nobody writes what is recorded.
extern "C" fn in_child() {
    if OWNER.load(Ordering::Relaxed) == 0 {
        return;
    }
    for signal in CAUGHT {
        if is_ours(signal) {
            let action = no_action();
            // SAFETY: the action is a valid one, and the old one is not asked for.
            unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
        }
    }
    if STAGE.swap(IDLE, Ordering::Relaxed) == RUNNING {
        silence();
    }
}

/// Writes to standard error, unless nobody reads it. The standard library's lock may be held by the thread that waits for
/// this one. `false` where nobody read it for a second.
pub(in super::super) fn say(text: &str) -> bool {
    let text = crate::display::line(text);
    // Standard error may be a file.
    let _limit = FileLimit::block();
    let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is to one live pollfd.
    let is_read = unsafe { libc::poll(&raw mut ready, 1, 1000) } == 1;
    if is_read {
        // SAFETY: pointer and length are those of the text.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    is_read
}

/// The number of the last error of this thread, which a handler must leave as it was.
mod errno {
    use std::ffi::c_int;

    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    use libc::__errno as place;
    #[cfg(any(target_os = "linux", target_os = "hurd"))]
    use libc::__errno_location as place;
    #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
    use libc::__error as place;

    pub(super) fn keep() -> c_int {
        // SAFETY: the function has no arguments and gives a pointer that is good for this thread.
        let place = unsafe { place() };
        // SAFETY: as said.
        unsafe { *place }
    }

    pub(super) fn restore(errno: c_int) {
        // SAFETY: as in `keep`.
        let place = unsafe { place() };
        // SAFETY: as said.
        unsafe { *place = errno };
    }
}
