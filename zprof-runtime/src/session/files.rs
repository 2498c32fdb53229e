//! The files of a run: where they are, what must go before new ones come, and how they appear whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::options::{ProfilerOptions, SessionId};
use crate::error::{Error, ErrorKind, Result};
use crate::export::write_whole;

/// How the name of an XSpace's file ends.
pub(super) const XSPACE: &str = ".xplane.pb";

/// Paths of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunFiles {
    folder: PathBuf,
    session: String,
    host: String,
    /// Whether the folder is the run's alone, and not one that a person has other files in.
    is_own: bool,
    /// Whether the environment said where it is.
    is_from_env: bool,
}

impl RunFiles {
    /// Checks the names and makes the folder, so that a path that cannot work fails before anything is recorded.
    pub(crate) fn prepare(options: &ProfilerOptions, start_ns: i64) -> Result<Self> {
        if let Some(path) = &options.file {
            return Self::of_file(path, options.is_from_env)?.tried();
        }
        let mut session = match &options.session_id {
            SessionId::Named(name) => name.clone(),
            SessionId::Unique => unique_name(start_ns, std::process::id()),
        };
        let host = options.override_hostname.clone().unwrap_or_else(|| "profiling".to_owned());
        let is_from_env = options.is_from_env;
        for (what, name) in [(options.named("session_id"), &session), ("override_hostname", &host)] {
            check_name(what, name)?;
        }
        if options.repository_path.as_os_str().is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "`repository_path` is empty; give the folder that shall hold `plugins/profile`",
            ));
        }
        let runs = options.repository_path.join("plugins").join("profile");
        if options.session_id == SessionId::Unique {
            session = make_unique(&runs, &session, is_from_env)?;
        }
        let folder = runs.join(&session);
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self { folder, session, host, is_own: true, is_from_env }.tried()
    }

    /// The files of a run that was given its XSpace's path: the JSON lies beside it.
    fn of_file(path: &Path, is_from_env: bool) -> Result<Self> {
        let invalid = |why| Err(Error::new(ErrorKind::InvalidInput, format!("`{}` {why}", path.display())));
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let host = path.file_name().and_then(|name| name.to_str()?.strip_suffix(XSPACE));
        let (Some(host), Some(folder)) = (host, path.parent()) else {
            return invalid("is no name that a profile can have; give one that is UTF-8 and ends in `.xplane.pb`");
        };
        check_name("file name", host)?;
        if path.is_dir() {
            return invalid("is a folder; give the path of a file, or a folder of another name");
        }
        let (folder, session, host) = (folder.to_owned(), host.to_owned(), host.to_owned());
        Ok(Self { folder, session, host, is_own: false, is_from_env })
    }

    /// Makes the folder, and sees whether files can be made in it.
    fn tried(self) -> Result<Self> {
        let files = self;
        files.make_folder()?;
        let probe = files.folder.join(format!(".zprof-{}-probe.tmp", std::process::id()));
        // What others have put there under this name is neither written to nor taken for ours.
        let written =
            OpenOptions::new().write(true).create_new(true).open(&probe).and_then(|_| fs::remove_file(&probe));
        match written {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let what = format!("cannot write to the profile folder `{}`", files.folder.display());
                Err(no_place(what, files.is_from_env, error))
            }
            _ => Ok(files),
        }
    }

    /// Files of another run, which has the name of this one and a number that is free.
    pub(crate) fn snapshot(&self) -> Result<Self> {
        if !self.is_own {
            return self.beside();
        }
        let runs = self.folder.parent().unwrap_or(&self.folder);
        let is_from_env = self.is_from_env;
        let failed = |folder: &Path, error| cannot_make(folder, is_from_env, error);
        fs::create_dir_all(runs).map_err(|error| failed(runs, error))?;
        for number in 1_u64.. {
            let session = format!("{}-snapshot-{number}", self.session);
            let folder = runs.join(&session);
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { folder, session, host: self.host.clone(), is_own: true, is_from_env }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&folder, error)),
            }
        }
        Err(failed(runs, io::ErrorKind::AlreadyExists.into()))
    }

    /// The same where the run has a file and no folder: another file beside it.
    fn beside(&self) -> Result<Self> {
        self.make_folder()?;
        let mut number = 1_u64;
        loop {
            let host = format!("{}-snapshot-{number}", self.host);
            let files = Self { session: host.clone(), host, ..self.clone() };
            let path = files.protobuf();
            // So that another process takes another number.
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(files),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(Error::io(format!("cannot write `{}`", path.display()), error)),
            }
        }
    }

    /// Removes what [`snapshot`](Self::snapshot) has made, where nothing was written.
    pub(crate) fn give_back(&self) {
        // What fails here is told already, by what could not be written.
        if self.is_own {
            // Only an empty one goes.
            let _ = fs::remove_dir(&self.folder);
        } else if self.protobuf().metadata().is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(self.protobuf());
        }
    }

    /// Makes the folder, at the start and again where somebody has removed it during the session.
    pub(crate) fn make_folder(&self) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|error| cannot_make(&self.folder, self.is_from_env, error))
    }

    /// Where the XSpace goes.
    pub(crate) fn protobuf(&self) -> PathBuf {
        self.folder.join(format!("{}{XSPACE}", self.host))
    }

    /// Where the trace-viewer JSON goes.
    pub(crate) fn json(&self) -> PathBuf {
        self.folder.join(format!("{}.trace.json", self.host))
    }

    /// Name of the run.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// The name that the run has for its host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Removes what was derived from an older profile of this run: its JSON, and XProf's caches. Also what a process
    /// that was killed has left of files that it was writing.
    pub(crate) fn remove_derived(&self) -> Result<()> {
        // Someone may have tidied up during the session.
        self.make_folder()?;
        let failed = |path: &Path, error| Error::io(format!("failed to remove the old `{}`", path.display()), error);
        let entries = fs::read_dir(&self.folder).map_err(|error| failed(&self.folder, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(&self.folder, error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if is_derived(name, &self.host, self.is_own) || is_abandoned(name, &entry) {
                let path = entry.path();
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Writes the XSpace beside its place and moves it there.
    pub(crate) fn write_protobuf<'a>(&self, mut pieces: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        let path = self.protobuf();
        write_whole(&path, |file| {
            // So small that its buffer always fits: pieces are large, or few.
            let mut out = BufWriter::with_capacity(2048, file);
            let written = pieces.try_for_each(|piece| out.write_all(piece)).and_then(|()| out.flush());
            written.map_err(|error| Error::io(format!("failed to write the profile `{}`", path.display()), error))
        })
    }
}

impl RunFiles {
    /// Keeps what a plugin returned and nobody can read beside the profile.
    pub(crate) fn write_broken(&self, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(format!("{}.device.pb.broken", self.host));
        write_whole(&path, |file| {
            let failed = |error| Error::io(format!("failed to write `{}`", path.display()), error);
            file.write_all(bytes).map_err(failed)
        })
    }
}

fn cannot_make(folder: &Path, is_from_env: bool, error: io::Error) -> Error {
    no_place(format!("failed to create the profile folder `{}`", folder.display()), is_from_env, error)
}

/// An error of the place that a profile is to have, with its cure. Who has set a variable reads what a program prints, which is
/// the message alone: so the cause is part of it.
fn no_place(what: String, is_from_env: bool, error: io::Error) -> Error {
    if is_from_env {
        let message = format!("{what}: {error}; let `ZPROF` name a place that this program can write to");
        Error::new(ErrorKind::Io, message)
    } else {
        Error::io(format!("{what}; check `repository_path`"), error)
    }
}

/// Makes a folder that was not there and returns its name: `name`, or `name_2` and so on.
fn make_unique(runs: &Path, name: &str, is_from_env: bool) -> Result<String> {
    fs::create_dir_all(runs).map_err(|error| cannot_make(runs, is_from_env, error))?;
    let mut unique = name.to_owned();
    for next in 2.. {
        let folder = runs.join(&unique);
        match fs::create_dir(&folder) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => unique = format!("{name}_{next}"),
            Err(error) => return Err(cannot_make(&folder, is_from_env, error)),
        }
    }
    Ok(unique)
}

/// Whether a file is one that a process was writing which is no more. A process of another container is not seen, so
/// that young files stay.
fn is_abandoned(name: &str, entry: &fs::DirEntry) -> bool {
    const YOUNG: Duration = Duration::from_secs(60);
    let process = name.strip_prefix(".zprof-").and_then(|rest| rest.strip_suffix(".tmp")?.split_once('-'));
    let Some(process) = process.and_then(|(process, _)| process.parse::<u32>().ok()) else { return false };
    // Where the system does not show its processes here, none is taken for dead.
    let processes = Path::new("/proc");
    let is_dead = processes.join("self").exists() && !processes.join(process.to_string()).exists();
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    is_dead && modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > YOUNG))
}

