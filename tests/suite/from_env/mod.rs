//! Programs that profile themselves because the environment asks for it, in processes of their own.

mod copies;
mod ends;
mod forks;
mod signals;
mod values;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;
use zprof_tests::profile::{Line, Stats, line, read_file, stats};

/// A program's part, and the folder that `ZPROF` names.
struct Program {
    command: Command,
    folder: TempDir,
}

/// What a program has left.
struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    folder: TempDir,
}

/// A program that has said that it is ready.
struct Waiting {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Program {
    /// The part, with a profile of the host.
    fn new(part: &str) -> Self {
        Self::of(Path::new(env!("CARGO_BIN_EXE_ended")), part)
    }

    fn of(path: &Path, part: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = zprof_tests::program(path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ZPROF") {
                command.env_remove(name);
            }
        }
        command.args(part.split(' ')).env("ZPROF", folder.path()).env("ZPROF_PJRT", "off");
        command.env("RUST_BACKTRACE", "0");
        Self { command, folder }
    }

    /// With an argument more.
    fn with_folder(mut self, name: &str) -> Self {
        let path = self.folder.path().join(name);
        self.command.arg(path);
        self
    }

    fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    fn run(mut self) -> Ended {
        let Output { status, stdout, stderr } = self.command.output().expect("the program can be run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs write UTF-8");
        Ended { status, stdout: text(stdout), stderr: text(stderr), folder: self.folder }
    }

    /// Starts it and waits until it is ready.
    fn start(mut self) -> Waiting {
        let pipes = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("the program can be run");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut told = String::new();
        while !told.ends_with("ready\n") {
            assert_ne!(stdout.read_line(&mut told).expect("it writes UTF-8"), 0, "it has ended: {told}");
        }
        Waiting { stdin: child.stdin.take(), child, stdout, folder: self.folder }
    }
}

impl Waiting {
    fn send(&self, signal: i32) {
        kill(&self.child, signal);
    }

    /// Lets it end by itself.
    fn release(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end.
    fn end(mut self) -> Ended {
        // Its input stays open: only a signal may be what ends it, unless it was released.
        let status = self.child.wait().expect("it is a child");
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).expect("it writes UTF-8");
        let mut stderr = String::new();
        self.child.stderr.take().expect("it is a pipe").read_to_string(&mut stderr).expect("it writes UTF-8");
        drop(self.stdin);
        Ended { status, stdout, stderr, folder: self.folder }
    }
}

/// Sends a signal to a child that nobody has waited for.
#[allow(unsafe_code)] // there is no safe kill
fn kill(child: &Child, signal: i32) {
    let id = child.id().try_into().expect("process ids are small");
    // SAFETY: kill only sends a signal.
    let status = unsafe { libc::kill(id, signal) };
    assert_eq!(status, 0, "the child is there, or waits to be asked for its status");
}

impl Ended {
    /// Folders of its runs, in order.
    fn runs(&self) -> Vec<PathBuf> {
        runs(self.folder.path())
    }

    /// The XSpace of its only run.
    fn path(&self) -> PathBuf {
        let runs = self.runs();
        let [run] = runs.as_slice() else { panic!("runs: {runs:?}; {}", self.stderr) };
        let names = names(run);
        assert_eq!(names, ["profiling.trace.json", "profiling.xplane.pb"], "{}", self.stderr);
        run.join("profiling.xplane.pb")
    }

    /// The lines of its profile, of which it has told where it is and how many scopes it has.
    fn profile(&self) -> Vec<Line> {
        let path = self.path();
        let (lines, warnings, _) = read_file(&path);
        assert_eq!(warnings, Vec::<String>::new());
        let scopes: usize = lines.iter().map(|line| line.events.len()).sum();
        let last = self.stderr.lines().last().unwrap_or_default();
        assert!(scopes < 1000, "commas are not thought of here");
        assert_eq!(last, format!("zprof: {} ({scopes} scopes)", path.display()));
        lines
    }

    /// The one line that it has told, and no other.
    fn only_line(&self) -> &str {
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        self.stderr.trim_end()
    }
}

/// Folders of runs below a log directory, in order.
fn runs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("plugins/profile")) else { return Vec::new() };
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    runs.sort();
    runs
}

/// Names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What the main thread has done in every part, and then this.
fn worked(then: &[(&str, Stats)]) -> Vec<(String, Stats)> {
    let work = (0..3).map(|n| ("work".to_owned(), stats([("n", n.into())])));
    work.chain(then.iter().map(|(name, stats)| ((*name).to_owned(), stats.clone()))).collect()
}

/// What a thread has done.
fn told(lines: &[Line], name: &str) -> Vec<(String, Stats)> {
    line(lines, name).told().into_iter().map(|(name, stats)| (name.to_owned(), stats.clone())).collect()
}

/// Marks of a scope that was open at the end.
fn unfinished() -> Stats {
    stats([("unfinished", 1.into())])
}
