//! Splits the events of a thread into lanes within which they nest.
//!
//! Events come in order of their start, the longer of two that start together first. Each goes to the first lane where it
//! lies within what is open there, and stays open until time has passed its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How deep events may nest in a lane; readers drop what lies deeper than 255 or 512.
const MAX_DEPTH: usize = 250;
/// The most lanes of a thread.
const MAX_LANES: usize = 1 << 16;
/// The most events of a thread that may be open at a time.
const MAX_OPEN: usize = 1 << 18;

/// The lanes of a thread.
#[derive(Default)]
pub(super) struct Lanes {
    /// Ends of what is open in each lane, the innermost last: no end is later than that before it.
    open: Vec<Vec<u64>>,
    open_count: usize,
    /// With several lanes: all that is open, the earliest end first; of equal ends the last opened.
    queue: BinaryHeap<(Reverse<u64>, u64, usize)>,
    /// Counts what was opened.
    opened: u64,
    /// With several lanes: the latest end that fits each lane, and the largest of each pair above.
    fits: Tree,
    /// Where the last instant was, and how many were there.
    instants: (u64, usize),
}

impl Lanes {
    /// Forgets all lanes; nothing is open.
    pub(super) fn clear(&mut self) {
        *self = Self { open: std::mem::take(&mut self.open), ..Self::default() };
        self.open.truncate(1);
    }

    /// Closes what ends at `time` or before, in order of the ends: calls back with each lane and end.
    #[inline]
    pub(super) fn close<E>(&mut self, time: u64, mut each: impl FnMut(usize, u64) -> Result<(), E>) -> Result<(), E> {
        if let [only] = self.open.as_mut_slice() {
            while let Some(end) = only.last().copied().filter(|end| *end <= time) {
                only.pop();
                self.open_count -= 1;
                each(0, end)?;
            }
            return Ok(());
        }
        while let Some((Reverse(end), _, lane)) = self.queue.peek().copied().filter(|(end, _, _)| end.0 <= time) {
            self.queue.pop();
            self.open[lane].pop();
            self.open_count -= 1;
            self.fits.set(lane, fit(&self.open[lane]));
            each(lane, end)?;
        }
        Ok(())
    }

    /// The lane of an event that lasts until `end`, which is open from now on. `None` if there is no room for more.
    #[inline]
    pub(super) fn open(&mut self, end: u64) -> Option<usize> {
        if let [only] = self.open.as_mut_slice() {
            if fit(only) >= end {
                only.push(end);
                self.open_count += 1;
                return Some(0);
            }
        }
        self.open_any(end)
    }

    fn open_any(&mut self, end: u64) -> Option<usize> {
        if self.open_count >= MAX_OPEN {
            return None;
        }
        let fitting = if self.open.len() > 1 { self.fits.first(end) } else { None };
        let lane = match fitting {
            Some(lane) => lane,
            None if self.open.len() >= MAX_LANES => return None,
            None => self.add_lane(),
        };
        self.open[lane].push(end);
        self.open_count += 1;
        if self.open.len() > 1 {
            self.opened += 1;
            self.queue.push((Reverse(end), self.opened, lane));
            self.fits.set(lane, fit(&self.open[lane]));
        }
        Some(lane)
    }

    fn add_lane(&mut self) -> usize {
        if self.open.len() == 1 {
            for end in &self.open[0] {
                self.opened += 1;
                self.queue.push((Reverse(*end), self.opened, 0));
            }
            self.fits.set(0, fit(&self.open[0]));
        }
        self.open.push(Vec::new());
        let lane = self.open.len() - 1;
        self.fits.set(lane, u64::MAX);
        lane
    }

    /// Whether an instant at `time`, in the unit of the trace, has room in the first lane.
    #[inline]
    pub(super) fn has_room_for_instant(&mut self, time: u64) -> bool {
        if self.instants.0 != time {
            self.instants = (time, 0);
        }
        self.instants.1 += 1;
        // Instants at one time stand on each other.
        self.open.first().map_or(0, Vec::len) + self.instants.1 <= MAX_DEPTH
    }
}