/// Refuses names that would leave the run's folder or that no file can have.
fn check_name(what: &str, name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "is empty"
    } else if name == "." || name == ".." || name.contains(['/', '\\']) {
        "is a path; give a plain name"
    } else if name.contains('\0') {
        "holds a NUL"
    } else if name.len() > 200 {
        "is longer than 200 bytes"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("`{what}` {reason}: {name:?}")))
}

/// Whether a file was made from this host's profile, by us or by XProf. In a folder that is not the run's own, the names
/// that XProf has for a whole run may be those of others.
fn is_derived(name: &str, host: &str, is_own: bool) -> bool {
    const OF_HOST: [&str; 5] = ["trace.json", "trace.json.gz", "SSTABLE", "metadata.SSTABLE", "trie.SSTABLE"];
    const OF_RUN: [&str; 2] = ["cache_version.txt", ".cached_tools.json"];
    const CACHES: [&str; 4] = [".op_stats_v2.pb", ".hlo_proto.pb", ".dcn_collective_stats.pb", ".smart_suggestion.pb"];
    let of_host = name.strip_prefix(host).and_then(|rest| rest.strip_prefix('.'));
    of_host.is_some_and(|rest| OF_HOST.contains(&rest))
        || is_own && (OF_RUN.contains(&name) || CACHES.iter().any(|ending| name.ends_with(ending)))
}

