//! Locks of one name in a folder, for processes, and for several copies of this code in one process.
//!
//! A lock is an open file `.zprof-<name>.lock` with a lock of the system's on it, which goes with the process however that
//! ends. The file says whose it is. It is removed before the lock is given back; whoever gets the lock of a file that has no
//! name any more begins anew.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::time::Duration;

use super::draft::is_same;
use super::{Folder, Kind, is_alive, system};
use crate::os::process_id;

/// How the name of a lock ends.
pub(super) const LOCK: &str = ".lock";

/// A lock may be held for a moment by a process that removes those of killed ones. So often is it tried again, and so long
/// is the pause.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// Who has a lock, as far as the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The number of the process; `None` where that would mean nothing here.
    pub process: Option<u32>,
    /// Whether the process is in another container, where numbers of processes are others.
    pub is_elsewhere: bool,
}

/// The outcome of asking for a lock.
#[derive(Debug)]
pub enum Locked {
    /// This process has it now.
    Held(Lock),
    /// Another process has it, or another copy of this code.
    Taken(Owner),
    /// Files in this folder cannot be locked.
    Unsupported(io::Error),
}

/// A lock that this process has. It is given back when this is dropped.
#[derive(Debug)]
pub struct Lock {
    /// The folder and the name of the lock's file; `None` for the lock of a whole folder.
    place: Option<(Folder, String)>,
    /// The lock's file, or the folder.
    file: File,
    /// The child of a fork has this value too, and has nothing to give back.
    process: u32,
}

impl Folder {
    /// Locks a name, so that others who do the same find it taken.
    ///
    /// # Errors
    ///
    /// The error that the system reports, and a lock's name that stands for something else.
    pub fn lock(&self, name: &str) -> io::Result<Locked> {
        let file_name = format!(".zprof-{name}{LOCK}");
        let mut tries = 0;
        loop {
            tries += 1;
            let file = match self.system.open_lock(file_name.as_ref(), self.is_shared, true) {
                Err(error) if system::is_in_use(&error) => return Ok(Locked::Taken(Owner::default())),
                Err(error) => match self.status(&file_name).ok().flatten().map(|found| found.kind) {
                    // Another user's, whose permissions keep it from being read: it may be locked.
                    Some(Kind::File) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Ok(Locked::Taken(Owner::default()));
                    }
                    Some(kind @ (Kind::Link | Kind::Folder | Kind::Other)) => {
                        let what = match kind {
                            Kind::Link => "a link",
                            Kind::Folder => "a folder",
                            _ => "no file",
                        };
                        let path = self.path().join(&file_name);
                        let message = format!("`{}` is {what}; remove it", path.display());
                        return Err(io::Error::new(error.kind(), message));
                    }
                    _ => return Err(error),
                },
                Ok(file) => file,
            };
            match system::lock(&file) {
                Ok(true) if is_same(self, &file_name, &file) => {
                    let place = Some((self.try_clone()?, file_name));
                    let lock = Lock { place, file, process: process_id() };
                    // A lock without a name on it is one too.
                    let _ = lock.sign();
                    return Ok(Locked::Held(lock));
                }
                // Its owner has removed it between the two calls.
                Ok(true) if tries < TRIES => {}
                Ok(true) => return Ok(Locked::Taken(Owner::default())),
                Ok(false) => {
                    let owner = owner(&file);
                    // Who has a lock that was a dead process's is about to remove it, or has not signed it yet.
                    if owner.is_elsewhere || owner.process.is_some_and(is_alive) || tries >= TRIES {
                        return Ok(Locked::Taken(owner));
                    }
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "to wait for the lock is to wait for an owner that keeps it"
                    )]
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Ok(Locked::Unsupported(error)),
            }
        }
    }

    /// Locks the folder itself, which leaves no file in it: alone, or with others that share it. `None` where another has it
    /// in a way that does not fit.
    ///
    /// # Errors
    ///
    /// The error that the system reports, also where folders cannot be locked.
    pub fn lock_whole(&self, is_alone: bool) -> io::Result<Option<Lock>> {
        let file = self.system.reopen()?;
        let is_locked = if is_alone { system::lock(&file)? } else { system::lock_shared(&file)? };
        Ok(is_locked.then(|| Lock { place: None, file, process: process_id() }))
    }
}

impl Lock {
    /// Whether this process took the lock, and the lock's file is still in the folder under its name, or the lock is that of
    /// the folder.
    #[must_use]
    pub fn is_held_in(&self, folder: &Folder) -> bool {
        let is_same = match &self.place {
            Some((_, name)) => is_same(folder, name, &self.file),
            None => is_same(folder, ".", &self.file),
        };
        self.is_own() && is_same
    }

    /// Whether this process took the lock, and did not inherit it by a fork.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.process == process_id()
    }

    fn sign(&self) -> io::Result<()> {
        let _held = system::SizeSignalHeld::new();
        let mut file = &self.file;
        self.file.set_len(0)?;
        file.rewind()?;
        file.write_all(signature(process_id(), system::process_space()).as_bytes())
    }
}

