//! Shapes with qualifiers, ABIs and attributes of their own.

#![allow(unsafe_code, reason = "an unsafe function must stay one")]

use std::panic::Location;

static THREE: u32 = 3;

#[zprof::trace]
unsafe fn stays_unsafe(pointer: *const u32) -> u32 {
    // SAFETY: the caller gives a pointer to a u32 that lives, as the one test here does.
    unsafe { *pointer }
}

#[zprof::trace(n)]
extern "C" fn c_abi(n: u32) -> u32 {
    n + 1
}

#[zprof::trace]
extern "C-unwind" fn c_unwind(n: u32) -> u32 {
    n + 2
}

#[zprof::trace]
#[unsafe(no_mangle)]
pub(super) extern "C" fn zprof_shape_no_mangle(n: u32) -> u32 {
    n + 3
}

#[inline(always)]
#[must_use]
#[zprof::trace]
#[track_caller]
#[allow(clippy::inline_always, reason = "the attribute is the point")]
fn attributes_after() -> &'static Location<'static> {
    Location::caller()
}

/// A summary.
#[cfg_attr(all(), doc = "More of it.")]
#[inline]
#[track_caller]
/// Still docs.
#[zprof::trace]
/// And after.
fn attributes_before() -> u32 {
    Location::caller().line()
}

#[zprof::trace]
fn r#match(r#type: u32) -> u32 {
    r#type
}

#[zprof::trace(r#type, r#level = 3, r#filter = r#type)]
fn raw_keys(r#type: u32) -> u32 {
    r#type
}

#[zprof::trace]
fn inner_attributes() -> u32 {
    #![allow(unused_variables)]
    //! A body may have docs.
    let unused = 1;
    2
}

#[zprof::trace]
fn main() -> u32 {
    11
}

mod deep {
    pub(in super::super) mod inner {
        #[zprof::trace]
        pub(in super::super) fn restricted() -> u32 {
            5
        }
    }
}

#[test]
#[zprof::trace]
fn test_outside() {
    assert_eq!(main(), 11);
}

#[zprof::trace]
#[test]
fn test_inside() {
    assert_eq!(deep::inner::restricted(), 5);
}

#[test]
fn qualifiers_and_attributes_stay() {
    let shape: unsafe fn(*const u32) -> u32 = stays_unsafe;
    // SAFETY: the pointer is to a static.
    assert_eq!(unsafe { shape(&raw const THREE) }, 3);
    let shapes: [extern "C" fn(u32) -> u32; 2] = [c_abi, zprof_shape_no_mangle];
    assert_eq!(shapes.map(|shape| shape(1)), [2, 4]);
    let shape: extern "C-unwind" fn(u32) -> u32 = c_unwind;
    assert_eq!(shape(1), 3);
    let (there, here) = (attributes_after(), Location::caller());
    assert_eq!((there.file(), there.line()), (here.file(), here.line()));
    assert_eq!(attributes_before(), line!());
    assert_eq!((r#match(1), raw_keys(2), inner_attributes()), (1, 2, 2));
}
