//! The document itself: which planes are shown, their metadata, and their events.

use std::collections::BTreeMap;
use std::io::Write;

use super::event::{Args, Shown, write_event};
use super::limit::{Kept, Place};
use super::names::Names;
use super::output::{Output, Style};
use super::threads::{Threads, shown_tid};
use super::{JsonOptions, JsonSummary};
use crate::export::about::{About, Process};
use crate::export::axis::{Axes, Axis, Member};
use crate::export::limit::Limit;
use crate::export::text::put_uint;
use crate::export::{Filter, Host, host};
use crate::room::{self, OutOfMemory, Room as _};
use crate::xspace::Source;
use crate::xspace::reader::{LineHeader, PlaneHeader, each_event, each_line, each_plane, read_event};
use crate::xspace::window::{Extent, Window};
use crate::{Error, ErrorKind, Result};

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
/// How many planes an error names.
const MAX_NAMED: usize = 8;

/// The planes that a document shows, of all hosts.
pub(super) struct Document<'s, 'o> {
    parts: Vec<Part<'s>>,
    options: &'o JsonOptions,
    /// Which events are written, by their times in the document.
    filter: Filter,
    style: Style,
    summary: JsonSummary,
}

/// One host's.
pub(super) struct Part<'s> {
    pub(super) source: &'s dyn Source,
    pub(super) window: Window<'s>,
    /// Name of the host where there are several.
    host: Option<&'s str>,
    /// What the space says of its session; nothing as TSL converts it.
    about: About,
    /// Where its times are in the document.
    pub(super) axis: Axis,
    /// The host first, then devices in the order of the file.
    pub(super) planes: Vec<Plane>,
}

pub(super) struct Plane {
    pub(super) header: PlaneHeader,
    is_host: bool,
    /// Id of the process on its host, as TSL has it.
    pub(super) pid: u32,
    /// Id of the process in the document.
    pub(super) shown_pid: u32,
    /// Its place among the processes of the document.
    sort_index: u32,
    /// Its lines, once they are known and if they are few.
    lines: Option<Vec<Line>>,
}

#[derive(Clone, Copy)]
pub(super) struct Line {
    body: Extent,
    pub(super) tid: u32,
    /// What the line's timestamp stands for in the document, in picoseconds modulo 2^64.
    pub(super) base_ps: i64,
    pub(super) event_count: u64,
    /// Whether its events are left out.
    pub(super) hidden: bool,
}

/// A thread as the metadata shows it.
#[derive(Clone, Copy, Default)]
struct Thread {
    name: Extent,
    sort_index: u32,
}

/// Events that a walk passes over.
#[derive(Default)]
struct Left {
    hidden: u64,
    filtered: u64,
}

