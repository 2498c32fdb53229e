//! Trace-viewer JSON, which Perfetto and TensorBoard open, streamed from any XSpace.
//!
//! The document holds no white space; line breaks here are for reading:
//!
//! ```text
//! {"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
//!   per process, ascending pid:
//!     {"ph":"M","pid":P,"name":"process_name","args":{"name":S}},             unless the name is empty
//!     {"ph":"M","pid":P,"name":"process_sort_index","args":{"sort_index":P}},     701 in place of a program's id
//!     per thread, ascending tid:
//!       {"ph":"M","pid":P,"tid":T,"name":"thread_name","args":{"name":S}},    unless the name is empty
//!       {"ph":"M","pid":P,"tid":T,"name":"thread_sort_index","args":{"sort_index":I}},
//!   per event, thread by thread, in the order of time:
//!     {"ph":"X","pid":P,"tid":T,"ts":N,"dur":N,"name":S[,"args":{S:S,…}]}
//! ]}
//! ```
//!
//! | what | from |
//! |---|---|
//! | processes | the first plane `/host:CPU`; then the planes `/device:GPU:…`, or if there are none `/device:TPU:…`, or `/device:CUSTOM:…` |
//! | P | 701 for the host, or the id of its process if `Task Environment` has the name and the id of the program; else 1 + the plane's id; an id that is taken, or that is not in 1 to 2^31 - 1, becomes one from 10001 on |
//! | T | the low 32 bits of display_id, or of id where display_id is 0, and 2,000,000,000 where that is 0, which readers take for P; lines of a plane with one T are one thread, and the last name is its name |
//! | I | on the host the line's place in its plane, from 1; elsewhere T |
//! | ts, dur | µs: both ends rounded down to ns, but dur is at least 1 ps; from 2^42 µs on, which are 51 days, to µs, and what reaches beyond ends there. An event starts at (timestamp_ns · 1000 + offset_ps) mod 2^64 ps on the axis of the document (see [`axis`](super::axis)) |
//! | name | display_name of the event's metadata, with `name` as argument `long_name`; `name` where it is empty; a stat `step_name` is put above both |
//! | args | the stats of the metadata, then the event's: the last of a name counts; sorted by name, every value a string |
//!
//! Perfetto drops an event that overlaps another one of its thread without nesting. Such an event gets a lane: a thread called
//! `NAME (2)`, `NAME (3)`, … with an id from 2,000,000,001 on and the `sort_index` of its own thread, whose metadata stands before
//! the lane's first event. [`LaneAllocator`](crate::lanes::LaneAllocator) chooses the lane. Events that nest more than 250 deep, and
//! more than 250 instants of one nanosecond, take lanes too.
//!
//! Left out, and counted: events whose name says that they are bookkeeping ([`HIDDEN_EVENTS`]), and lines called
//! `Async XLA Ops`, of which only the metadata is written. Left out of args: [`HIDDEN_STATS`], and stats without a
//! value. Bytes read `<opaque bytes>`, doubles have six significant digits. Texts are UTF-8 as it is; NUL is `\u0000`,
//! and what is not UTF-8 becomes U+FFFD.
//!
//! TSL writes a document of the same form. It ends the list with `{}`, cuts texts at a NUL, escapes what is not ASCII, writes times
//! to the picosecond, rounded to doubles, makes one process of planes with one P, has no lanes, keeps the order of the file, and
//! stops at a number of events. [`JsonOptions::tsl`] does the same to the byte; under a limit of events that includes the order in
//! which TSL's partial sort leaves events of one time.
//!
//! Several hosts give one document: P, where it is below 1000 and no program's, becomes 1000 · the host's place from 1 + P, and a
//! process is called by its host's name, a space and the plane's name, as XProf does it. Times are those of one axis, by the start
//! times of the hosts' sessions. A process whose program is known has its name in place of the plane's.

pub(super) mod document;
mod event;
mod limit;
pub(super) mod names;
mod output;
mod threads;

use std::fs::{self, File};
use std::io;
use std::path::Path;

use self::document::Document;
use super::file::write_whole;
use super::{Filter, Host};
use crate::xspace::Source;
use crate::{Error, ErrorKind, Result};

