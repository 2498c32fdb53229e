//! The files of a run: where they are, who writes them, what must go before new ones come, and how they appear together.
//!
//! From start to stop a session holds a lock, which goes with its process: that of its host's name in the run's folder, or,
//! where the session has made that folder for itself, the folder's. No two sessions that are at work at the same time write
//! the same files, whichever processes they are in: the later one takes another name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use super::options::{DEFAULT_PLACE, ProfilerOptions, SessionId};
use super::{copies, rank, run_names};
use crate::error::{Error, ErrorKind, Result};
use crate::folder::{self, Draft, Folder, Kind, Links, Lock, Locked};
use crate::os::process_id;
use crate::warn::warn;

/// How the name of an XSpace's file ends.
pub(super) const XSPACE: &str = ".xplane.pb";

/// So many names are tried for the host of a run, or for a snapshot, before it is given up.
const MOST_NAMES: u64 = 100_000;

/// Paths of one run, and the right to write them.
#[derive(Debug)]
pub(crate) struct RunFiles {
    /// The log directory, if the run has a folder of its own below it; `None` if a person has named the XSpace's file, whose
    /// folder may hold anything.
    repository: Option<PathBuf>,
    /// Whether the log directory is the default one, which must be this user's alone.
    is_default: bool,
    folder: PathBuf,
    session: String,
    host: String,
    /// The name of the host, unless another session has it.
    wanted: String,
    /// Whether the environment said where it is.
    is_from_env: bool,
    /// Nobody else writes these files. `None` for a copy without the right to write, where files cannot be locked, and where
    /// the whole folder is locked.
    lock: Option<Lock>,
    /// The lock of the folder: alone, where the session has made it for itself, and else with others.
    whole: Option<Lock>,
    /// Process that was given these names; the child of a fork takes other ones.
    process: u32,
    /// What the profile is to say of where it is.
    notes: Vec<String>,
}

