//! Folders by their descriptors, with the system's functions that take one.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString, c_int};
use std::fs::{File, Metadata, Permissions};
use std::io;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use super::{Kind, Links, Status};

/// So many links are followed on one way, as the system does.
const MOST_LINKS: usize = 40;

/// A folder is opened for its entries only: that needs no permission to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SEARCH: c_int = libc::O_PATH | libc::O_DIRECTORY;
/// This flag under the name of `O_SEARCH`, which older systems ignore.
#[cfg(target_vendor = "apple")]
const SEARCH: c_int = 0x4000_0000 | libc::O_DIRECTORY;
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
const SEARCH: c_int = libc::O_RDONLY | libc::O_DIRECTORY;

/// The bit by which everybody may write to a folder.
const WORLD_WRITES: u32 = 0o002;
/// The bit by which only its owner may remove an entry of a folder that everybody may write to.
const STICKY: u32 = 0o1000;

/// The descriptor of an open folder.
#[derive(Debug)]
pub(super) struct Handle(File);

/// The effective user of this process.
#[must_use]
pub fn user() -> Option<u32> {
    // SAFETY: the function has no arguments and cannot fail.
    Some(unsafe { libc::geteuid() })
}

fn is_own(user: u32) -> bool {
    // SAFETY: the function has no arguments and cannot fail.
    user == 0 || user == unsafe { libc::geteuid() }
}

/// Whether there is a process of this number, as far as this one can see.
#[must_use]
pub fn is_alive(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|process| *process > 0) else { return false };
    // SAFETY: signal 0 sends nothing.
    let status = unsafe { libc::kill(process, 0) };
    status == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The space in which processes have their numbers: containers have one each.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn process_space() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/pid").ok().map(|space| space.ino())
}

/// There is only one space of numbers of processes here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn process_space() -> Option<u64> {
    None
}

