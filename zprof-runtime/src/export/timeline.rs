//! Timelines of an XSpace: lines whose events are walked in the order of time, with bounded memory.
//!
//! A timeline is every line of one id and name in the planes of one name: writers split long lines, and planes. What
//! is in order is streamed. What is not is sorted, in one go if it is short; else the file is read again for each run of
//! events that memory has room for.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::Result;
use crate::xspace::reader::{LineHeader, PlaneHeader, each_event, each_line, each_plane};
use crate::xspace::window::{Extent, Window};

/// Events of one run; twice as many are held while they are chosen, 64 bytes each.
const RUN: usize = 3 << 17;

/// Planes of one name, in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct PlaneGroup {
    pub(super) name: String,
    pub(super) planes: Vec<PlaneHeader>,
}

/// Lines that are one timeline.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) event_count: u64,
    /// The lines, each with the place of its plane in the group.
    pub(super) parts: Vec<(u32, LineHeader)>,
}

/// An event with its place in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timed {
    /// Start in absolute picoseconds, as wide as its parts may be.
    pub(super) start_ps: i128,
    /// What is negative counts as 0.
    pub(super) duration_ps: u64,
    /// The event's message.
    pub(super) body: Extent,
    pub(super) metadata_id: i64,
    /// The place among all events of the timeline, as the file has them; past 2^32 the last repeats.
    pub(super) index: u32,
    /// The place of the plane in its group.
    pub(super) plane: u32,
    pub(super) has_stats: bool,
    /// Whether it is the sum of many events and has no place in time.
    pub(super) is_aggregated: bool,
}

/// The order of time: parents come before what they contain. The last part is the place in the file.
type Key = (i128, Reverse<u64>, u64);

impl Timed {
    fn key(&self) -> Key {
        (self.start_ps, Reverse(self.duration_ps), self.body.at)
    }

    /// The end in absolute picoseconds.
    pub(super) fn end_ps(&self) -> i128 {
        self.start_ps + i128::from(self.duration_ps)
    }
}

/// The planes of a space by name.
pub(super) fn plane_groups(window: &mut Window<'_>) -> Result<Vec<PlaneGroup>> {
    let mut groups: Vec<PlaneGroup> = Vec::new();
    let mut places = HashMap::new();
    each_plane(window, |window, header| {
        let name = text(window, header.name)?;
        match places.get(&name) {
            Some(&place) => {
                let group: &mut PlaneGroup = &mut groups[place];
                group.planes.push(header);
            }
            None => {
                places.insert(name.clone(), groups.len());
                groups.push(PlaneGroup { name, planes: vec![header] });
            }
        }
        Ok(())
    })?;
    Ok(groups)
}

/// The timelines of a group, in the order of the file.
pub(super) fn timelines(window: &mut Window<'_>, group: &PlaneGroup) -> Result<Vec<Timeline>> {
    let mut timelines: Vec<Timeline> = Vec::new();
    let mut places = HashMap::new();
    for (plane, header) in (0_u32..).zip(&group.planes) {
        each_line(window, header.body, |window, line| {
            let (id, name) = (line.shown_id, text(window, line.shown_name)?);
            let place = *places.entry((id, name.clone())).or_insert(timelines.len());
            if place == timelines.len() {
                timelines.push(Timeline { id, name, event_count: 0, parts: Vec::new() });
            }
            timelines[place].event_count += line.event_count;
            timelines[place].parts.push((plane, line));
            Ok(())
        })?;
    }
    Ok(timelines)
}

/// A text of the source, what is not UTF-8 replaced. Only what fits a piece is kept of it.
pub(super) fn text(window: &mut Window<'_>, extent: Extent) -> Result<String> {
    Ok(String::from_utf8_lossy(window.piece(extent)?).into_owned())
}

impl Timeline {
    /// Walks over the events in the order of time: by start, those of one start by duration from the longest, equal
    /// ones in the order of the file.
    pub(super) fn each_in_time<'s>(
        &self,
        window: &mut Window<'s>,
        each: impl FnMut(&mut Window<'s>, &Timed) -> Result<()>,
    ) -> Result<()> {
        self.each_in_runs(window, RUN, each)
    }

    /// Whether the file has the events in the order of time.
    pub(super) fn is_in_order(&self, window: &mut Window<'_>) -> Result<bool> {
        let mut last = None;
        let mut in_order = true;
        self.each_in_file(window, |_, timed| {
            in_order &= last.is_none_or(|last| last <= timed.key());
            last = Some(timed.key());
            Ok(())
        })?;
        Ok(in_order)
    }

