//! Profiles named on the command line: a file, a run's folder, a log directory, or `-` for standard input.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use zprof_runtime::folder::SizeSignalHeld;
use zprof_runtime::xspace::Source;

use crate::files::{self, LazyFile};
use crate::output::tell;
use crate::units;

/// End of the name of an XSpace file; what stands before it is the host.
pub(crate) const SUFFIX: &str = ".xplane.pb";
/// What the trace of several hosts is called.
const ALL_HOSTS: &str = "all_hosts";
/// Where the runs of a log directory are.
pub(crate) const RUNS: &str = "plugins/profile";

/// Bytes of a file or stream that tell what it is not.
const HEAD: usize = 8;
/// Bytes that are copied at a time.
const CHUNK: usize = 64 << 10;
/// Bytes of a stream that are copied at most: twice what readers built on protobuf take.
const MOST_SPOOLED: u64 = 4 << 30;
/// Bytes after which the user is told of the copy.
const TOLD_SPOOLED: u64 = 64 << 20;

/// What was named: a run, with a space for each of its hosts.
#[derive(Debug)]
pub(crate) struct Profile {
    /// What it is called in messages: a quoted path, or `standard input`.
    pub(crate) name: String,
    /// At least one, in the order of their hosts' names.
    pub(crate) spaces: Vec<Space>,
}

impl Profile {
    /// What a file made of it is called before its ending: by the host, or by all; `None` where no file has a name.
    pub(crate) fn stem(&self) -> Option<&str> {
        match self.spaces.as_slice() {
            [Space { host, .. }] => Some(host.strip_suffix(".pb").unwrap_or(host)).filter(|host| !host.is_empty()),
            _ => Some(ALL_HOSTS),
        }
    }

    /// Bytes of all spaces. A sparse file may say of itself that it has any number.
    pub(crate) fn size(&self) -> Result<u64> {
        self.spaces.iter().try_fold(0_u64, |sum, space| {
            let size = space.bytes().size().with_context(|| format!("failed to read {}", space.name))?;
            Ok(sum.saturating_add(size))
        })
    }
}

/// One XSpace of a run.
#[derive(Debug)]
pub(crate) struct Space {
    bytes: Bytes,
    /// Where they come from, for messages: a quoted path, or `standard input`.
    pub(crate) name: String,
    /// The same for programs, without quotes.
    pub(crate) label: String,
    /// The host, which is the file's name without its ending; empty for what is no file.
    pub(crate) host: String,
    /// The file; `None` for standard input and other pipes.
    pub(crate) path: Option<PathBuf>,
}

/// Where the bytes of a space are.
#[derive(Debug)]
enum Bytes {
    /// In a file that may be closed between two reads: a run may have more hosts than a process may have open files.
    Named(LazyFile),
    /// In a temporary file without a name, which came from a stream.
    Spooled(File),
}

impl Space {
    /// The bytes of the XSpace.
    pub(crate) fn bytes(&self) -> &dyn Source {
        match &self.bytes {
            Bytes::Named(file) => file,
            Bytes::Spooled(file) => file,
        }
    }

    /// The path that others may be named after; `None` for what lies in no folder of the user's, such as `/dev/stdin`.
    pub(crate) fn beside(&self) -> Option<&Path> {
        let is_of_system = |path: &&PathBuf| {
            path.as_path() == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc")
        };
        self.path.as_ref().filter(|path| !is_of_system(path)).map(PathBuf::as_path)
    }

    /// Copies all bytes.
    #[cfg(unix)] // for XProf alone
    pub(crate) fn copy(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        loop {
            match self.bytes().read_at(&mut chunk, at)? {
                0 => return Ok(()),
                count => {
                    to.write_all(&chunk[..count])?;
                    at += count as u64; // at most a chunk
                }
            }
        }
    }
}

