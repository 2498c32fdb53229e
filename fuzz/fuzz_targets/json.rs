//! Any bytes: the JSON export refuses them with a place and a reason, or writes a document that a JSON parser takes.
//!
//! `cargo +nightly fuzz run json fuzz/corpus/json tests/fixtures`

#![no_main]

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{JsonOptions, write_json};

fuzz_target!(|bytes: &[u8]| {
    // The first byte, if it is small, is a limit of events, so that this path is met as well.
    let mut options = JsonOptions::default();
    options.max_events = bytes.first().filter(|first| **first < 8).map(|first| u64::from(*first));
    let bytes = if options.max_events.is_some() { &bytes[1..] } else { bytes };
    let mut json = Vec::new();
    match write_json(&bytes, &mut json, &options) {
        Ok(summary) => {
            let document: serde_json::Value = serde_json::from_slice(&json).expect("the document is JSON");
            let elements = document["traceEvents"].as_array().expect("is a list");
            let events = elements.iter().filter(|element| element["ph"] == "X").count();
            assert_eq!(events as u64, summary.events);
            assert!(options.max_events.is_none_or(|max_events| summary.events <= max_events));
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("at byte "), "{error}");
        }
    }
});
