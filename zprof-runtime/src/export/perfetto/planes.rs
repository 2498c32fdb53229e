//! Which planes a trace shows as processes, and which threads their lines are.

use std::collections::BTreeMap;

use super::PerfettoSummary;
use crate::export::about::{About, Process};
use crate::export::axis::{Axes, Axis, Member};
use crate::export::json::document::{DEVICE_PREFIXES, FIRST_DEVICE_PID, HOST_PID, HOST_PLANE, LONGEST_PREFIX};
use crate::export::order::{Order, Run};
use crate::export::{Filter, Host, host};
use crate::xspace::Source;
use crate::xspace::reader::{PlaneHeader, each_line, each_line_with, each_plane};
use crate::xspace::window::{Extent, PIECE, Window};
use crate::{Error, Result};

/// Name of lines whose events are samples of counters.
const COUNTER_LINE: &[u8] = b"_counters_";

/// One host's part of a trace.
pub(super) struct Part<'s> {
    pub(super) source: &'s dyn Source,
    pub(super) window: Window<'s>,
    /// Name of the host where there are several.
    pub(super) host: Option<&'s str>,
    /// What the space says of its session.
    pub(super) about: About,
    /// Where its times are in the trace.
    pub(super) axis: Axis,
    /// The host's plane first, then the others in the order of the file.
    pub(super) planes: Vec<Plane>,
}

/// A plane that may be shown.
pub(super) struct Plane {
    pub(super) header: PlaneHeader,
    /// Id of the process as the JSON has it on one host whose program is not known; `None` if the JSON has no such.
    wanted_pid: Option<u32>,
    /// Id of the process in the trace.
    pub(super) pid: u32,
    pub(super) is_host: bool,
    /// Whether it is the first plane `/host:CPU`, which holds the threads of the program.
    is_program: bool,
}

impl Plane {
    /// Whether it is shown even if it has no lines.
    pub(super) fn is_known(&self) -> bool {
        self.wanted_pid.is_some()
    }

    /// The program whose threads the plane holds, where that is known.
    pub(super) fn process<'a>(&self, about: &'a About) -> Option<&'a Process> {
        about.process.as_ref().filter(|_| self.is_program)
    }
}

/// Lines of a plane with one id.
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) name: Extent,
    pub(super) is_counters: bool,
    /// Place among the threads of its process.
    pub(super) rank: u32,
    pub(super) runs: Vec<Run>,
}