impl<'s, 'o> Document<'s, 'o> {
    /// Finds the planes to show.
    pub(super) fn scan(hosts: &[Host<'s>], options: &'o JsonOptions) -> Result<Self> {
        let several = hosts.len() > 1;
        let mut filtered = Vec::new();
        let mut summary = JsonSummary::default();
        let mut parts = Vec::new();
        for host in hosts {
            let mut part = Part {
                source: host.source,
                window: Window::new(host.source)?,
                host: several.then_some(host.name),
                about: About::default(),
                axis: Axis::default(),
                planes: Vec::new(),
            };
            let found = part.find_planes(&options.filter, &mut summary, &mut filtered);
            found.map_err(|error| of_host(part.host, error))?;
            if !options.tsl {
                part.about = About::read(&mut part.window).map_err(|error| of_host(part.host, error))?;
            }
            parts.push(part);
        }
        if !filtered.is_empty() && parts.iter().all(|part| part.planes.is_empty()) {
            let (asked, there) = (options.filter.planes.join("`, `"), filtered.join("`, `"));
            let message = format!("no plane that a trace shows matches `{asked}`; there are `{there}`");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let style = if options.tsl { Style::Tsl } else { Style::Exact };
        if style == Style::Exact {
            let wanted: Vec<(usize, Option<u32>)> = (0..)
                .zip(&parts)
                .flat_map(|(host, part): (usize, &Part<'_>)| part.planes.iter().map(move |p| (host, Some(p.pid))))
                .collect();
            let places = host::process_ids(hosts.len(), &wanted);
            let mut ids = places.clone();
            let programs = parts.iter().flat_map(|part| part.planes.iter().map(|plane| plane.process(&part.about)?.id));
            host::take_program_ids(&mut ids, programs);
            let planes = parts.iter_mut().flat_map(|part| &mut part.planes);
            for (plane, (pid, place)) in planes.zip(ids.into_iter().zip(places)) {
                (plane.shown_pid, plane.sort_index) = (pid, place);
            }
        } else if several {
            let pids = parts.iter().enumerate().flat_map(|(host, part)| part.planes.iter().map(move |p| (host, p.pid)));
            let shown = host::number_processes(hosts.len(), pids);
            for (host, part) in parts.iter_mut().enumerate() {
                for plane in &mut part.planes {
                    plane.shown_pid = shown.get(&(host, plane.pid)).copied().unwrap_or(plane.pid);
                    plane.sort_index = plane.shown_pid;
                }
            }
        }
        let mut filter = options.filter.clone();
        if !options.tsl {
            let axes = find_axes(&mut parts, &filter)?;
            filter = axes.filter(&filter);
            summary.notes = axes.notes;
        }
        Ok(Self { parts, options, filter, style, summary })
    }

    /// Writes the document.
    pub(super) fn write(mut self, out: &mut dyn Write) -> Result<JsonSummary> {
        if self.options.validate_first {
            let mut args = Args::default();
            self.each_shown(|window, shown| args.gather(window, shown))?;
        }
        let mut out = Output::new(out, self.style)?;
        out.put(br#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#);
        self.write_metadata(&mut out)?;
        let kept = Kept::find(&mut self)?;
        self.write_events(&mut out, kept)?;
        out.finish()?;
        Ok(self.summary)
    }

    pub(super) fn options(&self) -> &'o JsonOptions {
        self.options
    }

    fn write_metadata(&mut self, out: &mut Output<'_>) -> Result<()> {
        let mut kept = 0;
        for Part { window, host, about, axis, planes, .. } in &mut self.parts {
            let mut by_pid: Vec<&mut Plane> = planes.iter_mut().collect();
            by_pid.sort_by_key(|plane| plane.sort_index);
            for process in by_pid.chunk_by_mut(|left, right| left.shown_pid == right.shown_pid) {
                let mut head = ProcessHead { host: *host, ..ProcessHead::default() };
                let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
                for plane in process {
                    head.name = plane.header.name;
                    (head.pid, head.sort_index) = (plane.shown_pid, plane.sort_index);
                    head.process = plane.process(about);
                    let mut lines = Vec::new();
                    let mut place = 0_u32;
                    let walked = each_line(window, plane.header.body, |window, header| {
                        let line = Line::new(window, &header, axis)?;
                        place = place.wrapping_add(1);
                        let thread = threads.entry(line.tid).or_default();
                        thread.name = header.shown_name;
                        if plane.pid == HOST_PID {
                            thread.sort_index = place;
                        }
                        if kept + lines.len() < MAX_LINES_KEPT {
                            room::push(&mut lines, line).map_err(OutOfMemory::error)?;
                        }
                        Ok(())
                    });
                    walked.map_err(|error| of_host(*host, error))?;
                    self.summary.planes += 1;
                    self.summary.lines += u64::from(place);
                    if kept + lines.len() < MAX_LINES_KEPT {
                        kept += lines.len();
                        plane.lines = Some(lines);
                    }
                }
                write_process(window, out, &head, &threads, self.style)?;
            }
        }
        Ok(())
    }

    fn write_events(&mut self, out: &mut Output<'_>, kept: Kept) -> Result<()> {
        let mut args = Args::default();
        let (mut events, mut over_limit) = (0, 0);
        let left = match kept {
            Kept::All if self.style == Style::Tsl => self.each_shown(|window, shown| {
                events += 1;
                args.gather(window, shown)?;
                write_event(window, out, shown, &args)
            })?,
            Kept::All => return self.write_in_lanes(out, None),
            Kept::Earliest(limit) => return self.write_in_lanes(out, Some(limit)),
            Kept::InOrder { entries, places, left_out } => {
                over_limit = left_out;
                let names = self.parts.iter_mut().map(|part| part.names(self.style)).collect::<Result<Vec<_>>>()?;
                let windows = self.parts.iter().map(|part| Window::small(part.source));
                let mut windows = windows.collect::<Result<Vec<_>>>()?;
                for entry in entries {
                    let Place { part, plane, pid, tid } = places[entry.place as usize]; // made as a place in this list
                    let window = &mut windows[part];
                    let event = &read_event(window, entry.body)?;
                    let names = &names[part][plane];
                    let kind = names.kind(event.metadata_id);
                    let place = Place { part, plane, pid, tid };
                    let shown = Shown { names, place, event, kind, start_ps: entry.start_ps };
                    events += 1;
                    args.gather(window, &shown)?;
                    write_event(window, out, &shown, &args)?;
                }
                self.each_shown(|_, _| Ok(()))?
            }
        };
        self.summary.events = events;
        self.summary.events_over_limit = over_limit;
        self.summary.events_hidden = left.hidden;
        self.summary.events_filtered += left.filtered;
        Ok(())
    }

    /// Writes the events thread by thread, in lanes within which they nest.
    fn write_in_lanes(&mut self, out: &mut Output<'_>, limit: Option<Limit>) -> Result<()> {
        let filter = Some(&self.filter).filter(|filter| !filter.keeps_all_events());
        let mut threads = Threads::new(out, filter, limit, &mut self.summary);
        for (number, part) in self.parts.iter_mut().enumerate() {
            threads.write(number, part, self.style).map_err(|error| of_host(part.host, error))?;
        }
        Ok(())
    }

    /// Walks over all events that are shown, in the order of the file, and counts the others.
    fn each_shown(&mut self, mut each: impl FnMut(&mut Window<'s>, &Shown<'_>) -> Result<()>) -> Result<Left> {
        let mut left = Left::default();
        let filter = Some(&self.filter).filter(|filter| !filter.keeps_all_events());
        for (number, part) in self.parts.iter_mut().enumerate() {
            let walked = part.each_shown(number, self.style, filter, &mut left, &mut each);
            walked.map_err(|error| of_host(part.host, error))?;
        }
        Ok(left)
    }

    /// The same for those who only look.
    pub(super) fn each_start(&mut self, mut each: impl FnMut(&Shown<'_>)) -> Result<()> {
        self.each_shown(|_, shown| {
            each(shown);
            Ok(())
        })
        .map(|_| ())
    }
}

impl Plane {
    /// The program whose threads the plane holds, where that is known.
    fn process<'a>(&self, about: &'a About) -> Option<&'a Process> {
        about.process.as_ref().filter(|_| self.is_host)
    }
}

impl<'s> Part<'s> {
    /// Finds the planes to show; names some of those that the filter leaves out.
    fn find_planes(&mut self, filter: &Filter, summary: &mut JsonSummary, filtered: &mut Vec<String>) -> Result<()> {
        let mut host = None;
        let mut devices = Vec::new();
        let mut best = DEVICE_PREFIXES.len();
        each_plane(&mut self.window, |window, header| {
            let head = window.piece(Extent { len: header.name.len.min(LONGEST_PREFIX), ..header.name })?;
            let is_host = host.is_none() && head == HOST_PLANE;
            let prefix = DEVICE_PREFIXES.iter().position(|prefix| head.starts_with(prefix));
            if !is_host && prefix.is_none() {
                return Ok(());
            }
            let name = window.piece(header.name)?;
            if !filter.keeps_plane(name) {
                summary.planes_filtered += 1;
                if filtered.len() < MAX_NAMED {
                    filtered.push(String::from_utf8_lossy(name).into_owned());
                }
                return each_line(window, header.body, |_, line| {
                    summary.events_filtered += line.event_count;
                    Ok(())
                });
            }
            let plane = |pid| Plane { header, is_host, pid, shown_pid: pid, sort_index: pid, lines: None };
            let Some(prefix) = prefix else {
                host = Some(plane(HOST_PID));
                return Ok(());
            };
            if prefix < best {
                devices.clear();
                best = prefix;
            }
            if prefix == best {
                devices.room(1).map_err(OutOfMemory::error)?;
                devices.push(plane(FIRST_DEVICE_PID.wrapping_add(header.id) as u32)); // TSL keeps the low 32 bits
            }
            Ok(())
        })?;
        self.planes = host.into_iter().chain(devices).collect();
        Ok(())
    }

    /// The names of all planes, in order.
    fn names(&mut self, style: Style) -> Result<Vec<Names>> {
        self.planes.iter().map(|plane| Names::load(&mut self.window, plane.header.body, style)).collect()
    }

    fn each_shown(
        &mut self,
        part: usize,
        style: Style,
        filter: Option<&Filter>,
        left: &mut Left,
        each: &mut impl FnMut(&mut Window<'s>, &Shown<'_>) -> Result<()>,
    ) -> Result<()> {
        let (window, axis) = (&mut self.window, &self.axis);
        for (number, plane) in self.planes.iter().enumerate() {
            let body = plane.header.body;
            let names = &Names::load(window, body, style)?;
            let mut each_of_line = |window: &mut Window<'s>, line: &Line| {
                if line.hidden {
                    left.hidden += line.event_count;
                    return Ok(());
                }
                let place = Place { part, plane: number, pid: plane.shown_pid, tid: line.tid };
                each_event(window, line.body, |window, event| {
                    let kind = names.kind(event.metadata_id);
                    if kind.hidden {
                        left.hidden += 1;
                        return Ok(());
                    }
                    let start_ps = line.base_ps.wrapping_add(event.offset_ps);
                    let shown = Shown { names, place, event, kind, start_ps: start_ps as u64 }; // modulo 2^64 by the format
                    if filter.is_some_and(|filter| !filter.keeps_event(shown.start_ps, shown.duration_ps())) {
                        left.filtered += 1;
                        return Ok(());
                    }
                    each(window, &shown)
                })
            };
            match &plane.lines {
                Some(lines) => lines.iter().try_for_each(|line| each_of_line(window, line))?,
                None => each_line(window, body, |window, header| {
                    let line = Line::new(window, &header, axis)?;
                    each_of_line(window, &line)
                })?,
            }
        }
        Ok(())
    }
}

impl Line {
    pub(super) fn new(window: &mut Window<'_>, header: &LineHeader, axis: &Axis) -> Result<Self> {
        let name = header.shown_name;
        Ok(Self {
            body: header.body,
            tid: header.shown_id as u32, // TSL keeps the low 32 bits
            base_ps: axis.base_ps(header.timestamp_ns),
            event_count: header.event_count,
            hidden: name.len == 13 && window.piece(name)? == ASYNC_LINE,
        })
    }
}

/// An error of one host's bytes, where there are several.
#[cold]
fn of_host(host: Option<&str>, error: Error) -> Error {
    match host {
        Some(host) if error.kind() == ErrorKind::InvalidData => error.context(format_args!("host `{host}`")),
        _ => error,
    }
}

/// Finds where the times of each part are in the document.
fn find_axes(parts: &mut [Part<'_>], filter: &Filter) -> Result<Axes> {
    let members = parts.iter_mut().map(|part| {
        let Part { window, host, about, .. } = part;
        Member { host: *host, about, window }
    });
    let axes = Axes::find(members.collect(), filter)?;
    for (part, axis) in parts.iter_mut().zip(&axes.hosts) {
        part.axis = axis.clone();
    }
    Ok(axes)
}

/// What the metadata of a process begins with.
#[derive(Default)]
struct ProcessHead<'p> {
    pid: u32,
    sort_index: u32,
    /// Name of the host where there are several.
    host: Option<&'p str>,
    /// Name of the plane.
    name: Extent,
    /// The program, where it is known: its name stands in place of the plane's.
    process: Option<&'p Process>,
}

fn write_process(
    window: &mut Window<'_>,
    out: &mut Output<'_>,
    head: &ProcessHead<'_>,
    threads: &BTreeMap<u32, Thread>,
    style: Style,
) -> Result<()> {
    let ProcessHead { pid, sort_index, host, mut name, process } = *head;
    let mut prefix = host.map_or_else(String::new, |host| format!("{host} "));
    if let Some(process) = process {
        name = Extent::default();
        prefix.push_str(&process.shown_as(pid));
    }
    if name.len != 0 || process.is_some() {
        out.begin_element()?;
        out.put(format!(r#"{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":"#).as_bytes());
        out.put_source_between(window, &prefix, name, "")?;
        out.put(b"}}");
    }
    out.begin_element()?;
    let sort = format!(r#"{{"ph":"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{sort_index}}}}}"#);
    out.put(sort.as_bytes());
    let shown_pid = pid.to_string();
    for (tid, thread) in threads {
        let index = if thread.sort_index == 0 { *tid } else { thread.sort_index };
        let tid = if style == Style::Exact { shown_tid(*tid, |tid| threads.contains_key(&tid)) } else { *tid };
        write_thread(window, out, (&shown_pid, tid), (thread.name, ""), index)?;
    }
    Ok(())
}

/// Writes the metadata of a thread, or of a lane, whose name has a suffix.
pub(super) fn write_thread(
    window: &mut Window<'_>,
    out: &mut Output<'_>,
    (pid, tid): (&str, u32),
    (name, suffix): (Extent, &str),
    sort_index: u32,
) -> Result<()> {
    if name.len != 0 || !suffix.is_empty() {
        out.begin_element()?;
        let head = format!(r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":"#);
        out.put(head.as_bytes());
        out.put_source_between(window, "", name, suffix)?;
        out.put(b"}}");
    }
    out.begin_element()?;
    let head = format!(r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":"#);
    out.put(head.as_bytes());
    put_uint(&mut out.buffer, u64::from(sort_index));
    out.put(b"}}");
    Ok(())
}