/// The profile that `input` stands for.
///
/// What cannot be an XSpace, because it is empty or plainly of another format, is refused here.
pub(crate) fn open(input: &Path) -> Result<Profile> {
    if input == Path::new("-") {
        let name = "standard input".to_owned();
        let space = spool(&mut io::stdin().lock(), name.clone(), name.clone())?;
        return Ok(Profile { name, spaces: vec![space] });
    }
    let metadata = fs::metadata(input).with_context(|| format!("failed to open `{}`", input.display()))?;
    if !metadata.is_dir() {
        let space = space(input)?;
        return Ok(Profile { name: space.name.clone(), spaces: vec![space] });
    }
    let mut paths = hosts_in(input)?;
    if paths.is_empty() {
        let Some(run) = newest_run(input)? else {
            bail!(
                "no profile in `{}`: a run's folder holds `<host>{SUFFIX}`, and a log directory `{RUNS}/<run>`",
                input.display()
            );
        };
        paths = hosts_in(&run)?;
    }
    let spaces = paths.iter().map(|path| space(path)).collect::<Result<Vec<_>>>()?;
    let name = match spaces.as_slice() {
        [space] => space.name.clone(),
        _ => format!("`{}`", input.display()),
    };
    Ok(Profile { name, spaces })
}

/// The XSpace files of a run's hosts. Snapshots that lie beside the file of their process, since that is where the process was
/// told to write, are none: they hold the same scopes again. Of a process that has left only snapshots, the last one is taken.
fn hosts_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut wholes = Vec::new();
    let mut snapshots: BTreeMap<String, Vec<(u64, PathBuf)>> = BTreeMap::new();
    let (files, others) = spaces_in(folder)?;
    for other in others {
        let why = match fs::metadata(&other) {
            Ok(_) => "it is no file; name it to read it".to_owned(),
            Err(error) => error.to_string(),
        };
        tell(format_args!("`{}` is left out: {why}", other.display()));
    }
    for path in files {
        match snapshot_of(&path) {
            Some((host, number)) => snapshots.entry(host).or_default().push((number, path)),
            None => wholes.push(path),
        }
    }
    for (host, mut snapshots) in snapshots {
        snapshots.sort();
        let whole = folder.join(format!("{host}{SUFFIX}"));
        let taken = if wholes.contains(&whole) { whole } else { snapshots.pop().map_or(whole, |(_, last)| last) };
        let left_out: Vec<_> = snapshots.iter().map(|(_, path)| format!("`{}`", path.display())).collect();
        if let [first, rest @ ..] = left_out.as_slice() {
            let (and, is) = match rest {
                [] => (String::new(), "is"),
                [last] => (format!(" and {last}"), "are"),
                rest => (format!(" and {} more snapshots", rest.len()), "are"),
            };
            let taken = taken.display();
            tell(format_args!(
                "{first}{and} {is} left out: a snapshot of the same process as `{taken}`; name a file to read it"
            ));
        }
        if !wholes.contains(&taken) {
            wholes.push(taken);
        }
    }
    wholes.sort();
    Ok(wholes)
}

/// Host and number, if the file is called as a snapshot beside a host's file is.
fn snapshot_of(path: &Path) -> Option<(String, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    let (host, number) = name.rsplit_once("-snapshot-")?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    Some((host.to_owned(), number.parse().ok()?)).filter(|(host, _)| is_number && !host.is_empty())
}

/// The XSpace files in a folder, and what else has such a name, such as a link that leads nowhere; folders are neither. Both
/// are sorted, and empty if there is no such folder.
fn spaces_in(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut paths = list(folder)?;
    paths.retain(|path| path.to_string_lossy().ends_with(SUFFIX) && !path.is_dir());
    Ok(paths.into_iter().partition(|path| path.is_file()))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("failed to list `{}`", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(vec![]);
        }
        entries => entries.with_context(what)?,
    };
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>().with_context(what)?;
    paths.sort();
    Ok(paths)
}

/// The run of a log directory whose profile was written last; says which it is if there are several.
fn newest_run(folder: &Path) -> Result<Option<PathBuf>> {
    let mut runs: Vec<(SystemTime, PathBuf)> = Vec::new();
    for run in list(&folder.join(RUNS))? {
        let (files, _) = spaces_in(&run)?;
        let written = files.iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max();
        runs.extend(written.map(|time| (time, run)));
    }
    runs.sort();
    let count = runs.len();
    let newest = runs.pop().map(|(_, run)| run);
    if let (Some(run), 2..) = (&newest, count) {
        let (folder, run) = (folder.display(), run.display());
        tell(format_args!("`{folder}` has {count} runs; taking the newest, `{run}`"));
    }
    Ok(newest)
}

