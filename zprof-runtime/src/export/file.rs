//! Files that appear whole or not at all: written beside their place under another name, then renamed into it.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::folder::{Draft, Folder, protected};
use crate::{Error, Result};

/// Has `write` fill the file at `target`. The file takes its place, over an older one whose permissions it gets, once `write`
/// is done and the content is on the disk; if it fails nothing of it stays.
///
/// # Errors
/// What `write` returns, and I/O errors that name the path.
pub(crate) fn write_whole<T>(target: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = target.file_name().unwrap_or_default();
    let failed = |what: &str, error: io::Error| Error::io(format!("failed to {what} `{}`", target.display()), error);
    let folder = Folder::open(parent).map_err(|error| failed("create", error))?;
    protected(&folder, name).map_err(|error| failed("write over", error))?;
    let mut draft = Draft::create(&folder).map_err(|error| failed("create", error))?;
    let value = write(draft.file())?;
    draft.sync().map_err(|error| failed("write", error))?;
    draft.keep(name).map_err(|error| failed("put in its place", error))?;
    folder.sync().map_err(|error| failed("write", error))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
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
    #[cfg(unix)] // modes are of Unix
    fn a_replaced_file_keeps_its_mode_and_a_protected_one_is_left() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("out.json");
        fs::write(&target, "old").expect("is written");
        for mode in [0o640, 0o600, 0o755, 0o200] {
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).expect("is ours");
            write_whole(&target, |_| Ok(())).expect("succeeds");
            assert_eq!(fs::metadata(&target).expect("is there").permissions().mode() & 0o7777, mode);
        }
        for mode in [0o444, 0o066, 0] {
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).expect("is ours");
            let error = write_whole(&target, |_| Ok(())).expect_err("it is write-protected");
            let expected = format!(
                "failed to write over `{}`: it is write-protected; make it writable or remove it",
                target.display()
            );
            assert_eq!(error.told(), expected);
            assert_eq!(fs::metadata(&target).expect("is there").permissions().mode() & 0o7777, mode);
        }
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
