//! Output that appears whole or not at all: a file is written beside its place and renamed into it.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Writes `content` to the file at `path`, or to standard output if there is none.
pub(crate) fn write(path: Option<&Path>, content: &[u8]) -> Result<()> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        let mut out = io::stdout().lock();
        out.write_all(content)?;
        return Ok(out.flush()?);
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let what = || format!("failed to write `{}`", path.display());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zprof-").suffix(".tmp");
    allow_reading(&mut builder);
    let mut file = builder.tempfile_in(folder).with_context(what)?;
    file.write_all(content).with_context(what)?;
    file.persist(path).with_context(what)?;
    Ok(())
}

/// Refuses an output that would overwrite what is read.
pub(crate) fn refuse_same(input: &Path, output: Option<&Path>) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    if let (Ok(from), Ok(to)) = (input.canonicalize(), output.canonicalize()) {
        if from == to {
            bail!("`{}` cannot be both input and output; name another file", output.display());
        }
    }
    Ok(())
}

/// Has the file be as readable as any that a program makes; temporary ones are their owner's alone else.
#[cfg(unix)]
fn allow_reading(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn allow_reading(_: &mut tempfile::Builder<'_, '_>) {}