fn space(path: &Path) -> Result<Space> {
    let label = path.display().to_string();
    let name = format!("`{label}`");
    let mut file = files::open_file(path).with_context(|| format!("failed to open {name}"))?;
    if !file.metadata().with_context(|| format!("failed to open {name}"))?.is_file() {
        // A pipe: what cannot be read twice.
        return spool(&mut file, name, label);
    }
    let mut head = [0; HEAD];
    let count = Source::read_at(&file, &mut head, 0).with_context(|| format!("failed to read {name}"))?;
    refuse_others(&head[..count], &name)?;
    let host = path.file_name().unwrap_or_default().to_string_lossy();
    let host = host.strip_suffix(SUFFIX).unwrap_or(&host).to_owned();
    let file = LazyFile::new(path, file).with_context(|| format!("failed to read {name}"))?;
    Ok(Space { bytes: Bytes::Named(file), name, label, host, path: Some(path.to_owned()) })
}

/// A stream, copied to where it can be read at any position.
fn spool(from: &mut dyn Read, name: String, label: String) -> Result<Space> {
    spool_at_most(MOST_SPOOLED, from, name, label)
}

/// Copies a stream of at most `most` bytes. One that is no XSpace is refused as soon as its bytes tell, since it may never end.
fn spool_at_most(most: u64, from: &mut dyn Read, name: String, label: String) -> Result<Space> {
    let read = |from: &mut dyn Read, buffer: &mut [u8]| loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.with_context(|| format!("failed to read {name}")),
        }
    };
    let mut chunk = vec![0; CHUNK];
    let mut count = 0;
    let mut fields = Fields::default();
    while count < HEAD {
        let more = read(from, &mut chunk[count..HEAD])?;
        count += more;
        if count > 0 || more == 0 {
            refuse_others(&chunk[..count], &name)?;
        }
        if more == 0 {
            break;
        }
        // Each of the four fields of an XSpace has bytes.
        if !matches!(chunk[0], 0x0a | 0x12 | 0x1a | 0x22) {
            bail!("{name} is not an XSpace: its first byte, {:#04x}, begins no field of one", chunk[0]);
        }
    }
    let _held = SizeSignalHeld::new();
    let mut file = tempfile::tempfile().with_context(|| format!("failed to create a temporary file for {name}"))?;
    let mut copied = 0_u64;
    while count > 0 {
        let told = copied > TOLD_SPOOLED;
        let place = copied;
        copied += count as u64; // at most a chunk
        if let Err(wrong) = fields.take(&chunk[..count], place, most) {
            bail!("{name} is not an XSpace: {wrong}");
        }
        if copied > most {
            bail!(
                "{name} is longer than {} bytes, and no more is copied of a stream; write it to a file and name that",
                units::count(most)
            );
        }
        file.write_all(&chunk[..count]).with_context(|| format!("failed to copy {name} to a temporary file"))?;
        if !told && copied > TOLD_SPOOLED {
            tell(format_args!(
                "copying {name} to a temporary file, as it is read more than once; at most {} bytes",
                units::count(most)
            ));
        }
        count = read(from, &mut chunk)?;
    }
    Ok(Space { bytes: Bytes::Spooled(file), name, label, host: String::new(), path: None })
}

/// The fields of a message that comes piece by piece: whether they can be fields at all.
#[derive(Debug)]
enum Fields {
    /// Within a number: the key of a field, its length, or its value.
    Number { what: Number, value: u64, bytes: u32 },
    /// Within the content of a field, of which so many bytes are to come.
    Content(u64),
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Key,
    Length,
    Value,
}

impl Default for Fields {
    fn default() -> Self {
        Self::KEY
    }
}

impl Fields {
    const KEY: Self = Self::number(Number::Key);

    const fn number(what: Number) -> Self {
        Self::Number { what, value: 0, bytes: 0 }
    }

