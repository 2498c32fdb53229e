//! The notes are in a file in memory, which every copy finds by its name among the open files of the process. It is closed
//! when the process becomes another program, and stays open otherwise: no copy knows whether others still need it.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::mem::{self, MaybeUninit};
use std::os::fd::FromRawFd as _;
use std::path::PathBuf;

use crate::folder::SizeSignalHeld;

/// Where the system lists the open files of this process.
const OPEN_FILES: &str = "/proc/self/fd";
const NAME: &CStr = c"zprof-copies";
/// What the system shows for such a file.
const SHOWN: &str = "/memfd:zprof-copies";

/// The files with notes: one, or more where copies have made theirs at the same time.
fn files() -> Vec<PathBuf> {
    let is_notes = |path: &PathBuf| fs::read_link(path).is_ok_and(|shown| shown.to_string_lossy().starts_with(SHOWN));
    let entries = fs::read_dir(OPEN_FILES).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_notes).collect()
}

/// All notes, a text for each file.
pub(super) fn notes() -> Vec<String> {
    let read = |path: PathBuf| {
        // Opened anew, so that no other copy's place in the file is moved.
        let mut text = String::new();
        File::open(path).and_then(|mut file| file.read_to_string(&mut text)).ok().map(|_| text)
    };
    files().into_iter().filter_map(read).collect()
}

/// Adds a line. Where the system lets nobody make such a file, copies do not learn of each other.
pub(super) fn note(line: &str) {
    // The limit of file sizes is for files in memory, too.
    let _held = SizeSignalHeld::new();
    let append = |path: &PathBuf| {
        // One call of the system for the whole line, so that lines of two copies do not mix.
        File::options().append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes())).is_ok()
    };
    if files().iter().any(append) {
        return;
    }
    // SAFETY: the name ends at its NUL.
    let made = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if made >= 0 {
        // SAFETY: the call has just opened the descriptor, and nobody else has it.
        let mut file = unsafe { File::from_raw_fd(made) };
        let _ = file.write_all(line.as_bytes());
        // It stays open for the other copies.
        mem::forget(file);
    }
}

/// The program or library that a static is in, as the loader calls it.
pub(super) fn object_of(place: *const u8) -> Option<String> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the pointer is good for a Dl_info, and any address may be asked for.
    let status = unsafe { libc::dladdr(place.cast(), found.as_mut_ptr()) };
    // SAFETY: all bits zero are a valid Dl_info, which has nothing but pointers, and the call writes no other.
    let found = unsafe { found.assume_init() };
    if status == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the call has succeeded, so this is text of the loader that ends at its NUL and lasts as long as the object, which
    // is the one that this code is in.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(name.to_string_lossy().into_owned())
}
