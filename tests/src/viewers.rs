//! What the real viewers show of a profile: XProf by its server, Perfetto by its own protos.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use zprof_runtime::Result;
use zprof_runtime::export::{CheckOptions, PerfettoOptions, PerfettoSummary, check, write_perfetto};

/// Metadata of an event that says where its scope stands, which differs from place to place.
const PLACE: [&str; 2] = ["module_path", "source"];

/// Runs a command of this repository and returns what it wrote to stdout.
///
/// # Panics
///
/// Panics if it fails; the message shows all that it said.
pub fn run(command: &mut Command) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let output =
        command.current_dir(root).output().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success(),
        "{command:?} ended with {}; XProf comes with scripts/get-xprof, Perfetto with scripts/get-perfetto\n{stdout}\n{stderr}",
        output.status
    );
    stdout.into_owned()
}

/// What XProf shows of a run.
#[derive(Debug)]
pub struct Shown {
    /// All of it, as `scripts/xprof-check` describes it.
    pub report: Value,
    events: Vec<Value>,
    /// What the check finds in the profile: kinds and numbers.
    pub findings: Vec<(&'static str, u64)>,
}

impl Shown {
    /// The run `profiling` of a folder.
    ///
    /// # Panics
    ///
    /// Panics if XProf does not show it.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self::of_run(folder, "profiling")
    }

    /// A run of a folder, of the host `profiling`.
    ///
    /// # Panics
    ///
    /// Panics if XProf does not show it.
    #[must_use]
    pub fn of_run(folder: &Path, name: &str) -> Self {
        let report = run(Command::new("scripts/xprof-check").arg(folder).arg(name));
        let report: Value = serde_json::from_str(&report).expect("xprof-check prints JSON");
        let events = report["hosts"]["profiling"]["events"].as_array().expect("the host is `profiling`").clone();
        let profile = folder.join("plugins/profile").join(name).join("profiling.xplane.pb");
        let profile = File::open(&profile).unwrap_or_else(|error| panic!("{}: {error}", profile.display()));
        let checked = check(&profile, &CheckOptions::default()).expect("can be read");
        let findings = checked.counts.iter().map(|(kind, count)| (kind.name(), *count)).collect();
        Self { report, events, findings }
    }

    /// The events of one name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["name"] == name)
    }

    /// The different metadata that the events of one name have, without what every event has.
    ///
    /// # Panics
    ///
    /// Panics if an event has no map of arguments.
    #[must_use]
    pub fn metadata(&self, name: &str) -> BTreeSet<String> {
        let args = self.named(name).map(|event| {
            let mut args = event["args"].as_object().expect("events have args").clone();
            args.retain(|key, _| key != "group_id" && !PLACE.contains(&key.as_str()));
            Value::Object(args).to_string()
        });
        args.collect()
    }

    /// The names of the threads that have events.
    ///
    /// # Panics
    ///
    /// Panics if XProf shows no threads.
    #[must_use]
    pub fn threads(&self) -> BTreeSet<&str> {
        let threads = self.report["hosts"]["profiling"]["threads"].as_object().expect("threads are a map");
        threads.values().filter_map(Value::as_str).collect()
    }
}

/// Metadata to compare with [`Shown::metadata`].
#[must_use]
pub fn set<const N: usize>(values: [Value; N]) -> BTreeSet<String> {
    values.iter().map(Value::to_string).collect()
}

/// Converts bytes to Perfetto's format with everything shown.
///
/// # Errors
///
/// Fails if they are no XSpace.
pub fn convert(xspace: &[u8]) -> Result<(Vec<u8>, PerfettoSummary)> {
    convert_with(xspace, &PerfettoOptions::default())
}

/// The same with options.
///
/// # Errors
///
/// Fails if they are no XSpace.
pub fn convert_with(xspace: &[u8], options: &PerfettoOptions) -> Result<(Vec<u8>, PerfettoSummary)> {
    let mut trace = Vec::new();
    let summary = write_perfetto(&xspace, &mut trace, options)?;
    Ok((trace, summary))
}

/// What Perfetto's protos read from each trace. Where a JSON is given, all of it must be in the trace.
///
/// # Panics
///
/// Panics if they cannot read one, or if something of a JSON is missing.
pub fn read_traces<'a>(traces: impl IntoIterator<Item = (&'a [u8], Option<&'a str>)>) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut arguments = Vec::new();
    for (number, (trace, json)) in traces.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.pftrace"));
        fs::write(&path, trace).expect("the temporary folder is writable");
        let mut argument = path.into_os_string();
        if let Some(json) = json {
            let path = folder.path().join(format!("{number}.json"));
            fs::write(&path, json).expect("the temporary folder is writable");
            argument.push(":");
            argument.push(path);
        }
        arguments.push(argument);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/perfetto-check");
    let done = Command::new(script).args(&arguments).output().expect("python3 starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let reports = String::from_utf8(done.stdout).expect("reports are UTF-8");
    let reports: Vec<Value> = reports.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
    assert_eq!(reports.len(), arguments.len());
    reports
}

/// The answers of Perfetto's real trace processor: for each trace, the rows of each query. A trace is its bytes and the end of a
/// file name that says its format.
///
/// # Panics
///
/// Panics if it refuses a trace or a query.
pub fn query<'a>(traces: impl IntoIterator<Item = (&'a [u8], &'a str)>, queries: &[&str]) -> Vec<Vec<Vec<Value>>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("scripts/perfetto-query");
    let mut count = 0;
    for (number, (trace, format)) in traces.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.{format}"));
        fs::write(&path, trace).expect("the temporary folder is writable");
        command.arg(path);
        count += 1;
    }
    let answers = run(command.arg("--").args(queries));
    let answers: Vec<Vec<Vec<Value>>> =
        answers.lines().map(|line| serde_json::from_str(line).expect("perfetto-query prints JSON")).collect();
    assert_eq!(answers.len(), count);
    answers
}

/// A query for what the trace processor has dropped or changed.
pub const LOSSES: &str = "select name, value from stats where severity in ('error', 'data_loss') and value != 0";

/// The events of what [`read_traces`] gives.
///
/// # Panics
///
/// Panics if it is no such report.
#[must_use]
pub fn events(report: &Value) -> &Vec<Value> {
    report["events"].as_array().expect("is a list")
}

/// What Perfetto's protos read from the trace of a space, in which everything must be that the JSON has.
///
/// # Panics
///
/// Panics if they cannot read it, or if there is no JSON.
#[must_use]
pub fn perfetto(space: &[u8], json: Option<&Path>) -> Value {
    let json = json.expect("the session has written a JSON");
    let json = fs::read_to_string(json).unwrap_or_else(|error| panic!("{}: {error}", json.display()));
    let (trace, _) = convert(space).expect("is an XSpace");
    read_traces([(trace.as_slice(), Some(json.as_str()))]).remove(0)
}

/// Type and arguments of each event of one name, without its place.
///
/// # Panics
///
/// Panics if it is no report of [`read_traces`].
#[must_use]
pub fn typed(report: &Value, name: &str) -> Vec<(String, Value)> {
    let of = |event: &Value| {
        let mut args = event["args"].as_object().expect("a map").clone();
        args.retain(|key, _| !PLACE.contains(&key.as_str()));
        (event["type"].as_str().expect("a text").to_owned(), Value::Object(args))
    };
    events(report).iter().filter(|event| event["name"] == name).map(of).collect()
}
