//! The trace itself: processes, threads, and their events in order of time.

use std::collections::HashMap;
use std::io::Write;

use foldhash::fast::FixedState;

use super::args::Args;
use super::encoder::{Encoder, Time, Type};
use super::names::{Kind, Names};
use super::output::Output;
use super::planes::{Part, Plane, Thread, scan, threads};
use super::{PerfettoOptions, PerfettoSummary};
use crate::export::json::names::Rank;
use crate::export::limit::Limit;
use crate::export::order::{each_in_order, times};
use crate::export::{Filter, Host};
use crate::lanes::{LaneAllocator, LaneLimits};
use crate::room::OutOfMemory;
use crate::xspace::reader::{Event, each_event};
use crate::xspace::window::{Extent, Window};
use crate::{Error, Result};

/// How many events are sorted at a time.
const BATCH: usize = 1 << 19;

/// The planes that a trace shows, of all hosts.
pub(super) struct Document<'s, 'o> {
    parts: Vec<Part<'s>>,
    options: &'o PerfettoOptions,
    /// Which events are written, by their times in the trace.
    filter: Filter,
    summary: PerfettoSummary,
}

/// Decides which events are written, and counts the others.
struct Gate<'o> {
    /// `None` if it keeps all events.
    filter: Option<&'o Filter>,
    limit: Option<Limit>,
    summary: PerfettoSummary,
}

/// Writes one part after the other.
struct Writer<'w, 'o> {
    encoder: Encoder<'w>,
    gate: Gate<'o>,
    lanes: LaneAllocator,
    /// How many tracks there are.
    tracks: u64,
    /// How many processes there are.
    processes: u32,
    /// Place of the host.
    host: u64,
}

/// A thread whose events are being written.
struct Row<'a> {
    names: &'a Names,
    on_host_plane: bool,
    process: u64,
    thread: &'a Thread,
    /// Tracks of its lanes; the first is its own.
    lanes: Vec<u64>,
    /// How many tracks it has, with those that are for one event each.
    tracks: u64,
    /// Tracks of counters by the id of their metadata and by their unit.
    counters: HashMap<(i64, Rank), u64, FixedState>,
    /// Whether the encoder is on it.
    is_begun: bool,
    /// Start of the event before.
    last_ps: u64,
}

impl<'s, 'o> Document<'s, 'o> {
    /// Finds the planes to show.
    pub(super) fn scan(hosts: &[Host<'s>], options: &'o PerfettoOptions) -> Result<Self> {
        let mut summary = PerfettoSummary::default();
        let (parts, filter) = scan(hosts, &options.filter, &mut summary)?;
        Ok(Self { parts, options, filter, summary })
    }

    /// Writes the trace.
    pub(super) fn write(mut self, out: &mut dyn Write) -> Result<PerfettoSummary> {
        let limit = match self.options.max_events {
            None => None,
            Some(max_events) => Limit::find(max_events, |each| self.each_start(each))?,
        };
        let mut writer = Writer {
            encoder: Encoder::new(Output::new(out)),
            gate: Gate { filter: wanted(&self.filter), limit, summary: std::mem::take(&mut self.summary) },
            lanes: LaneAllocator::new(LaneLimits::VIEWER),
            tracks: 0,
            processes: 0,
            host: 0,
        };
        for part in &mut self.parts {
            writer.part(part).map_err(|error| of_host(part.host, error))?;
            writer.host += 1;
        }
        writer.encoder.finish()?;
        Ok(writer.gate.summary)
    }

    /// Walks over the starts of all events that the filter keeps.
    fn each_start(&mut self, each: &mut dyn FnMut(u64)) -> Result<()> {
        let mut gate = Gate { filter: wanted(&self.filter), limit: None, summary: PerfettoSummary::default() };
        for Part { window, host, axis, planes, .. } in &mut self.parts {
            let mut walk = |plane: &Plane| {
                let names = Names::load(window, plane.header.body)?;
                let (threads, _) = threads(window, plane, axis)?;
                threads.iter().flat_map(|thread| &thread.runs).try_for_each(|run| {
                    each_event(window, run.body, |_, event| {
                        let (start_ps, duration_ps) = times(run, event);
                        if gate.keeps(names.kind(event.metadata_id), start_ps, duration_ps) {
                            each(start_ps);
                        }
                        Ok(())
                    })
                })
            };
            planes.iter().try_for_each(&mut walk).map_err(|error| of_host(*host, error))?;
        }
        Ok(())
    }
}

/// The filter, unless it keeps all events.
fn wanted(filter: &Filter) -> Option<&Filter> {
    Some(filter).filter(|filter| !filter.keeps_all_events())
}

impl Gate<'_> {
    /// Whether an event is written. This is the only place that leaves one out.
    #[inline]
    fn keeps(&mut self, kind: &Kind, start_ps: u64, duration_ps: u64) -> bool {
        if kind.hidden {
            self.summary.events_hidden += 1;
        } else if self.filter.is_some_and(|filter| !filter.keeps_event(start_ps, duration_ps)) {
            self.summary.events_filtered += 1;
        } else if self.limit.as_mut().is_some_and(|limit| !limit.keeps(start_ps)) {
            self.summary.events_over_limit += 1;
        } else {
            self.summary.events += 1;
            return true;
        }
        false
    }
}

