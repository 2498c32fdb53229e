//! Writes events thread by thread, in the order of time, and splits each thread into lanes within which its events nest.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::JsonSummary;
use super::document::{HOST_PID, Line, Part, Plane, write_thread};
use super::event::{Args, Shown, write_event};
use super::limit::Place;
use super::names::Names;
use super::output::{Output, Style};
use crate::Result;
use crate::export::Filter;
use crate::export::axis::Axis;
use crate::export::limit::Limit;
use crate::export::order::{Order, Run, each_in_order};
use crate::lanes::{LaneAllocator, LaneLimits};
use crate::room::{self, OutOfMemory, Room as _};
use crate::xspace::Source;
use crate::xspace::reader::{each_line_with, read_event};
use crate::xspace::window::{Extent, Window};

/// How many events are sorted at a time: few, since programs write a JSON when they stop.
const BATCH: usize = 1 << 16;
/// Ids of lanes begin here, where neither a system nor a session has threads.
const FIRST_LANE_TID: u32 = 2_000_000_001;

/// Id of a thread in the document. Perfetto takes thread 0 for the main thread of its process, so a thread of that id, of which
/// devices have one, gets the first id that is free in place of it.
pub(super) fn shown_tid(tid: u32, is_taken: impl Fn(u32) -> bool) -> u32 {
    if tid != 0 {
        return tid;
    }
    (FIRST_LANE_TID - 1..).find(|tid| !is_taken(*tid)).unwrap_or(tid)
}

/// Writes the events of all threads.
pub(super) struct Threads<'d, 'w> {
    out: &'d mut Output<'w>,
    /// `None` if it keeps all events.
    filter: Option<&'d Filter>,
    limit: Option<Limit>,
    summary: &'d mut JsonSummary,
    args: Args,
}

/// The lines of a plane with one id.
struct Thread {
    tid: u32,
    /// The name of the last line.
    name: Extent,
    sort_index: u32,
    runs: Vec<Run>,
}

/// A thread whose events are being written.
struct Row<'a> {
    thread: &'a Thread,
    place: Place,
    allocator: LaneAllocator,
    /// Ids of the lanes; the first is the thread's own.
    tids: Vec<u32>,
    /// How many lanes there are, with those that are for one event each.
    lanes: u64,
    /// Start of the event before.
    last_ps: u64,
}

/// Gives out ids that no thread of a process has.
struct FreeTids<'a> {
    next: u32,
    taken: &'a HashMap<u32, usize, FixedState>,
}

impl FreeTids<'_> {
    fn take(&mut self) -> u32 {
        while self.taken.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let tid = self.next;
        self.next = self.next.wrapping_add(1);
        tid
    }
}

impl<'d, 'w> Threads<'d, 'w> {
    pub(super) fn new(
        out: &'d mut Output<'w>,
        filter: Option<&'d Filter>,
        limit: Option<Limit>,
        summary: &'d mut JsonSummary,
    ) -> Self {
        Self { out, filter, limit, summary, args: Args::default() }
    }

    /// Writes the events of one host, which is the part of this number.
    pub(super) fn write(&mut self, number: usize, part: &mut Part<'_>, style: Style) -> Result<()> {
        let Part { source, window, axis, planes, .. } = part;
        for (place, plane) in planes.iter().enumerate() {
            self.write_plane(window, *source, (number, place), (plane, axis), style)?;
        }
        Ok(())
    }

