//! A running `zprof view`, and requests to it written out by hand.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The page that may fetch.
pub(crate) const PAGE: &str = "https://ui.perfetto.dev";

pub(crate) fn zprof() -> Command {
    Command::new(env!("CARGO_BIN_EXE_zprof"))
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures").join(name)
}

/// Sends a signal by its name.
pub(crate) fn signal(process: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.id().to_string()]).status();
    assert!(status.expect("kill runs").success(), "kill -s {name} {}", process.id());
}

/// Ended when it goes out of scope.
pub(crate) struct Served {
    pub(crate) process: Child,
    stdout: BufReader<ChildStdout>,
    /// The line that was printed.
    pub(crate) page: String,
    pub(crate) port: u16,
    /// Of the trace.
    pub(crate) path: String,
}

impl Served {
    pub(crate) fn of(input: &Path, arguments: &[&str]) -> Self {
        Self::started(zprof().arg("view").args(["--port", "0", "--no-open"]).args(arguments).arg(input))
    }

    /// With `content` as a trace of Perfetto's.
    pub(crate) fn holding(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.pftrace");
        fs::write(&path, content).expect("is written");
        // The folder goes: the file that was opened is what is served.
        Self::of(&path, &[])
    }

    pub(crate) fn started(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"));
        let mut stdout = BufReader::new(process.stdout.take().expect("is piped"));
        let mut page = String::new();
        stdout.read_line(&mut page).expect("a line is printed");
        let page = page.trim_end().to_owned();
        let (_, url) = page.split_once("url=http://127.0.0.1:").unwrap_or_else(|| panic!("no address in `{page}`"));
        let (port, path) = url.split_once('/').expect("an address has a path");
        let (port, path) = (port.parse().expect("a port is a number"), format!("/{path}"));
        Self { process, stdout, page, port, path }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("somebody listens");
        // A test must fail rather than hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit can be set");
        stream
    }

    /// What comes back for these bytes, up to the end of the connection.
    pub(crate) fn exchange(&self, request: &str) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("is sent");
        received(&mut stream)
    }

    /// The head of a request, with the right host and `fields`, each with its line's end.
    pub(crate) fn request(&self, method: &str, path: &str, fields: &str) -> String {
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{fields}\r\n", self.port)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, fields: &str) -> String {
        String::from_utf8(self.exchange(&self.request(method, path, fields))).expect("the reply is text")
    }

    /// The body of the whole trace.
    pub(crate) fn fetch(&self) -> Vec<u8> {
        body(&self.exchange(&self.request("GET", &self.path, ""))).to_vec()
    }

    /// Waits for the end by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.process.wait().expect("it ends")
    }

    /// Ends it by Ctrl-C, and says which signal did it.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        signal(&self.process, "INT");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("is text");
        assert_eq!(rest, "", "nothing but the address is printed");
        self.process.wait().expect("it ends").signal()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Everything up to the end of the stream.
pub(crate) fn received(stream: &mut TcpStream) -> Vec<u8> {
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("the reply ends");
    // The server waits for this before it counts the connection as done.
    let _ = stream.shutdown(Shutdown::Both);
    reply
}

pub(crate) fn body(reply: &[u8]) -> &[u8] {
    let end = reply.windows(4).position(|end| end == b"\r\n\r\n").expect("a head has an end");
    &reply[end + 4..]
}
