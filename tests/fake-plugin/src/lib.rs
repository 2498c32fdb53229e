//! A PJRT plugin that has no accelerator: it returns prepared spaces, and fails on demand.
//!
//! Its layouts are written down anew, from the C header's numbers, so that a mistake of zprof's is not made twice.
//!
//! What it does is said by `ZPROF_FAKE`, read by `GetPjrtApi`, or by [`zprof_fake_configure`]: words between commas.
//!
//! | word | |
//! |---|---|
//! | `space=gpu`, `tpu`, `host`, `metadata`, `empty`, `ends-in-zero` | what is collected; several by `+`, `gpu+metadata` where nothing is said |
//! | `file=PATH` | that file is collected as it is |
//! | `megabytes=N` | a space of that size; with `unsorted`, of events out of order |
//! | `garbage` | bytes that are no space |
//! | `trailing-nul` | one byte more is announced, a 0 |
//! | `tid=N` | a line of the host plane besides the main thread's |
//! | `shift-ns=N` | the device's clock is off by that, either way |
//! | `fail=CALL` | the call (`create`, `start`, `stop`, `collect`, `destroy`, `consume`, `serialize`) gives an error |
//! | `code=N` | the code of such errors; 13 where nothing is said |
//! | `message=none`, `empty`, `nul`, `bytes` | their message |
//! | `error-in-error` | asking for a code gives another error |
//! | `null=SLOT` | that function of the profiler's table is null |
//! | `no-handle` | create gives neither a session nor an error |
//! | `table=N` | size that the profiler's table announces; 104 where nothing is said |
//! | `node=N` | size that the profiler's extension announces |
//! | `head=N` | size that the plugin's table announces |
//! | `major=N`, `minor=N` | version of the plugin; before 45 extensions have no size |
//! | `no-profiler`, `no-table`, `circle`, `null-api` | extensions: without the profiler's, with a null in it, without end; no table at all |
//! | `two-calls` | collect gives a size first, and fills the caller's buffer then |
//! | `drained`, `short`, `long` | as `two-calls`, but the second call gives nothing, less or more than announced |
//! | `huge` | a size that no memory has, and no buffer |
//! | `nowhere` | a buffer of a size that no memory has |
//! | `block=CALL` | the call does not return before [`zprof_fake_release`] |

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

mod calls;
mod spaces;
mod tables;

/// What is alive, and what was called how often.
#[derive(Default)]
struct Counts {
    sessions: AtomicU64,
    errors: AtomicU64,
    results: AtomicU64,
    created: AtomicU64,
    started: AtomicU64,
    stopped: AtomicU64,
    collected: AtomicU64,
    /// Calls that came in the wrong order or with a dead or foreign object.
    misused: AtomicU64,
    /// Sizes of structs that were not what the header says.
    missized: AtomicU64,
}

static COUNTS: Counts = Counts {
    sessions: AtomicU64::new(0),
    errors: AtomicU64::new(0),
    results: AtomicU64::new(0),
    created: AtomicU64::new(0),
    started: AtomicU64::new(0),
    stopped: AtomicU64::new(0),
    collected: AtomicU64::new(0),
    misused: AtomicU64::new(0),
    missized: AtomicU64::new(0),
};

fn up(count: &AtomicU64) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn down(count: &AtomicU64) {
    count.fetch_sub(1, Ordering::SeqCst);
}

/// The words of the configuration.
static WORDS: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// Whether blocked calls may return.
static RELEASED: Mutex<bool> = Mutex::new(false);
static RELEASE: Condvar = Condvar::new();
/// Whether a call is blocked, or was.
static BLOCKED: AtomicBool = AtomicBool::new(false);
/// Kernels that the program launched.
static KERNELS: Mutex<Vec<Kernel>> = Mutex::new(Vec::new());
/// Calls of the program's that named their caller.
static CALLS: Mutex<Vec<Call>> = Mutex::new(Vec::new());

/// A kernel. It starts as its launch does.
#[derive(Clone, Copy)]
struct Kernel {
    /// In nanoseconds since the epoch.
    start_ns: u64,
    duration_ns: u64,
    launch_ns: u64,
    /// The thread that launched it.
    tid: u64,
}

/// A call of `PJRT_LoadedExecutable_Execute`, as the plugin's own recorder sees it.
#[derive(Clone, Copy)]
struct Call {
    /// In nanoseconds since the epoch.
    start_ns: u64,
    duration_ns: u64,
    tid: u64,
    /// The caller's context, or -1.
    context: i64,
}

