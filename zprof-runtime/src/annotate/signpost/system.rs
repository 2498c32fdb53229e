//! The calls of macOS that signposts are made of, as `os/signpost.h` has them.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use super::{Arguments, Kind, System};

/// Signposts of macOS.
pub(in crate::annotate) struct Macos;

/// Instruments shows signposts of this category on a track of its own.
const CATEGORY: &CStr = c"PointsOfInterest";
const SUBSYSTEM: &CStr = c"zprof";

/// Text that signposts refer to: the reader finds it by its place in this section of the program.
#[repr(transparent)]
struct LogString<const N: usize>([u8; N]);

#[unsafe(link_section = "__TEXT,__oslogstring,cstring_literals")]
static NAME: LogString<12> = LogString(*b"zprof.scope\0");
#[unsafe(link_section = "__TEXT,__oslogstring,cstring_literals")]
static FORMAT: LogString<11> = LogString(*b"%{public}s\0");
#[unsafe(link_section = "__TEXT,__oslogstring,cstring_literals")]
static NO_FORMAT: LogString<1> = LogString(*b"\0");

/// Arguments of a signpost without any: flags and count.
const NO_ARGUMENTS: [u8; 2] = [0, 0];

unsafe extern "C" {
    static __dso_handle: u8;

    fn os_log_create(subsystem: *const c_char, category: *const c_char) -> *mut c_void;
    fn os_signpost_enabled(log: *mut c_void) -> bool;
    fn _os_signpost_emit_with_name_impl(
        dso: *const c_void,
        log: *mut c_void,
        kind: u8,
        id: u64,
        name: *const c_char,
        format: *const c_char,
        arguments: *const u8,
        size: u32,
    );
}

/// Our log.
struct Log(*mut c_void);

// SAFETY: the system's logs may be used by any thread, and ours is never released.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

fn log() -> *mut c_void {
    static LOG: OnceLock<Log> = OnceLock::new();
    // SAFETY: both are C strings.
    LOG.get_or_init(|| Log(unsafe { os_log_create(SUBSYSTEM.as_ptr(), CATEGORY.as_ptr()) })).0
}

impl System for Macos {
    fn has_log(&self) -> bool {
        !log().is_null()
    }

    fn is_enabled(&self) -> bool {
        // SAFETY: the log is the one that the system gave.
        unsafe { os_signpost_enabled(log()) }
    }

    fn emit(&self, kind: Kind, id: u64, arguments: Option<Arguments>) {
        let (format, arguments) = match &arguments {
            Some(arguments) => (FORMAT.0.as_ptr(), arguments.as_slice()),
            None => (NO_FORMAT.0.as_ptr(), NO_ARGUMENTS.as_slice()),
        };
        // Twelve bytes at most.
        let size = u32::try_from(arguments.len()).unwrap_or(0);
        // The address is what the system wants; it is not read here.
        let dso = &raw const __dso_handle;
        // SAFETY: the log is the one that the system gave, name and format are C strings of this image, and the
        // arguments are encoded as the format says and live through the call with what they point at.
        unsafe {
            _os_signpost_emit_with_name_impl(
                dso.cast(),
                log(),
                kind as u8,
                id,
                NAME.0.as_ptr().cast(),
                format.cast(),
                arguments.as_ptr(),
                size,
            );
        }
    }
}
