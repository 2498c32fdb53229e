//! Where a command writes: a file that appears whole or not at all, also when a signal ends the program, or a stream;
//! and what it tells beside.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::AutoStream;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use zprof_runtime::display::printable;
use zprof_runtime::folder::{self, Folder, SizeSignalHeld};

use crate::input::{Profile, SUFFIX};
use crate::screen::{Screen, styled};

/// The draft on the disk now, for who ends the program. Whoever makes a draft, renames or removes it holds this.
static DRAFT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Where output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    /// A pipe or device, which is written as it is.
    Stream(PathBuf),
    /// A file, links followed, which is put in place when it is whole.
    File(PathBuf),
}

impl Target {
    /// What `path` stands for; `-` is standard output.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        // A rename would replace a link, not what it leads to.
        let followed = folder::follow(path).with_context(|| format!("failed to open `{}`", path.display()))?;
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                let folder = fs::canonicalize(path).unwrap_or(followed);
                bail!("`{}` is a folder; name a file in it", folder.display())
            }
            // Such as /dev/stdout. A file would take the name of the one that the output goes to, and whoever has that one
            // open would read nothing.
            Ok(metadata) if is_standard_output(&metadata) => Ok(Self::Stdout),
            Ok(metadata) if !metadata.is_file() => Ok(Self::Stream(path.to_owned())),
            // Such as /dev/fd/3 for a file that has no name any more: the link's text names nothing, or another file.
            Ok(metadata) if !is_at(&metadata, &followed) => Ok(Self::Stream(path.to_owned())),
            Ok(_) => Ok(Self::File(followed)),
            Err(_) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                bail!("`{}` is a folder that does not exist; make it, and name a file in it", path.display())
            }
            Err(_) => Ok(Self::File(followed)),
        }
    }

    /// Whether it is shown on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            // A pipe is not opened to ask: its reader would take that for the end.
            Self::Stream(path) => {
                is_character_device(path)
                    && OpenOptions::new().write(true).open(path).is_ok_and(|file| file.is_terminal())
            }
            Self::File(_) => false,
        }
    }

    /// Whether what is written can be taken back.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Refuses to write over the profile, or a file that would pass for one.
    pub(crate) fn refuse_profile(&self, profile: &Profile) -> Result<()> {
        let Self::File(target) = self else { return Ok(()) };
        for path in profile.spaces.iter().filter_map(|space| space.path.as_ref()) {
            let real = |path: &Path| fs::canonicalize(path).ok();
            if real(path).is_some_and(|path| real(target) == Some(path)) {
                bail!("`{}` is the profile itself; name another file with `-o`", path.display());
            }
        }
        if target.to_string_lossy().ends_with(SUFFIX) {
            bail!("`{}` would pass for a profile; give it another ending", target.display());
        }
        Ok(())
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdout => "standard output".to_owned(),
            Self::Stream(path) | Self::File(path) => format!("`{}`", path.display()),
        }
    }

    /// Has `write` write there. Of a file nothing stays if it fails, and an older one stays as it was.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
        // A file that is longer than it may be is an error, which leaves no draft behind.
        let _held = SizeSignalHeld::new();
        match self {
            Self::Stdout if io::stdout().is_terminal() => show(io::stdout().lock(), "standard output", write),
            Self::Stdout => {
                let mut out = BufWriter::new(io::stdout().lock());
                let value = write(&mut out)?;
                out.flush().context("failed to write to standard output")?;
                Ok(value)
            }
            Self::Stream(path) => {
                // What a file without a name held goes, as it does for every other writer; pipes and devices hold nothing.
                let file = OpenOptions::new().write(true).truncate(true).open(path);
                let mut file = file.with_context(|| format!("failed to open `{}`", path.display()))?;
                if file.is_terminal() { show(file, &self.name(), write) } else { write(&mut file) }
            }
            Self::File(path) => {
                let mut draft = Draft::create(path)?;
                let value = write(draft.file())?;
                draft.keep()?;
                Ok(value)
            }
        }
    }
}

/// Has `write` write to a terminal.
fn show<T>(terminal: impl Write, name: &str, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let mut out = Screen::new(BufWriter::new(terminal));
    let value = write(&mut out)?;
    out.finish().with_context(|| format!("failed to write to {name}"))?;
    Ok(value)
}

/// Whether this is what standard output goes to.
#[cfg(unix)]
fn is_standard_output(metadata: &Metadata) -> bool {
    let Ok(output) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else { return false };
    output.metadata().is_ok_and(|output| is_same(metadata, &output))
}

