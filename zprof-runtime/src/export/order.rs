//! Walks over the events of a thread in order of time, whatever their order in the file.
//!
//! A thread is all lines of a plane that have one id. Events that are in order are streamed. Others are sorted in batches, and the
//! lines are read once for each of these.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Result;
use crate::room::{self, OutOfMemory};
use crate::xspace::Source;
use crate::xspace::reader::{Event, each_event, each_event_body, read_times};
use crate::xspace::window::{Extent, Window};

/// When an event comes: by its start, the longer of two that start together first, then by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    start_ps: u64,
    duration_ps: Reverse<u64>,
    /// Its run, and its place in the source; a source may show the same bytes in two runs.
    run: usize,
    at: u64,
    len: u64,
}

/// The events of one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) body: Extent,
    /// What the line's timestamp stands for in the trace, in picoseconds modulo 2^64.
    pub(super) base_ps: i64,
    pub(super) order: Order,
}

/// Start and duration of an event of this run, each modulo 2^64.
#[inline]
pub(super) fn times(run: &Run, event: &Event) -> (u64, u64) {
    let start_ps = run.base_ps.wrapping_add(event.offset_ps);
    (start_ps as u64, event.duration_ps as u64) // both keep every bit
}

/// What is known of the order of a run's events before they are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    count: u64,
    is_broken: bool,
    /// Offset and duration of the first event, and of the last.
    first: (i64, i64),
    last: (i64, i64),
}

impl Order {
    /// Notes the next event. It is only read to its first stat, which follows its times in files that programs write;
    /// where that is wrong, what is known may be too.
    #[inline]
    pub(super) fn note(&mut self, window: &mut Window<'_>, event: Extent) -> Result<()> {
        let times = read_times(window, event)?;
        let key = |(offset, duration): (i64, i64)| (offset, Reverse(duration as u64)); // durations modulo 2^64
        if self.count == 0 {
            self.first = times;
        } else if key(times) < key(self.last) {
            self.is_broken = true;
        }
        self.last = times;
        self.count += 1;
        Ok(())
    }
}

/// Whether all events of the runs are in order of time as they are.
fn are_in_order(runs: &[Run]) -> bool {
    let mut last = (0, Reverse(u64::MAX));
    runs.iter().filter(|run| run.order.count > 0).all(|run| {
        let key = |(offset_ps, duration_ps)| {
            let (start_ps, duration_ps) = times(run, &Event { offset_ps, duration_ps, ..Event::default() });
            (start_ps, Reverse(duration_ps))
        };
        // Offsets that ascend may pass 2^64 once on the way, and the last start is before the first then.
        let (begin, end) = (key(run.order.first), key(run.order.last));
        let in_order = !run.order.is_broken && last <= begin && begin <= end;
        last = end;
        in_order
    })
}

