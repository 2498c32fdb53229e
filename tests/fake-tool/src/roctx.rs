//! The tracer of AMD's ROCTx library: its callback is shown every call before the library acts on it.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt as _;

use crate::log::{Call, fail, file, text};

/// Number of ROCTx among the domains of AMD's tracing interface.
const DOMAIN: u32 = 6;

/// What the callback is given: the message of mark, push and start, and the id of start and stop; else null and 0.
#[repr(C)]
struct Data {
    message: *const c_char,
    id: u64,
}

const _: () = assert!(size_of::<Data>() == 16);

type Callback = unsafe extern "C" fn(domain: u32, operation: u32, data: *const Data) -> c_int;

/// Runs when the library is loaded, which is before `main` where it is preloaded.
#[used]
#[unsafe(link_section = ".init_array")]
static ATTACH: extern "C" fn() = attach;

extern "C" fn attach() {
    let Some(path) = env::var_os("ZPROF_FAKE_TOOL_ROCTX") else { return };
    if file().is_none() {
        fail("ZPROF_FAKE_TOOL_ROCTX needs ZPROF_FAKE_TOOL_LOG");
    }
    let global = env::var_os("ZPROF_FAKE_TOOL_ROCTX_GLOBAL").is_some();
    let scope = if global { libc::RTLD_GLOBAL } else { libc::RTLD_LOCAL };
    let Ok(path) = CString::new(path.into_vec()) else { fail("ZPROF_FAKE_TOOL_ROCTX holds a NUL") };
    // SAFETY: the path ends in NUL; the library's own constructors do nothing.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | scope) };
    if library.is_null() {
        // SAFETY: dlopen has just failed, so there is a message, and no other thread runs yet.
        let cause = unsafe { CStr::from_ptr(libc::dlerror()) };
        fail(&cause.to_string_lossy());
    }
    // SAFETY: the handle is alive, the name ends in NUL.
    let register = unsafe { libc::dlsym(library, c"roctxRegisterTracerCallback".as_ptr()) };
    if register.is_null() {
        fail("the ROCTx library has no roctxRegisterTracerCallback");
    }
    // SAFETY: that function takes the callback and returns nothing.
    let register = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Callback)>(register) };
    // SAFETY: the callback has the type that the library calls, and stays: this library is never unloaded.
    unsafe { register(seen) };
}

unsafe extern "C" fn seen(domain: u32, operation: u32, data: *const Data) -> c_int {
    if domain != DOMAIN || data.is_null() {
        fail(&format!("ROCTx called with domain {domain}"));
    }
    // SAFETY: not null, and alive for the call.
    let data = unsafe { &*data };
    // SAFETY: the message is the caller's C string, or null.
    let label = unsafe { text(data.message) };
    let call = match operation {
        0 => "mark",
        1 => "push",
        2 => "pop",
        3 => "start",
        4 => "end",
        _ => fail(&format!("ROCTx called with operation {operation}")),
    };
    let id = matches!(call, "start" | "end").then(|| i64::try_from(data.id).unwrap_or(-1));
    Call { api: "roctx", call, label: label.as_deref(), id, ..Call::default() }.write();
    0
}