/// The latest end of what fits a lane now.
#[inline]
fn fit(lane: &[u64]) -> u64 {
    match lane.last() {
        None => u64::MAX,
        // Nothing lasts until 0 that has a duration.
        Some(_) if lane.len() >= MAX_DEPTH => 0,
        Some(end) => *end,
    }
}

/// Finds the first number that is large enough: a tree in which each node is the larger of its two children.
#[derive(Default)]
struct Tree {
    /// The root at 1, the children of `n` at `2n` and `2n + 1`; as many leaves as nodes above them.
    nodes: Vec<u64>,
}

impl Tree {
    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    fn set(&mut self, place: usize, value: u64) {
        if place >= self.leaves() {
            let old = self.leaves();
            let leaves = (place + 1).next_power_of_two().max(8);
            let mut nodes = vec![0; 2 * leaves];
            nodes[leaves..leaves + old].copy_from_slice(&self.nodes[old..]);
            for node in (1..leaves).rev() {
                nodes[node] = nodes[2 * node].max(nodes[2 * node + 1]);
            }
            self.nodes = nodes;
        }
        let mut node = self.leaves() + place;
        self.nodes[node] = value;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
        }
    }

    /// The first place whose number is at least `value`, which is not 0.
    fn first(&self, value: u64) -> Option<usize> {
        let mut node = 1;
        if self.nodes.get(node).is_none_or(|largest| *largest < value) {
            return None;
        }
        while node < self.leaves() {
            node *= 2;
            node += usize::from(self.nodes[node] < value);
        }
        Some(node - self.leaves())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Gives each event its lane, and checks that lanes close in order.
    fn lanes(events: &[(u64, u64)]) -> Vec<Option<usize>> {
        let mut lanes = Lanes::default();
        let mut closed = Vec::new();
        let mut close = |lanes: &mut Lanes, time| {
            let done = lanes.close(time, |lane, end| {
                closed.push((end, lane));
                Ok::<_, Infallible>(())
            });
            done.expect("cannot fail");
        };
        let mut found = Vec::new();
        for (start, duration) in events {
            close(&mut lanes, *start);
            found.push(lanes.open(start + duration));
        }
        close(&mut lanes, u64::MAX);
        assert!(closed.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{closed:?}");
        assert_eq!(closed.len(), found.iter().flatten().count());
        found
    }

    #[test]
    fn what_nests_or_follows_stays_and_what_overlaps_moves() {
        let nested = [(0, 10), (0, 10), (1, 9), (2, 3), (5, 5), (10, 1)];
        assert_eq!(lanes(&nested), [Some(0); 6]);
        let overlapping = [(0, 10), (5, 10), (7, 3), (9, 20), (12, 1), (15, 1), (40, 1)];
        assert_eq!(lanes(&overlapping), [0, 1, 0, 2, 0, 0, 0].map(Some));
    }

    #[test]
    fn what_is_too_deep_or_too_much_moves_or_has_no_lane() {
        let deep = vec![(0, 10); MAX_DEPTH + 1];
        let found = lanes(&deep);
        assert_eq!((found[MAX_DEPTH - 1], found[MAX_DEPTH]), (Some(0), Some(1)));

        // Each ends later than all before it: a lane each.
        let wide: Vec<_> = (0..MAX_LANES as u64 + 1).map(|number| (number, 1 << 20)).collect();
        let found = lanes(&wide);
        assert_eq!(found[MAX_LANES - 1..], [Some(MAX_LANES - 1), None]);

        let mut lanes = Lanes::default();
        let room = (0..=MAX_DEPTH).map(|_| lanes.has_room_for_instant(5)).collect::<Vec<_>>();
        assert_eq!(room[MAX_DEPTH - 1..], [true, false]);
        assert!(lanes.has_room_for_instant(6));
    }

    proptest! {
        #[test]
        fn lanes_nest(mut events in proptest::collection::vec((0_u64..60, 1_u64..40), 0..60)) {
            events.sort_by_key(|(start, duration)| (*start, Reverse(*duration)));
            let found = lanes(&events);
            for (place, (start, duration)) in events.iter().enumerate() {
                for (before, (earlier, longer)) in events[..place].iter().enumerate() {
                    let apart = start >= &(earlier + longer);
                    let within = start + duration <= earlier + longer;
                    prop_assert!(found[place] != found[before] || apart || within);
                }
            }
        }
    }
}