    /// Takes the next bytes, which begin at `place`; fails where they cannot be fields that end within `most` bytes.
    fn take(&mut self, bytes: &[u8], place: u64, most: u64) -> Result<(), String> {
        let mut rest = bytes;
        while let Some((byte, behind)) = rest.split_first() {
            let at = || place + (bytes.len() - rest.len()) as u64; // at most a chunk
            match self {
                Self::Content(left) => {
                    let taken = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= taken as u64; // no more than it
                    if *left == 0 {
                        *self = Self::KEY;
                    }
                    rest = &rest[taken..];
                    continue;
                }
                Self::Number { what, value, bytes } => {
                    if *bytes == 10 {
                        return Err(format!("a number does not end by byte {}", at()));
                    }
                    // The tenth byte holds one bit of 64.
                    *value |= u64::from(byte & 0x7f).checked_shl(7 * *bytes).unwrap_or(0);
                    *bytes += 1;
                    if *byte < 0x80 {
                        let (what, value) = (*what, *value);
                        *self = match (what, value & 7) {
                            (Number::Value, _) => Self::KEY,
                            (Number::Length, _) if value > most => {
                                return Err(format!("a field of {value} bytes ends at byte {}", at()));
                            }
                            (Number::Length, _) => Self::content(value),
                            (Number::Key, _) if value >> 3 == 0 => {
                                return Err(format!("a field has the number 0 at byte {}", at()));
                            }
                            (Number::Key, 0) => Self::number(Number::Value),
                            (Number::Key, 1) => Self::content(8),
                            (Number::Key, 2) => Self::number(Number::Length),
                            // A group holds fields.
                            (Number::Key, 3 | 4) => Self::KEY,
                            (Number::Key, 5) => Self::content(4),
                            (Number::Key, kind) => {
                                return Err(format!("a field has the unknown wire type {kind} at byte {}", at()));
                            }
                        };
                    }
                }
            }
            rest = behind;
        }
        Ok(())
    }

    fn content(bytes: u64) -> Self {
        if bytes == 0 { Self::KEY } else { Self::Content(bytes) }
    }
}

/// Refuses what cannot be an XSpace by its first bytes, in words that say what it is.
fn refuse_others(head: &[u8], name: &str) -> Result<()> {
    let what = match head {
        [] => bail!("{name} is empty; an XSpace holds at least one plane"),
        // Each of these would be a field that no XSpace has.
        [b'{' | b'[', ..] => "JSON; a trace cannot be turned back into a profile, so name its",
        // A packet of a trace, which begins with a field that no plane has.
        [0x0a, rest @ ..] if begins_a_packet(rest) => {
            "a Perfetto trace; it cannot be turned back into a profile, so name its"
        }
        [0x1f, 0x8b, ..] => "compressed with gzip; unpack it first, or name the",
        _ => return Ok(()),
    };
    bail!("{name} is not an XSpace: it is {what} `{SUFFIX}`")
}

