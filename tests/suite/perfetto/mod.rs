//! The Perfetto export, decoded with Perfetto's own protos: everything of the JSON is in it, and nothing is lost on the way
//! into a viewer.

mod engine;
mod fixtures;
mod generated;
mod marks;
// Only Linux holds a process to a limit of address space.
#[cfg(target_os = "linux")]
mod memory;
mod rows;

use serde_json::Value;
use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_runtime::Result;
use zprof_runtime::export::{Host, JsonOptions, PerfettoOptions, PerfettoSummary, write_json, write_perfetto_hosts};
use zprof_tests::viewers::{convert, convert_with, events, read_traces as check};

/// The trace of one space as Perfetto's protos read it.
fn read(space: &XSpace) -> Value {
    let (trace, summary) = convert(&space.encode_to_vec()).expect("is an XSpace");
    let report = check([(trace.as_slice(), None)]).remove(0);
    assert_eq!(events(&report).len() as u64, summary.events);
    report
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
