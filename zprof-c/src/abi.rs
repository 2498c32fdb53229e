//! What crosses between C and Rust, as `zprof.h` has it; a test compares the two, size by size and constant by constant.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::recorder::{Level, NO_FILTER};
use crate::site::Variant;

/// `zprof_site`: a place in the source. It lives as long as the program.
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// What its scopes are called.
    pub name: *const c_char,
    /// The part of the program that it belongs to, or null.
    pub module: *const c_char,
    /// Source file, or null.
    pub file: *const c_char,
    /// What is known of it here: null, or the first of its variants. Filled once, by whoever is first.
    pub cache: AtomicPtr<Variant>,
    /// Filter bits, or 0 for none.
    pub filter: u64,
    /// Line in the source file.
    pub line: u32,
    /// Level, of which C may say anything.
    pub level: u32,
}

/// `zprof_value`: what an argument holds, told by its kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Payload {
    /// An integer with a sign.
    pub i: i64,
    /// An integer without, a truth value, or a flow.
    pub u: u64,
    /// A float.
    pub f: f64,
    /// Text.
    pub s: *const c_char,
}

/// `zprof_arg`: an argument.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Arg {
    /// Its key, which stays; or null.
    pub key: *const c_char,
    /// Its value.
    pub value: Payload,
    /// One of [`kind`].
    pub kind: u32,
    /// Length of a text, or [`UNTIL_NUL`].
    pub length: u32,
}

/// Kinds of arguments.
pub mod kind {
    /// Left out.
    pub const NONE: u32 = 0;
    /// Truth value.
    pub const BOOL: u32 = 1;
    /// Integer with a sign.
    pub const INT: u32 = 2;
    /// Integer without.
    pub const UINT: u32 = 3;
    /// Float.
    pub const FLOAT: u32 = 4;
    /// Text.
    pub const TEXT: u32 = 5;
    /// A flow begins.
    pub const SENDS: u32 = 6;
    /// A flow ends.
    pub const RECEIVES: u32 = 7;
}

/// Length of a text that ends at a NUL.
pub const UNTIL_NUL: u32 = u32::MAX;

/// `zprof_scope`: an open scope.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Scope {
    /// Number by which its thread knows it; 0 where nothing listened when it opened.
    pub id: u64,
    /// Its site; null where there is none.
    pub site: *const Site,
}

/// `zprof_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)] // the header has them
pub struct Options {
    pub size: usize,
    pub repository_path: *const c_char,
    pub session_id: *const c_char,
    pub hostname: *const c_char,
    pub plugin: *const c_char,
    pub directives: *const c_char,
    pub filter_mask: u64,
    pub max_buffer_bytes: u64,
    pub prefault_bytes: u64,
    pub keep_last_ns: u64,
    pub keep_last_bytes: u64,
    pub host_tracer_level: u32,
    pub device_tracer_level: u32,
    pub python_tracer_level: u32,
    /// These are `bool` in C; here any byte is a value.
    pub unique_session: u8,
    pub must_have_plugin: u8,
    pub no_hlo: u8,
    pub reserved: u8,
}

/// `ZPROF_OPTIONS_INIT`.
pub const OPTIONS_INIT: Options = Options {
    size: size_of::<Options>(),
    repository_path: std::ptr::null(),
    session_id: std::ptr::null(),
    hostname: std::ptr::null(),
    plugin: std::ptr::null(),
    directives: std::ptr::null(),
    filter_mask: u64::MAX,
    max_buffer_bytes: 0,
    prefault_bytes: u64::MAX,
    keep_last_ns: 0,
    keep_last_bytes: 0,
    host_tracer_level: 3,
    device_tracer_level: 3,
    python_tracer_level: 1,
    unique_session: 0,
    must_have_plugin: 0,
    no_hlo: 0,
    reserved: 0,
};

/// `zprof_profile`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)] // the header has them
pub struct Profile {
    pub size: usize,
    pub protobuf_path: *const c_char,
    pub perfetto_path: *const c_char,
    pub warnings: *const *const c_char,
    pub warning_count: usize,
    pub scopes: u64,
    pub threads: u64,
    pub dropped_scopes: u64,
    pub duration_ns: u64,
}

/// Values of `zprof_status`.
pub mod status {
    #![allow(missing_docs)] // the header has them
    pub const OK: i32 = 0;
    pub const ALREADY_ACTIVE: i32 = 1;
    pub const WRONG_STATE: i32 = 2;
    pub const INVALID_INPUT: i32 = 3;
    pub const INVALID_DATA: i32 = 4;
    pub const IO: i32 = 5;
    pub const PLUGIN: i32 = 6;
    pub const UNSUPPORTED: i32 = 7;
    pub const INTERNAL: i32 = 8;
}

// SAFETY: C's threads share sites by these rules: the texts stay as they are, and the cache is atomic.
unsafe impl Sync for Site {}

impl Site {
    /// The level, whatever C has put there.
    pub(crate) fn level(&self) -> Level {
        match self.level {
            0 | 1 => Level::Critical,
            2 => Level::Info,
            _ => Level::Verbose,
        }
    }

    /// The filter bits as the recorder has them.
    pub(crate) fn filter(&self) -> u64 {
        if self.filter == 0 { NO_FILTER } else { self.filter }
    }

    /// The first of its variants.
    #[inline]
    pub(crate) fn variants(&self) -> *mut Variant {
        // Acquire pairs with the Release where it is put: what it leads to is whole.
        self.cache.load(Ordering::Acquire)
    }
}

/// The text behind a pointer of C's, with what is no UTF-8 repaired; empty for null.
///
/// # Safety
///
/// The pointer is null, or leads to text that ends at a NUL.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: it leads to such text, says the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_string_lossy().into_owned()
}

/// The arguments of a call; none where the pointer is null.
///
/// # Safety
///
/// The pointer is null, or leads to `count` arguments that stay for `'a`.
#[inline]
pub(crate) unsafe fn args<'a>(pointer: *const Arg, count: usize) -> &'a [Arg] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: it leads to as many, says the caller.
    unsafe { std::slice::from_raw_parts(pointer, count) }
}
