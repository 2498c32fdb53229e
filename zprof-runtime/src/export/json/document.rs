//! The document itself: which planes are shown, their metadata, and their events.

use std::collections::BTreeMap;
use std::io::Write;

use super::names::{Arg, Kind, MANY_ARGS, Names, Rank, keep_last, push_last, put_number};
use super::output::Output;
use super::{JsonOptions, JsonSummary};
use crate::Result;
use crate::export::text::{put_micros, put_uint};
use crate::xspace::reader::{
    Event, LineHeader, PlaneHeader, Value, each_event, each_event_stat, each_line, each_plane,
};
use crate::xspace::window::{Extent, Window};

pub(in crate::export) const HOST_PLANE: &[u8] = b"/host:CPU";
/// Prefixes of device planes: those of the first prefix that any plane has are shown.
pub(in crate::export) const DEVICE_PREFIXES: [&[u8]; 3] = [b"/device:GPU:", b"/device:TPU:", b"/device:CUSTOM:"];
/// Longest of the names above.
pub(in crate::export) const LONGEST_PREFIX: u64 = 15;
/// Name of lines whose events are hidden.
const ASYNC_LINE: &[u8] = b"Async XLA Ops";
pub(in crate::export) const HOST_PID: u32 = 701;
pub(in crate::export) const FIRST_DEVICE_PID: i64 = 1;
/// How many lines are remembered from the metadata to the events; beyond, their headers are read again.
const MAX_LINES_KEPT: usize = 1 << 18;

/// The planes that a document shows.
pub(super) struct Document {
    /// The host first, then devices in the order of the file.
    planes: Vec<Plane>,
}

struct Plane {
    header: PlaneHeader,
    pid: u32,
    /// Its lines, once they are known and if they are few.
    lines: Option<Vec<Line>>,
}

#[derive(Clone, Copy)]
struct Line {
    body: Extent,
    tid: u32,
    timestamp_ns: i64,
    event_count: u64,
    /// Whether its events are left out.
    hidden: bool,
}

/// A thread as the metadata shows it.
#[derive(Clone, Copy, Default)]
struct Thread {
    name: Extent,
    sort_index: u32,
}

/// An event that is shown, with what it needs to be written.
struct Shown<'e> {
    names: &'e Names,
    pid: u32,
    tid: u32,
    event: &'e Event,
    kind: Kind,
    start_ps: u64,
}

/// The events that a limit keeps: those that start before `before_ps`, and the first `at_limit` that start then.
struct Limit {
    before_ps: u64,
    at_limit: u64,
}

impl Document {
    /// Finds the planes to show.
    pub(super) fn scan(window: &mut Window<'_>) -> Result<Self> {
        let mut host = None;
        let mut devices = Vec::new();
        let mut best = DEVICE_PREFIXES.len();
        each_plane(window, |window, header| {
            let head = window.piece(Extent { len: header.name.len.min(LONGEST_PREFIX), ..header.name })?;
            if host.is_none() && head == HOST_PLANE {
                host = Some(Plane { header, pid: HOST_PID, lines: None });
                return Ok(());
            }
            let Some(prefix) = DEVICE_PREFIXES.iter().position(|prefix| head.starts_with(prefix)) else {
                return Ok(());
            };
            if prefix < best {
                devices.clear();
                best = prefix;
            }
            if prefix == best {
                let pid = FIRST_DEVICE_PID.wrapping_add(header.id) as u32; // TSL keeps the low 32 bits
                devices.push(Plane { header, pid, lines: None });
            }
            Ok(())
        })?;
        Ok(Self { planes: host.into_iter().chain(devices).collect() })
    }

