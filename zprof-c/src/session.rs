//! Sessions: a profiler behind a pointer, with options that may be older or newer than this library.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ptr};

use zprof_runtime::{Error, ErrorKind, Platform, Profile, Profiler, ProfilerOptions, SessionId};

use crate::abi::{self, Options, status};
use crate::shielded;

/// A profiler as C holds it. Any thread may call it; the lock makes calls wait for one another.
#[derive(Debug)]
pub struct Handle(Mutex<Held>);

#[derive(Debug)]
struct Held {
    profiler: Profiler,
    told: Told,
}

/// The texts of the last profile, which C has pointers to.
#[derive(Debug, Default)]
struct Told {
    protobuf_path: CString,
    perfetto_path: Option<CString>,
    /// Kept for `pointers`.
    _warnings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead to the strings beside them, which nobody writes.
unsafe impl Send for Told {}

/// What failed.
struct Failure {
    status: i32,
    message: String,
}

type Outcome<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::AlreadyActive => status::ALREADY_ACTIVE,
            ErrorKind::WrongState => status::WRONG_STATE,
            ErrorKind::InvalidInput => status::INVALID_INPUT,
            ErrorKind::InvalidData => status::INVALID_DATA,
            ErrorKind::Io => status::IO,
            ErrorKind::Plugin => status::PLUGIN,
            ErrorKind::Unsupported => status::UNSUPPORTED,
            _ => status::INTERNAL,
        };
        let cause = std::error::Error::source(&error);
        let message = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        Self { status, message }
    }
}

fn invalid(message: impl Display) -> Failure {
    Failure { status: status::INVALID_INPUT, message: message.to_string() }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Gives the status of a call, and keeps its message.
fn answer(call: impl FnOnce() -> Outcome) -> i32 {
    let fault =
        || Err(Failure { status: status::INTERNAL, message: "zprof panicked; standard error says more".into() });
    let Err(failure) = shielded(None, || Some(call())).unwrap_or_else(fault) else { return status::OK };
    let message = c_string(&failure.message);
    // Late in a thread's life there is nowhere to keep it.
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = message));
    failure.status
}

/// The text up to its first NUL.
fn c_string(text: impl AsRef<[u8]>) -> CString {
    let text = text.as_ref();
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// A text of the options, which must be UTF-8.
///
/// # Safety
///
/// The pointer is null or leads to text that ends at a NUL.
unsafe fn option<'a>(pointer: *const c_char, what: &str) -> Outcome<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: it leads to such text, says the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| invalid(format_args!("`{what}` is not UTF-8")))
}

/// A path of the options, in whatever encoding the system has.
///
/// # Safety
///
/// As [`option`].
#[cfg(unix)]
unsafe fn path(pointer: *const c_char, _what: &str) -> Outcome<Option<PathBuf>> {
    use std::os::unix::ffi::OsStrExt as _;
    // SAFETY: it leads to such text, says the caller.
    let bytes = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_bytes());
    Ok(bytes.map(|bytes| std::ffi::OsStr::from_bytes(bytes).into()))
}

/// A path of the options, which must be UTF-8 here.
///
/// # Safety
///
/// As [`option`].
#[cfg(not(unix))]
unsafe fn path(pointer: *const c_char, what: &str) -> Outcome<Option<PathBuf>> {
    // SAFETY: passed on.
    unsafe { option(pointer, what) }.map(|path| path.map(PathBuf::from))
}

/// The options, as many of them as the caller's header has.
///
/// # Safety
///
/// The pointer is null, or leads to options of the size that they say, whose texts are null or end at a NUL.
unsafe fn read(pointer: *const Options) -> Outcome<Options> {
    let mut options = abi::OPTIONS_INIT;
    if !pointer.is_null() {
        // SAFETY: options begin with their size, says the caller.
        let given = unsafe { (*pointer).size };
        // No version of the header has had less than the size and a pointer.
        if given < mem::offset_of!(Options, session_id) {
            return Err(invalid(format_args!(
                "`size` of the options is {given}; set it to sizeof(zprof_options), as ZPROF_OPTIONS_INIT does"
            )));
        }
        // SAFETY: there are as many bytes, every one of which any field of ours may have.
        unsafe {
            ptr::copy_nonoverlapping(
                pointer.cast::<u8>(),
                (&raw mut options).cast::<u8>(),
                given.min(size_of::<Options>()),
            );
        }
    }
    Ok(options)
}