/// Whether a length and a field of Perfetto's `TracePacket` stand there that an `XPlane`, whose fields end at 6, does not have.
fn begins_a_packet(bytes: &[u8]) -> bool {
    let length = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let mut field = 0_u32;
    for (place, byte) in bytes.iter().skip(length).take(2).enumerate() {
        field |= u32::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            break;
        }
    }
    field >> 3 > 6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SPACE: &[u8] = &[0x22, 1, b'h'];

    fn hosts(input: &Path) -> Vec<String> {
        open(input).expect("has profiles").spaces.into_iter().map(|space| space.host).collect()
    }

    fn refusal(input: &Path) -> String {
        format!("{:#}", open(input).expect_err("is refused"))
    }

    #[test]
    fn a_file_a_run_and_a_log_directory_name_profiles() {
        let folder = tempfile::tempdir().expect("a folder");
        for (run, age) in [("b", 5), ("a", 0), ("c", 9)] {
            let run = folder.path().join(RUNS).join(run);
            fs::create_dir_all(run.join("folder.xplane.pb")).expect("is created");
            for host in ["y", "x"] {
                let path = run.join(format!("{host}-{age}{SUFFIX}"));
                fs::write(&path, SPACE).expect("is written");
                let file = File::options().write(true).open(&path).expect("is there");
                file.set_modified(SystemTime::now() - Duration::from_secs(age * 60)).expect("is changed");
            }
            fs::write(run.join("x.trace.json"), "{}").expect("is written");
        }
        fs::create_dir(folder.path().join(RUNS).join("d")).expect("is created");
        let run = folder.path().join(RUNS).join("b");
        assert_eq!(hosts(&run.join("y-5.xplane.pb")), ["y-5"]);
        assert_eq!(hosts(&run), ["x-5", "y-5"]);
        // The newest, which is neither the first nor the last by name.
        assert_eq!(hosts(folder.path()), ["x-0", "y-0"]);
    }

    /// A stream that gives a few bytes at a time.
    struct Slow<'b>(&'b [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(buffer.len());
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn a_stream_is_copied_whole_or_refused_at_the_byte_that_is_wrong() {
        let spooled = |bytes: &[u8], step, most| {
            let space = spool_at_most(most, &mut Slow(bytes, step), "x".to_owned(), "x".to_owned());
            space.map(|space| {
                let mut all = vec![0; bytes.len() + 1];
                let count = space.bytes().read_at(&mut all, 0).expect("can be read");
                all[..count].to_vec()
            })
        };
        // Each kind of field, also unknown ones and a group, and a field that is cut.
        let fields = b"\x0a\x02\x08\x01\x22\x00\x28\x80\x01\x31\x01\x02\x03\x04\x05\x06\x07\x08\x3d\x01\x02\x03\x04\x43\x28\x01\x44\x0a\x09ab";
        for step in [1, 3, 100] {
            assert_eq!(spooled(fields, step, 100).expect("is copied"), fields);
            for (bytes, reason) in [
                (&b""[..], "x is empty; an XSpace holds at least one plane"),
                (b"hello", "x is not an XSpace: its first byte, 0x68, begins no field of one"),
                (b"\x0a\x00\x00", "x is not an XSpace: a field has the number 0 at byte 2"),
                (b"\x22\x01a\x0f", "x is not an XSpace: a field has the unknown wire type 7 at byte 3"),
                (b"\x0a\x65", "x is not an XSpace: a field of 101 bytes ends at byte 1"),
                (
                    b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                    "x is not an XSpace: a number does not end by byte 11",
                ),
            ] {
                assert_eq!(spooled(bytes, step, 100).expect_err("is refused").to_string(), reason, "{step}");
            }
            let many = b"\x22\x01h".repeat(40);
            assert_eq!(
                spooled(&many, step, 100).expect_err("is refused").to_string(),
                "x is longer than 100 bytes, and no more is copied of a stream; write it to a file and name that"
            );
        }
    }

    #[test]
    fn snapshots_are_no_hosts() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str| fs::write(folder.path().join(format!("{name}{SUFFIX}")), SPACE).expect("is written");
        ["a-snapshot-2", "a-snapshot-10"].into_iter().for_each(write);
        assert_eq!(hosts(folder.path()), ["a-snapshot-10"]);
        ["a", "a-snapshot-x", "b", "c-snapshot-01", "d-snapshot-1", "-snapshot-1"].into_iter().for_each(write);
        let expected = ["-snapshot-1", "a-snapshot-x", "a", "b", "c-snapshot-01", "d-snapshot-1"];
        assert_eq!(hosts(folder.path()), expected);
        // One that is named is taken.
        assert_eq!(hosts(&folder.path().join("a-snapshot-2.xplane.pb")), ["a-snapshot-2"]);
    }

    #[test]
    fn files_are_called_by_their_host_or_by_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let stem = |input: &Path| open(input).expect("is a profile").stem().map(str::to_owned);
        for (name, expected) in [("vm.xplane.pb", "vm"), ("old.pb", "old"), ("space", "space")] {
            fs::write(folder.path().join(name), SPACE).expect("is written");
            assert_eq!(stem(&folder.path().join(name)).as_deref(), Some(expected));
        }
        assert_eq!(stem(folder.path()).as_deref(), Some("vm"));
        fs::write(folder.path().join("b.xplane.pb"), SPACE).expect("is written");
        assert_eq!(stem(folder.path()).as_deref(), Some("all_hosts"));
    }

    #[test]
    fn what_is_no_profile_is_named_with_its_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let shown = folder.path().display();
        let message = refusal(folder.path());
        assert!(message.starts_with(&format!("no profile in `{shown}`: ")), "{message}");
        for (name, content, reason) in [
            ("empty", &b""[..], "is empty; an XSpace holds at least one plane"),
            ("json", b"{\"a\":1}", "is not an XSpace: it is JSON; "),
            ("pftrace", b"\x0a\x8d\x01\xe2\x03\x04abcd", "is not an XSpace: it is a Perfetto trace; "),
            ("gzip", &[0x1f, 0x8b, 8], "is not an XSpace: it is compressed with gzip; "),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, content).expect("is written");
            let message = refusal(&path);
            assert!(message.starts_with(&format!("`{}` {reason}", path.display())), "{message}");
        }
        let missing = folder.path().join("missing");
        assert!(refusal(&missing).starts_with(&format!("failed to open `{}`: ", missing.display())));
    }
}