/// Whether this is the file at a path that is no link.
#[cfg(unix)]
fn is_at(metadata: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| is_same(metadata, &found))
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(unix)]
fn is_character_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

/// No path leads to what is open already here.
#[cfg(not(unix))]
fn is_standard_output(_metadata: &Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn is_at(_metadata: &Metadata, _path: &Path) -> bool {
    true
}

#[cfg(not(unix))]
fn is_character_device(_path: &Path) -> bool {
    true
}

/// Has `write` print on standard output.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    Target::Stdout.write(|out| write(out).context("failed to write to standard output"))
}

/// Has `write` print text for people on standard output: in colour where that is a terminal, but for `NO_COLOR`, `CLICOLOR` and
/// `CLICOLOR_FORCE`. What comes from a profile must be [`printable`] already.
pub(crate) fn print_text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut text = Vec::new();
    write(&mut text)
        .and_then(|()| {
            let text = String::from_utf8_lossy(&text);
            let text = if io::stdout().is_terminal() { styled(&text).into() } else { text };
            let mut out = AutoStream::auto(io::stdout().lock());
            out.write_all(text.as_bytes())?;
            out.flush()
        })
        .context("failed to write to standard output")
}

/// Prints a value as JSON for people and programs.
pub(crate) fn print_json(value: &(impl Serialize + ?Sized)) -> Result<()> {
    print(|mut out| {
        serde_json::to_writer_pretty(&mut out, value)?;
        writeln!(out)
    })
}

/// Tells the user something that is not the output: one line, whatever names of files and of a profile are quoted in it.
pub(crate) fn tell(text: impl std::fmt::Display) {
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(io::stderr(), "zprof: {}", printable(&text.to_string()));
}

/// A file under a temporary name, which goes away unless it is kept.
pub(crate) struct Draft {
    /// There until it is kept or dropped.
    file: Option<folder::Draft>,
    folder: Folder,
    target: PathBuf,
}

impl Draft {
    /// A file that is to be `target`, and lies beside it until it is kept.
    pub(crate) fn create(target: &Path) -> Result<Self> {
        signals::watch().context("failed to watch for signals")?;
        let parent = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.exists() {
            bail!("failed to create `{}`: the folder `{}` does not exist", target.display(), parent.display());
        }
        let what = || format!("failed to create `{}`", target.display());
        let folder = Folder::open(parent).with_context(what)?;
        let name = target.file_name().unwrap_or_default();
        folder::protected(&folder, name).with_context(|| format!("failed to write over `{}`", target.display()))?;
        // What killed processes have left takes room; what cannot be removed is in nobody's way.
        let _ = folder::remove_abandoned(&folder);
        let mut place = place();
        let file = folder::Draft::create(&folder).with_context(what)?;
        *place = Some(folder.path().join(file.name()));
        Ok(Self { file: Some(file), folder, target: target.to_owned() })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_mut().expect("is there until it is kept").file()
    }

    /// Puts it in its place, over an older file, whose permissions it gets. What is in it is on the disk then.
    pub(crate) fn keep(mut self) -> Result<()> {
        let what = || format!("failed to put `{}` in place", self.target.display());
        // This takes a while, and no signal waits for it.
        self.file.as_ref().map_or(Ok(()), folder::Draft::sync).with_context(what)?;
        let mut place = place();
        let Some(file) = self.file.take() else { return Ok(()) };
        *place = None;
        file.keep(self.target.file_name().unwrap_or_default()).with_context(what)?;
        self.folder.sync().with_context(what)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut place = place();
        if self.file.take().is_some() {
            *place = None;
        }
    }
}

fn place() -> MutexGuard<'static, Option<PathBuf>> {
    DRAFT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
pub(crate) mod signals {
    //! Removes the draft when a signal ends the program.

    use std::sync::Once;
    use std::{fs, io, thread};

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    /// Waits for signals from now on, once.
    pub(super) fn watch() -> io::Result<()> {
        static WATCHED: Once = Once::new();
        let mut done = Ok(());
        WATCHED.call_once(|| done = start());
        done
    }

    fn start() -> io::Result<()> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)))?;
        thread::Builder::new().name("zprof-signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                // Held to the end: no draft is made or put in place any more.
                let place = super::place();
                if let Some(draft) = place.as_ref() {
                    let _ = fs::remove_file(draft); // the program is ending; there is nothing else to do
                }
                let _ = emulate_default_handler(signal); // does not return for these
            }
        })?;
        Ok(())
    }

    /// Whether the signal is ignored, as `nohup` arranges it; it should stay so. Known on Linux only.
    pub(crate) fn is_ignored(signal: i32) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask >> (signal - 1) & 1 == 1
    }
}

