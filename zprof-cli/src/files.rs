//! Files that are read at any position, where there may be more of them than a process may have open.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zprof_runtime::xspace::Source;

/// Files that are open at a time, at most: fewer where the process may have few.
const MOST: usize = 64;

/// The files that are open, each with the number of its [`LazyFile`]; the one that was read last is at the end.
static OPEN: Mutex<VecDeque<(u64, Arc<File>)>> = Mutex::new(VecDeque::new());

/// A file that is open while it is read, and may be closed while others are.
#[derive(Debug)]
pub(crate) struct LazyFile {
    path: PathBuf,
    /// Device and number, which tell it from another file that may get its name.
    identity: Identity,
    number: u64,
}

impl LazyFile {
    /// Takes a file that has just been opened at `path`.
    pub(crate) fn new(path: &Path, file: File) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers only have to be different.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let identity = Identity::of(&file.metadata()?);
        keep(&mut open(), number, Arc::new(file));
        Ok(Self { path: path.to_owned(), identity, number })
    }

    /// The file, opened again if it was closed.
    fn file(&self) -> io::Result<Arc<File>> {
        let mut open = open();
        let at = open.iter().rposition(|(number, _)| *number == self.number);
        if let Some((number, file)) = at.and_then(|at| open.remove(at)) {
            open.push_back((number, Arc::clone(&file)));
            return Ok(file);
        }
        let file = open_in(&mut open, &self.path)?;
        if Identity::of(&file.metadata()?) != self.identity {
            return Err(io::Error::other("another file has taken its place while it was read"));
        }
        let file = Arc::new(file);
        keep(&mut open, self.number, Arc::clone(&file));
        Ok(file)
    }
}

impl Drop for LazyFile {
    fn drop(&mut self) {
        open().retain(|(number, _)| *number != self.number);
    }
}

impl Source for LazyFile {
    fn size(&self) -> io::Result<u64> {
        self.file()?.size()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file()?.read_at(buffer, at)
    }
}

/// Opens a file to read it. Where the process may have no more open files, those that are kept are closed for it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open_in(&mut open(), path)
}

fn open_in(open: &mut VecDeque<(u64, Arc<File>)>, path: &Path) -> io::Result<File> {
    loop {
        match File::open(path) {
            Err(error) if is_too_many(&error) && open.pop_front().is_some() => {}
            file => return file,
        }
    }
}

fn open() -> MutexGuard<'static, VecDeque<(u64, Arc<File>)>> {
    // Nothing is left half done by a panic under this lock.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(open: &mut VecDeque<(u64, Arc<File>)>, number: u64, file: Arc<File>) {
    if open.len() >= most() {
        open.pop_front();
    }
    open.push_back((number, file));
}

/// How many files are kept open: a quarter of what the process may have, since the output, its folder and the handling of
/// signals need some too.
fn most() -> usize {
    static KEPT: OnceLock<usize> = OnceLock::new();
    *KEPT.get_or_init(|| allowed().map_or(MOST, |allowed| (allowed / 4).clamp(1, MOST)))
}

/// How many open files this process may have; `None` for no limit.
#[cfg(unix)]
fn allowed() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    usize::try_from(limit).ok()
}

#[cfg(not(unix))]
fn allowed() -> Option<usize> {
    None
}

/// Whether the process, or the system, has as many open files as it may have.
#[cfg(unix)]
pub(crate) fn is_too_many(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether the process has as many open files as it may have, which nothing says here.
#[cfg(not(unix))]
pub(crate) fn is_too_many(_error: &io::Error) -> bool {
    false
}

/// Which file it is, as far as the system tells.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    #[cfg(not(unix))]
    created: Option<std::time::SystemTime>,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;

        Self { device_and_inode: (metadata.dev(), metadata.ino()) }
    }

    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Self {
        Self { created: metadata.created().ok() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn more_files_than_are_open_are_read_in_any_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let files: Vec<LazyFile> = (0..3 * MOST)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                fs::write(&path, format!("{number:04}")).expect("is written");
                LazyFile::new(&path, File::open(&path).expect("is there")).expect("has metadata")
            })
            .collect();
        let read = |number: usize| {
            let mut text = [0; 4];
            let count = files[number].read_at(&mut text, 0)?;
            assert_eq!((count, files[number].size()?), (4, 4));
            Ok::<_, io::Error>(String::from_utf8_lossy(&text).into_owned())
        };
        for number in (0..files.len()).chain((0..files.len()).rev()).chain([0, 100, 0, 100, 7]) {
            assert_eq!(read(number).expect("is there"), format!("{number:04}"));
            assert!(open().len() <= MOST);
        }
        // A file that is open is read on; one that is closed must be the same when it is opened again.
        let replaced = folder.path().join("0");
        fs::write(folder.path().join("new"), "new!").expect("is written");
        fs::rename(folder.path().join("new"), &replaced).expect("is replaced");
        (1..=MOST).for_each(|number| drop(read(number).expect("is there")));
        assert_eq!(read(0).expect_err("is another").to_string(), "another file has taken its place while it was read");
        drop(files);
    }
}
