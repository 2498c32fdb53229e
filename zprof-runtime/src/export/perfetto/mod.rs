//! Perfetto's native trace, streamed from any XSpace: track descriptors, slices, flows and counters as protobuf packets.
//!
//! What becomes what:
//!
//! | Perfetto | from |
//! |---|---|
//! | process | a plane that has lines: the first `/host:CPU`, then all others in the order of the file |
//! | pid | as in the JSON (the program's process id, else 701; or 1 + the plane's id) where that is free; other planes, and ids that are taken, get one from 10001 on |
//! | process name | the name of the plane; of the first `/host:CPU` that of the program, if `Task Environment` has it |
//! | thread | the lines of a plane that share the low 32 bits of display_id, or of id where that is 0; the last one's name is its name |
//! | rank | processes as above; threads of the host, and of pid 701, by the last line's place in the plane, elsewhere by tid |
//! | slice | an event with a duration; an instant, one without |
//! | time | ns on the axis of the trace (see [`axis`](super::axis)), rounded down at both ends, so that what nests in ps nests in ns; an end beyond 2^64 ps lies there |
//! | name | as in the JSON: display_name, with `name` as the argument `long_name`; a stat `step_name` above both |
//! | debug annotation | a stat of the metadata or the event; the last of a name counts; sorted by name |
//! | flow | see [`Flows`](flow::Flows) |
//! | counter track | on a line `_counters_`, the events of one metadata with one stat; the stat's name is the unit |
//!
//! An annotation has the type of its stat: int64 is `int_value`, uint64 `uint_value`, double `double_value`, texts and
//! references `string_value`. Bytes are lower-case hexadecimal digits, or `<N opaque bytes>` where there are more than
//! 4096. An XSpace has no booleans: they are the integers 0 and 1.
//!
//! Planes that the JSON has no place for are shown, and so are lines called `Async XLA Ops`. Left out are the events and
//! stats that the JSON hides: bookkeeping, and what is for programs. Picoseconds below a nanosecond have no place in this
//! format; the XSpace keeps them.
//!
//! Within a track, slices must nest. An event that overlaps another one of its thread without nesting, or that would stand more
//! than 250 deep, goes to a child track `NAME (2)`, `NAME (3)`, … of the thread's; [`LaneAllocator`](crate::lanes::LaneAllocator)
//! chooses the track. Instants of one nanosecond stand on each other, so more than 250 of them take further tracks too. Events
//! of a line are written in order of time, the longer of two that begin together first, whatever their order in the file.

mod args;
mod document;
mod encoder;
mod flow;
mod ids;
mod intern;
mod names;
mod output;
mod planes;
mod tracks;

use std::io::Write;

use self::document::Document;
use super::{Filter, Host};
use crate::Result;
use crate::xspace::Source;

/// How to convert an XSpace to Perfetto's format.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PerfettoOptions {
    /// Which planes and events to write.
    pub filter: Filter,
    /// The most events to write; all, if `None`. What is kept are the earliest; [`PerfettoSummary`] tells how many are not.
    pub max_events: Option<u64>,
}

/// What a trace holds, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerfettoSummary {
    /// Planes shown, each a process.
    pub planes: u64,
    /// Lines shown.
    pub lines: u64,
    /// Events written: slices, instants and samples of counters.
    pub events: u64,
    /// Events that are bookkeeping and not shown.
    pub events_hidden: u64,
    /// Planes left out because of [`PerfettoOptions::filter`], each of which would be a process.
    pub planes_filtered: u64,
    /// Events left out because of [`PerfettoOptions::filter`], those of whole planes among them.
    pub events_filtered: u64,
    /// Events left out because of [`PerfettoOptions::max_events`].
    pub events_over_limit: u64,
    /// Events that lie outside of their session, and hosts whose times cannot be compared, in words.
    pub notes: Vec<String>,
    /// Tracks beside the threads' own, for events that overlap others without nesting.
    pub lanes: u64,
}

/// Writes the Perfetto trace of the XSpace in `source` to `out`, not compressed. Perfetto's viewer and trace processor
/// also open it compressed with gzip, or with runs of its packets as `compressed_packets`, which is what `zprof convert` makes
/// of it.
///
/// Memory is bounded by the names and line headers of the largest plane and at most 64 MiB, however many events there
/// are. A line whose events are not in order of time is read once more for each half million of them. `out` gets large
/// pieces and needs no buffer of its own.
///
/// # Errors
/// [`ErrorKind::InvalidData`](crate::ErrorKind::InvalidData) if the bytes are not an XSpace, with the offset and the
/// reason; [`ErrorKind::Io`](crate::ErrorKind::Io) if reading or writing fails. What was written by then is a trace that
/// lacks events.
pub fn write_perfetto(source: &dyn Source, out: &mut dyn Write, options: &PerfettoOptions) -> Result<PerfettoSummary> {
    write_perfetto_hosts(&[Host { name: "", source }], out, options)
}

/// Writes one Perfetto trace of several hosts, whose processes stand beside each other: [`write_perfetto`] for each, but
/// that process ids are 1000, 2000, … higher and that the host's name stands before the names of its processes.
///
/// # Errors
/// As of [`write_perfetto`]; the message names the host.
pub fn write_perfetto_hosts(
    hosts: &[Host<'_>],
    out: &mut dyn Write,
    options: &PerfettoOptions,
) -> Result<PerfettoSummary> {
    Document::scan(hosts, options)?.write(out)
}