/// Walks over the events of all runs in order of time. Where they are out of order, `batch` of them are sorted at a time, at 40 bytes
/// each. `read` reads an event and may note in `state` what it says; then `each` is
/// called with the event, its start and its duration, in picoseconds.
pub(super) fn each_in_order<'s, S>(
    window: &mut Window<'s>,
    source: &'s dyn Source,
    runs: &[Run],
    batch: usize,
    state: &mut S,
    read: impl Fn(&mut Window<'s>, &mut S, Extent) -> Result<Event>,
    mut each: impl FnMut(&mut Window<'s>, &mut S, &Event, u64, u64) -> Result<()>,
) -> Result<()> {
    if are_in_order(runs) {
        return runs.iter().try_for_each(|run| {
            each_event_body(window, run.body, |window, body| {
                let event = read(window, state, body)?;
                let (start_ps, duration_ps) = times(run, &event);
                each(window, state, &event, start_ps, duration_ps)
            })
        });
    }
    // Some of the earliest that are left, again and again.
    let mut aside = Window::small(source)?;
    let count: u64 = runs.iter().map(|run| run.order.count).sum();
    let batch = usize::try_from(count).unwrap_or(batch).min(batch);
    let mut earliest: BinaryHeap<Key> = BinaryHeap::from(room::with_room(batch).map_err(OutOfMemory::error)?);
    let mut done = None;
    loop {
        for (number, run) in runs.iter().enumerate() {
            each_event(window, run.body, |_, event| {
                let (start_ps, duration_ps) = times(run, event);
                let Extent { at, len } = event.body;
                let key = Key { start_ps, duration_ps: Reverse(duration_ps), run: number, at, len };
                if done.is_some_and(|done| key <= done) {
                    return Ok(());
                }
                if earliest.len() < batch {
                    earliest.push(key);
                } else if let Some(mut latest) = earliest.peek_mut().filter(|latest| key < **latest) {
                    *latest = key;
                }
                Ok(())
            })?;
        }
        let mut sorted = earliest.into_sorted_vec();
        let Some(last) = sorted.last() else { return Ok(()) };
        done = Some(*last);
        for key in &sorted {
            let event = read(&mut aside, state, Extent { at: key.at, len: key.len })?;
            each(&mut aside, state, &event, key.start_ps, key.duration_ps.0)?;
        }
        sorted.clear();
        earliest = BinaryHeap::from(sorted); // its memory serves the next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xspace::reader::read_event;
    use crate::xspace::wire::{put_bytes, put_uint};

    /// The whole source as a run.
    fn run(window: &mut Window<'_>, timestamp_ns: i64) -> Run {
        let mut order = Order::default();
        let body = window.whole();
        each_event_body(window, body, |window, event| order.note(window, event)).expect("is a line");
        Run { body, base_ps: timestamp_ns.wrapping_mul(1_000), order }
    }

    #[test]
    fn order_is_known_across_runs_and_where_time_wraps() {
        let line = |times: &[(i64, u64)]| {
            let mut line = Vec::new();
            for (start, duration) in times {
                let mut event = Vec::new();
                put_uint(&mut event, 2, *start as u64);
                put_uint(&mut event, 3, *duration);
                put_bytes(&mut event, 4, b"");
                put_bytes(&mut line, 4, &event);
            }
            line
        };
        let lines = [&[][..], &[(-5, 1), (5, 9), (5, 3)], &[(5, 3), (5, 9)], &[(7, 0)]].map(line);
        let sources = lines.each_ref().map(Vec::as_slice);
        let run =
            |place: usize, timestamp_ns| run(&mut Window::new(&sources[place]).expect("has a size"), timestamp_ns);
        let rows: [(&[(usize, i64)], bool); 8] = [
            (&[], true),
            (&[(0, 9), (1, 1), (0, 0), (3, 1)], true),
            (&[(1, 0)], false), // begins 5 ps before 2^64
            (&[(2, 0)], false),
            (&[(3, 1), (1, 1)], false),
            (&[(1, 1), (1, 2)], true),
            (&[(1, 2), (1, 1)], false),
            (&[(3, 1), (3, 1)], true),
        ];
        for (runs, expected) in rows {
            let found: Vec<Run> = runs.iter().map(|(place, timestamp_ns)| run(*place, *timestamp_ns)).collect();
            assert_eq!(are_in_order(&found), expected, "{runs:?}");
        }
    }

    #[test]
    fn events_come_in_order_of_time_whatever_the_size_of_a_batch() {
        let times = [(9, 1), (3, 2), (3, 7), (3, 2), (0, 0), (u64::MAX, 5), (4, 1)];
        let mut line = Vec::new();
        for (number, (start, duration)) in (0..).zip(times) {
            let mut event = Vec::new();
            put_uint(&mut event, 1, number);
            put_uint(&mut event, 2, start);
            put_uint(&mut event, 3, duration);
            put_bytes(&mut line, 4, &event);
        }
        let source = line.as_slice();
        let mut window = Window::new(&source).expect("has a size");
        let run = run(&mut window, 0);
        for batch in [1, 2, 3, 100] {
            let mut found = Vec::new();
            let read = |window: &mut Window<'_>, _: &mut (), body| read_event(window, body);
            each_in_order(&mut window, &source, &[run], batch, &mut (), read, |_, (), event, start, duration| {
                found.push((event.metadata_id, start, duration));
                Ok(())
            })
            .expect("is a line");
            let expected = [(4, 0, 0), (2, 3, 7), (1, 3, 2), (3, 3, 2), (6, 4, 1), (0, 9, 1), (5, u64::MAX, 5)];
            assert_eq!(found, expected, "{batch}");
        }
    }
}
