//! Folders that are opened once and used by their handle, so that nobody can put another folder or a link in their place
//! meanwhile; and files that appear in them whole or not at all.

mod draft;
#[cfg(not(unix))]
mod elsewhere;
mod lock;
#[cfg(unix)]
#[allow(unsafe_code)] // calls the system's functions that take a folder's descriptor
mod unix;

#[cfg(not(unix))]
use self::elsewhere as system;
#[cfg(unix)]
use self::unix as system;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::room;

pub use self::draft::{Draft, obstacle, protected, remove_abandoned};
pub use self::lock::{Lock, Locked, Owner};
pub use self::system::{SizeSignalHeld, claim, is_alive, user};

/// Which symbolic links are followed on the way to a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All that the user may have meant: all but the links of other users in a folder that everybody may write to, or
    /// below one.
    Usual,
    /// Only those that this user or the superuser has made.
    Own,
    /// None.
    None,
}

/// The entry that a name in a folder stands for. A link is itself here, and not what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Kind of the entry.
    pub kind: Kind,
    /// Its owner; 0 where the system has no owners.
    pub user: u32,
    /// Its permissions, without the kind; what stands for them where the system has none.
    pub mode: u32,
    /// Device and number, which no other file has at the same time.
    id: (u64, u64),
}

/// Kinds of entries of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    system: system::Handle,
    /// The path that it was opened by, for messages and listings.
    path: PathBuf,
    /// Whether it lies in a temporary folder of all users, at any depth. New folders are then their owner's alone, and so
    /// are new files.
    is_shared: bool,
}

impl Folder {
    /// Opens a folder, without following links that a stranger has put into a folder of all users.
    ///
    /// # Errors
    ///
    /// The error that the system reports, and links that are not followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (system, is_shared) = system::walk(path, false)?;
        Ok(Self { system, path: path.to_owned(), is_shared })
    }

    /// Like [`open`](Self::open), but makes the folder, and those on the way, where they are missing.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_or_make(path: &Path) -> io::Result<Self> {
        let (system, is_shared) = system::walk(path, true)?;
        Ok(Self { system, path: path.to_owned(), is_shared })
    }

    /// Opens the folder `name` in this one, and makes it where it is missing.
    ///
    /// # Errors
    ///
    /// The error that the system reports, and links that are not followed.
    pub fn enter(&self, name: impl AsRef<OsStr>, links: Links) -> io::Result<Self> {
        let (system, is_shared) = self.system.enter(name.as_ref(), links, self.is_shared)?;
        Ok(Self { system, path: self.path.join(name.as_ref()), is_shared })
    }

    /// Makes the folder `name`, which must not exist.
    ///
    /// # Errors
    ///
    /// The error that the system reports: [`AlreadyExists`](io::ErrorKind::AlreadyExists) where there is something of this name.
    pub fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.system.make(name.as_ref(), self.is_shared)?;
        // Whoever may write to this folder could have put another into its place; a link is not followed.
        self.enter(&name, Links::None)
    }

    /// Makes the file `name`, which must not exist, to write and to read.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.system.create_new(name.as_ref(), self.is_shared)
    }

    /// What `name` stands for; `None` where it stands for nothing.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn status(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Status>> {
        match self.system.status(name.as_ref()) {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a file of this folder another name, over a file that has it.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.system.rename(from.as_ref(), to.as_ref())
    }

    /// Removes a file or a link; one that is missing is removed already. `true` if there was one.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match self.system.remove(name.as_ref()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a folder that is empty.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.system.remove_folder(name.as_ref())
    }

    /// Waits until the names of the folder are on the disk, where the system can say so.
    ///
    /// # Errors
    ///
    /// The error that the system reports of the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.system.sync().or_else(unless_unsupported)
    }

    /// The names in the folder that are `wanted`. Names that are not UTF-8 are none of ours.
    ///
    /// They are read by way of the path. If another folder has been put in its place, names of that one are listed; what is
    /// then done with a name is done in this folder.
    ///
    /// # Errors
    ///
    /// The error that the system reports, and [`io::ErrorKind::OutOfMemory`]: a folder may have any number of names.
    pub fn names(&self, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                if wanted(&name) {
                    room::push(&mut names, name).map_err(|_| io::ErrorKind::OutOfMemory)?;
                }
            }
        }
        Ok(names)
    }

    /// Another handle of this open folder.
    ///
    /// # Errors
    ///
    /// The error that the system reports, such as too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { system: self.system.try_clone()?, path: self.path.clone(), is_shared: self.is_shared })
    }

    /// The path that the folder was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder lies in a temporary folder of all users.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }
}

/// The path that the links lead to whose names stand at the end of `path`: of a file that may be there or not. As on the way
/// to a [`Folder`], links are not followed that a stranger has put into a folder of all users.
///
/// # Errors
///
/// The error that the system reports, and links that are not followed.
pub fn follow(path: &Path) -> io::Result<PathBuf> {
    system::follow(path)
}

/// Waits until a file's content is on the disk, where the system can say so.
fn sync_file(file: &File) -> io::Result<()> {
    file.sync_all().or_else(unless_unsupported)
}

/// Pipes and some file systems cannot be told to write what they have: that is no failure.
fn unless_unsupported(error: io::Error) -> io::Result<()> {
    let is_unsupported = system::is_unsupported(&error)
        || matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported);
    if is_unsupported { Ok(()) } else { Err(error) }
}

/// The folder for files that nobody gave a place: `path` where that is free or this user's alone, else the same with the
/// user's number behind it. What is not there is made, and the second value says why the first choice was left.
///
/// # Errors
///
/// The path and the reason why the second choice cannot be used either, or what the system reports.
pub fn default_place(path: &Path) -> Result<(PathBuf, Option<String>), (PathBuf, io::Error)> {
    let first = match claim(path) {
        Ok(()) => return Ok((path.to_owned(), None)),
        Err(error) => error,
    };
    let Some(user) = user() else { return Err((path.to_owned(), first)) };
    if first.kind() != io::ErrorKind::PermissionDenied || first.raw_os_error().is_some() {
        return Err((path.to_owned(), first));
    }
    let second = own_place(path, user);
    match claim(&second) {
        Ok(()) => Ok((second, Some(format!("`{}` {first}", path.display())))),
        Err(error) => Err((second, error)),
    }
}

/// Like [`default_place`], but makes nothing: where files are that were made there before, or would be made.
#[must_use]
pub fn existing_default_place(path: &Path) -> PathBuf {
    match user() {
        Some(user) if system::is_foreign(path) => own_place(path, user),
        _ => path.to_owned(),
    }
}

/// The path with the user's number behind it.
fn own_place(path: &Path, user: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-{user}"));
    PathBuf::from(name)
}
