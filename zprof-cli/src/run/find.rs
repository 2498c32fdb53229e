//! Where tools are, what they say of themselves, and what to do where one is missing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::variables::variable;

/// A tool that is not here.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) tool: &'static str,
    /// Where it was looked for.
    pub(crate) places: String,
    /// Where it comes from.
    pub(crate) cure: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not found in {}: {}", self.tool, self.places, self.cure)
    }
}

impl std::error::Error for Missing {}

/// A tool of `PATH`, by the path that is tried first.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// The word that runs a tool: its name if it is on `PATH`, else the path of the first of `elsewhere` that is there.
/// A last part of a place that is `*` stands for its newest folder.
pub(crate) fn find(name: &str, elsewhere: &[&str]) -> Option<PathBuf> {
    if on_path(name).is_some() {
        return Some(PathBuf::from(name));
    }
    elsewhere.iter().flat_map(|place| folders(place)).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// The folders that a place with one `*` stands for, the highest name first.
fn folders(place: &str) -> Vec<PathBuf> {
    let Some((parent, rest)) = place.split_once("/*") else { return vec![PathBuf::from(place)] };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path().join(rest.trim_start_matches('/'))).filter(|path| path.is_dir()).collect();
    found.sort();
    found.reverse();
    found
}

#[cfg(unix)]
pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Bytes that a program may print on each of its streams: more than any report of a tool has.
const MOST_PRINTED: u64 = 64 << 20;

/// Runs a program with nothing on its standard input and returns what it printed. It is killed after `limit`, and once it has
/// printed more than [`MOST_PRINTED`].
pub(crate) fn output_of<W: AsRef<OsStr>>(tool: &OsStr, arguments: &[W], limit: Duration) -> io::Result<Printed> {
    let mut command = Command::new(tool);
    command.args(arguments.iter().map(|word| OsString::from(word.as_ref())));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, receiver) = mpsc::channel();
    let out = drained(child.stdout.take(), sender.clone());
    let err = drained(child.stderr.take(), sender);
    // Both streams end when the program does; what it leaves running in the background may hold them longer.
    for _stream in 0..2 {
        let error = match receiver.recv_timeout(limit) {
            Ok(Drained::Whole) => continue,
            Ok(Drained::TooLong) => io::Error::other(format!("it printed more than {} MiB", MOST_PRINTED >> 20)),
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, format!("no end after {} s", limit.as_secs())),
        };
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    let text =
        |thread: thread::JoinHandle<Vec<u8>>| String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned();
    Ok(Printed { out: text(out), err: text(err), status: child.wait()? })
}

/// How the reading of a stream ended.
#[derive(Debug)]
enum Drained {
    Whole,
    TooLong,
}

/// A thread that reads a stream to its end, or to where it is too long, and says which.
fn drained(stream: Option<impl Read + Send + 'static>, done: mpsc::Sender<Drained>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is kept. The limit itself is reached by one byte more.
        let read = stream.map(|stream| stream.take(MOST_PRINTED + 1).read_to_end(&mut bytes));
        let is_too_long = matches!(read, Some(Ok(count)) if count as u64 > MOST_PRINTED);
        // The receiver is gone where the time was over.
        let _ = done.send(if is_too_long { Drained::TooLong } else { Drained::Whole });
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_newest_folder() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for version in ["2022.4", "2023.1"] {
            fs::create_dir_all(root.path().join(version).join("bin")).expect("the folder is ours");
        }
        let place = format!("{}/*/bin", root.path().display());
        assert_eq!(folders(&place), ["2023.1/bin", "2022.4/bin"].map(|path| root.path().join(path)));
        assert_eq!(folders("/nowhere/*/bin"), Vec::<PathBuf>::new());
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let printed = output_of(OsStr::new("sh"), &["-c", "echo out; echo err >&2; exit 3"], Duration::from_secs(60));
        let printed = printed.expect("sh is there");
        assert_eq!((printed.status.code(), printed.out.as_str(), printed.err.as_str()), (Some(3), "out\n", "err\n"));
        let error = output_of(OsStr::new("sh"), &["-c", "exec sleep 1000"], Duration::from_millis(50));
        assert_eq!(error.expect_err("it sleeps").kind(), io::ErrorKind::TimedOut);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        for line in ["exec yes", "exec yes >&2"] {
            let error = output_of(OsStr::new("sh"), &["-c", line], Duration::from_secs(600));
            assert_eq!(error.expect_err("it has no end").to_string(), "it printed more than 64 MiB", "{line}");
        }
    }
}