    fn each_in_runs<'s>(
        &self,
        window: &mut Window<'s>,
        run: usize,
        mut each: impl FnMut(&mut Window<'s>, &Timed) -> Result<()>,
    ) -> Result<()> {
        if self.is_in_order(window)? {
            return self.each_in_file(window, each);
        }
        let mut beyond = None;
        loop {
            let chosen = self.earliest(window, run, beyond)?;
            beyond = chosen.last().map(Timed::key);
            chosen.iter().try_for_each(|timed| each(window, timed))?;
            if chosen.len() < run {
                return Ok(());
            }
        }
    }

    /// The first `run` events after `beyond`, in order.
    fn earliest(&self, window: &mut Window<'_>, run: usize, beyond: Option<Key>) -> Result<Vec<Timed>> {
        // In one piece, as growing would hold it twice.
        let room = usize::try_from(self.event_count).unwrap_or(usize::MAX).min(2 * run);
        let mut chosen: Vec<Timed> = Vec::with_capacity(room);
        let mut limit = None;
        self.each_in_file(window, |_, timed| {
            let key = timed.key();
            if beyond.is_some_and(|beyond| key <= beyond) || limit.is_some_and(|limit| key > limit) {
                return Ok(());
            }
            chosen.push(*timed);
            if chosen.len() == 2 * run {
                // What lies behind the first half cannot be wanted.
                chosen.select_nth_unstable_by_key(run - 1, Timed::key);
                chosen.truncate(run);
                limit = chosen.last().map(Timed::key);
            }
            Ok(())
        })?;
        chosen.sort_unstable_by_key(Timed::key);
        chosen.truncate(run);
        Ok(chosen)
    }

    /// Walks over the events in the order of the file.
    pub(super) fn each_in_file<'s>(
        &self,
        window: &mut Window<'s>,
        mut each: impl FnMut(&mut Window<'s>, &Timed) -> Result<()>,
    ) -> Result<()> {
        let mut index = 0_u32;
        for (plane, line) in &self.parts {
            let line_ps = i128::from(line.timestamp_ns) * 1_000;
            each_event(window, line.body, |window, event| {
                let timed = Timed {
                    start_ps: line_ps + i128::from(event.offset_ps),
                    duration_ps: u64::try_from(event.duration_ps).unwrap_or(0),
                    body: event.body,
                    metadata_id: event.metadata_id,
                    index,
                    plane: *plane,
                    has_stats: event.has_stats,
                    is_aggregated: event.occurrences.is_some(),
                };
                index = index.saturating_add(1);
                each(window, &timed)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xspace::wire::{put_bytes, put_uint};

    /// A plane of two lines of one id, with events at these offsets.
    fn space(parts: [&[u64]; 2]) -> Vec<u8> {
        let mut plane = Vec::new();
        for offsets in parts {
            let mut line = Vec::new();
            put_uint(&mut line, 1, 7);
            for offset in offsets {
                let mut event = Vec::new();
                put_uint(&mut event, 2, *offset);
                put_uint(&mut event, 3, offset % 3);
                put_bytes(&mut line, 4, &event);
            }
            put_bytes(&mut plane, 3, &line);
        }
        let mut space = Vec::new();
        put_bytes(&mut space, 1, &plane);
        space
    }

    #[test]
    fn events_come_in_the_order_of_time_whatever_the_file_and_the_memory() {
        let mixed: Vec<u64> = (0..500).map(|index| index * 7_919 % 251).collect();
        let sorted: Vec<u64> = (300..400).collect();
        for parts in [[&mixed[..], &sorted[..]], [&sorted, &mixed], [&sorted, &[]], [&[], &[]]] {
            let bytes = space(parts);
            let source = bytes.as_slice();
            let mut window = Window::new(&source).expect("has a size");
            let groups = plane_groups(&mut window).expect("is a space");
            let timelines = timelines(&mut window, &groups[0]).expect("has lines");
            assert_eq!(timelines.len(), 1);
            let mut expected: Vec<(u64, u64)> = parts.concat().iter().map(|offset| (*offset, 2 - offset % 3)).collect();
            expected.sort_unstable();
            for run in [1, 7, 300, 10_000] {
                let mut found = Vec::new();
                let walked = timelines[0].each_in_runs(&mut window, run, |_, timed| {
                    found.push((u64::try_from(timed.start_ps).expect("is small"), 2 - timed.duration_ps));
                    Ok(())
                });
                walked.expect("reads");
                assert_eq!(found, expected, "{run} at a time");
            }
        }
    }
}
