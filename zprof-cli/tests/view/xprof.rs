//! `zprof view --xprof`, with the real XProf and without one.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::served::{body, fixture, received, repository, signal, zprof};

const SPACE: &str = "jax_cpu_small.xplane.pb";

/// The folder of XProf's program.
fn installed() -> PathBuf {
    let output = Command::new(repository().join("scripts/get-xprof")).output().expect("the script runs");
    assert!(output.status.success(), "scripts/get-xprof: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).expect("is text").trim())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a port is free").port()
}

/// XProf, started by zprof; ended when it goes out of scope.
struct Shown {
    zprof: Child,
    port: u16,
    temporary: tempfile::TempDir,
}

impl Shown {
    fn of(input: &Path) -> Self {
        let (temporary, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let mut zprof = zprof()
            .args(["view", "--xprof", "--no-open", "--port", &port.to_string()])
            .arg(input)
            .env("PATH", format!("{}:/usr/bin:/bin", installed().display()))
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("zprof runs");
        let mut line = String::new();
        BufReader::new(zprof.stdout.take().expect("is piped")).read_line(&mut line).expect("a line is printed");
        // It is printed when XProf answers.
        assert_eq!(line, format!("http://localhost:{port}/\n"));
        Self { zprof, port, temporary }
    }

    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(("localhost", self.port)).expect("XProf listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a limit can be set");
        let request = format!("GET /data/plugin/profile/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("is sent");
        let reply = received(&mut stream);
        let body = body(&reply);
        let mut text = String::new();
        let read = GzDecoder::new(body).read_to_string(&mut text);
        if read.is_err() {
            text = String::from_utf8(body.to_vec()).expect("what is not compressed is text");
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// What is in the folder for temporary files.
    fn left(&self) -> usize {
        fs::read_dir(self.temporary.path()).expect("is there").count()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.zprof.try_wait().expect("can be asked").is_none() {
            signal(&self.zprof, "TERM");
            self.zprof.wait().expect("it ends");
        }
    }
}

#[test]
fn xprof_shows_a_file_from_anywhere() {
    let mut shown = Shown::of(&fixture(SPACE));
    assert_eq!(shown.left(), 1, "its log directory is temporary");
    assert_eq!(shown.get("runs"), json!(["jax_cpu_small"]));
    let hosts = shown.get("hosts?run=jax_cpu_small&tag=trace_viewer@");
    assert_eq!(hosts, json!([{"hostname": "jax_cpu_small"}]));
    let data = shown.get("data?run=jax_cpu_small&tag=trace_viewer@&host=jax_cpu_small&resolution=0");
    let events = data["traceEvents"].as_array().expect("events are a list");
    assert!(events.iter().filter(|event| event["ph"] == "X").count() > 100, "{} events", events.len());

    // Ctrl-C ends both and leaves nothing; the profile's own folder was not written to.
    signal(&shown.zprof, "INT");
    assert_eq!(shown.zprof.wait().expect("it ends").code(), Some(130));
    assert_eq!(shown.left(), 0);
    assert!(TcpStream::connect(("localhost", shown.port)).is_err(), "XProf ended too");
}

#[test]
fn xprof_shows_a_file_whose_name_is_no_name_of_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("...xplane.pb");
    fs::copy(fixture(SPACE), &file).expect("is copied");
    let shown = Shown::of(&file);
    assert_eq!(shown.get("runs"), json!(["profile"]));
}

#[test]
fn xprof_shows_the_log_directory_that_a_profile_lies_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("plugins/profile");
    for run in ["a", "b"] {
        fs::create_dir_all(runs.join(run)).expect("is created");
        fs::copy(fixture(SPACE), runs.join(run).join("host.xplane.pb")).expect("is copied");
    }
    for input in [folder.path().to_owned(), runs.join("a"), runs.join("b/host.xplane.pb")] {
        let shown = Shown::of(&input);
        let mut names: Vec<String> = serde_json::from_value(shown.get("runs")).expect("runs are names");
        names.sort();
        assert_eq!(names, ["a", "b"], "{}", input.display());
        assert_eq!(shown.left(), 0, "no directory had to be made");
    }
}

#[test]
fn where_xprof_comes_from_is_said() {
    let nothing = tempfile::tempdir().expect("a folder");
    let run = |input: &Path| {
        let port = free_port().to_string();
        let output = zprof()
            .args(["view", "--xprof", "--no-open", "--port", &port])
            .arg(input)
            .env("PATH", nothing.path())
            .env("TMPDIR", nothing.path())
            .output()
            .expect("zprof runs");
        assert_eq!(fs::read_dir(nothing.path()).expect("is there").count(), 0);
        (output.status.code(), String::from_utf8(output.stderr).expect("is text"))
    };
    let message = "zprof: `xprof` is not in PATH; `pip install xprof` brings it\n";
    assert_eq!(run(&fixture(SPACE)), (Some(1), message.to_owned()));
    let (code, message) = run(&fixture("jax_cpu_small.trace.json.gz"));
    assert_eq!(code, Some(1));
    assert!(message.contains("is not an XSpace"), "{message}");
}