/// Makes a profiler with the options of C.
///
/// # Safety
///
/// As [`read`].
unsafe fn profiler(pointer: *const Options) -> Outcome<Profiler> {
    // SAFETY: passed on.
    let options = unsafe { read(pointer) }?;
    let mut made = ProfilerOptions::default()
        .host_tracer_level(options.host_tracer_level)
        .device_tracer_level(options.device_tracer_level)
        .python_tracer_level(options.python_tracer_level)
        .enable_hlo_proto(options.no_hlo == 0)
        .raise_error_on_start_failure(options.must_have_plugin != 0);
    // SAFETY: passed on.
    if let Some(path) = unsafe { path(options.repository_path, "repository_path") }? {
        made = made.repository_path(path);
    }
    // SAFETY: passed on.
    if let Some(id) = unsafe { option(options.session_id, "session_id") }? {
        made = made.session_id(id);
    }
    if options.unique_session != 0 {
        made = made.session_id(SessionId::Unique);
    }
    // SAFETY: passed on.
    if let Some(name) = unsafe { option(options.hostname, "hostname") }? {
        made = made.override_hostname(name);
    }
    // SAFETY: passed on.
    if let Some(directives) = unsafe { option(options.directives, "directives") }? {
        made = made.directives(directives);
    }
    if options.keep_last_ns != 0 {
        made = made.keep_last(Duration::from_nanos(options.keep_last_ns));
    }
    if options.filter_mask != u64::MAX {
        made = made.host_traceme_filter_mask(options.filter_mask);
    }
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    if options.max_buffer_bytes != 0 {
        made = made.max_buffer_bytes(bytes(options.max_buffer_bytes));
    }
    if options.keep_last_bytes != 0 {
        made = made.keep_last_bytes(bytes(options.keep_last_bytes));
    }
    if options.prefault_bytes != u64::MAX {
        made = made.prefault_bytes(bytes(options.prefault_bytes));
    }
    // SAFETY: passed on.
    let platform = match unsafe { path(options.plugin, "plugin") }? {
        None => Platform::host(),
        Some(path) if path.as_os_str() == "auto" => Platform::auto()?,
        Some(path) => Platform::load(path)?,
    };
    Ok(platform.profiler(made)?)
}

/// The profiler behind a pointer.
///
/// # Safety
///
/// The pointer is null, or came from [`zprof_profiler_new`] and was not freed.
unsafe fn held<'a>(profiler: *const Handle) -> Outcome<MutexGuard<'a, Held>> {
    // SAFETY: it leads to a handle, says the caller.
    let Handle(held) = unsafe { profiler.as_ref() }.ok_or_else(|| invalid("the profiler is NULL"))?;
    // A call that panicked has left a profiler that can be stopped.
    Ok(held.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a profiler.
///
/// # Safety
///
/// As the header says: the options are null, or of the size that they say; `profiler` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_profiler_new(options: *const Options, profiler: *mut *mut Handle) -> i32 {
    // SAFETY: it is null or can be written, says the caller.
    let place = unsafe { profiler.as_mut() };
    answer(|| {
        let place = place.ok_or_else(|| invalid("the place for the profiler is NULL"))?;
        *place = ptr::null_mut();
        // SAFETY: passed on.
        let profiler = unsafe { self::profiler(options) }?;
        *place = Box::into_raw(Box::new(Handle(Mutex::new(Held { profiler, told: Told::default() }))));
        Ok(())
    })
}

/// Starts a session.
///
/// # Safety
///
/// The profiler is null or one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_profiler_start(profiler: *const Handle) -> i32 {
    answer(|| {
        // SAFETY: passed on.
        let mut held = unsafe { held(profiler) }?;
        Ok(held.profiler.start()?)
    })
}

/// Stops a session.
///
/// # Safety
///
/// The profiler is null or one that was not freed; the profile is null, or of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_profiler_stop(profiler: *const Handle, profile: *mut abi::Profile) -> i32 {
    // SAFETY: passed on.
    answer(|| unsafe { told_of(profiler, profile, Profiler::stop) })
}

