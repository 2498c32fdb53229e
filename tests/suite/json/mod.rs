//! The JSON export: equal to TSL's on real and on generated spaces, and safe on bytes that nobody would write.

mod choice;
mod hostile;
// Only Linux holds a process to a limit of address space.
#[cfg(target_os = "linux")]
mod memory;
pub(crate) mod parity;
mod rows;
mod tsl;
pub(crate) mod wire;

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;
use zprof_runtime::Result;
use zprof_runtime::export::{JsonOptions, JsonSummary, write_json};

/// Converts bytes without a limit of events.
pub(crate) fn convert(xspace: &[u8]) -> Result<(String, JsonSummary)> {
    convert_with(xspace, &JsonOptions::default())
}

fn convert_with(xspace: &[u8], options: &JsonOptions) -> Result<(String, JsonSummary)> {
    let mut json = Vec::new();
    let summary = write_json(&xspace, &mut json, options)?;
    Ok((String::from_utf8(json).expect("the document is UTF-8"), summary))
}

/// The elements of `traceEvents`, without TSL's empty one.
fn elements(json: &str) -> Vec<Value> {
    let mut document: Value = serde_json::from_str(json).expect("the document is JSON");
    let Value::Array(mut elements) = document["traceEvents"].take() else { panic!("traceEvents is no list") };
    elements.retain(|element| element != &serde_json::json!({}));
    elements
}

/// The elements with each lane's events on the thread that the lane belongs to, and without the lanes' metadata, which stands behind
/// events of that thread.
fn without_lanes(elements: Vec<Value>) -> Vec<Value> {
    const FIRST_LANE: u64 = 2_000_000_001;
    let mut threads: HashMap<(u64, u64), u64> = HashMap::new();
    let mut last = None;
    let mut found = Vec::new();
    for mut element in elements {
        if let (Some(pid), Some(tid)) = (element["pid"].as_u64(), element["tid"].as_u64()) {
            let is_event = element["ph"] == "X";
            if let (false, true, Some(thread)) = (is_event, tid >= FIRST_LANE, last) {
                threads.insert((pid, tid), thread);
                continue;
            }
            // This id stands for a thread 0.
            let own = if tid == FIRST_LANE - 1 { 0 } else { tid };
            let thread = threads.get(&(pid, tid)).copied().unwrap_or(own);
            element["tid"] = thread.into();
            last = is_event.then_some(thread).or(last);
        }
        found.push(element);
    }
    found
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

pub(crate) fn fixture_bytes(name: &str) -> Vec<u8> {
    let path = fixture(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
