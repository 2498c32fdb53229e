//! Faults on demand: allocations, mappings and file operations that fail at random while they are armed.
//!
//! The allocator stands around the system's. The functions of the C library are replaced by functions of the same names in
//! this program, which the linker prefers; each calls the kernel itself. So the library under test needs no hook.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Allocations below this size never fail: they are the small ones that the library names with their bound.
const LEAST_THAT_FAILS: usize = 4096;

/// One in so many allocations and mappings fails; 0 for none. Written by [`arm`], read by every thread.
static MEMORY: AtomicU32 = AtomicU32::new(0);
/// One in so many file operations fails; 0 for none. Written by [`arm`], read by every thread.
static FILES: AtomicU32 = AtomicU32::new(0);
/// State of the generator that all threads draw from.
static RANDOM: AtomicU64 = AtomicU64::new(0);
/// Allocations and mappings that failed on demand.
static FAILED_MEMORY: AtomicU64 = AtomicU64::new(0);
/// File operations that failed on demand.
static FAILED_FILES: AtomicU64 = AtomicU64::new(0);

/// Lets one in `memory` allocations and one in `files` file operations fail until the result is dropped; 0 for none.
#[must_use]
pub(crate) fn arm(memory: u32, files: u32) -> Armed {
    MEMORY.store(memory, Ordering::Relaxed);
    FILES.store(files, Ordering::Relaxed);
    Armed(())
}

/// Faults are armed while this lives.
#[derive(Debug)]
pub(crate) struct Armed(());

impl Drop for Armed {
    fn drop(&mut self) {
        MEMORY.store(0, Ordering::Relaxed);
        FILES.store(0, Ordering::Relaxed);
    }
}

/// Sets the state of the generator, so that a run can be repeated as far as its threads allow.
pub(crate) fn seed(seed: u64) {
    RANDOM.store(seed, Ordering::Relaxed);
}

/// How many allocations and how many file operations have failed on demand.
pub(crate) fn failed() -> (u64, u64) {
    (FAILED_MEMORY.load(Ordering::Relaxed), FAILED_FILES.load(Ordering::Relaxed))
}

/// Whether this one of `one_in` fails.
fn fails(one_in: &AtomicU32, failed: &AtomicU64) -> bool {
    let one_in = one_in.load(Ordering::Relaxed);
    if one_in == 0 {
        return false;
    }
    // A step of a Weyl sequence, mixed as SplitMix64 does.
    let mut word = RANDOM.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let fails = (word ^ word >> 31).is_multiple_of(u64::from(one_in));
    if fails {
        failed.fetch_add(1, Ordering::Relaxed);
    }
    fails
}

/// The system's allocator, with faults.
#[derive(Debug)]
pub(crate) struct Faulty;

impl Faulty {
    fn fails(size: usize) -> bool {
        size >= LEAST_THAT_FAILS && fails(&MEMORY, &FAILED_MEMORY)
    }
}

// SAFETY: every block comes from `System` and goes back to it with the layout that it came with; a fault is a null pointer,
// which the contract allows.
unsafe impl GlobalAlloc for Faulty {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if Self::fails(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the block came from `System` with this layout, and the size is the caller's.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Makes the calling thread's `errno` this.
fn set_errno(number: c_int) {
    // SAFETY: the C library has an `errno` for each thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is this thread's own, and valid as long as the thread.
    unsafe { errno.write(number) };
}

/// Whether this operation on a file fails, with `errno` set.
fn file_fails(number: c_int) -> bool {
    let fails = fails(&FILES, &FAILED_FILES);
    if fails {
        set_errno(number);
    }
    fails
}

/// Standard output and standard error must tell what went wrong.
fn is_file(descriptor: c_int) -> bool {
    descriptor > 2
}

/// `write` of the C library, which may find the disk full.
///
/// # Safety
///
/// As `write(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, len: usize) -> isize {
    if is_file(descriptor) && file_fails(libc::ENOSPC) {
        return -1;
    }
    // SAFETY: the caller's arguments, unchanged.
    let written = unsafe { libc::syscall(libc::SYS_write, descriptor, bytes, len) };
    written as isize
}

/// `fsync` of the C library, which may find the disk broken.
///
/// # Safety
///
/// As `fsync(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    if file_fails(libc::EIO) {
        return -1;
    }
    // SAFETY: the caller's argument, unchanged.
    let result = unsafe { libc::syscall(libc::SYS_fsync, descriptor) };
    result as c_int
}

/// `rename` of the C library, which may be refused.
///
/// # Safety
///
/// As `rename(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if file_fails(libc::EACCES) {
        return -1;
    }
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) };
    result as c_int
}

/// `renameat` of the C library, which may be refused.
///
/// # Safety
///
/// As `renameat(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn renameat(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
) -> c_int {
    if file_fails(libc::EACCES) {
        return -1;
    }
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, from_at, from, to_at, to, 0) };
    result as c_int
}

/// `mmap` of the C library, which may find no memory for anonymous mappings.
///
/// # Safety
///
/// As `mmap(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS != 0 && Faulty::fails(len) {
        set_errno(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    // SAFETY: the caller's arguments, unchanged.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, len, protection, flags, descriptor, offset) };
    mapped as *mut c_void
}
