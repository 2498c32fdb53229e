//! A real browser fetches the trace as Perfetto's page would: from its origin, under its policy, with a preflight where one is
//! due.
//!
//! The page stands for Perfetto's, so that requests can be made which that page does not make. `page` opens Perfetto's own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::served::{PAGE, Served, fixture};

/// A program that is ended when it goes out of scope.
struct Running(Child);

impl Running {
    fn started(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}; see scripts/test")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server of the page, and what the page reports.
struct Page {
    server: Running,
    reports: BufReader<ChildStdout>,
    port: String,
}

impl Page {
    fn fetching(served: &Served) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/view/page.py");
        let url = format!("http://127.0.0.1:{}{}", served.port, served.path);
        let mut server = Running::started(Command::new("python3").arg(script).arg(url).stdout(Stdio::piped()));
        let mut reports = BufReader::new(server.0.stdout.take().expect("is piped"));
        let mut port = String::new();
        reports.read_line(&mut port).expect("the port is printed");
        Self { server, reports, port: port.trim().to_owned() }
    }

    /// Opens the page as that of `origin`, and returns its report and the browser's log of the network.
    fn opened_as(&mut self, origin: &str) -> (Value, Log) {
        let profile = tempfile::tempdir().expect("a folder");
        let log = profile.path().join("network.json");
        let host = origin.strip_prefix("https://").expect("the page has a secure origin");
        let mut browser = Running::started(
            Command::new("chromium")
                .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
                .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
                // Ends when the page has loaded, with a complete log.
                .arg("--dump-dom")
                // No certificate is that of the page, and no other host is looked up.
                .arg("--ignore-certificate-errors")
                .arg(format!(
                    "--host-resolver-rules=MAP {host}:443 127.0.0.1:{}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                    self.port
                ))
                .arg(format!("--log-net-log={}", log.display()))
                .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
                .arg(format!("{origin}/"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let mut report = String::new();
        self.reports.read_line(&mut report).expect("the page reports");
        assert!(self.server.0.try_wait().expect("can be asked").is_none(), "the page's server ended");
        browser.0.wait().expect("it ends");
        (serde_json::from_str(&report).expect("the report is JSON"), Log::read(&log))
    }
}

/// Requests as the browser sent them: method and path, with the fields that matter here.
struct Log(Vec<(String, Vec<String>)>);

impl Log {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("the browser writes its log");
        let log: Value = serde_json::from_str(&text).expect("the log is JSON");
        let sent = &log["constants"]["logEventTypes"]["HTTP_TRANSACTION_SEND_REQUEST_HEADERS"];
        assert!(sent.is_number(), "the log has no number for sent requests");
        let events = log["events"].as_array().expect("events are a list");
        let mut requests = Vec::new();
        for params in events.iter().filter(|event| event["type"] == *sent).map(|event| &event["params"]) {
            let line = params["line"].as_str().expect("a request has a line");
            let fields = params["headers"].as_array().expect("a request has fields").iter().filter_map(Value::as_str);
            let matters = |field: &&str| {
                let field = field.to_lowercase();
                ["origin:", "range:", "access-control-"].iter().any(|start| field.starts_with(start))
            };
            let mut fields: Vec<String> = fields.filter(matters).map(str::to_owned).collect();
            fields.sort();
            requests.push((line.trim_end().to_owned(), fields));
        }
        Self(requests)
    }

    /// Those for the trace's server.
    fn to(&self, served: &Served) -> Vec<(&str, Vec<&str>)> {
        let trace = self.0.iter().filter(|(line, _)| line.contains(&served.path) || line.contains("/status"));
        let mut sent: Vec<(&str, Vec<&str>)> = trace
            .map(|(line, fields)| {
                let (method, _) = line.split_once(' ').expect("a method comes first");
                (method, fields.iter().map(String::as_str).collect())
            })
            .collect();
        sent.sort();
        sent
    }
}

/// SHA-256 as another program knows it.
fn sha256(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bytes");
    fs::write(&path, bytes).expect("is written");
    let output = Command::new("sha256sum").arg(&path).output().expect("sha256sum runs");
    let text = String::from_utf8(output.stdout).expect("is text");
    text.split_whitespace().next().expect("a sum is printed").to_owned()
}

fn answer(status: u16, bytes: &[u8], range: Value) -> Value {
    json!({"status": status, "size": bytes.len(), "sha256": sha256(bytes), "range": range})
}

#[test]
fn the_page_fetches_the_trace_and_another_page_does_not() {
    let served = Served::of(&fixture("jax_cpu_small.xplane.pb"), &[]);
    let trace = served.fetch();
    let size = trace.len();
    let mut page = Page::fetching(&served);

    let (report, log) = page.opened_as(PAGE);
    let blocked = json!({"error": "TypeError"});
    assert_eq!(
        report,
        json!({
            "status": answer(404, b"", Value::Null),
            "whole": answer(200, &trace, Value::Null),
            "first": answer(206, &trace[..100], json!(format!("bytes 0-99/{size}"))),
            "last": answer(206, &trace[size - 100..], json!(format!("bytes {}-{}/{size}", size - 100, size - 1))),
            "head": answer(200, b"", Value::Null),
            "delete": blocked,
            "other": blocked,
        })
    );
    let origin = "Origin: https://ui.perfetto.dev";
    let (get, range) = ("Access-Control-Request-Method: GET", "Access-Control-Request-Headers: range");
    assert_eq!(
        log.to(&served),
        [
            ("GET", vec![origin]),
            ("GET", vec![origin, "Range: bytes=-100"]),
            ("GET", vec![origin, "Range: bytes=0-99"]),
            ("HEAD", vec![origin]),
            // What the preflights do not allow is not sent after them.
            ("OPTIONS", vec![range, get, origin]),
            ("OPTIONS", vec!["Access-Control-Request-Headers: x-other", get, origin]),
            ("OPTIONS", vec!["Access-Control-Request-Method: DELETE", origin]),
            ("POST", vec![origin]),
        ]
    );

    let (report, log) = page.opened_as("https://evil.example");
    let results: Vec<&Value> = report.as_object().expect("a report has names").values().collect();
    assert_eq!(results, [&blocked; 7]);
    assert!(log.to(&served).iter().all(|(_, fields)| fields.contains(&"Origin: https://evil.example")));
    assert_eq!(log.to(&served).len(), 7);
}