/// Id of the calling thread, or that of the process where the system does not say.
fn tid() -> u64 {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let tid = link.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    tid.unwrap_or_else(|| std::process::id().into())
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a word was given, as `word` or `word=…`.
fn told(word: &str) -> bool {
    lock(&WORDS).iter().flatten().any(|given| given.split('=').next() == Some(word))
}

/// Whether `word=value` was given.
fn told_of(word: &str, value: &str) -> bool {
    values(word).iter().any(|given| given == value)
}

/// The values that were given for a word.
fn values(word: &str) -> Vec<String> {
    let words = lock(&WORDS);
    let pairs = words.iter().flatten().filter_map(|given| given.split_once('='));
    pairs.filter(|(name, _)| *name == word).map(|(_, value)| value.to_owned()).collect()
}

/// The last number that was given for a word.
fn number<T: std::str::FromStr>(word: &str, otherwise: T) -> T {
    values(word).last().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn configure(text: &str) {
    *lock(&WORDS) = Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect());
    lock(&KERNELS).clear();
    lock(&CALLS).clear();
    *lock(&RELEASED) = false;
    BLOCKED.store(false, Ordering::SeqCst);
}

/// Holds a call up if it was told to.
fn block(call: &str) {
    if told_of("block", call) {
        BLOCKED.store(true, Ordering::SeqCst);
        let mut released = lock(&RELEASED);
        while !*released {
            released = RELEASE.wait(released).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The entry function of the plugin.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const c_void {
    if lock(&WORDS).is_none() {
        configure(&std::env::var("ZPROF_FAKE").unwrap_or_default());
    }
    tables::api()
}

/// Says anew what the plugin does, in the words of `ZPROF_FAKE`, and forgets kernels and blocks. To be called before
/// the plugin is loaded by others: tables are made by `GetPjrtApi`.
///
/// # Safety
///
/// `text` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_fake_configure(text: *const u8, size: usize) {
    // SAFETY: the caller says so.
    let text = unsafe { std::slice::from_raw_parts(text, size) };
    configure(&String::from_utf8_lossy(text));
}

/// Lets blocked calls return, those to come too.
#[unsafe(no_mangle)]
pub extern "C" fn zprof_fake_release() {
    *lock(&RELEASED) = true;
    RELEASE.notify_all();
}

/// Whether a call was blocked since the last configuration.
#[unsafe(no_mangle)]
pub extern "C" fn zprof_fake_blocked() -> bool {
    BLOCKED.load(Ordering::SeqCst)
}

/// Launches a kernel that runs from now on for so long, by the real-time clock; gives its correlation id, and its
/// start through `start_ns`. It is in the `gpu` plane of the next collected space, and the launch beside it.
///
/// # Safety
///
/// `start_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_fake_launch(duration_ns: u64, start_ns: *mut u64) -> u64 {
    let tid = tid();
    let now = spaces::now_ns();
    if !start_ns.is_null() {
        // SAFETY: the caller says so.
        unsafe { start_ns.write(now) };
    }
    let mut kernels = lock(&KERNELS);
    let launch_ns = spaces::now_ns().saturating_sub(now);
    kernels.push(Kernel { start_ns: now, duration_ns, launch_ns, tid });
    spaces::FIRST_CORRELATION + kernels.len() as u64 - 1
}

/// Executes nothing, as `PJRT_LoadedExecutable_Execute` does it whose arguments begin with a size and a chain of
/// extensions. The call is in the `host` plane of the next collected space, with the context that the chain has, which
/// is returned; -1 where it has none.
///
/// # Safety
///
/// `args` points to a size and a pointer, which is null or to a chain of PJRT's extensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_fake_execute(args: *const c_void) -> i64 {
    const PROFILER: i32 = 1;
    let tid = tid();
    let start_ns = spaces::now_ns();
    let mut context = -1;
    // SAFETY: the caller says so.
    let mut node = unsafe { args.byte_add(8).cast::<*const u8>().read() };
    while !node.is_null() {
        // SAFETY: an extension begins with its size.
        let size = unsafe { node.cast::<u64>().read() };
        // SAFETY: and its kind comes next.
        let kind = unsafe { node.add(8).cast::<i32>().read() };
        if kind == PROFILER {
            if size != 40 {
                up(&COUNTS.missized);
            }
            // SAFETY: that of this kind has its table and its context last.
            let table = unsafe { node.add(24).cast::<*const c_void>().read() };
            if !table.is_null() {
                up(&COUNTS.misused);
            }
            // SAFETY: as above.
            context = unsafe { node.add(32).cast::<i64>().read() };
        }
        // SAFETY: every extension has a pointer to the next.
        node = unsafe { node.add(16).cast::<*const u8>().read() };
    }
    let duration_ns = spaces::now_ns().saturating_sub(start_ns);
    lock(&CALLS).push(Call { start_ns, duration_ns, tid, context });
    context
}

/// Copies counts to `out`: live sessions, live errors, live consume results, then how often a session was created,
/// started, stopped and collected since the library was loaded, misuses, and structs of a wrong size.
///
/// # Safety
///
/// `out` has room for nine numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_fake_counts(out: *mut u64) {
    let Counts { sessions, errors, results, created, started, stopped, collected, misused, missized } = &COUNTS;
    let counts = [sessions, errors, results, created, started, stopped, collected, misused, missized];
    for (at, count) in counts.into_iter().enumerate() {
        // SAFETY: the caller says so.
        unsafe { out.add(at).write(count.load(Ordering::SeqCst)) };
    }
}