/// Writes what a session holds, and lets it go on.
///
/// # Safety
///
/// As [`zprof_profiler_stop`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_profiler_snapshot(profiler: *const Handle, profile: *mut abi::Profile) -> i32 {
    // SAFETY: passed on.
    answer(|| unsafe { told_of(profiler, profile, |profiler| profiler.snapshot()) })
}

/// Profiles the program to its end if the environment asks for it.
///
/// # Safety
///
/// `profiling` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_init_from_env(profiling: *mut bool) -> i32 {
    // SAFETY: it is null or can be written, says the caller. No bool is read, so that any byte may stand there.
    let give = |is_profiling: bool| unsafe {
        if !profiling.is_null() {
            profiling.write(is_profiling);
        }
    };
    give(false);
    answer(|| {
        give(zprof_runtime::init_from_env()?);
        Ok(())
    })
}

/// Lets `make` make a profile, and says in `profile` what there is.
///
/// # Safety
///
/// As [`zprof_profiler_stop`].
unsafe fn told_of(
    profiler: *const Handle,
    profile: *mut abi::Profile,
    make: impl FnOnce(&mut Profiler) -> zprof_runtime::Result<Option<Profile>>,
) -> Outcome {
    // SAFETY: it is null, or a profile begins with its size, says the caller.
    let size = unsafe { profile.cast::<usize>().as_ref() }.copied().unwrap_or(0);
    if !profile.is_null() && size < size_of::<usize>() {
        return Err(invalid(format_args!("`size` of the profile is {size}; set it to sizeof(zprof_profile)")));
    }
    let mut told = abi::Profile {
        size,
        protobuf_path: ptr::null(),
        perfetto_path: ptr::null(),
        warnings: ptr::null(),
        warning_count: 0,
        scopes: 0,
        threads: 0,
        dropped_scopes: 0,
        duration_ns: 0,
    };
    let give = |told: &abi::Profile| {
        // SAFETY: the profile can be written for its size; with a null one that is nothing.
        unsafe {
            ptr::copy_nonoverlapping(
                ptr::from_ref(told).cast::<u8>(),
                profile.cast::<u8>(),
                size.min(size_of::<abi::Profile>()),
            );
        }
    };
    if !profile.is_null() {
        give(&told);
    }
    // SAFETY: passed on.
    let mut held = unsafe { held(profiler) }?;
    let Some(stopped) = make(&mut held.profiler)? else { return Ok(()) };
    let path = |path: &Path| c_string(path.as_os_str().as_encoded_bytes());
    let warnings: Vec<CString> = stopped.warnings.iter().map(c_string).collect();
    held.told = Told {
        protobuf_path: path(&stopped.protobuf_path),
        perfetto_path: stopped.perfetto_path.as_deref().map(path),
        pointers: warnings.iter().map(|warning| warning.as_ptr()).collect(),
        _warnings: warnings,
    };
    told.protobuf_path = held.told.protobuf_path.as_ptr();
    if let Some(path) = &held.told.perfetto_path {
        told.perfetto_path = path.as_ptr();
    }
    told.warnings = held.told.pointers.as_ptr();
    told.warning_count = held.told.pointers.len();
    told.scopes = stopped.scopes;
    told.threads = u64::try_from(stopped.threads).unwrap_or(u64::MAX);
    told.dropped_scopes = stopped.dropped_scopes;
    told.duration_ns = u64::try_from(stopped.duration.as_nanos()).unwrap_or(u64::MAX);
    if !profile.is_null() {
        give(&told);
    }
    Ok(())
}

/// Whether it is recording.
///
/// # Safety
///
/// The profiler is null or one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_profiler_is_running(profiler: *const Handle) -> bool {
    // SAFETY: passed on.
    shielded(false, || unsafe { held(profiler) }.is_ok_and(|held| held.profiler.is_running()))
}

/// Frees a profiler.
///
/// # Safety
///
/// The profiler is null or one that was not freed, and no thread is calling it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_profiler_free(profiler: *mut Handle) {
    if !profiler.is_null() {
        // SAFETY: it came from a box, and nobody uses it any more.
        shielded((), || drop(unsafe { Box::from_raw(profiler) }));
    }
}

/// What went wrong in the last call of this thread that failed.
#[unsafe(no_mangle)]
pub extern "C" fn zprof_last_error() -> *const c_char {
    // The string stays where it is until the next failure of this thread.
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.as_ptr())).unwrap_or(c"".as_ptr())
}
