//! Which files a tool has written: those of a folder that are new or have changed since before it ran.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Reports of a folder, as they are before a tool runs.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    endings: &'static [&'static str],
    /// How many levels of folders are looked into.
    depth: usize,
    before: HashMap<PathBuf, (SystemTime, u64)>,
}

impl Folder {
    /// Looks at the files of `path` with one of the endings, and of folders in it down to `depth`.
    pub(crate) fn watch(path: PathBuf, endings: &'static [&'static str], depth: usize) -> Self {
        let before = files(&path, endings, depth);
        Self { path, endings, depth, before }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is new or different now, by name.
    pub(crate) fn changed(&self) -> Vec<PathBuf> {
        let now = files(&self.path, self.endings, self.depth);
        let changed = now.into_iter().filter(|(path, state)| self.before.get(path) != Some(state));
        let mut paths: Vec<PathBuf> = changed.map(|(path, _)| path).collect();
        paths.sort();
        paths
    }
}

fn files(folder: &Path, endings: &[&str], depth: usize) -> HashMap<PathBuf, (SystemTime, u64)> {
    let mut found = HashMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links to folders are not followed: they may lead anywhere.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 0 {
                found.extend(files(&path, endings, depth - 1));
            }
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
            // An empty one keeps a name free, no more.
            if let Some(metadata) = fs::metadata(&path).ok().filter(|metadata| metadata.len() > 0) {
                found.insert(path, (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_files_are_found() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| root.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).expect("the folder is ours");
        fs::create_dir_all(at("host/deep")).expect("the folder is ours");
        for name in ["old.rep", "again.rep"] {
            write(name, "1");
        }
        let folder = Folder::watch(root.path().to_owned(), &[".rep"], 1);
        assert_eq!(folder.changed(), Vec::<PathBuf>::new());
        write("again.rep", "12");
        write("host/new.rep", "1");
        write("host/deep/too.rep", "1");
        write("new.txt", "1");
        write("empty.rep", "");
        assert_eq!(folder.changed(), [at("again.rep"), at("host/new.rep")]);
    }
}
