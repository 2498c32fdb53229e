//! `zprof convert` as people run it: the built program, its files, messages and exit codes.

mod bad;
// Signals, limits and special files are those of Unix; only Linux limits address space.
#[cfg(target_os = "linux")]
mod limits;
mod options;
mod perfetto;
mod places;
mod space;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, thread};

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

/// The command, with nothing given yet.
fn zprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zprof"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What `zprof convert` with these arguments left.
#[derive(Debug)]
struct Done {
    code: Option<i32>,
    out: Vec<u8>,
    error: String,
}

impl Done {
    fn of(output: Output) -> Self {
        let error = String::from_utf8(output.stderr).expect("messages are UTF-8");
        Self { code: output.status.code(), out: output.stdout, error }
    }

    /// Asserts success with this on standard error; gives standard output.
    fn quiet(self, error: &str) -> Vec<u8> {
        assert_eq!((self.code, self.error.as_str()), (Some(0), error));
        self.out
    }

    /// Asserts failure without output; gives the message.
    fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_slice()), (Some(1), &b""[..]), "{}", self.error);
        assert!(self.error.starts_with("zprof: ") && self.error.ends_with('\n'), "{}", self.error);
        assert_eq!(self.error.lines().count(), 1, "{}", self.error);
        self.error["zprof: ".len()..].trim_end().to_owned()
    }
}

fn convert<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Done {
    Done::of(zprof().arg("convert").args(arguments).output().expect("zprof starts"))
}

/// The same with standard input.
fn convert_input(input: Vec<u8>, arguments: &[&str]) -> Done {
    let mut child = zprof().arg("convert").args(arguments).stdin(Stdio::piped()).spawn().expect("zprof starts");
    let mut stdin = child.stdin.take().expect("is a pipe");
    // A program that refuses may do so before it has read all.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("zprof ends");
    writer.join().expect("does not panic");
    Done::of(output)
}

/// A folder with the profile `vm.xplane.pb`.
fn run() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("vm.xplane.pb");
    fs::copy(fixture("jax_cpu_small.xplane.pb"), &profile).expect("is copied");
    (folder, profile)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("is a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("is readable").file_name().into_string().expect("is UTF-8")).collect();
    names.sort();
    names
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut text).expect("is whole");
    text
}

/// The elements of a trace, without TSL's empty one.
fn elements(json: &[u8]) -> Vec<Value> {
    let mut document: Value = serde_json::from_slice(json).expect("is JSON");
    let Value::Array(mut elements) = document["traceEvents"].take() else { panic!("traceEvents is no list") };
    elements.retain(|element| element != &serde_json::json!({}));
    elements
}

/// Lossless paths as arguments beside text.
fn arguments<const N: usize>(arguments: [&dyn AsRef<OsStr>; N]) -> [&OsStr; N] {
    arguments.map(AsRef::as_ref)
}