/// How to convert an XSpace to JSON.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JsonOptions {
    /// The most events to write; all, if `None`. What is kept are the earliest; [`JsonSummary`] tells how many are not.
    pub max_events: Option<u64>,
    /// Which planes and events to write.
    pub filter: Filter,
    /// Writes what TSL's converter writes, to the byte, for comparison. With a limit of events that takes about 40 bytes
    /// of memory for each event written. TSL's own limit is not applied by itself.
    pub tsl: bool,
    /// Reads everything before the first byte is written, so that bytes that are no XSpace leave no part of a document
    /// where it cannot be taken back. Costs one more walk over all events.
    pub validate_first: bool,
}

/// What a JSON document holds, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonSummary {
    /// Planes shown; other planes of the XSpace have no place in this format.
    pub planes: u64,
    /// Lines shown.
    pub lines: u64,
    /// Events written.
    pub events: u64,
    /// Events of the planes shown that this format hides: bookkeeping, and the lines `Async XLA Ops`.
    pub events_hidden: u64,
    /// Events left out because of [`JsonOptions::max_events`].
    pub events_over_limit: u64,
    /// Planes left out because of [`JsonOptions::filter`]; of those that this format can show.
    pub planes_filtered: u64,
    /// Events left out because of [`JsonOptions::filter`], those of whole planes among them.
    pub events_filtered: u64,
    /// Threads beside those of the lines, for events that overlap others without nesting.
    pub lanes: u64,
    /// Events that lie outside of their session, and hosts whose times cannot be compared, in words; not under
    /// [`JsonOptions::tsl`].
    pub notes: Vec<String>,
}

/// Names of events that are not shown.
pub(super) const HIDDEN_EVENTS: [&str; 13] = [
    "MemoryAllocation",
    "MemoryDeallocation",
    "PrefetchProduce",
    "PrefetchConsume",
    "ParallelInterleaveProduce",
    "ParallelInterleaveConsume",
    "ParallelInterleaveInitializeInput",
    "ParallelMapProduce",
    "ParallelMapConsume",
    "MapAndBatchProduce",
    "MapAndBatchConsume",
    "ParseExampleProduce",
    "ParseExampleConsume",
];

/// Names of stats that are not shown.
pub(super) const HIDDEN_STATS: [&str; 8] = ["_pt", "_p", "_ct", "_c", "_r", "flops", "program_id", "symbol_id"];

/// Writes the trace-viewer JSON of the XSpace in `source` to `out`.
///
/// Shown are the host and the accelerators, as TensorFlow's trace viewer shows them. Stats called `_pt`, `_p`, `_ct`,
/// `_c`, `_r`, `flops`, `program_id` and `symbol_id` are for programs and do not appear; the XSpace keeps them.
///
/// Memory is bounded by the names, line headers and event metadata of the largest plane and at most 8 MiB, however many
/// events there are. A line whose events are not in order of time is read once more for each 65,536 of them. `out` gets large
/// pieces and needs no buffer of its own.
///
/// # Errors
/// [`ErrorKind::InvalidData`] if the bytes are not an XSpace, with the offset and the reason; [`ErrorKind::Io`] if
/// reading or writing fails. What was written by then is not a document.
pub fn write_json(source: &dyn Source, out: &mut dyn io::Write, options: &JsonOptions) -> Result<JsonSummary> {
    write_json_hosts(&[Host { name: "", source }], out, options)
}

/// Writes one trace-viewer JSON of several hosts, whose processes stand beside each other: [`write_json`] for each, but
/// that process ids are 1000, 2000, … higher and that the host's name stands before the names of its processes.
///
/// # Errors
/// As of [`write_json`]; the message names the host.
pub fn write_json_hosts(hosts: &[Host<'_>], out: &mut dyn io::Write, options: &JsonOptions) -> Result<JsonSummary> {
    Document::scan(hosts, options)?.write(out)
}

/// Converts the XSpace file at `xspace` to a trace-viewer JSON file at `json`, which appears whole or not at all.
///
/// # Errors
/// As of [`write_json`]; the message names both files. [`ErrorKind::InvalidInput`] if both are the same file.
pub fn export_json_file(xspace: &Path, json: &Path) -> Result<JsonSummary> {
    let source =
        File::open(xspace).map_err(|error| Error::io(format!("failed to open `{}`", xspace.display()), error))?;
    if let (Ok(from), Ok(to)) = (fs::canonicalize(xspace), fs::canonicalize(json)) {
        if from == to {
            let message = format!("`{}` cannot be both the XSpace and its JSON; name another file", json.display());
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
    }
    write_whole(json, |file| write_json(&source, file, &JsonOptions::default())).map_err(|error| {
        error.context(format_args!("failed to convert `{}` to `{}`", xspace.display(), json.display()))
    })
}
