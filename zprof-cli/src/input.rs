//! Profiles named on the command line: a file, a run's folder, or `-` for standard input.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// End of the name of an XSpace file; what stands before it is the host.
const SUFFIX: &str = ".xplane.pb";

/// One XSpace of a run.
#[derive(Debug)]
pub(crate) struct Space {
    /// The bytes; for standard input a temporary file without a name.
    pub(crate) file: File,
    /// Where they come from, for messages: a quoted path, or `standard input`.
    pub(crate) name: String,
}

/// The spaces that `input` stands for, one for each host, in the order of their names.
pub(crate) fn open(input: &Path) -> Result<Vec<Space>> {
    if input == Path::new("-") {
        return Ok(vec![spool()?]);
    }
    let metadata = fs::metadata(input).with_context(|| format!("failed to open `{}`", input.display()))?;
    if !metadata.is_dir() {
        return Ok(vec![space(input)?]);
    }
    let paths = spaces_in(input)?;
    if paths.is_empty() {
        bail!(
            "no `*{SUFFIX}` in `{}`; a run's folder is called `<log directory>/plugins/profile/<run>`",
            input.display()
        );
    }
    paths.iter().map(|path| space(path)).collect()
}

fn spaces_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("failed to list `{}`", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(what)? {
        let path = entry.with_context(what)?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn space(path: &Path) -> Result<Space> {
    let file = File::open(path).with_context(|| format!("failed to open `{}`", path.display()))?;
    Ok(Space { file, name: format!("`{}`", path.display()) })
}

/// Standard input, copied to where it can be read at any position.
fn spool() -> Result<Space> {
    let mut file = tempfile::tempfile().context("failed to create a temporary file for standard input")?;
    io::copy(&mut io::stdin().lock(), &mut file).context("failed to copy standard input to a temporary file")?;
    Ok(Space { file, name: "standard input".to_owned() })
}
