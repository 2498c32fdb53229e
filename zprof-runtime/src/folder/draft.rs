//! Files that appear whole or not at all: each is written beside its place under a temporary name, and renamed.
//!
//! A temporary name is `.zprof-<process>-<number>.tmp`. The file is locked for as long as it is written, and a system gives
//! back the locks of a process that is killed. So whoever finds such a file and can lock it knows that nobody writes it any
//! more, also where the process has another number in its own container.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::time::Duration;

use super::lock::LOCK;
use super::{Folder, Kind, is_alive, sync_file, system};
use crate::os::process_id;

/// How many temporary names are tried: those of processes of this number that were killed may still be there.
const MAX_TRIES: u32 = 1_000;

/// Where files cannot be locked, a temporary file that is younger than this is taken for one that is being written.
const YOUNG: Duration = Duration::from_secs(60);

const START: &str = ".zprof-";
const END: &str = ".tmp";

/// A file under a temporary name, which is removed unless it takes its place.
#[derive(Debug)]
pub struct Draft {
    folder: Folder,
    name: String,
    /// Open, and so locked, until it has its place.
    file: File,
    is_kept: bool,
}

impl Draft {
    /// Makes an empty file that takes no other name yet.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn create(folder: &Folder) -> io::Result<Self> {
        let folder = folder.try_clone()?;
        let mut attempt = 0;
        loop {
            // Short whatever the target is called, as names are limited.
            let name = format!("{START}{}-{attempt}{END}", process_id());
            match folder.create_new(&name) {
                // Between these two calls another process may have taken the file for an abandoned one: it has the lock
                // then, or has had it and has removed the file.
                Ok(file) if is_claimed(&folder, &name, &file) => {
                    return Ok(Self { folder, name, file, is_kept: false });
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ if attempt == MAX_TRIES => return Err(io::ErrorKind::AlreadyExists.into()),
                _ => attempt += 1,
            }
        }
    }

    /// The file, to write and to read.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The temporary name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until what was written is on the disk, where the system can say so. Some file systems say only here that there
    /// is no room.
    ///
    /// # Errors
    ///
    /// The error that the system reports.
    pub fn sync(&self) -> io::Result<()> {
        sync_file(&self.file)
    }

    /// Gives the file its name, over an older file, whose permissions it gets. The folder is not written to the disk
    /// thereby: see [`Folder::sync`].
    ///
    /// # Errors
    ///
    /// The error that the system reports, and an older file that is write-protected; the draft is removed then.
    pub fn keep(mut self, name: impl AsRef<OsStr>) -> io::Result<File> {
        if let Some(old) = self.folder.status(&name)?.filter(|old| old.kind == Kind::File) {
            system::keep_mode(&self.file, &old)?;
        }
        let file = self.file.try_clone()?;
        self.folder.rename(&self.name, name)?;
        self.is_kept = true;
        // The lock belongs to the draft, and the file may be open for long.
        system::unlock(&self.file);
        Ok(file)
    }
}

/// Locks a new file, and sees whether it still has its name.
fn is_claimed(folder: &Folder, name: &str, file: &File) -> bool {
    match system::lock(file) {
        Ok(false) => false,
        Ok(true) => is_same(folder, name, file),
        // Without locks, age and process say what is abandoned.
        Err(_) => true,
    }
}

