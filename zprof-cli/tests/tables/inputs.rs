//! Profiles that come from streams, also from those that never end, and runs of very many hosts.

use std::fs;
use std::process::{Command, Output};

use super::profiles::{of_runs, write};

/// Runs a line of a shell in which `$1` is the command and `$2` the argument. No file grows over 64 MiB, so that a command that
/// copies all of an endless stream ends here.
fn shell(line: &str, argument: &str) -> Output {
    let script = format!("ulimit -f 131072; {line}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_zprof"), argument]).output().expect("sh starts")
}

#[test]
fn streams_that_are_no_profile_are_refused_though_they_never_end() {
    for (line, reason) in [
        ("yes | \"$1\" $2 -", "is not an XSpace: its first byte, 0x79, begins no field of one"),
        ("cat /dev/zero | \"$1\" $2 -", "is not an XSpace: its first byte, 0x00, begins no field of one"),
        // A field of five bytes, and then what is none.
        (
            "{ printf '\\012\\005'; cat /dev/zero; } | \"$1\" $2 -",
            "is not an XSpace: a field has the number 0 at byte 7",
        ),
        // A field that is longer than any stream is copied.
        (
            "{ printf '\\012\\377\\377\\377\\377\\377\\177'; cat /dev/zero; } | \"$1\" $2 -",
            "is not an XSpace: a field of 4398046511103 bytes ends at byte 6",
        ),
        ("{ printf '{\"a\": '; yes; } | \"$1\" $2 -", "is not an XSpace: it is JSON;"),
    ] {
        for command in ["summary", "convert", "flame", "check"] {
            let done = shell(line, command);
            let error = String::from_utf8_lossy(&done.stderr);
            let start = format!("zprof: standard input {reason}");
            // The shell may say what became of the other program.
            let told = error.lines().any(|line| line.starts_with(&start));
            assert!(told && done.status.code() == Some(1), "{line} {command}: {:?} {error}", done.status);
            assert_eq!(done.stdout, b"", "{line} {command}");
        }
    }
}

#[test]
fn a_run_may_have_more_hosts_than_files_may_be_open() {
    const HOSTS: u64 = 2_000;
    let folder = tempfile::tempdir().expect("a folder");
    for host in 0..HOSTS {
        write(folder.path(), &format!("host{host:04}.xplane.pb"), &of_runs(&[("work", 10)]));
    }
    let run = folder.path().to_str().expect("is UTF-8");
    let out = tempfile::tempdir().expect("a folder");
    let lines = |arguments: &str| {
        let line = format!("ulimit -n 256; cd '{}'; \"$1\" {arguments}", out.path().display());
        let done = shell(&line, run);
        let error = String::from_utf8_lossy(&done.stderr);
        let told = if arguments.starts_with("convert") {
            "zprof: host `host0000` and 1999 more hosts do not say when the session started: each host counts from its own start, so \
             events of different hosts cannot be compared in time\n"
        } else {
            ""
        };
        assert!(done.status.success() && error == told, "{arguments}: {error}");
        u64::try_from(String::from_utf8_lossy(&done.stdout).lines().count()).expect("is small")
    };
    assert_eq!(lines("summary --csv \"$2\""), HOSTS + 1);
    assert_eq!(lines("flame --folded \"$2\""), HOSTS);
    assert_eq!(lines("check \"$2\""), HOSTS);
    assert_eq!(lines("diff --csv \"$2\" \"$2\""), HOSTS + 1);
    for (name, least) in [("x.json", 100), ("x.pftrace", 10)] {
        assert_eq!(lines(&format!("convert \"$2\" -o {name}")), 0);
        assert!(fs::metadata(out.path().join(name)).expect("is there").len() > least * HOSTS, "{name}");
    }
}

#[test]
fn a_run_is_read_by_a_process_that_may_have_very_few_open_files() {
    const HOSTS: u64 = 100;
    let folder = tempfile::tempdir().expect("a folder");
    for host in 0..HOSTS {
        write(folder.path(), &format!("host{host:04}.xplane.pb"), &of_runs(&[("work", 10)]));
    }
    let run = folder.path().to_str().expect("is UTF-8");
    let out = tempfile::tempdir().expect("a folder");
    // At the last one, as many files are kept as there may be at all unless some are left for the output.
    for files in [20, 40, 70] {
        for (arguments, lines) in [
            ("summary --csv \"$2\"", HOSTS + 1),
            ("flame --folded \"$2\"", HOSTS),
            ("check \"$2\"", HOSTS),
            ("diff --csv \"$2\" \"$2\"", HOSTS + 1),
            ("flame \"$2\" -o x.svg", 0),
            ("convert \"$2\" -o x.json", 0),
            ("convert \"$2\" -o x.pftrace", 0),
        ] {
            let line = format!("ulimit -n {files}; cd '{}'; \"$1\" {arguments}", out.path().display());
            let done = shell(&line, run);
            let error = String::from_utf8_lossy(&done.stderr);
            // That these hosts have no common time is said, and no more.
            let others: Vec<&str> =
                error.lines().filter(|line| !line.contains("do not say when the session started")).collect();
            assert_eq!((done.status.code(), others), (Some(0), vec![]), "{arguments} with {files}");
            let told = String::from_utf8_lossy(&done.stdout).lines().count();
            assert_eq!(u64::try_from(told), Ok(lines), "{arguments} with {files}");
        }
    }
}