    /// Writes the document.
    pub(super) fn write(
        mut self,
        window: &mut Window<'_>,
        out: &mut dyn Write,
        options: &JsonOptions,
    ) -> Result<JsonSummary> {
        let mut summary = JsonSummary::default();
        let mut out = Output::new(out);
        out.put(br#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#);
        self.write_metadata(window, &mut out, &mut summary)?;
        let limit = self.limit(window, options)?;
        self.write_events(window, &mut out, limit, &mut summary)?;
        out.put(b"]}");
        out.finish()?;
        Ok(summary)
    }

    fn write_metadata(
        &mut self,
        window: &mut Window<'_>,
        out: &mut Output<'_>,
        summary: &mut JsonSummary,
    ) -> Result<()> {
        let mut by_pid: Vec<&mut Plane> = self.planes.iter_mut().collect();
        by_pid.sort_by_key(|plane| plane.pid);
        let mut kept = 0;
        for process in by_pid.chunk_by_mut(|left, right| left.pid == right.pid) {
            let mut name = Extent::default();
            let mut pid = 0;
            let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
            for plane in process {
                (name, pid) = (plane.header.name, plane.pid);
                let mut lines = Vec::new();
                let mut place = 0_u32;
                each_line(window, plane.header.body, |window, header| {
                    let line = Line::new(window, &header)?;
                    place = place.wrapping_add(1);
                    let thread = threads.entry(line.tid).or_default();
                    thread.name = header.shown_name;
                    if pid == HOST_PID {
                        thread.sort_index = place;
                    }
                    if kept + lines.len() < MAX_LINES_KEPT {
                        lines.push(line);
                    }
                    Ok(())
                })?;
                summary.planes += 1;
                summary.lines += u64::from(place);
                if kept + lines.len() < MAX_LINES_KEPT {
                    kept += lines.len();
                    plane.lines = Some(lines);
                }
            }
            write_process(window, out, pid, name, &threads)?;
        }
        Ok(())
    }

    /// What the limit of events keeps; `None` if it is all of them.
    fn limit(&self, window: &mut Window<'_>, options: &JsonOptions) -> Result<Option<Limit>> {
        let Some(max_events) = options.max_events else { return Ok(None) };
        let mut count = 0_u64;
        self.each_shown(window, |_, _| {
            count += 1;
            Ok(())
        })?;
        if count <= max_events {
            return Ok(None);
        }
        // The start of the first event beyond, found 16 bits at a time from the top: memory does not grow with events.
        let mut wanted = max_events;
        let mut known = 0_u64;
        for shift in [48, 32, 16, 0] {
            let mut counts = vec![0_u64; 1 << 16];
            self.each_shown(window, |_, shown| {
                // All higher digits are as found; there are none at the first.
                if shift == 48 || shown.start_ps >> (shift + 16) == known >> (shift + 16) {
                    counts[(shown.start_ps >> shift & 0xffff) as usize] += 1; // 16 bits
                }
                Ok(())
            })?;
            for (digit, count) in (0_u64..).zip(counts) {
                if wanted < count {
                    known |= digit << shift;
                    break;
                }
                wanted -= count;
            }
        }
        Ok(Some(Limit { before_ps: known, at_limit: wanted }))
    }

    fn write_events(
        &self,
        window: &mut Window<'_>,
        out: &mut Output<'_>,
        mut limit: Option<Limit>,
        summary: &mut JsonSummary,
    ) -> Result<()> {
        let mut args = Args::default();
        let (mut events, mut over_limit) = (0, 0);
        summary.events_hidden = self.each_shown(window, |window, shown| {
            if limit.as_mut().is_some_and(|limit| !limit.keeps(shown.start_ps)) {
                over_limit += 1;
                return Ok(());
            }
            events += 1;
            args.gather(window, shown)?;
            write_event(window, out, shown, &args)
        })?;
        summary.events = events;
        summary.events_over_limit = over_limit;
        Ok(())
    }

    /// Walks over all events that are shown, in the order of the document; returns how many are hidden.
    fn each_shown<'s>(
        &self,
        window: &mut Window<'s>,
        mut each: impl FnMut(&mut Window<'s>, &Shown<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut hidden = 0;
        for plane in &self.planes {
            let body = plane.header.body;
            let names = Names::load(window, body)?;
            let mut each_of_line = |window: &mut Window<'s>, line: &Line| {
                if line.hidden {
                    hidden += line.event_count;
                    return Ok(());
                }
                each_event(window, line.body, |window, event| {
                    let kind = names.kind(event.metadata_id);
                    if kind.hidden {
                        hidden += 1;
                        return Ok(());
                    }
                    let start_ps = line.timestamp_ns.wrapping_mul(1_000).wrapping_add(event.offset_ps);
                    let start_ps = start_ps as u64; // the format says modulo 2^64
                    each(window, &Shown { names: &names, pid: plane.pid, tid: line.tid, event, kind, start_ps })
                })
            };
            match &plane.lines {
                Some(lines) => lines.iter().try_for_each(|line| each_of_line(window, line))?,
                None => each_line(window, body, |window, header| {
                    let line = Line::new(window, &header)?;
                    each_of_line(window, &line)
                })?,
            }
        }
        Ok(hidden)
    }
}

impl Line {
    fn new(window: &mut Window<'_>, header: &LineHeader) -> Result<Self> {
        let name = header.shown_name;
        Ok(Self {
            body: header.body,
            tid: header.shown_id as u32, // TSL keeps the low 32 bits
            timestamp_ns: header.timestamp_ns,
            event_count: header.event_count,
            hidden: name.len == 13 && window.piece(name)? == ASYNC_LINE,
        })
    }
}

impl Limit {
    fn keeps(&mut self, start_ps: u64) -> bool {
        if start_ps == self.before_ps && self.at_limit > 0 {
            self.at_limit -= 1;
            return true;
        }
        start_ps < self.before_ps
    }
}