/// What a lock's file says: the number of the process, and that of the space in which the process has it, where there may be
/// more than one. Containers that share a folder often have the same numbers.
fn signature(process: u32, space: Option<u64>) -> String {
    space.map_or_else(|| process.to_string(), |space| format!("{process} {space}"))
}

/// Whose lock a file is.
pub(super) fn owner(file: &File) -> Owner {
    let mut text = String::new();
    let mut file = file;
    match file.rewind().and_then(|()| file.take(64).read_to_string(&mut text)) {
        Ok(_) => owner_in(&text, system::process_space()),
        Err(_) => Owner::default(),
    }
}

fn owner_in(text: &str, own_space: Option<u64>) -> Owner {
    let mut words = text.split_ascii_whitespace();
    let process = words.next().and_then(|process| process.parse().ok());
    let space = words.next().and_then(|space| space.parse().ok());
    let is_elsewhere = space.is_some() && space != own_space;
    Owner { process: process.filter(|_| !is_elsewhere), is_elsewhere }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        if let Some((folder, name)) = self.place.as_ref().filter(|(folder, name)| is_same(folder, name, &self.file)) {
            // A file that stays is taken by the next one who locks.
            let _ = folder.remove(name);
        }
        // Children of forks have the same open file: closing it here would not be enough.
        system::unlock(&self.file);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::fs;

    use super::*;

    fn held(locked: io::Result<Locked>) -> Lock {
        match locked {
            Ok(Locked::Held(lock)) => lock,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lock_is_taken_until_it_is_dropped_and_leaves_nothing() {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = Folder::open(place.path()).expect("the folder is there");
        let lock = held(folder.lock("host"));
        let other = held(folder.lock("other"));
        match folder.lock("host") {
            // Elsewhere nobody else can read a locked file, and so its owner is not known.
            Ok(Locked::Taken(owner)) => {
                assert_eq!(owner, Owner { process: cfg!(unix).then(process_id), is_elsewhere: false });
            }
            other => panic!("{other:?}"),
        }
        assert!(lock.is_held_in(&folder));
        drop(lock);
        let again = held(folder.lock("host"));
        drop((again, other));
        assert_eq!(folder.names(|_| true).expect("it can be listed"), [""; 0]);
    }

    #[test]
    fn a_number_of_a_process_counts_where_it_was_given() {
        let here = |process| Owner { process, is_elsewhere: false };
        let elsewhere = Owner { process: None, is_elsewhere: true };
        for (text, own, expected) in [
            ("7", None, here(Some(7))),
            ("7", Some(1), here(Some(7))),
            ("7 1", Some(1), here(Some(7))),
            ("7 2", Some(1), elsewhere.clone()),
            ("7 2", None, elsewhere),
            ("", Some(1), here(None)),
            ("x y", Some(1), here(None)),
        ] {
            assert_eq!(owner_in(text, own), expected, "{text}");
        }
        for space in [None, Some(u64::MAX)] {
            assert_eq!(owner_in(&signature(u32::MAX, space), space), here(Some(u32::MAX)));
        }
    }

    #[test]
    #[cfg(unix)] // makes links
    fn what_cannot_be_a_lock_is_named() {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = Folder::open(place.path()).expect("the folder is there");
        let path = |name: &str| place.path().join(format!(".zprof-{name}.lock"));
        std::os::unix::fs::symlink("nowhere", path("link")).expect("the name is free");
        fs::create_dir(path("folder")).expect("the name is free");
        drop(std::os::unix::net::UnixListener::bind(path("other")).expect("the name is free"));
        for (name, what) in [("link", "a link"), ("folder", "a folder"), ("other", "no file")] {
            let error = folder.lock(name).expect_err("it cannot be locked");
            assert_eq!(error.to_string(), format!("`{}` is {what}; remove it", path(name).display()));
        }
    }

    #[test]
    #[cfg(unix)] // elsewhere only files can be locked
    fn a_folder_is_locked_alone_or_shared_and_leaves_nothing() {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = Folder::open(place.path()).expect("the folder is there");
        let lock = |is_alone| folder.lock_whole(is_alone).expect("folders can be locked here");
        let alone = lock(true).expect("it is free");
        assert!(alone.is_held_in(&folder) && lock(true).is_none() && lock(false).is_none());
        drop(alone);
        let shared = [lock(false).expect("it is free"), lock(false).expect("it can be shared")];
        assert!(lock(true).is_none());
        drop(shared);
        assert!(lock(true).is_some());
        assert_eq!(folder.names(|_| true).expect("it can be listed"), [""; 0]);
    }

    #[test]
    #[cfg(unix)] // elsewhere a locked file can be neither read nor removed
    fn the_lock_of_a_killed_process_is_free() {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = Folder::open(place.path()).expect("the folder is there");
        fs::write(place.path().join(".zprof-host.lock"), (u32::MAX >> 1).to_string()).expect("it is writable");
        let lock = held(folder.lock("host"));
        let text = fs::read_to_string(place.path().join(".zprof-host.lock")).expect("the file is there");
        assert_eq!(text, signature(process_id(), system::process_space()));
        fs::remove_file(place.path().join(".zprof-host.lock")).expect("it is there");
        assert!(!lock.is_held_in(&folder), "its name is gone");
    }
}
