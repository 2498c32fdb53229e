//! What is served, what is left behind, and what the command says.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::served::{PAGE, Served, fixture, zprof};

const SPACE: &str = "jax_cpu_small.xplane.pb";

fn viewed(arguments: &[&str]) -> Output {
    zprof().arg("view").args(arguments).stdin(Stdio::null()).output().expect("zprof runs")
}

/// Exit code, output and message of a call that must fail.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = viewed(arguments);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    (output.status.code(), String::from_utf8(output.stderr).expect("messages are text"))
}

/// The trace that `zprof convert` makes of the fixture.
fn converted() -> Vec<u8> {
    convert(&fixture(SPACE))
}

fn convert(input: &Path) -> Vec<u8> {
    let output = zprof().args(["convert", "-o", "-", "--format", "pftrace"]).arg(input).output().expect("zprof runs");
    assert!(output.status.success());
    output.stdout
}

#[test]
fn a_profile_is_served_as_its_trace() {
    let served = Served::of(&fixture(SPACE), &[]);
    assert!(served.path.ends_with("/jax_cpu_small.pftrace"), "{}", served.path);
    let (port, path) = (served.port, &served.path);
    assert_eq!(served.page, format!("{PAGE}/#!/?rpc_port={port}&url=http://127.0.0.1:{port}{path}"));
    assert!(served.fetch() == converted());

    let served = Served::of(&fixture(SPACE), &["--format", "json"]);
    assert!(served.path.ends_with("/jax_cpu_small.trace.json"), "{}", served.path);
    let trace: serde_json::Value = serde_json::from_slice(&served.fetch()).expect("is JSON");
    assert!(trace["traceEvents"].is_array());
}

#[test]
fn a_run_and_standard_input_are_served_too() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(fixture(SPACE), folder.path().join("host 1.xplane.pb")).expect("is copied");
    let served = Served::of(folder.path(), &[]);
    // What would need quoting in an address does not stand in one.
    assert!(served.path.ends_with("/host_1.pftrace"), "{}", served.path);
    assert!(served.fetch() == converted());

    // The helper gives every program the null device; here it is a shell that gives the file.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$0\" view --port 0 --no-open - < \"$1\"", env!("CARGO_BIN_EXE_zprof")])
        .arg(fixture(SPACE));
    let served = Served::started(&mut shell);
    assert!(served.path.ends_with("/profile.pftrace"), "{}", served.path);
    assert!(served.fetch() == converted());
}

#[test]
fn the_hosts_of_a_run_are_served_in_one_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    for host in ["a", "b"] {
        fs::copy(fixture(SPACE), folder.path().join(format!("{host}.xplane.pb"))).expect("is copied");
    }
    let served = Served::of(folder.path(), &[]);
    assert!(served.path.ends_with("/all_hosts.pftrace"), "{}", served.path);
    let trace = served.fetch();
    assert!(trace == convert(folder.path()));
    assert!(trace.len() > converted().len() * 3 / 2);
}

#[test]
fn a_trace_is_served_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a.trace.json", "b.json.gz", "c.pftrace", "d.perfetto-trace", "e \u{e9}&#%.json"] {
        let path = folder.path().join(name);
        fs::write(&path, name).expect("is written");
        let served = Served::of(&path, &[]);
        assert!(served.path.is_ascii() && !served.path.contains(['&', '#', '%', ' ']), "{}", served.path);
        assert_eq!(served.fetch(), name.as_bytes());
        // A file that takes its place later is another one.
        fs::write(folder.path().join("new"), "new").expect("is written");
        fs::rename(folder.path().join("new"), &path).expect("is renamed");
        assert_eq!(served.fetch(), name.as_bytes());
    }
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = || fs::read_dir(folder.path()).expect("is there").count();
    let mut command = zprof();
    command.args(["view", "--port", "0", "--no-open"]).arg(fixture(SPACE)).env("TMPDIR", folder.path());
    let served = Served::started(&mut command);
    assert!(served.fetch() == converted());
    assert_eq!(list(), 0, "the trace has no name while it is served");
    assert_eq!(served.interrupt(), Some(2));
    assert_eq!(list(), 0);
}

#[test]
fn once_ends_with_the_first_whole_fetch() {
    let served = Served::of(&fixture(SPACE), &["--once"]);
    let path = &served.path;
    for (method, path, fields) in
        [("HEAD", &**path, ""), ("OPTIONS", path, ""), ("GET", "/", ""), ("GET", path, "Range: bytes=0-\r\n")]
    {
        served.exchange(&served.request(method, path, fields));
    }
    // Half a fetch is none.
    let mut stream = served.connect();
    stream.write_all(served.request("GET", path, "").as_bytes()).expect("is sent");
    stream.read_exact(&mut [0; 8]).expect("the reply begins");
    drop(stream);
    assert!(served.fetch() == converted());
    assert_eq!(served.wait().code(), Some(0));
}

