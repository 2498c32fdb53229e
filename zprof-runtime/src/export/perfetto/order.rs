//! Walks over the events of a thread in order of time, whatever their order in the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::planes::Run;
use crate::Result;
use crate::xspace::Source;
use crate::xspace::reader::{Event, each_event, each_event_head, read_event};
use crate::xspace::window::{Extent, Window};

/// How many events are sorted at a time, at 40 bytes each.
const BATCH: usize = 1 << 19;

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

/// Start and duration of an event of this run, each modulo 2^64 as the format says.
#[inline]
pub(super) fn times(run: &Run, event: &Event) -> (u64, u64) {
    let start_ps = run.timestamp_ns.wrapping_mul(1_000).wrapping_add(event.offset_ps);
    (start_ps as u64, event.duration_ps as u64) // both keep every bit
}

/// Walks over the events of all runs in order of time: calls back with each event, its start and its duration.
pub(super) fn each_in_order<'s>(
    window: &mut Window<'s>,
    source: &'s dyn Source,
    runs: &[Run],
    each: impl FnMut(&mut Window<'s>, &Event, u64, u64) -> Result<()>,
) -> Result<()> {
    each_in_batches(window, source, runs, BATCH, each)
}

fn each_in_batches<'s>(
    window: &mut Window<'s>,
    source: &'s dyn Source,
    runs: &[Run],
    batch: usize,
    mut each: impl FnMut(&mut Window<'s>, &Event, u64, u64) -> Result<()>,
) -> Result<()> {
    let Some(count) = count_disordered(window, runs)? else {
        return runs.iter().try_for_each(|run| {
            each_event(window, run.body, |window, event| {
                let (start_ps, duration_ps) = times(run, event);
                each(window, event, start_ps, duration_ps)
            })
        });
    };
    // Some of the earliest that are left, again and again.
    let mut aside = Window::small(source)?;
    let batch = batch.min(count);
    let mut earliest: BinaryHeap<Key> = BinaryHeap::with_capacity(batch);
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
            let event = read_event(&mut aside, Extent { at: key.at, len: key.len })?;
            each(&mut aside, &event, key.start_ps, key.duration_ps.0)?;
        }
        sorted.clear();
        earliest = BinaryHeap::from(sorted); // its memory serves the next
    }
}

/// How many events there are; `None` if they come in order of time already. An event is only read to its first stat, which
/// follows its times in files that programs write; where that is wrong, the answer may be too.
fn count_disordered(window: &mut Window<'_>, runs: &[Run]) -> Result<Option<usize>> {
    let mut last = (0, Reverse(u64::MAX));
    let mut in_order = true;
    let mut count = 0;
    for run in runs {
        each_event_head(window, run.body, |_, event| {
            let (start_ps, duration_ps) = times(run, event);
            let key = (start_ps, Reverse(duration_ps));
            in_order &= last <= key;
            last = key;
            count += 1;
            Ok(())
        })?;
    }
    Ok((!in_order).then_some(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xspace::wire::{put_bytes, put_uint, wide};

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
        let run = Run { body: Extent { at: 0, len: wide(line.len()) }, timestamp_ns: 0 };
        for batch in [1, 2, 3, 100] {
            let mut window = Window::new(&source).expect("has a size");
            let mut found = Vec::new();
            each_in_batches(&mut window, &source, &[run], batch, |_, event, start, duration| {
                found.push((event.metadata_id, start, duration));
                Ok(())
            })
            .expect("is a line");
            let expected = [(4, 0, 0), (2, 3, 7), (1, 3, 2), (3, 3, 2), (6, 4, 1), (0, 9, 1), (5, u64::MAX, 5)];
            assert_eq!(found, expected, "{batch}");
        }
    }
}