/// While this lives, a write beyond the limit of file sizes (`ulimit -f`) that the calling thread makes fails, and does not
/// end the process: the signal that the system sends besides, `SIGXFSZ`, is kept from the thread and thrown away.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
pub struct SizeSignalHeld {
    before: libc::sigset_t,
    /// Whether one was there for the thread already, which is not ours to throw away.
    was_pending: bool,
    /// The mask of signals is the thread's.
    _of_thread: PhantomData<*const ()>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl SizeSignalHeld {
    /// Keeps the signal from the calling thread.
    #[must_use]
    pub fn new() -> Self {
        let (own, mut before) = (Self::set(), MaybeUninit::zeroed());
        let was_pending = Self::is_pending();
        // SAFETY: the first pointer is to a set, and the second is good for one.
        let _status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const own, before.as_mut_ptr()) };
        // SAFETY: all bits zero are a valid set, and what the call wrote is one.
        let before = unsafe { before.assume_init() };
        Self { before, was_pending, _of_thread: PhantomData }
    }

    /// The set of this signal alone.
    fn set() -> libc::sigset_t {
        let mut set = MaybeUninit::zeroed();
        // SAFETY: the pointer is good for a set.
        let _status = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: the pointer is to a set, which the last call made, and the signal exists.
        let _status = unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) };
        // SAFETY: all bits zero are a valid set, and what the calls wrote is one.
        unsafe { set.assume_init() }
    }

    fn is_pending() -> bool {
        let mut pending = MaybeUninit::zeroed();
        // SAFETY: the pointer is good for a set.
        let _status = unsafe { libc::sigpending(pending.as_mut_ptr()) };
        // SAFETY: the pointer is to a set: all bits zero are one, and so is what the call wrote.
        unsafe { libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1 }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for SizeSignalHeld {
    fn drop(&mut self) {
        if !self.was_pending {
            let (own, at_once) = (Self::set(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
            // SAFETY: the pointers are to a set and to a time, and the call may leave out what the signal says.
            let _signal = unsafe { libc::sigtimedwait(&raw const own, std::ptr::null_mut(), &raw const at_once) };
        }
        // SAFETY: the pointer is to a set, and the call may leave out the present one.
        let _status = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Elsewhere the signal goes to the process and cannot be kept from a thread.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub struct SizeSignalHeld;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl SizeSignalHeld {
    /// Does nothing.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Default for SizeSignalHeld {
    fn default() -> Self {
        Self::new()
    }
}

/// A link that is not followed, or a folder that is not used: no error number is behind this one.
fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

fn c_name(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path holds a NUL"))
}

fn open_at(folder: Option<&File>, name: &OsStr, flags: c_int, mode: u32) -> io::Result<File> {
    let name = c_name(name)?;
    let folder = folder.map_or(libc::AT_FDCWD, std::os::fd::AsRawFd::as_raw_fd);
    // SAFETY: the name ends at its NUL, and the descriptor is that of a folder or stands for the present one. The mode is
    // passed as the int that a variadic function takes.
    let file = unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened the descriptor, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// The number that the function returned, or the error of the last call.
fn checked(status: c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Handle {
    /// Opens the folder anew, to list it and to have it written to the disk; the descriptor for its entries will do where
    /// that is not permitted.
    fn usable(folder: File) -> Self {
        let folder = Self(folder);
        folder.reopen().map_or(folder, Self)
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The folder, opened once more: locks belong to what one call has opened.
    pub(super) fn reopen(&self) -> io::Result<File> {
        open_at(Some(&self.0), OsStr::new("."), libc::O_RDONLY | libc::O_DIRECTORY, 0)
    }

    pub(super) fn enter(&self, name: &OsStr, links: Links, is_shared: bool) -> io::Result<(Self, bool)> {
        let mut way = Way { at: Some(self.0.try_clone()?), is_shared, links, makes: true, followed: 0 };
        way.go([name.to_owned()].into())?;
        way.end()
    }

    pub(super) fn make(&self, name: &OsStr, is_shared: bool) -> io::Result<()> {
        make_at(Some(&self.0), name, is_shared)
    }

    pub(super) fn create_new(&self, name: &OsStr, is_shared: bool) -> io::Result<File> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        open_at(Some(&self.0), name, flags, if is_shared { 0o600 } else { 0o666 })
    }

    /// Opens a file that is there, or makes it, and neither follows a link nor waits for the other end of a pipe.
    pub(super) fn open_lock(&self, name: &OsStr, is_shared: bool, makes: bool) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let made = if makes { libc::O_CREAT } else { 0 };
        let file = open_at(Some(&self.0), name, flags | made | libc::O_RDWR, if is_shared { 0o600 } else { 0o666 });
        let file = match file {
            // Another user's file can be locked although it cannot be written.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open_at(Some(&self.0), name, flags | libc::O_RDONLY, 0)?
            }
            file => file?,
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
    }

    pub(super) fn status(&self, name: &OsStr) -> io::Result<Status> {
        let name = c_name(name)?;
        let mut found = MaybeUninit::<libc::stat>::uninit();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the name ends at its NUL, the descriptor is that of a folder, and the pointer is good for a stat.
        checked(unsafe { libc::fstatat(self.0.as_raw_fd(), name.as_ptr(), found.as_mut_ptr(), flags) })?;
        // SAFETY: the call has succeeded, and so it has filled the structure.
        let found = unsafe { found.assume_init() };
        #[allow(clippy::unnecessary_cast, trivial_numeric_casts)] // the types differ from system to system
        let (mode, id) = (found.st_mode as u32, (found.st_dev as u64, found.st_ino as u64));
        let is = |kind: libc::mode_t| found.st_mode & libc::S_IFMT == kind;
        let kind = if is(libc::S_IFREG) {
            Kind::File
        } else if is(libc::S_IFDIR) {
            Kind::Folder
        } else if is(libc::S_IFLNK) {
            Kind::Link
        } else {
            Kind::Other
        };
        Ok(Status { kind, user: found.st_uid, mode: mode & 0o7777, id })
    }

    /// Whether this user may not replace an entry because the folder is like `/tmp`, where that is its owner's to do.
    pub(super) fn keeps(&self, entry: &Status) -> io::Result<bool> {
        let folder = self.0.metadata()?;
        // SAFETY: the function has no arguments and cannot fail.
        let own = unsafe { libc::geteuid() };
        Ok(folder.mode() & STICKY != 0 && own != 0 && ![folder.uid(), entry.user].contains(&own))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to, folder) = (c_name(from)?, c_name(to)?, self.0.as_raw_fd());
        // SAFETY: both names end at their NULs, and the descriptor is that of a folder.
        checked(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.unlink(name, 0)
    }

    pub(super) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        self.unlink(name, libc::AT_REMOVEDIR)
    }

    fn unlink(&self, name: &OsStr, flags: c_int) -> io::Result<()> {
        let name = c_name(name)?;
        // SAFETY: the name ends at its NUL, and the descriptor is that of a folder.
        checked(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), flags) })
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

fn make_at(folder: Option<&File>, name: &OsStr, is_shared: bool) -> io::Result<()> {
    let name = c_name(name)?;
    let folder = folder.map_or(libc::AT_FDCWD, std::os::fd::AsRawFd::as_raw_fd);
    let mode = if is_shared { 0o700 } else { 0o777 };
    // SAFETY: the name ends at its NUL, and the descriptor is that of a folder or stands for the present one.
    checked(unsafe { libc::mkdirat(folder, name.as_ptr(), mode) })
}

/// A way to a folder, one name at a time. After each step `at` is a folder that was opened without following a link, so
/// that it does not matter what becomes of the names before it.
struct Way {
    /// Where the way has come to; the present folder if there was no step yet.
    at: Option<File>,
    /// Whether a folder on the way is a temporary folder of all users.
    is_shared: bool,
    links: Links,
    makes: bool,
    followed: usize,
}

/// Opens the folder at `path`; whether it lies in a temporary folder of all users.
pub(super) fn walk(path: &Path, makes: bool) -> io::Result<(Handle, bool)> {
    let mut way = Way { at: None, is_shared: false, links: Links::Usual, makes, followed: 0 };
    way.go(names(path))?;
    way.end()
}

/// The names of a path; the root is the name `/`.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

impl Way {
    fn go(&mut self, mut names: VecDeque<OsString>) -> io::Result<()> {
        // Names are made once at most: who removes what was made is at work against this process.
        let mut made: Option<OsString> = None;
        while let Some(name) = names.pop_front() {
            match open_at(self.at.as_ref(), &name, SEARCH | libc::O_NOFOLLOW, 0) {
                Ok(folder) => {
                    let mode = folder.metadata()?.mode();
                    self.is_shared |= mode & WORLD_WRITES != 0 && mode & STICKY != 0;
                    self.at = Some(folder);
                    made = None;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.makes && made.as_ref() != Some(&name) => {
                    match make_at(self.at.as_ref(), &name, self.is_shared) {
                        // Another process may have made it at the same time.
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => {}
                    }
                    made = Some(name.clone());
                    names.push_front(name);
                }
                Err(error) => {
                    let target = self.follow(&name)?.ok_or(error)?;
                    self.followed += 1;
                    if self.followed > MOST_LINKS {
                        return Err(io::Error::from_raw_os_error(libc::ELOOP));
                    }
                    for part in self::names(&target).into_iter().rev() {
                        names.push_front(part);
                    }
                }
            }
        }
        Ok(())
    }

    /// Where the link `name` leads to, if it is one that is followed; `None` if it is no link.
    fn follow(&self, name: &OsStr) -> io::Result<Option<PathBuf>> {
        let here = match &self.at {
            Some(folder) => folder.try_clone()?,
            None => open_at(None, OsStr::new("."), SEARCH, 0)?,
        };
        let folder = here.metadata()?;
        let here = Handle(here);
        let Ok(Status { kind: Kind::Link, user, .. }) = here.status(name) else { return Ok(None) };
        let is_followed = match self.links {
            Links::None => false,
            Links::Own => is_own(user),
            // The rule of Linux for folders that everybody may write to, and a stricter one below those.
            Links::Usual => {
                is_own(user) || !self.is_shared && (folder.mode() & WORLD_WRITES == 0 || folder.uid() == user)
            }
        };
        let name_shown = name.to_string_lossy();
        if self.links == Links::None {
            return Err(refused(format!("`{name_shown}` is a link, which is not followed; remove it")));
        }
        if !is_followed {
            let message =
                format!("`{name_shown}` is a link that user {user} has made, which is not followed; remove it");
            return Err(refused(message));
        }
        here.read_link(name).map(Some)
    }

    fn end(self) -> io::Result<(Handle, bool)> {
        let at = match self.at {
            Some(folder) => folder,
            None => open_at(None, OsStr::new("."), SEARCH, 0)?,
        };
        Ok((Handle::usable(at), self.is_shared))
    }
}

pub(super) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(name) = path.file_name() else { return Ok(path) };
        let parent = path.parent().unwrap_or(Path::new(""));
        let mut way = Way { at: None, is_shared: false, links: Links::Usual, makes: false, followed: 0 };
        match way.go(names(parent)) {
            // Whoever makes the file says that its folder is missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            went => went?,
        }
        match way.follow(name)? {
            Some(target) => path = parent.join(target),
            None => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

impl Handle {
    fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let name = c_name(name)?;
        // No system has longer ones.
        let mut target = vec![0_u8; 4096];
        let (folder, buffer) = (self.0.as_raw_fd(), target.as_mut_ptr().cast());
        // SAFETY: the name ends at its NUL, the descriptor is that of a folder, and the buffer is as long as said.
        let length = unsafe { libc::readlinkat(folder, name.as_ptr(), buffer, target.len()) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        target.truncate(length);
        Ok(PathBuf::from(OsString::from_vec(target)))
    }
}

/// Makes a folder that nobody else may write to, or sees that there is one: this user's, and no link.
///
/// # Errors
///
/// The error that the system reports; [`PermissionDenied`](io::ErrorKind::PermissionDenied) without a number, and with the reason, where
/// there is something else.
pub fn claim(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no name"));
    };
    let (parent, _) = walk(parent, true)?;
    match make_at(Some(&parent.0), name, true) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    why_foreign(&parent.status(name)?).map_or(Ok(()), |reason| Err(refused(reason)))
}

/// Whether there is something at `path` that is not a folder of this user alone.
pub(super) fn is_foreign(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let status = walk(parent, false).and_then(|(parent, _)| parent.status(name));
    status.is_ok_and(|status| why_foreign(&status).is_some())
}

/// Why an entry is not a folder of this user alone; `None` where it is.
fn why_foreign(status: &Status) -> Option<String> {
    // SAFETY: the function has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    match status.kind {
        Kind::Link => Some("is a link".to_owned()),
        Kind::File | Kind::Other => Some("is no folder".to_owned()),
        Kind::Folder if status.user != own => Some(format!("belongs to user {}", status.user)),
        Kind::Folder if status.mode & 0o022 != 0 => Some("can be written by other users".to_owned()),
        Kind::Folder => None,
    }
}

/// Status of an open file.
pub(super) fn status_of(file: &File) -> io::Result<Status> {
    let metadata: Metadata = file.metadata()?;
    let kind = metadata.file_type();
    let kind = if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Folder
    } else if kind.is_symlink() {
        Kind::Link
    } else {
        debug_assert!(kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device());
        Kind::Other
    };
    let id = (metadata.dev(), metadata.ino());
    Ok(Status { kind, user: metadata.uid(), mode: metadata.mode() & 0o7777, id })
}

/// Gives an open file the permissions of the one that it replaces. Those of another user's file are a bound: nobody gets
/// more by it than by a new file.
pub(super) fn keep_mode(file: &File, replaced: &Status) -> io::Result<()> {
    let new = status_of(file)?;
    let kept = if replaced.user == new.user { replaced.mode & 0o777 } else { replaced.mode & new.mode & 0o777 };
    file.set_permissions(Permissions::from_mode(kept))
}

/// Whether its own owner may not write to a file.
pub(super) fn is_protected(status: &Status) -> bool {
    status.kind == Kind::File && status.mode & 0o200 == 0
}

/// Locks a file against others that do the same, until it is closed or unlocked. `false` where another has it.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    lock_as(file, libc::LOCK_EX)
}

/// Like [`lock`], but any number may have it together.
pub(super) fn lock_shared(file: &File) -> io::Result<bool> {
    lock_as(file, libc::LOCK_SH)
}

fn lock_as(file: &File, kind: c_int) -> io::Result<bool> {
    loop {
        // SAFETY: the descriptor is open.
        let status = unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) };
        match checked(status) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives a lock back, also in the children of forks, which have the same open file.
pub(super) fn unlock(file: &File) {
    // SAFETY: the descriptor is open.
    // A file that was not locked stays as it is.
    let _status = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Whether the error says that another process has the file open, which nothing says here.
pub(super) fn is_in_use(_error: &io::Error) -> bool {
    false
}

/// Whether the system cannot do this with such a file.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::ENOTSUP | libc::EBADF | libc::ENOLCK))
}