impl Writer<'_, '_> {
    fn part(&mut self, part: &mut Part<'_>) -> Result<()> {
        let Part { source, window, host, about, axis, planes } = part;
        for plane in planes {
            let (threads, lines) = threads(window, plane, axis)?;
            if lines == 0 && !plane.is_known() {
                continue;
            }
            self.gate.summary.planes += 1;
            self.gate.summary.lines += lines;
            let names = Names::load(window, plane.header.body)?;
            self.encoder.begin_plane();
            let process = self.new_track();
            let mut prefix = host.map(|host| format!("{host} ")).unwrap_or_default();
            let mut name = plane.header.name;
            if let Some(program) = plane.process(about) {
                prefix.push_str(&program.shown_as(plane.pid));
                name = Extent::default();
            }
            self.encoder.process(window, process, (plane.pid, self.processes), &prefix, name)?;
            self.processes += 1;
            let mut args = Args::default();
            let first = self.tracks + 1;
            for thread in &threads {
                let track = self.new_track();
                self.encoder.thread(window, track, (plane.pid, thread.tid), thread.rank, thread.name)?;
            }
            for (track, thread) in (first..).zip(&threads) {
                let mut row = Row {
                    names: &names,
                    on_host_plane: plane.is_host,
                    process,
                    thread,
                    lanes: vec![track],
                    tracks: 1,
                    counters: HashMap::default(),
                    is_begun: false,
                    last_ps: 0,
                };
                self.lanes = LaneAllocator::new(LaneLimits::VIEWER);
                let read = |window: &mut Window<'_>, args: &mut Args, body| args.read(window, &names, body);
                each_in_order(
                    window,
                    *source,
                    &thread.runs,
                    BATCH,
                    &mut args,
                    read,
                    |window, args, event, start, duration| self.event(window, &mut row, args, event, (start, duration)),
                )?;
                self.close(&row, u64::MAX)?;
            }
        }
        Ok(())
    }

    fn new_track(&mut self) -> u64 {
        self.tracks += 1;
        self.tracks
    }

