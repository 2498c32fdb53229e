//! Folders by their paths, where the system has no functions that take a folder's descriptor. Windows has no links that
//! every user may make.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Kind, Links, Status};

/// The path of a folder.
#[derive(Debug)]
pub(super) struct Handle(PathBuf);

/// No signal says here that a file is too long.
#[derive(Debug, Default)]
pub struct SizeSignalHeld;

impl SizeSignalHeld {
    /// Does nothing.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

/// There are no numbers of users here.
#[must_use]
pub fn user() -> Option<u32> {
    None
}

/// Whether there is a process of this number; not known here, so that every process is taken for one that lives.
#[must_use]
pub fn is_alive(_process: u32) -> bool {
    true
}

/// There is only one space of numbers of processes here.
pub(super) fn process_space() -> Option<u64> {
    None
}

fn status_of_entry(metadata: &Metadata) -> Status {
    let kind = metadata.file_type();
    let kind = if kind.is_symlink() {
        Kind::Link
    } else if kind.is_dir() {
        Kind::Folder
    } else if kind.is_file() {
        Kind::File
    } else {
        Kind::Other
    };
    let mode = if metadata.permissions().readonly() { 0o444 } else { 0o666 };
    Status { kind, user: 0, mode, id: (0, 0) }
}

/// Options for a file that other processes may read and rename while it is open, and may not write.
fn options() -> OpenOptions {
    #[cfg_attr(not(windows), allow(unused_mut))] // nothing is to be set elsewhere
    let mut options = OpenOptions::new();
    #[cfg(windows)]
    {
        const FILE_SHARE_READ_AND_DELETE: u32 = 5;
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, FILE_SHARE_READ_AND_DELETE);
    }
    options
}

impl Handle {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.clone()))
    }

    /// A folder cannot be opened to be locked here.
    #[allow(clippy::unused_self)] // others do
    pub(super) fn reopen(&self) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn enter(&self, name: &OsStr, links: Links, is_shared: bool) -> io::Result<(Self, bool)> {
        let path = self.0.join(name);
        let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.file_type().is_symlink());
        if is_link && links == Links::None {
            let message = format!("`{}` is a link, which is not followed; remove it", name.to_string_lossy());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        fs::create_dir_all(&path)?;
        Ok((Self(path), is_shared))
    }

    pub(super) fn make(&self, name: &OsStr, _is_shared: bool) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    pub(super) fn create_new(&self, name: &OsStr, _is_shared: bool) -> io::Result<File> {
        options().read(true).write(true).create_new(true).open(self.0.join(name))
    }

    /// Opens a file that nobody else has open; closing it removes it on Windows, also where the process is killed.
    pub(super) fn open_lock(&self, name: &OsStr, _is_shared: bool, makes: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(makes);
        #[cfg(windows)]
        {
            use std::os::windows::fs::OpenOptionsExt as _;
            const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
            options.share_mode(0);
            if makes {
                options.custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
            }
        }
        options.open(self.0.join(name))
    }

    pub(super) fn status(&self, name: &OsStr) -> io::Result<Status> {
        fs::symlink_metadata(self.0.join(name)).map(|metadata| status_of_entry(&metadata))
    }

    /// Whose an entry is, is not known here.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // other systems' use it and can fail
    pub(super) fn keeps(&self, _entry: &Status) -> io::Result<bool> {
        Ok(false)
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    pub(super) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }

    /// A folder cannot be opened to be written to the disk here.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn walk(path: &Path, makes: bool) -> io::Result<(Handle, bool)> {
    if makes {
        fs::create_dir_all(path)?;
    } else {
        fs::read_dir(path)?;
    }
    Ok((Handle(path.to_owned()), false))
}

pub(super) fn follow(path: &Path) -> io::Result<PathBuf> {
    Ok(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
}

/// Makes a folder; whose it is, is not known here.
///
/// # Errors
///
/// The error that the system reports.
pub fn claim(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(super) fn is_foreign(_path: &Path) -> bool {
    false
}

pub(super) fn status_of(file: &File) -> io::Result<Status> {
    file.metadata().map(|metadata| status_of_entry(&metadata))
}

/// A file that can be written, as the replaced one could be, has all the permissions that there are.
pub(super) fn keep_mode(_file: &File, _replaced: &Status) -> io::Result<()> {
    Ok(())
}

pub(super) fn is_protected(status: &Status) -> bool {
    status.kind == Kind::File && status.mode & 0o200 == 0
}

/// A file that was opened alone is locked by that.
#[allow(clippy::unnecessary_wraps)] // other systems' can fail
pub(super) fn lock(_file: &File) -> io::Result<bool> {
    Ok(true)
}

/// Whether any number may have a file together is not to be had here.
pub(super) fn lock_shared(_file: &File) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn unlock(_file: &File) {}

/// Whether the system cannot do this with such a file.
pub(super) fn is_unsupported(_error: &io::Error) -> bool {
    false
}

/// Whether the error says that another process has the file open.
pub(super) fn is_in_use(error: &io::Error) -> bool {
    const ERROR_ACCESS_DENIED: i32 = 5;
    const ERROR_SHARING_VIOLATION: i32 = 32;
    cfg!(windows) && matches!(error.raw_os_error(), Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION))
}
