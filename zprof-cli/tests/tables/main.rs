//! `zprof summary`, `diff`, `flame` and `check` as people run them.

mod answers;
mod bad;
mod hostile;
mod inputs;
mod picture;
mod profiles;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A recorded profile.
fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
    path.to_str().expect("is UTF-8").to_owned()
}

fn zprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zprof"));
    command.args(arguments).env("COLUMNS", "80");
    command
}

/// Runs the command: exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    told(&zprof(arguments).output().expect("zprof starts"))
}

/// The same with this on standard input.
fn run_on(input: &[u8], arguments: &[&str]) -> (i32, String, String) {
    let mut command = zprof(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("zprof starts");
    child.stdin.take().expect("is piped").write_all(input).expect("is read");
    told(&child.wait_with_output().expect("zprof ends"))
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("is UTF-8");
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

/// Standard output of a run that must succeed and say nothing else.
fn output(arguments: &[&str]) -> String {
    let (code, out, error) = run(arguments);
    assert_eq!((code, error.as_str()), (0, ""), "{arguments:?}: {out}");
    out
}

/// The rows of CSV: cells by heading. None of the tests' cells is quoted.
fn csv(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().expect("headings").split(',').collect();
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), heads.len(), "{line}");
        heads.iter().zip(cells).map(|(head, cell)| ((*head).to_owned(), cell.to_owned())).collect()
    });
    rows.collect()
}