/// Finds the planes of all hosts.
///
/// Gives with them the filter for times of the trace.
pub(super) fn scan<'s>(
    hosts: &[Host<'s>],
    filter: &Filter,
    summary: &mut PerfettoSummary,
) -> Result<(Vec<Part<'s>>, Filter)> {
    let several = hosts.len() > 1;
    let mut parts = Vec::new();
    for host in hosts {
        let mut window = Window::new(host.source)?;
        let host_name = several.then_some(host.name);
        let of_host = |error: Error| match host_name {
            Some(name) => error.context(format_args!("host `{name}`")),
            None => error,
        };
        let planes = find_planes(&mut window, filter, summary).map_err(of_host)?;
        let about = About::read(&mut window).map_err(of_host)?;
        parts.push(Part { source: host.source, window, host: host_name, about, axis: Axis::default(), planes });
    }
    let wanted: Vec<(usize, Option<u32>)> = (0..)
        .zip(&parts)
        .flat_map(|(host, part): (usize, &Part<'_>)| part.planes.iter().map(move |plane| (host, plane.wanted_pid)))
        .collect();
    let mut ids = host::process_ids(hosts.len(), &wanted);
    let programs = parts.iter().flat_map(|part| part.planes.iter().map(|plane| plane.process(&part.about)?.id));
    host::take_program_ids(&mut ids, programs);
    let planes = parts.iter_mut().flat_map(|part| &mut part.planes);
    for (plane, pid) in planes.zip(ids) {
        plane.pid = pid;
    }
    let members = parts.iter_mut().map(|part| {
        let Part { window, host, about, .. } = part;
        Member { host: *host, about, window }
    });
    let axes = Axes::find(members.collect(), filter)?;
    let filter = axes.filter(filter);
    for (part, axis) in parts.iter_mut().zip(axes.hosts) {
        part.axis = axis;
    }
    summary.notes = axes.notes;
    Ok((parts, filter))
}

fn find_planes(window: &mut Window<'_>, filter: &Filter, summary: &mut PerfettoSummary) -> Result<Vec<Plane>> {
    let mut first = None;
    let mut others = Vec::new();
    each_plane(window, |window, header| {
        let head = window.piece(Extent { len: header.name.len.min(LONGEST_PREFIX), ..header.name })?;
        let is_first = first.is_none() && header.name.len <= PIECE && head == HOST_PLANE;
        let is_device = DEVICE_PREFIXES.iter().any(|prefix| head.starts_with(prefix));
        let is_host = head.starts_with(b"/host:");
        let device_pid = FIRST_DEVICE_PID.wrapping_add(header.id) as u32; // the low 32 bits, as in the JSON
        let wanted_pid = if is_first { Some(HOST_PID) } else { is_device.then_some(device_pid) };
        let plane = Plane { header, wanted_pid, pid: 0, is_host, is_program: is_first };
        if !filter.planes.is_empty() && !filter.keeps_plane(window.piece(header.name)?) {
            let mut lines = 0;
            each_line(window, header.body, |_, line| {
                lines += 1;
                summary.events_filtered += line.event_count;
                Ok(())
            })?;
            summary.planes_filtered += u64::from(lines > 0 || plane.is_known());
        } else if is_first {
            first = Some(plane);
        } else {
            others.push(plane);
        }
        Ok(())
    })?;
    Ok(first.into_iter().chain(others).collect())
}

/// Reads the lines of a plane: its threads in ascending order of their ids, and the number of its lines.
pub(super) fn threads(window: &mut Window<'_>, plane: &Plane, axis: &Axis) -> Result<(Vec<Thread>, u64)> {
    struct Found {
        thread: Thread,
        place: u32,
    }
    let mut found: BTreeMap<u32, Found> = BTreeMap::new();
    let mut place = 0_u32;
    let mut lines = 0;
    let note = |window: &mut Window<'_>, order: &mut Order, event| order.note(window, event);
    each_line_with(window, plane.header.body, note, |window, header, order| {
        lines += 1;
        place = place.saturating_add(1);
        let tid = header.shown_id as u32; // the low 32 bits, as in the JSON
        let name = header.shown_name;
        let counters = name.len == wide_len(COUNTER_LINE) && window.piece(name)? == COUNTER_LINE;
        let entry = found.entry(tid).or_insert_with(|| Found {
            thread: Thread { tid, name, is_counters: counters, rank: 0, runs: Vec::new() },
            place,
        });
        (entry.thread.name, entry.thread.is_counters, entry.place) = (name, counters, place);
        entry.thread.runs.push(Run { body: header.body, base_ps: axis.base_ps(header.timestamp_ns), order });
        Ok(())
    })?;
    let mut found: Vec<Found> = found.into_values().collect();
    // As the JSON orders them, which knows the host by its id.
    if plane.is_host || plane.wanted_pid == Some(HOST_PID) {
        let mut places: Vec<u32> = found.iter().map(|found| found.place).collect();
        places.sort_unstable();
        for found in &mut found {
            found.thread.rank = places.partition_point(|place| *place < found.place) as u32; // at most 2^32 places
        }
    } else {
        for (rank, found) in (0..).zip(&mut found) {
            found.thread.rank = rank;
        }
    }
    Ok((found.into_iter().map(|found| found.thread).collect(), lines))
}

fn wide_len(text: &[u8]) -> u64 {
    crate::xspace::wire::wide(text.len())
}