    #[inline]
    fn event(
        &mut self,
        window: &mut Window<'_>,
        row: &mut Row<'_>,
        args: &mut Args,
        event: &Event,
        (start_ps, duration_ps): (u64, u64),
    ) -> Result<()> {
        let names = row.names;
        let kind = names.kind(event.metadata_id);
        if !self.gate.keeps(kind, start_ps, duration_ps) {
            return Ok(());
        }
        if !row.is_begun {
            self.encoder.begin_track(row.lanes[0]);
            row.is_begun = true;
        }
        let start_ns = start_ps / 1_000;
        let end_ps = start_ps.saturating_add(duration_ps);
        if start_ps < row.last_ps {
            // The head of the event lied, so that it comes too late for any lane.
            return self.alone(window, row, (kind, args), start_ns, end_ps / 1_000, duration_ps == 0);
        }
        row.last_ps = start_ps;
        self.close(row, start_ps)?;
        if row.thread.is_counters && self.sample(window, row, (kind, args), event.metadata_id, start_ns)? {
            return Ok(());
        }
        let is_instant = duration_ps == 0;
        let lane = if is_instant { self.lanes.instant(start_ps) } else { self.lanes.open(end_ps, ()) };
        match lane.map_err(OutOfMemory::error)? {
            Some(lane) => {
                if lane == row.lanes.len() {
                    let track = self.new_lane(window, row)?;
                    row.lanes.push(track);
                }
                let r#type = if is_instant { Type::Instant } else { Type::SliceBegin };
                self.shown(window, row, (kind, args), r#type, row.lanes[lane], Time::Next(start_ns))
            }
            None => self.alone(window, row, (kind, args), start_ns, end_ps / 1_000, is_instant),
        }
    }

    /// Writes an event on a track for it alone, of which nothing needs to be remembered.
    #[cold]
    fn alone(
        &mut self,
        window: &mut Window<'_>,
        row: &mut Row<'_>,
        (kind, args): (&Kind, &Args),
        start_ns: u64,
        end_ns: u64,
        is_instant: bool,
    ) -> Result<()> {
        let track = self.new_lane(window, row)?;
        if is_instant {
            return self.shown(window, row, (kind, args), Type::Instant, track, Time::Any(start_ns));
        }
        self.shown(window, row, (kind, args), Type::SliceBegin, track, Time::Any(start_ns))?;
        self.encoder.slice_end(track, Time::Any(end_ns))
    }

    /// Writes the ends of what ends at `time_ps` or before.
    #[inline]
    fn close(&mut self, row: &Row<'_>, time_ps: u64) -> Result<()> {
        let Self { encoder, lanes, .. } = self;
        lanes.close(time_ps, |lane, end_ps| encoder.slice_end(row.lanes[lane], Time::Next(end_ps / 1_000)))
    }

    #[inline]
    fn shown(
        &mut self,
        window: &mut Window<'_>,
        row: &Row<'_>,
        (kind, args): (&Kind, &Args),
        r#type: Type,
        track: u64,
        time: Time,
    ) -> Result<()> {
        let encoder = &mut self.encoder;
        encoder.begin(r#type, track, time);
        if let Some(category) = kind.category {
            encoder.category(row.names, category);
        }
        match args.step_name {
            Some(value) => encoder.value_name(window, row.names, row.names.value(value))?,
            None => encoder.name(window, row.names, kind.name)?,
        }
        args.each(row.names, kind, |arg| encoder.annotation(window, row.names, arg.rank, arg.value))?;
        for end in args.flows.ends(self.host, row.on_host_plane).into_iter().flatten() {
            encoder.flow(end);
        }
        encoder.end(window)
    }

    /// Writes the sample of a counter; `false` if the event has no number.
    fn sample(
        &mut self,
        window: &mut Window<'_>,
        row: &mut Row<'_>,
        (kind, args): (&Kind, &mut Args),
        metadata_id: i64,
        start_ns: u64,
    ) -> Result<bool> {
        if args.step_name.is_some() {
            return Ok(false); // its name is its own, not that of the counter
        }
        let Some((unit, value)) = args.take_sample() else { return Ok(false) };
        let track = match row.counters.get(&(metadata_id, unit)) {
            Some(track) => *track,
            None => {
                let track = self.new_track();
                self.encoder.counter(window, track, row.process, row.names, kind.name, unit)?;
                row.counters.insert((metadata_id, unit), track);
                track
            }
        };
        self.encoder.begin(Type::Counter, track, Time::Next(start_ns));
        self.encoder.sample(value);
        let encoder = &mut self.encoder;
        args.each(row.names, kind, |arg| match arg.rank == unit {
            true => Ok(()), // what the sample hides
            false => encoder.annotation(window, row.names, arg.rank, arg.value),
        })?;
        encoder.end(window)?;
        Ok(true)
    }

    /// Describes one more lane of a thread.
    fn new_lane(&mut self, window: &mut Window<'_>, row: &mut Row<'_>) -> Result<u64> {
        let track = self.new_track();
        self.gate.summary.lanes += 1;
        row.tracks += 1; // viewers join tracks of one name, so each gets a number of its own
        self.encoder.lane(window, track, row.lanes[0], row.thread.name, row.tracks)?;
        Ok(track)
    }
}

#[cold]
fn of_host(host: Option<&str>, error: Error) -> Error {
    match host {
        Some(name) => error.context(format_args!("host `{name}`")),
        None => error,
    }
}