/// A run name from the session's start and the process: sorts by time, differs between runs.
fn unique_name(start_ns: i64, process: u32) -> String {
    let seconds = start_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}_{second:02}_{process}")
}

/// Gregorian year, month and day of a day counted from 1970-01-01. Years are counted from March, so that the leap day
/// is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let since_0000_03_01 = days + 719_468;
    let era = since_0000_03_01.div_euclid(DAYS_PER_ERA);
    let day_of_era = since_0000_03_01.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_name_is_the_utc_time_and_the_process() {
        assert_eq!(unique_name(1_796_000_000_123_456_789, 42), "2026_11_30_00_53_20_42");
        assert_eq!(unique_name(951_782_400_000_000_000, 7), "2000_02_29_00_00_00_7");
        assert_eq!(unique_name(0, 1), "1970_01_01_00_00_00_1");
    }

    #[test]
    fn only_what_was_derived_is_removed() {
        for name in ["h.trace.json", "h.SSTABLE", "h.trie.SSTABLE", "ALL_HOSTS.op_stats_v2.pb", "m.hlo_proto.pb"] {
            assert!(is_derived(name, "h", true), "{name}");
            assert_eq!(is_derived(name, "h", false), name.starts_with("h."), "{name}");
        }
        for name in ["h.xplane.pb", "other.trace.json", "notes.txt", "h.trace.json.bak"] {
            assert!(!is_derived(name, "h", true), "{name}");
        }
    }

    #[test]
    fn a_snapshot_that_was_not_written_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("a.xplane.pb");
        let files = |options| RunFiles::prepare(&options, 0).expect("the folder can be made");
        let beside = files(ProfilerOptions { file: Some(path), ..ProfilerOptions::default() });
        let own = files(ProfilerOptions::default().repository_path(folder.path()));
        for run in [beside, own] {
            let (first, second) = (run.snapshot().expect("it is free"), run.snapshot().expect("it is free"));
            fs::write(first.protobuf(), "written").expect("it can be written");
            first.give_back();
            second.give_back();
            assert_eq!((first.protobuf().exists(), second.protobuf().exists()), (true, false));
            assert!(first.folder == second.folder || !second.folder.exists());
        }
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in ["", ".", "..", "a/b", "a\\b", "a\0b", &"x".repeat(201)] {
            assert_eq!(check_name("session_id", name).expect_err(name).kind(), ErrorKind::InvalidInput);
        }
        check_name("session_id", "run 7 é").expect("a plain name");
    }
}