impl RunFiles {
    /// Checks the names, makes the folder and locks the run, so that a path that cannot work fails before anything is
    /// recorded.
    pub(crate) fn prepare(options: &ProfilerOptions, start_ns: i64) -> Result<Self> {
        let rank = rank::of_process();
        if let Some(path) = &options.file {
            return Self::of_file(path, rank, options.is_from_env)?.reserved(false);
        }
        let mut session = match &options.session_id {
            SessionId::Named(name) => name.clone(),
            SessionId::Unique => unique_name(start_ns, process_id()),
        };
        let host = options.override_hostname.clone().or_else(|| rank.map(|rank| format!("rank{rank}")));
        let host = host.unwrap_or_else(|| "profiling".to_owned());
        let is_from_env = options.is_from_env;
        for (what, name) in [(options.named("session_id"), &session), ("override_hostname", &host)] {
            run_names::check(what, name)?;
        }
        if options.repository_path.as_os_str().is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "`repository_path` is empty; give the folder that shall hold `plugins/profile`",
            ));
        }
        let is_default = options.repository_path == Path::new(DEFAULT_PLACE);
        let repository =
            if is_default { default_place(is_from_env)? } else { absolute(options.repository_path.clone()) };
        if options.session_id == SessionId::Unique {
            session = make_unique(&repository, &session, is_from_env)?;
        }
        let is_made = options.session_id == SessionId::Unique;
        let files = Self {
            folder: runs_of(&repository).join(&session),
            repository: Some(repository),
            is_default,
            session,
            wanted: host.clone(),
            host,
            is_from_env,
            lock: None,
            whole: None,
            process: process_id(),
            notes: Vec::new(),
        };
        files.reserved(is_made)
    }

    /// The files of a run that was given its XSpace's path: the JSON lies beside it. A process with a rank has a file of its
    /// own.
    fn of_file(path: &Path, rank: Option<u64>, is_from_env: bool) -> Result<Self> {
        let invalid = |why| Err(Error::new(ErrorKind::InvalidInput, format!("`{}` {why}", path.display())));
        let path = absolute(path.to_owned());
        let host = path.file_name().and_then(|name| name.to_str()?.strip_suffix(XSPACE));
        let (Some(host), Some(folder)) = (host, path.parent()) else {
            return invalid("is no name that a profile can have; give one that is UTF-8 and ends in `.xplane.pb`");
        };
        run_names::check_in_path("file name", host)?;
        if path.is_dir() {
            return invalid("is a folder; give the path of a file, or a folder of another name");
        }
        let host = rank.map_or_else(|| host.to_owned(), |rank| format!("{host}_rank{rank}"));
        Ok(Self {
            repository: None,
            is_default: false,
            folder: folder.to_owned(),
            session: host.clone(),
            wanted: host.clone(),
            host,
            is_from_env,
            lock: None,
            whole: None,
            process: process_id(),
            notes: Vec::new(),
        })
    }

    /// Makes the folder, sees whether files can be made in it, and locks the run. With `is_made` the folder was made for this
    /// session alone.
    fn reserved(mut self, is_made: bool) -> Result<Self> {
        let folder = self.open()?;
        // What cannot be removed is in nobody's way.
        let _ = folder::remove_abandoned(&folder);
        if let Err(error) = Draft::create(&folder) {
            let what = format!("cannot write to the profile folder `{}`", self.folder.display());
            return Err(no_place(what, self.is_from_env, error));
        }
        if is_made {
            // Where folders cannot be locked, the name is nobody else's all the same.
            self.whole = folder.lock_whole(true).ok().flatten();
        } else {
            self.lock_in(&folder, false)?;
        }
        self.refuse_protected(&folder)?;
        Ok(self)
    }

    /// Opens the folder of the run, and makes it where it is missing: at the start, and again where somebody has removed it
    /// during the session. Below the log directory no link is followed that another user could have made.
    fn open(&self) -> Result<Folder> {
        let opened = match &self.repository {
            None => Folder::open_or_make(&self.folder),
            Some(repository) => {
                let claimed = if self.is_default { folder::claim(repository) } else { Ok(()) };
                let runs = claimed.and_then(|()| open_runs(repository));
                runs.and_then(|runs| runs.enter(&self.session, Links::None))
            }
        };
        opened.map_err(|error| cannot_make(&self.folder, self.is_from_env, error))
    }

    /// Locks the host's name, or another one where that is taken. With `is_fork` the session is another process's, which has
    /// the name.
    fn lock_in(&mut self, folder: &Folder, is_fork: bool) -> Result<()> {
        let own = process_id();
        let failed = |files: &Self, error| {
            let what = format!("cannot lock the profile `{}`", files.protobuf().display());
            no_place(what, files.is_from_env, error)
        };
        (self.lock, self.whole) = (None, None);
        let wanted = self.wanted.clone();
        let taken = self.folder.join(format!("{wanted}{XSPACE}"));
        let mut owner = is_fork.then_some(Some(self.process));
        match folder.lock_whole(false) {
            Ok(Some(shared)) => self.whole = Some(shared),
            // A session has made the folder for itself.
            Ok(None) => owner = owner.or(Some(None)),
            // Folders cannot be locked here, and so nobody has such a lock.
            Err(_) => {}
        }
        let mut obstacle = None;
        for attempt in u64::from(owner.is_some())..MOST_NAMES {
            self.host = match attempt {
                0 => wanted.clone(),
                1 => format!("{wanted}_{own}"),
                further => format!("{wanted}_{own}_{further}"),
            };
            // What nobody could put in place in the end is better known now.
            if let Some(reason) = self.obstacle(folder)? {
                obstacle.get_or_insert(reason);
                continue;
            }
            match folder.lock(&self.host).map_err(|error| failed(self, error))? {
                Locked::Taken(of) => {
                    owner.get_or_insert(of.process);
                    continue;
                }
                Locked::Held(lock) => self.lock = Some(lock),
                Locked::Unsupported(error) => self.notes.push(format!(
                    "files in `{}` cannot be locked: {error}; another process that writes the same run at the same time is \
                     not noticed",
                    self.folder.display()
                )),
            }
            let path = self.protobuf();
            let who = match owner {
                None => {
                    self.notes.extend(
                        obstacle.map(|reason| format!("{reason}; this profile is beside it, in `{}`", path.display())),
                    );
                    return Ok(());
                }
                Some(_) if is_fork => "the process that this one was forked from".to_owned(),
                Some(Some(process)) if process == own => copies::others().first().map_or_else(
                    || "another session of this process".to_owned(),
                    |object| format!("another copy of zprof in this process, in `{object}`,"),
                ),
                Some(Some(process)) => format!("process {process}"),
                Some(None) => "another process".to_owned(),
            };
            let taken = taken.display();
            self.notes.push(format!("{who} writes `{taken}`; this profile is beside it, in `{}`", path.display()));
            return Ok(());
        }
        Err(failed(self, io::ErrorKind::AlreadyExists.into()))
    }

    /// Opens the folder with the right to write the run's files in it. That is the one from the start, but where somebody has
    /// removed the folder since, and in the child of a fork: those get the right anew, and maybe another name.
    pub(crate) fn hold(&mut self) -> Result<Folder> {
        let folder = self.open()?;
        let is_fork = self.process != process_id();
        let is_held = self.lock.as_ref().or(self.whole.as_ref()).is_none_or(|lock| lock.is_held_in(&folder));
        if is_fork || !is_held {
            self.lock_in(&folder, is_fork)?;
            self.process = process_id();
        }
        Ok(folder)
    }

    /// Which of the files could not be put in place, and why.
    fn obstacle(&self, folder: &Folder) -> Result<Option<String>> {
        for path in [self.protobuf(), self.json(), self.broken()] {
            let found = folder::obstacle(folder, name_of(&path))
                .map_err(|error| Error::io(format!("cannot write `{}`", path.display()), error))?;
            if let Some(reason) = found {
                return Ok(Some(format!("`{}` {reason}", path.display())));
            }
        }
        Ok(None)
    }

    /// Refuses to replace files that are write-protected.
    pub(crate) fn refuse_protected(&self, folder: &Folder) -> Result<()> {
        for path in [self.protobuf(), self.json(), self.broken()] {
            folder::protected(folder, name_of(&path))
                .map_err(|error| Error::io(format!("cannot write over `{}`", path.display()), error))?;
        }
        Ok(())
    }

    /// What the profile is to say of where it is; each thing is given once.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The same names without the right to write there, to take snapshots by.
    pub(crate) fn names(&self) -> Self {
        Self {
            repository: self.repository.clone(),
            is_default: self.is_default,
            folder: self.folder.clone(),
            session: self.session.clone(),
            host: self.host.clone(),
            wanted: self.host.clone(),
            is_from_env: self.is_from_env,
            lock: None,
            whole: None,
            process: self.process,
            notes: Vec::new(),
        }
    }

    /// Files of another run, which has the name of this one and a number that is free.
    pub(crate) fn snapshot(&self) -> Result<Self> {
        let Some(repository) = &self.repository else { return self.beside() };
        let is_from_env = self.is_from_env;
        let claimed = if self.is_default { folder::claim(repository) } else { Ok(()) };
        let runs = claimed.and_then(|()| open_runs(repository));
        let runs = runs.map_err(|error| cannot_make(&runs_of(repository), is_from_env, error))?;
        for number in 1..MOST_NAMES {
            let session = format!("{}-snapshot-{number}", self.session);
            match runs.make(&session) {
                Ok(_) => {
                    let folder = runs.path().join(&session);
                    return Self { folder, session, process: process_id(), ..self.names() }.reserved(true);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_make(&runs.path().join(session), is_from_env, error)),
            }
        }
        Err(cannot_make(runs.path(), is_from_env, io::ErrorKind::AlreadyExists.into()))
    }

    /// Like [`snapshot`](Self::snapshot), where the run has a file and no folder: another file beside it. Its lock keeps the
    /// number free of others until the file is there.
    fn beside(&self) -> Result<Self> {
        let folder = self.open()?;
        for number in 1..MOST_NAMES {
            let host = format!("{}-snapshot-{number}", self.host);
            let mut files = Self { session: host.clone(), wanted: host.clone(), host, ..self.names() };
            files.process = process_id();
            let failed = |error| Error::io(format!("cannot write `{}`", files.protobuf().display()), error);
            let lock = match folder.lock(&files.host).map_err(failed)? {
                Locked::Taken(_) => continue,
                Locked::Held(lock) => Some(lock),
                Locked::Unsupported(_) => None,
            };
            let failed = |error| Error::io(format!("cannot write `{}`", files.protobuf().display()), error);
            let is_free = folder.status(name_of(&files.protobuf())).map_err(failed)?.is_none();
            if is_free && files.obstacle(&folder)?.is_none() {
                files.lock = lock;
                return Ok(files);
            }
        }
        Err(cannot_make(&self.folder, self.is_from_env, io::ErrorKind::AlreadyExists.into()))
    }

    /// Removes the folder that [`snapshot`](Self::snapshot) has made, where nothing was written.
    pub(crate) fn give_back(mut self) {
        // A lock's file may be in the folder.
        (self.lock, self.whole) = (None, None);
        if let Some(runs) = self.repository.as_ref().and_then(|repository| open_runs(repository).ok()) {
            // Only an empty folder goes. What fails here is told already, by what could not be written.
            let _ = runs.remove_folder(&self.session);
        }
    }

    /// Where the XSpace goes.
    pub(crate) fn protobuf(&self) -> PathBuf {
        self.folder.join(format!("{}{XSPACE}", self.host))
    }

    /// Where the trace-viewer JSON goes.
    pub(crate) fn json(&self) -> PathBuf {
        self.folder.join(format!("{}.trace.json", self.host))
    }

    /// Where that goes which a plugin has returned and nobody can read.
    pub(crate) fn broken(&self) -> PathBuf {
        self.folder.join(format!("{}.device.pb.broken", self.host))
    }

    /// Name of the run.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// The name that the run has for its host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Gives the new files their names, all of which are on the disk already.
    ///
    /// An older pair stays as it is until here. In the folder there is then, in this order: the old XSpace without what was
    /// derived from it, the new XSpace alone, and the new pair. So an XSpace and a JSON that are there at the same time are
    /// always of one session, also where the process is killed between two steps. The folder is written to the disk after
    /// each step, so that this holds, too, where the system ends.
    ///
    /// Without `json`, and where that cannot be given its name, the new XSpace is alone in the end: what has its name is no
    /// reason to lose the profile.
    pub(crate) fn publish(&self, folder: &Folder, new: New) -> Result<Published> {
        let is_replaced = folder.status(name_of(&self.protobuf())).is_ok_and(|old| old.is_some());
        let mut notes = Vec::new();
        if self.remove_derived(folder, &mut notes)? {
            self.sync(folder)?;
        }
        let file = self.place(new.xspace, &self.protobuf())?;
        if is_replaced {
            self.sync(folder)?;
        }
        let json = new.json.map_or(Ok(()), |json| self.place(json, &self.json()).map(drop));
        if let Some(Err(error)) = new.broken.map(|broken| self.place(broken, &self.broken())) {
            notes.push(format!("what the plugin returned cannot be kept: {}", error.told()));
        }
        self.sync(folder)?;
        Ok(Published { xspace: file, json, notes })
    }

    /// Gives a draft its name.
    pub(crate) fn place(&self, draft: Draft, path: &Path) -> Result<File> {
        let from = self.folder.join(draft.name());
        let what = || format!("failed to rename `{}` to `{}`", from.display(), path.display());
        draft.keep(name_of(path)).map_err(|error| Error::io(what(), error))
    }

    fn sync(&self, folder: &Folder) -> Result<()> {
        let what = || format!("failed to write the folder `{}` to the disk", self.folder.display());
        folder.sync().map_err(|error| Error::io(what(), error))
    }

    /// Removes what was derived from an older profile of this run: XProf's caches, then its JSON. `true` if there was any. Only
    /// a JSON that cannot be removed is an error, since it would pass for that of the new XSpace; of others it is told.
    fn remove_derived(&self, folder: &Folder, notes: &mut Vec<String>) -> Result<bool> {
        let failed = |name: &str, error| {
            let path = self.folder.join(name);
            Error::io(format!("failed to remove the old `{}`", path.display()), error)
        };
        let is_derived = |name: &str| is_derived(name, &self.host, self.repository.is_some());
        let mut names = folder.names(is_derived).map_err(|error| failed("", error))?;
        let json = self.json();
        names.sort_by_key(|name| name == name_of(&json));
        let mut is_removed = false;
        for name in names {
            match folder.remove(&name) {
                Ok(was_there) => is_removed |= was_there,
                Err(error) => {
                    let is_folder =
                        folder.status(&name).is_ok_and(|found| found.is_some_and(|found| found.kind == Kind::Folder));
                    if name == name_of(&json) && !is_folder {
                        return Err(failed(&name, error));
                    }
                    let path = self.folder.join(&name);
                    notes.push(format!("the old `{}` cannot be removed: {error}", path.display()));
                }
            }
        }
        Ok(is_removed)
    }
}