/// Whether the name in the folder stands for this open file.
pub(super) fn is_same(folder: &Folder, name: &str, file: &File) -> bool {
    match (folder.status(name), system::status_of(file)) {
        (Ok(Some(named)), Ok(open)) => named.id == open.id,
        _ => false,
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            // There is nobody to tell, and the error that led here is the one that matters.
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// An error where a file must not be written over: it is not even its owner's to write. The superuser is held to that too,
/// for whom the system makes no difference.
///
/// # Errors
///
/// The errors of this module, and any error that the system reports.
pub fn protected(folder: &Folder, name: impl AsRef<OsStr>) -> io::Result<()> {
    match folder.status(name)? {
        Some(old) if system::is_protected(&old) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is write-protected; make it writable or remove it"))
        }
        _ => Ok(()),
    }
}

/// Why a file of this name could not be put in place, although the folder can be written; `None` where it can. A folder is never
/// replaced, and in a folder like `/tmp` only its owner may replace a file.
///
/// # Errors
///
/// The error that the system reports.
pub fn obstacle(folder: &Folder, name: impl AsRef<OsStr>) -> io::Result<Option<String>> {
    let Some(old) = folder.status(name)? else { return Ok(None) };
    Ok(match old.kind {
        Kind::Folder => Some("is a folder".to_owned()),
        _ if folder.system.keeps(&old)? => Some(format!("belongs to user {}, who alone may replace it", old.user)),
        _ => None,
    })
}

/// Removes the temporary files and locks that killed processes have left in the folder.
///
/// # Errors
///
/// The name that cannot be removed, and why.
pub fn remove_abandoned(folder: &Folder) -> Result<(), (String, io::Error)> {
    let names = folder.names(|name| name.starts_with(START)).map_err(|error| (String::new(), error))?;
    for name in names {
        if is_abandoned(folder, &name) {
            folder.remove(&name).map_err(|error| (name, error))?;
        }
    }
    Ok(())
}

/// Whether a name is one of ours and nobody is at work on the file. A file that another process makes at this moment under
/// the same name is not removed in its place: the number of a process that lives is in no name that is removed, and this
/// process's own files are locked.
fn is_abandoned(folder: &Folder, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(START) else { return false };
    let is_lock = rest.ends_with(LOCK);
    let process = rest.strip_suffix(END).and_then(|rest| rest.split_once('-')).and_then(|(id, _)| id.parse().ok());
    if !is_lock && process.is_none() {
        return false;
    }
    let Ok(file) = folder.system.open_lock(name.as_ref(), folder.is_shared, false) else { return false };
    let owner = if is_lock { super::lock::owner(&file) } else { super::Owner { process, ..Default::default() } };
    let is_dead = owner.process.is_some_and(|process| process == process_id() || !is_alive(process));
    match system::lock(&file) {
        // The lock is given back when the file is closed. Who tries to have it until then sees that its owner is dead, and
        // tries again. Nothing but the lock says whether a process of another container lives.
        Ok(is_free) => is_free && (is_dead || owner.is_elsewhere) && is_same(folder, name, &file),
        Err(_) => {
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            is_dead && modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > YOUNG))
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::fs;
    use std::io::Write as _;

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = Folder::open(place.path()).expect("the folder is there");
        (place, folder)
    }

    fn sorted(folder: &Folder) -> Vec<String> {
        let mut names = folder.names(|_| true).expect("the folder can be listed");
        names.sort();
        names
    }

    #[test]
    fn a_draft_that_is_not_kept_leaves_nothing() {
        let (_place, folder) = folder();
        let mut draft = Draft::create(&folder).expect("the folder is writable");
        draft.file().write_all(b"half").expect("there is room");
        assert_eq!(sorted(&folder), [draft.name()]);
        drop(draft);
        assert_eq!(sorted(&folder), [""; 0]);
    }

    #[test]
    #[cfg(unix)] // plants a link, and looks for processes
    fn temporary_files_go_when_nobody_writes_them() {
        let (place, folder) = folder();
        let own = process_id();
        // No process has the highest number; the parent lives.
        let (dead, alive) = (u32::MAX >> 1, std::os::unix::process::parent_id());
        let draft = Draft::create(&folder).expect("the folder is writable");
        let kept = [
            draft.name().to_owned(),
            format!(".zprof-{alive}-0.tmp"),
            ".zprof-x-0.tmp".to_owned(),
            format!("zprof-{dead}-1.tmp"),
            format!(".zprof-{dead}-1.tmp.txt"),
            "notes.lock".to_owned(),
        ];
        let gone = [format!(".zprof-{dead}-0.tmp"), format!(".zprof-{own}-7.tmp"), ".zprof-host.lock".to_owned()];
        for name in kept[1..].iter().chain(&gone) {
            fs::write(place.path().join(name), dead.to_string()).expect("the folder is writable");
        }
        // A link is never opened.
        std::os::unix::fs::symlink("notes.lock", place.path().join(format!(".zprof-{dead}-2.tmp"))).expect("it is new");
        remove_abandoned(&folder).expect("all can be removed");
        let mut expected = kept.to_vec();
        expected.push(format!(".zprof-{dead}-2.tmp"));
        expected.sort();
        assert_eq!(sorted(&folder), expected);
    }

    #[test]
    #[cfg(unix)] // elsewhere it is not known which processes live, and no file is removed
    fn a_file_that_another_process_locks_stays() {
        let (place, folder) = folder();
        let dead = u32::MAX >> 1;
        let path = place.path().join(format!(".zprof-{dead}-0.tmp"));
        let file = File::create(&path).expect("the folder is writable");
        assert!(system::lock(&file).expect("files can be locked here"));
        remove_abandoned(&folder).expect("nothing is to be removed");
        assert!(path.exists());
        drop(file);
        remove_abandoned(&folder).expect("all can be removed");
        assert!(!path.exists());
    }
}