    fn write_plane<'s>(
        &mut self,
        window: &mut Window<'s>,
        source: &'s dyn Source,
        (part, number): (usize, usize),
        (plane, axis): (&Plane, &Axis),
        style: Style,
    ) -> Result<()> {
        let names = Names::load(window, plane.header.body, style)?;
        let (threads, places) = self.threads(window, plane, axis)?;
        let zero = shown_tid(0, |tid| places.contains_key(&tid));
        let mut free = FreeTids { next: FIRST_LANE_TID.max(zero + 1), taken: &places };
        for thread in &threads {
            let tid = if thread.tid == 0 { zero } else { thread.tid };
            let place = Place { part, plane: number, pid: plane.shown_pid, tid };
            let mut row = Row {
                thread,
                place,
                allocator: LaneAllocator::new(LaneLimits::VIEWER),
                tids: vec![tid],
                lanes: 1,
                last_ps: 0,
            };
            let read = |window: &mut Window<'s>, _: &mut (), body| read_event(window, body);
            each_in_order(window, source, &thread.runs, BATCH, &mut (), read, |window, (), event, start_ps, _| {
                let kind = names.kind(event.metadata_id);
                let mut shown = Shown { names: &names, place, event, kind, start_ps };
                if !self.keeps(&shown) {
                    return Ok(());
                }
                shown.place.tid = self.lane(window, &mut row, &mut free, &shown)?;
                self.args.gather(window, &shown)?;
                write_event(window, self.out, &shown, &self.args)
            })?;
        }
        Ok(())
    }

    /// The threads of a plane by the place of their first line, and the place of each by its id.
    fn threads(
        &mut self,
        window: &mut Window<'_>,
        plane: &Plane,
        axis: &Axis,
    ) -> Result<(Vec<Thread>, HashMap<u32, usize, FixedState>)> {
        let mut threads: Vec<Thread> = Vec::new();
        let mut places: HashMap<u32, usize, FixedState> = HashMap::default();
        let mut line_place = 0_u32;
        let note = |window: &mut Window<'_>, order: &mut Order, event| order.note(window, event);
        each_line_with(window, plane.header.body, note, |window, header, order| {
            let line = Line::new(window, &header, axis)?;
            line_place = line_place.wrapping_add(1);
            places.room(1).map_err(OutOfMemory::error)?;
            let place = *places.entry(line.tid).or_insert(threads.len());
            if place == threads.len() {
                let thread = Thread { tid: line.tid, name: header.shown_name, sort_index: line.tid, runs: Vec::new() };
                room::push(&mut threads, thread).map_err(OutOfMemory::error)?;
            }
            let thread = &mut threads[place];
            thread.name = header.shown_name;
            if plane.pid == HOST_PID {
                thread.sort_index = line_place;
            }
            if line.hidden {
                self.summary.events_hidden += line.event_count;
            } else {
                let run = Run { body: header.body, base_ps: line.base_ps, order };
                room::push(&mut thread.runs, run).map_err(OutOfMemory::error)?;
            }
            Ok(())
        })?;
        Ok((threads, places))
    }

    /// Whether an event is written; counts it either way.
    fn keeps(&mut self, shown: &Shown<'_>) -> bool {
        if shown.kind.hidden {
            self.summary.events_hidden += 1;
        } else if self.filter.is_some_and(|filter| !filter.keeps_event(shown.start_ps, shown.duration_ps())) {
            self.summary.events_filtered += 1;
        } else if self.limit.as_mut().is_some_and(|limit| !limit.keeps(shown.start_ps)) {
            self.summary.events_over_limit += 1;
        } else {
            self.summary.events += 1;
            return true;
        }
        false
    }

    /// The id of the lane of an event, whose metadata is written if it is new.
    #[inline]
    fn lane(
        &mut self,
        window: &mut Window<'_>,
        row: &mut Row<'_>,
        free: &mut FreeTids<'_>,
        shown: &Shown<'_>,
    ) -> Result<u32> {
        let (start_ps, duration_ps) = (shown.start_ps, shown.duration_ps());
        if start_ps < row.last_ps {
            // The head of the event lied, so that it comes too late for any lane.
            return self.new_lane(window, row, free);
        }
        row.last_ps = start_ps;
        row.allocator.close(start_ps, |_, _| Ok(())).map_err(OutOfMemory::error)?;
        let lane = match duration_ps {
            0 => row.allocator.instant(start_ps),
            _ => row.allocator.open(start_ps.saturating_add(duration_ps), ()),
        };
        match lane.map_err(OutOfMemory::error)? {
            Some(lane) if lane < row.tids.len() => Ok(row.tids[lane]),
            Some(_) => {
                let tid = self.new_lane(window, row, free)?;
                room::push(&mut row.tids, tid).map_err(OutOfMemory::error)?;
                Ok(tid)
            }
            // There are too many lanes: this one is for the event alone.
            None => self.new_lane(window, row, free),
        }
    }

    #[cold]
    fn new_lane(&mut self, window: &mut Window<'_>, row: &mut Row<'_>, free: &mut FreeTids<'_>) -> Result<u32> {
        let tid = free.take();
        row.lanes += 1;
        self.summary.lanes += 1;
        let Thread { name, sort_index, .. } = *row.thread;
        let suffix = if name.len == 0 { format!("({})", row.lanes) } else { format!(" ({})", row.lanes) };
        let pid = row.place.pid.to_string();
        write_thread(window, self.out, (&pid, tid), (name, &suffix), sort_index)?;
        Ok(tid)
    }
}
