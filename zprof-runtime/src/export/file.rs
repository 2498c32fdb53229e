//! Files that appear whole or not at all: written beside their place under another name, then renamed into it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::os::process_id;
use crate::{Error, Result};

/// How many names are tried: those of earlier runs that had this process id and were killed may still be there.
const MAX_TRIES: u32 = 1_000;

/// A file under a temporary name, which goes away unless it is [kept](Self::keep).
struct Draft {
    path: PathBuf,
    kept: bool,
}

impl Draft {
    fn create(target: &Path) -> Result<(Self, File)> {
        let mut attempt = 0;
        loop {
            // Short whatever the target is called, as names are limited.
            let path = target.with_file_name(format!(".zprof-{}-{attempt}.tmp", process_id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Self { path, kept: false }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_TRIES => attempt += 1,
                Err(error) => return Err(Error::io(format!("failed to create `{}`", path.display()), error)),
            }
        }
    }

    fn keep(mut self, target: &Path) -> Result<()> {
        let what = || format!("failed to rename `{}` to `{}`", self.path.display(), target.display());
        fs::rename(&self.path, target).map_err(|error| Error::io(what(), error))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // There is nobody to tell, and the error that led here is the one that matters.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Has `write` fill the file at `target`. The file takes its place, over an older one, once `write` is done; if it
/// fails nothing of it stays.
///
/// # Errors
/// What `write` returns, and I/O errors that name the path.
pub(crate) fn write_whole<T>(target: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    let (draft, mut file) = Draft::create(target)?;
    let value = write(&mut file)?;
    drop(file);
    draft.keep(target)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write;

    use super::*;
    use crate::ErrorKind;

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).expect("is a folder").map(|entry| entry.expect("is readable").file_name()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("out.json");
        fs::write(&target, "old").expect("is written");
        let during = write_whole(&target, |file| {
            file.write_all(b"new").expect("is written");
            Ok(fs::read_to_string(&target).expect("the old one is still there"))
        });
        assert_eq!(during.expect("succeeds"), "old");
        assert_eq!(fs::read_to_string(&target).expect("is there"), "new");
        assert_eq!(names(folder.path()), ["out.json"]);
    }

    #[test]
    fn a_failed_file_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("out.json");
        fs::write(&target, "old").expect("is written");
        let error =
            write_whole(&target, |_| Err::<(), _>(Error::new(ErrorKind::InvalidData, "no"))).expect_err("fails");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(fs::read_to_string(&target).expect("is there"), "old");
        assert_eq!(names(folder.path()), ["out.json"]);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("missing").join("out.json");
        let error = write_whole(&target, |_| Ok(())).expect_err("there is no such folder");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