fn write_process(
    window: &mut Window<'_>,
    out: &mut Output<'_>,
    pid: u32,
    name: Extent,
    threads: &BTreeMap<u32, Thread>,
) -> Result<()> {
    let pid = pid.to_string();
    if name.len != 0 {
        out.begin_element()?;
        out.put(format!(r#"{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":"#).as_bytes());
        out.put_source(window, name)?;
        out.put(b"}}");
    }
    out.begin_element()?;
    let sort = format!(r#"{{"ph":"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}}}"#);
    out.put(sort.as_bytes());
    for (tid, thread) in threads {
        if thread.name.len != 0 {
            out.begin_element()?;
            let head = format!(r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":"#);
            out.put(head.as_bytes());
            out.put_source(window, thread.name)?;
            out.put(b"}}");
        }
        out.begin_element()?;
        let index = if thread.sort_index == 0 { *tid } else { thread.sort_index };
        let head = format!(r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":"#);
        out.put(head.as_bytes());
        put_uint(&mut out.buffer, u64::from(index));
        out.put(b"}}");
    }
    Ok(())
}

/// Arguments of one event, gathered before any is written: a stat may also be the event's name.
#[derive(Default)]
struct Args {
    /// Those of the event's own, by rank and each rank once.
    own: Vec<(Rank, Value)>,
    /// The value of the last `step_name`.
    step_name: Option<Value>,
}

impl Args {
    #[inline]
    fn gather(&mut self, window: &mut Window<'_>, shown: &Shown<'_>) -> Result<()> {
        self.own.clear();
        self.step_name = None;
        if !shown.event.has_stats {
            return Ok(());
        }
        let mut many = MANY_ARGS;
        each_event_stat(window, shown.event.body, |_, stat| {
            let rank = shown.names.rank(stat.metadata_id);
            let key = shown.names.key(rank);
            if key.hidden || stat.value == Value::Unset {
                return Ok(());
            }
            if key.is_step_name {
                self.step_name = Some(stat.value);
            }
            push_last(&mut self.own, (rank, stat.value), |arg| arg.0, &mut many);
            Ok(())
        })?;
        keep_last(&mut self.own, |arg| arg.0);
        Ok(())
    }
}

#[inline]
fn write_event(window: &mut Window<'_>, out: &mut Output<'_>, shown: &Shown<'_>, args: &Args) -> Result<()> {
    let Shown { names, pid, tid, event, kind, start_ps } = shown;
    out.begin_element()?;
    out.put(br#"{"ph":"X","pid":"#);
    put_uint(&mut out.buffer, u64::from(*pid));
    out.put(br#","tid":"#);
    put_uint(&mut out.buffer, u64::from(*tid));
    out.put(br#","ts":"#);
    put_micros(&mut out.buffer, *start_ps);
    out.put(br#","dur":"#);
    let duration_ps = event.duration_ps as u64; // the format says modulo 2^64
    put_micros(&mut out.buffer, duration_ps.max(1));
    out.put(br#","name":"#);
    match args.step_name {
        Some(value) => put_value(window, out, names, value)?,
        None => out.put_text(window, &names.arena, kind.name)?,
    }
    let shared = names.args(kind);
    if !shared.is_empty() || !args.own.is_empty() {
        out.put(br#","args":{"#);
        write_args(window, out, names, shared, &args.own)?;
        out.put(b"}");
    }
    out.put(b"}");
    Ok(())
}

/// Writes both sorted lists as one; an event's own argument hides the shared one of its name.
#[inline]
fn write_args(
    window: &mut Window<'_>,
    out: &mut Output<'_>,
    names: &Names,
    shared: &[Arg],
    own: &[(Rank, Value)],
) -> Result<()> {
    let mut shared = shared.iter().peekable();
    let mut first = true;
    let mut put_key = |window: &mut Window<'_>, out: &mut Output<'_>, rank: Rank| {
        if !std::mem::take(&mut first) {
            out.put(b",");
        }
        out.put_text(window, &names.arena, names.key_text(names.key(rank)))?;
        out.put(b":");
        Ok(())
    };
    for (rank, value) in own {
        while let Some(arg) = shared.next_if(|arg| arg.rank <= *rank) {
            if arg.rank < *rank {
                put_key(window, out, arg.rank)?;
                out.put_text(window, &names.arena, arg.value)?;
            }
        }
        put_key(window, out, *rank)?;
        put_value(window, out, names, *value)?;
    }
    for arg in shared {
        put_key(window, out, arg.rank)?;
        out.put_text(window, &names.arena, arg.value)?;
    }
    Ok(())
}

/// Writes a value as a JSON string.
#[inline]
fn put_value(window: &mut Window<'_>, out: &mut Output<'_>, names: &Names, value: Value) -> Result<()> {
    let text = match value {
        Value::Str(extent) => return out.put_source(window, extent),
        Value::Bytes(_) => names.opaque(),
        Value::Ref(id) => names.key_text(names.key(names.rank(id))),
        Value::Unset | Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
            put_number(&mut out.buffer, value);
            return Ok(());
        }
    };
    out.put_text(window, &names.arena, text)
}
