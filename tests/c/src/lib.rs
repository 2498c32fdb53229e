//! The C part of a program that is half Rust, as its Rust part sees it.
#![allow(unsafe_code)] // calls the C part

// The C part calls the C API: this line links it.
use zprof_c as _;

use std::ffi::{CStr, c_void};

mod c {
    use std::ffi::{c_char, c_void};

    unsafe extern "C" {
        pub(crate) fn half_scopes(depth: i32, inner: Option<extern "C" fn(*mut c_void)>, context: *mut c_void);
        pub(crate) fn half_receive(flow: u64);
        pub(crate) fn half_across() -> *mut c_void;
        pub(crate) fn half_across_end(across: *mut c_void);
        pub(crate) fn half_spin(which: i32, count: u64);
        pub(crate) fn half_start() -> i32;
        pub(crate) fn half_name(name: *const c_char) -> bool;
    }
}

/// Opens scopes in C, one inside another, and calls `inner` in the innermost.
pub fn scopes(depth: i32, mut inner: impl FnMut()) {
    extern "C" fn call<F: FnMut()>(inner: *mut c_void) {
        // SAFETY: it is the pointer below, which lives as long as the call.
        let inner = unsafe { inner.cast::<F>().as_mut() };
        inner.expect("it is no null")();
    }
    fn entry<F: FnMut()>(_: &F) -> extern "C" fn(*mut c_void) {
        call::<F>
    }
    let entry = entry(&inner);
    // SAFETY: the C part calls the function with the pointer, before it returns.
    unsafe { c::half_scopes(depth, Some(entry), (&raw mut inner).cast()) }
}

/// Records in C that a flow arrives.
pub fn receive(flow: u64) {
    // SAFETY: any number will do.
    unsafe { c::half_receive(flow) }
}

/// A scope that the C part holds open.
#[derive(Debug)]
pub struct Across(*mut c_void);

impl Across {
    /// Opens it.
    #[must_use]
    pub fn open() -> Self {
        // SAFETY: it has no arguments.
        Self(unsafe { c::half_across() })
    }

    /// Ends it.
    pub fn end(self) {
        // SAFETY: it came from there, and this is the only end.
        unsafe { c::half_across_end(self.0) }
    }
}

/// Opens and closes so many scopes in C: of form 0 without, 1 with two integers, 2 with text and an integer; of form 3 none.
pub fn spin(form: i32, count: u64) {
    // SAFETY: any numbers will do.
    unsafe { c::half_spin(form, count) }
}

/// Names the calling thread in C; gives whether the system has taken the name.
#[must_use]
pub fn name(name: &CStr) -> bool {
    // SAFETY: the name ends at a NUL.
    unsafe { c::half_name(name.as_ptr()) }
}

/// Tries to start a session from C; gives the status.
#[must_use]
pub fn start() -> i32 {
    // SAFETY: it has no arguments.
    unsafe { c::half_start() }
}