/// New files of a run, which are whole and have no names yet.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) xspace: Draft,
    pub(crate) json: Option<Draft>,
    /// What a plugin returned and nobody can read.
    pub(crate) broken: Option<Draft>,
}

/// What has become of the new files of a run.
#[derive(Debug)]
pub(crate) struct Published {
    /// The XSpace, open.
    pub(crate) xspace: File,
    /// Whether the JSON, if there was one, has its name.
    pub(crate) json: Result<()>,
    /// What the profile is to say of the others.
    pub(crate) notes: Vec<String>,
}

/// The last part of a path that was put together here.
fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn runs_of(repository: &Path) -> PathBuf {
    repository.join("plugins").join("profile")
}

fn open_runs(repository: &Path) -> io::Result<Folder> {
    Folder::open_or_make(repository)?.enter("plugins", Links::Own)?.enter("profile", Links::Own)
}

/// The log directory where the program has named none; says so if it is not the usual one.
fn default_place(is_from_env: bool) -> Result<PathBuf> {
    static TOLD: Once = Once::new();
    match folder::default_place(Path::new(DEFAULT_PLACE)) {
        Ok((place, None)) => Ok(place),
        Ok((place, Some(reason))) => {
            TOLD.call_once(|| warn(format_args!("{reason}; profiles are written to `{}`", place.display())));
            Ok(place)
        }
        Err((place, error)) if error.raw_os_error().is_none() => {
            let cure = if is_from_env { "let `ZPROF` name a folder of yours" } else { "set `repository_path`" };
            let message = format!(
                "no folder for profiles: `{}` {error}, and `{DEFAULT_PLACE}` is not this user's alone either; {cure}",
                place.display()
            );
            Err(Error::new(ErrorKind::Io, message))
        }
        Err((place, error)) => Err(cannot_make(&place, is_from_env, error)),
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
fn make_unique(repository: &Path, name: &str, is_from_env: bool) -> Result<String> {
    let runs = runs_of(repository);
    let open = open_runs(repository).map_err(|error| cannot_make(&runs, is_from_env, error))?;
    let mut unique = name.to_owned();
    for next in 2.. {
        match open.make(&unique) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => unique = format!("{name}_{next}"),
            Err(error) => return Err(cannot_make(&runs.join(unique), is_from_env, error)),
        }
    }
    Ok(unique)
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
    use std::fs;

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
            let [(first_folder, first_file), (second_folder, second_file)] =
                [&first, &second].map(|files| (files.folder.clone(), files.protobuf()));
            first.give_back();
            second.give_back();
            assert_eq!((first_file.exists(), second_file.exists()), (true, false));
            assert!(first_folder == second_folder || !second_folder.exists());
        }
    }
}
