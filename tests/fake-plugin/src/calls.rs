//! The functions of the profiler's table. Arguments are read and written by offset, and their sizes are checked.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::{COUNTS, block, down, number, spaces, told, told_of, up, values};

/// The private pointer of the table, which every call that takes it must hand back.
pub(crate) const PRIVATE: usize = 0x5eed;

/// An error object.
#[repr(C)]
struct Failure {
    magic: u64,
    code: i32,
    message: Vec<u8>,
}

/// A session.
#[repr(C)]
struct Session {
    magic: u64,
    stage: Stage,
    options: Vec<u8>,
    /// What was collected, kept until the session is destroyed.
    data: Vec<u8>,
    /// How far the protocol of two calls has come: the bytes that are owed.
    owed: Option<Vec<u8>>,
    taken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Created,
    Running,
    Stopped,
}

/// The result of a consume.
#[repr(C)]
struct Taken {
    magic: u64,
    bytes: Vec<u8>,
}

const FAILURE: u64 = 0xfa11;
const SESSION: u64 = 0x5e55;
const TAKEN: u64 = 0x7a4e;

/// Arguments of a call: the size first, then fields of eight bytes.
#[derive(Clone, Copy)]
struct Args(*mut u8);

impl Args {
    /// Checks the size that the caller announces.
    fn of(pointer: *mut c_void, size: u64) -> Self {
        let args = Self(pointer.cast());
        if args.get::<u64>(0) != size {
            up(&COUNTS.missized);
        }
        args
    }

    fn get<T: Copy>(self, offset: usize) -> T {
        // SAFETY: callers give the offsets and types of the header, and the caller of the plugin its struct.
        unsafe { self.0.add(offset).cast::<T>().read() }
    }

    fn set<T>(self, offset: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.0.add(offset).cast::<T>().write(value) };
    }

    /// The object at an offset, if it is alive and of this kind; its first word says so.
    fn object<T>(self, offset: usize, magic: u64) -> Option<&'static mut T> {
        let pointer = self.get::<*mut T>(offset);
        // SAFETY: the pointer is one that this plugin gave, or the test is to fail.
        let found = !pointer.is_null() && unsafe { pointer.cast::<u64>().read() } == magic;
        if !found {
            up(&COUNTS.misused);
            return None;
        }
        // SAFETY: alive as its first word says, and calls on one object come one after another.
        Some(unsafe { &mut *pointer })
    }

    /// Frees the object at an offset.
    fn free<T: 'static>(self, offset: usize, magic: u64) {
        if self.object::<T>(offset, magic).is_some() {
            // SAFETY: it came from `give` and is freed once: the word below is overwritten.
            let mut object = unsafe { Box::from_raw(self.get::<*mut T>(offset)) };
            // SAFETY: every object begins with its magic word.
            unsafe { (&raw mut *object).cast::<u64>().write_volatile(0) };
        }
    }
}

fn give<T>(object: T) -> *mut c_void {
    Box::into_raw(Box::new(object)).cast()
}

fn failure(code: i32, message: &str) -> *mut c_void {
    up(&COUNTS.errors);
    let message = match values("message").last().map(String::as_str) {
        Some("nul") => b"ends here\0".to_vec(),
        Some("bytes") => b"broken \xff\xfe text".to_vec(),
        Some("empty") => Vec::new(),
        _ => message.as_bytes().to_vec(),
    };
    let failure = give(Failure { magic: FAILURE, code, message });
    if told_of("null", "error_destroy") {
        // Nobody can free it: kept here, so that it counts as no leak.
        static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        crate::lock(&KEPT).push(failure as usize);
    }
    failure
}

/// The error that a call was told to give, if it was.
fn demanded(call: &str) -> Option<*mut c_void> {
    block(call);
    told_of("fail", call).then(|| failure(number("code", 13), &format!("the fake's {call} fails")))
}

fn misused(what: &str) -> *mut c_void {
    up(&COUNTS.misused);
    failure(10, what)
}

/// Panics must not leave for the caller.
fn guarded(call: impl FnOnce() -> *mut c_void) -> *mut c_void {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| failure(13, "the fake panicked"))
}

fn private(args: Args) {
    if args.get::<usize>(8) != PRIVATE {
        up(&COUNTS.misused);
    }
}

pub(crate) extern "C" fn error_destroy(args: *mut c_void) {
    let args = Args::of(args, 24);
    private(args);
    args.free::<Failure>(16, FAILURE);
    down(&COUNTS.errors);
}

pub(crate) extern "C" fn error_message(args: *mut c_void) {
    let args = Args::of(args, 40);
    private(args);
    let Some(failure) = args.object::<Failure>(16, FAILURE) else { return };
    if !told_of("message", "none") {
        args.set(24, failure.message.as_ptr());
        args.set(32, failure.message.len());
    }
}

pub(crate) extern "C" fn error_get_code(args: *mut c_void) -> *mut c_void {
    let args = Args::of(args, 28);
    private(args);
    if told("error-in-error") {
        return failure(3, "there is no code");
    }
    if let Some(failure) = args.object::<Failure>(16, FAILURE) {
        args.set(24, failure.code);
    }
    std::ptr::null_mut()
}