#[test]
fn a_port_that_is_taken_is_an_error_and_perfettos_is_the_usual_one() {
    // Whether this or something else has it: it is taken.
    let taken = TcpListener::bind("127.0.0.1:9001");
    let (code, message) = refused(&["--no-open", fixture(SPACE).to_str().expect("is text")]);
    drop(taken);
    assert_eq!(code, Some(1));
    assert!(message.starts_with("zprof: failed to listen on port 9001 of 127.0.0.1; "), "{message}");
    assert!(message.contains("`--port`") && message.contains("ddress already in use"), "{message}");
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("is text").to_owned();
    fs::write(path("broken.xplane.pb"), b"\xff\xff\xff").expect("is written");
    fs::write(path("empty.xplane.pb"), b"").expect("is written");
    fs::create_dir(path("folder.json")).expect("is created");
    for (input, words) in [
        ("missing.xplane.pb", "failed to open `"),
        ("missing.json", "failed to open `"),
        ("broken.xplane.pb", "failed to convert `"),
        ("empty.xplane.pb", "is empty"),
        ("folder.json", "no profile in `"),
    ] {
        let (code, message) = refused(&["--no-open", "--port", "0", &path(input)]);
        assert_eq!(code, Some(1), "{message}");
        assert!(
            message.starts_with("zprof: ") && message.contains(words) && message.contains(&path(input)),
            "{message}"
        );
    }
    for arguments in [
        &["--once", "--xprof", "x"][..],
        &["--format", "json", "x.json"],
        &["--format", "json", "--xprof", "x"],
        &["--port", "70000", "x"],
        &[],
        &["x", "y"],
    ] {
        assert_eq!(refused(arguments).0, Some(2), "{arguments:?}");
    }
}

/// A folder of programs with an `xdg-open` that does what the shell is told.
fn desktop(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("xdg-open");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is ours");
    folder
}

fn opened(programs: &Path, stderr: Stdio) -> Served {
    let mut command = zprof();
    command.args(["view", "--port", "0"]).arg(fixture(SPACE)).env("PATH", programs).stderr(stderr);
    Served::started(&mut command)
}

/// The address that the launcher of browsers is given, which other users can see.
fn asked(served: impl FnOnce(&Path) -> Served) -> (Served, String) {
    let programs = desktop("echo \"$#:$1\" > \"${0%/*}/asked\"");
    let asked = programs.path().join("asked");
    assert!(Command::new("mkfifo").arg(&asked).status().expect("mkfifo runs").success());
    let served = served(programs.path());
    let mut address = String::new();
    // Waits until the launcher writes.
    File::open(asked).expect("is there").read_to_string(&mut address).expect("is text");
    (served, address)
}

#[test]
fn the_browser_is_led_to_the_printed_address_once() {
    let (served, address) = asked(|programs| opened(programs, Stdio::null()));
    let path = address.strip_prefix(&format!("1:http://127.0.0.1:{}", served.port)).expect("is our address").trim_end();
    let secret = served.path.split('/').nth(1).expect("has a secret part");
    assert!(path.starts_with("/open/") && !path.contains(secret), "{path} tells {secret}");

    // A look does not use it up, and neither does a page or another user.
    assert!(served.ask("HEAD", path, "").starts_with("HTTP/1.1 405 "));
    assert!(served.ask("GET", path, "Origin: https://example.org\r\n").starts_with("HTTP/1.1 403 "));
    assert_eq!(of_nobody(&served, path), Some("403".to_owned()).filter(|_| is_root()));
    let page = &served.page;
    assert_eq!(
        served.ask("GET", path, ""),
        format!(
            "HTTP/1.1 302 Found\r\nLocation: {page}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
    );
    assert!(served.ask("GET", path, "").starts_with("HTTP/1.1 410 Gone\r\n"));
    assert!(served.ask("GET", "/open/", "").starts_with("HTTP/1.1 404 "));
    assert!(served.fetch() == converted());
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The status that another user gets for a path; `None` where this user cannot ask as another one.
fn of_nobody(served: &Served, path: &str) -> Option<String> {
    const REQUEST: &str = r#"
import http.client, sys
client = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
client.request("GET", sys.argv[2])
print(client.getresponse().status)
"#;
    if !is_root() {
        println!("not tried as another user: only root can");
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", REQUEST, &served.port.to_string(), path]).current_dir("/");
    let output = python.uid(65_534).gid(65_534).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn without_a_browser_the_trace_is_served_all_the_same() {
    let failing = desktop("exit 3");
    let nothing = tempfile::tempdir().expect("a folder");
    let causes = [(failing.path(), "(xdg-open ended with 3); "), (nothing.path(), "(")];
    for (programs, cause) in causes {
        let mut served = opened(programs, Stdio::piped());
        let mut said = String::new();
        let mut stderr = served.process.stderr.take().expect("is piped");
        while !said.contains(&format!("no browser could be opened {cause}")) {
            let mut part = [0; 256];
            let read = stderr.read(&mut part).expect("can be read");
            assert_ne!(read, 0, "it ended, having said {said}");
            said.push_str(std::str::from_utf8(&part[..read]).expect("is text"));
        }
        assert!(served.fetch() == converted());
    }
}

#[test]
fn a_reader_of_the_address_may_go_away() {
    let mut command = zprof();
    command.args(["view", "--port", "0", "--no-open"]).arg(fixture(SPACE)).stdin(Stdio::null());
    let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    reader.shutdown(Shutdown::Both).expect("is connected");
    drop(reader);
    let output = command.stdout(std::os::fd::OwnedFd::from(writer)).output().expect("zprof runs");
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}