#[cfg(not(unix))]
mod signals {
    //! Signals that end the program leave the draft here.

    pub(super) fn watch() -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_what_its_path_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = fs::canonicalize(folder.path()).expect("is there");
        let file = folder.join("file");
        fs::write(&file, "old").expect("is written");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).expect("is linked");
        assert_eq!(Target::of(&link).expect("is a file"), Target::File(file));
        assert_eq!(Target::of(&folder.join("new")).expect("is a file"), Target::File(folder.join("new")));
        assert_eq!(Target::of(Path::new("-")).expect("is a stream"), Target::Stdout);
        // Standard output may go to /dev/null.
        assert_eq!(Target::of(Path::new("/dev/zero")).expect("is a stream"), Target::Stream("/dev/zero".into()));
        assert!(Target::of(&folder).expect_err("is no file").to_string().ends_with("is a folder; name a file in it"));
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let target = Target::of(Path::new("/nodir/x.json")).expect("is a file");
        let error = target.write(|_| Ok(())).expect_err("fails");
        assert_eq!(error.to_string(), "failed to create `/nodir/x.json`: the folder `/nodir` does not exist");
    }

    fn mode(path: &Path) -> u32 {
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).expect("is there").permissions()) & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("is ours");
    }

    fn write(path: &Path, content: &'static [u8]) -> Result<()> {
        Target::of(path)?.write(|out| Ok(out.write_all(content)?))
    }

    #[test]
    fn a_file_appears_when_it_is_whole_with_the_mode_of_any_new_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let plain = folder.path().join("plain");
        fs::write(&plain, "").expect("is written");
        let target = Target::of(&path).expect("is a file");
        target
            .write(|out| -> Result<()> {
                out.write_all(b"half")?;
                bail!("no")
            })
            .expect_err("fails");
        assert!(!path.exists());
        write(&path, b"whole").expect("is written");
        assert_eq!(fs::read_to_string(&path).expect("is there"), "whole");
        assert_eq!(fs::read_dir(folder.path()).expect("is a folder").count(), 2);
        // Below a folder of all users, where temporary folders may be, it is its owner's alone.
        let is_shared = Folder::open(folder.path()).expect("is there").is_shared();
        assert_eq!(mode(&path), if is_shared { 0o600 } else { mode(&plain) });
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).expect("is created");
        set_mode(&shared, 0o1777);
        write(&shared.join("out"), b"whole").expect("is written");
        assert_eq!(mode(&shared.join("out")), 0o600);
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_a_protected_one_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("is written");
        for kept in [0o640, 0o666, 0o700] {
            set_mode(&path, kept);
            write(&path, b"new").expect("is written");
            assert_eq!((mode(&path), fs::read(&path).expect("is there")), (kept, b"new".to_vec()));
        }
        set_mode(&path, 0o444);
        let error = write(&path, b"newer").expect_err("is write-protected");
        let expected =
            format!("failed to write over `{}`: it is write-protected; make it writable or remove it", path.display());
        assert_eq!(format!("{error:#}"), expected);
        assert_eq!(fs::read(&path).expect("is there"), b"new");
    }

    #[test]
    fn what_a_killed_program_was_writing_goes_when_the_next_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        // No process has the highest number.
        let left = folder.path().join(format!(".zprof-{}-0.tmp", u32::MAX >> 1));
        fs::write(&left, "half").expect("is written");
        write(&folder.path().join("out"), b"whole").expect("is written");
        let names: Vec<_> =
            fs::read_dir(folder.path()).expect("is a folder").flatten().map(|e| e.file_name()).collect();
        assert_eq!(names, ["out"]);
    }

    #[test]
    fn a_link_of_another_user_in_a_folder_of_all_users_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).expect("is created");
        set_mode(&shared, 0o1777);
        let file = folder.path().join("file");
        fs::write(&file, "old").expect("is written");
        let link = shared.join("link");
        std::os::unix::fs::symlink(&file, &link).expect("is linked");
        // An own link is followed.
        assert_eq!(Target::of(&link).expect("is a file"), Target::File(file.clone()));
        if std::os::unix::fs::lchown(&link, Some(65534), None).is_err() {
            // Only the superuser can give a link away.
            return;
        }
        let error = Target::of(&link).expect_err("is another user's");
        let expected = format!(
            "failed to open `{}`: `link` is a link that user 65534 has made, which is not followed; remove it",
            link.display()
        );
        assert_eq!(format!("{error:#}"), expected);
        assert_eq!(fs::read(&file).expect("is there"), b"old");
    }
}