pub(crate) extern "C" fn create(args: *mut c_void) -> *mut c_void {
    guarded(|| {
        let args = Args::of(args, 32);
        if let Some(failure) = demanded("create") {
            return failure;
        }
        if told("no-handle") {
            return std::ptr::null_mut();
        }
        let (options, size) = (args.get::<*const u8>(8), args.get::<usize>(16));
        // SAFETY: the caller says that its options lie there.
        let options =
            if size == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(options, size) }.to_vec() };
        up(&COUNTS.sessions);
        up(&COUNTS.created);
        let session =
            Session { magic: SESSION, stage: Stage::Created, options, data: Vec::new(), owed: None, taken: false };
        args.set(24, give(session));
        std::ptr::null_mut()
    })
}

pub(crate) extern "C" fn destroy(args: *mut c_void) -> *mut c_void {
    guarded(|| {
        let args = Args::of(args, 16);
        if args.object::<Session>(8, SESSION).is_some_and(|session| session.stage == Stage::Running) {
            return misused("destroyed while it runs");
        }
        args.free::<Session>(8, SESSION);
        down(&COUNTS.sessions);
        // Also where it fails it is gone, as with the real ones.
        demanded("destroy").unwrap_or(std::ptr::null_mut())
    })
}

/// Moves a session from one stage to the next.
fn step(args: *mut c_void, call: &str, from: Stage, to: Stage) -> *mut c_void {
    guarded(|| {
        let args = Args::of(args, 16);
        let Some(session) = args.object::<Session>(8, SESSION) else { return misused("no session") };
        if let Some(failure) = demanded(call) {
            if from == Stage::Running {
                session.stage = to;
            }
            return failure;
        }
        if session.stage != from {
            return misused(&format!("{call} called in the wrong order"));
        }
        session.stage = to;
        std::ptr::null_mut()
    })
}

pub(crate) extern "C" fn start(args: *mut c_void) -> *mut c_void {
    up(&COUNTS.started);
    step(args, "start", Stage::Created, Stage::Running)
}

pub(crate) extern "C" fn stop(args: *mut c_void) -> *mut c_void {
    up(&COUNTS.stopped);
    step(args, "stop", Stage::Running, Stage::Stopped)
}

pub(crate) extern "C" fn collect_data(args: *mut c_void) -> *mut c_void {
    up(&COUNTS.collected);
    guarded(|| {
        let args = Args::of(args, 32);
        let Some(session) = args.object::<Session>(8, SESSION) else { return misused("no session") };
        if let Some(failure) = demanded("collect") {
            return failure;
        }
        if session.stage != Stage::Stopped {
            return misused("collect called in the wrong order");
        }
        if told("huge") || told("nowhere") {
            let buffer = if told("huge") { std::ptr::null_mut() } else { session.data.as_mut_ptr() };
            args.set(16, buffer);
            args.set(24, usize::MAX / 2 + usize::from(told("nowhere")));
            return std::ptr::null_mut();
        }
        let buffer = args.get::<*mut u8>(16);
        if let Some(owed) = session.owed.take() {
            if buffer.is_null() || args.get::<usize>(24) != owed.len() {
                return misused("a buffer of the announced size was expected");
            }
            let given = if told("short") { owed.len() - 1 } else { owed.len() };
            if told("drained") {
                args.set(24, 0_usize);
                return std::ptr::null_mut();
            }
            // SAFETY: the caller's buffer has the size that was announced.
            unsafe { std::ptr::copy_nonoverlapping(owed.as_ptr(), buffer, given) };
            args.set(24, given + usize::from(told("long")));
            return std::ptr::null_mut();
        }
        if !buffer.is_null() {
            return misused("a buffer before a size was asked for");
        }
        let mut bytes = if session.taken { Vec::new() } else { spaces::bytes(&session.options) };
        session.taken = true;
        if told("trailing-nul") {
            bytes.push(0);
        }
        args.set(24, bytes.len());
        if ["two-calls", "drained", "short", "long"].iter().any(|word| told(word)) {
            session.owed = Some(bytes);
        } else {
            session.data = bytes;
            args.set(16, session.data.as_mut_ptr());
        }
        std::ptr::null_mut()
    })
}

pub(crate) extern "C" fn consume(args: *mut c_void) -> *mut c_void {
    guarded(|| {
        let args = Args::of(args, 24);
        let Some(session) = args.object::<Session>(8, SESSION) else { return misused("no session") };
        if let Some(failure) = demanded("consume") {
            return failure;
        }
        let bytes = if session.taken { Vec::new() } else { spaces::bytes(&session.options) };
        session.taken = true;
        up(&COUNTS.results);
        args.set(16, give(Taken { magic: TAKEN, bytes }));
        std::ptr::null_mut()
    })
}

pub(crate) extern "C" fn consume_result_destroy(args: *mut c_void) {
    let args = Args::of(args, 16);
    args.free::<Taken>(8, TAKEN);
    down(&COUNTS.results);
}

pub(crate) extern "C" fn serialize(args: *mut c_void) -> *mut c_void {
    guarded(|| {
        let args = Args::of(args, 40);
        let session = args.object::<Session>(8, SESSION);
        let taken = args.object::<Taken>(16, TAKEN);
        let (Some(_), Some(taken)) = (session, taken) else { return misused("no session or no result") };
        if let Some(failure) = demanded("serialize") {
            return failure;
        }
        args.set(24, taken.bytes.as_ptr());
        args.set(32, taken.bytes.len());
        std::ptr::null_mut()
    })
}
