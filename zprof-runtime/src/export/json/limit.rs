//! Which events a limit keeps, and in which order: that of the file, or the one that TSL leaves them in.

use super::document::Document;
use crate::Result;
use crate::export::limit::Limit;
use crate::xspace::window::Extent;

/// What is written of the events that are shown.
pub(super) enum Kept {
    /// All, in the order of the file.
    All,
    /// The earliest, in the order of the file.
    Earliest(Limit),
    /// The earliest as TSL sorts them: by time, and those of one time as its heap leaves them.
    InOrder { entries: Vec<Entry>, places: Vec<Place>, left_out: u64 },
}

/// Where an event belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which host, from 0.
    pub(super) part: usize,
    /// Which of its planes that are shown, from 0.
    pub(super) plane: usize,
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// An event to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) start_ps: u64,
    pub(super) body: Extent,
    /// Its [`Place`] in a list of them.
    pub(super) place: u32,
}

impl Kept {
    /// Applies the limit of the document's options.
    pub(super) fn find(document: &mut Document<'_, '_>) -> Result<Self> {
        let Some(max_events) = document.options().max_events else { return Ok(Self::All) };
        if document.options().tsl {
            return sorted(document, max_events);
        }
        let limit = Limit::find(max_events, |each| document.each_start(|shown| each(shown.start_ps)))?;
        Ok(limit.map_or(Self::All, Self::Earliest))
    }
}

/// Keeps the earliest in a heap, whose memory does grow with what is kept, and sorts them.
fn sorted(document: &mut Document<'_, '_>, max_events: u64) -> Result<Kept> {
    let mut count = 0_u64;
    document.each_start(|_| count += 1)?;
    if count <= max_events {
        return Ok(Kept::All);
    }
    let max = usize::try_from(max_events).unwrap_or(usize::MAX);
    let mut places: Vec<Place> = Vec::new();
    let mut heap: Vec<Entry> = Vec::new();
    document.each_start(|shown| {
        if places.last() != Some(&shown.place) {
            places.push(shown.place);
        }
        let place = u32::try_from(places.len() - 1).unwrap_or(u32::MAX); // there are no more lines than that in a heap's reach
        let entry = Entry { start_ps: shown.start_ps, body: shown.event.body, place };
        if heap.len() < max {
            heap.push(entry);
            if heap.len() == max {
                build(&mut heap);
            }
        } else if heap.first().is_some_and(|last| entry.start_ps < last.start_ps) {
            sink(&mut heap, 0, entry);
        }
    })?;
    for len in (1..heap.len()).rev() {
        let entry = heap[len];
        heap[len] = heap[0];
        sink(&mut heap[..len], 0, entry);
    }
    Ok(Kept::InOrder { entries: heap, places, left_out: count - max_events })
}

/// Makes a heap: no parent starts before its children.
fn build(heap: &mut [Entry]) {
    for hole in (0..heap.len() / 2).rev() {
        let entry = heap[hole];
        sink(heap, hole, entry);
    }
}

/// Puts an entry into the heap below `top`, whose own is given up. The hole goes down to a leaf along the later children,
/// the right one of two equals, and the entry goes up from there: the ways matter, since they are what orders equals.
fn sink(heap: &mut [Entry], top: usize, entry: Entry) {
    let mut hole = top;
    loop {
        let right = 2 * hole + 2;
        let child = match right.checked_sub(heap.len()) {
            None if heap[right].start_ps < heap[right - 1].start_ps => right - 1,
            None => right,
            Some(0) => right - 1,
            Some(_) => break,
        };
        heap[hole] = heap[child];
        hole = child;
    }
    while hole > top {
        let parent = (hole - 1) / 2;
        if heap[parent].start_ps >= entry.start_ps {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = entry;
}
