//! The Perfetto export, decoded with Perfetto's own protos: everything of the JSON is in it, and nothing is lost on the way
//! into a viewer.

mod fixtures;
mod generated;
mod marks;
// Only Linux holds a process to a limit of address space.
#[cfg(target_os = "linux")]
mod memory;
mod rows;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_runtime::Result;
use zprof_runtime::export::{
    Host, JsonOptions, PerfettoOptions, PerfettoSummary, write_json, write_perfetto, write_perfetto_hosts,
};

/// Converts bytes with everything shown.
pub(crate) fn convert(xspace: &[u8]) -> Result<(Vec<u8>, PerfettoSummary)> {
    convert_with(xspace, &PerfettoOptions::default())
}

fn convert_with(xspace: &[u8], options: &PerfettoOptions) -> Result<(Vec<u8>, PerfettoSummary)> {
    let mut trace = Vec::new();
    let summary = write_perfetto(&xspace, &mut trace, options)?;
    Ok((trace, summary))
}

/// What Perfetto's protos read from each trace. Where a JSON is given, all of it must be in the trace.
pub(crate) fn check<'a>(traces: impl IntoIterator<Item = (&'a [u8], Option<&'a str>)>) -> Vec<Value> {
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

/// The trace of one space as Perfetto's protos read it.
fn read(space: &XSpace) -> Value {
    let (trace, summary) = convert(&space.encode_to_vec()).expect("is an XSpace");
    let report = check([(trace.as_slice(), None)]).remove(0);
    assert_eq!(events(&report).len() as u64, summary.events);
    report
}

pub(crate) fn events(report: &Value) -> &Vec<Value> {
    report["events"].as_array().expect("is a list")
}

fn json(xspace: &[u8]) -> String {
    let mut json = Vec::new();
    write_json(&xspace, &mut json, &JsonOptions::default()).expect("is an XSpace");
    String::from_utf8(json).expect("the document is UTF-8")
}

/// Each event as one line: process, thread, lane, type, name, begin and end in ns, arguments.
fn lines(report: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let line = |event: &Value| {
        let args = event["args"].as_object().expect("is a map").iter();
        let args: Vec<String> =
            args.map(|(key, value)| format!("{key}={}:{}", text(&value[0]), text(&value[1]))).collect();
        let lane = event["lane"].as_str().map(|lane| format!(" `{lane}`")).unwrap_or_default();
        let what = ["pid", "tid"].map(|key| text(&event[key])).join("/") + &lane;
        let value = event["value"].as_array().map(|value| format!(" = {}:{}", text(&value[0]), text(&value[1])));
        let line = format!(
            "{what} {} `{}` {}..{}{} {}",
            text(&event["type"]),
            text(&event["name"]),
            event["ts"],
            event["end"],
            value.unwrap_or_default(),
            args.join(" ")
        );
        line.trim_end().to_owned()
    };
    events(report).iter().map(line).collect()
}

/// The trace of several hosts.
fn convert_hosts(hosts: &[(&str, &[u8])]) -> Result<(Vec<u8>, PerfettoSummary)> {
    let hosts: Vec<Host<'_>> = hosts.iter().map(|(name, source)| Host { name, source }).collect();
    let mut trace = Vec::new();
    let summary = write_perfetto_hosts(&hosts, &mut trace, &PerfettoOptions::default())?;
    Ok((trace, summary))
}
