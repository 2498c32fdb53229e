//! Lanes: rows for events that overlap in time. The events of one lane nest or follow each other, so a viewer can draw a
//! lane as one track.
//!
//! [`LaneAllocator`] is the only place that chooses lanes: for the lines of a session that hold asynchronous spans and
//! overlapping scopes, and for the tracks of the exports.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::room::{OutOfMemory, Result, Room as _};

/// Bounds of a [`LaneAllocator`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLimits {
    /// How many events may be open in a lane.
    depth: usize,
    /// How many lanes there may be.
    lanes: usize,
    /// How many events may be open in all lanes together.
    open: usize,
    /// The smallest time that the viewer tells apart. It draws the instants of one such time on each other.
    resolution: u64,
}

impl LaneLimits {
    /// No bounds, for lines of an XSpace.
    pub(crate) const NONE: Self = Self { depth: usize::MAX, lanes: usize::MAX, open: usize::MAX, resolution: 1 };
    /// Bounds of Perfetto, with times in picoseconds. Its trace processor drops what lies deeper than 512 on a track, and some
    /// readers what lies deeper than 255. The other bounds keep an export's memory small.
    pub(crate) const VIEWER: Self = Self { depth: 250, lanes: 1 << 16, open: 1 << 18, resolution: 1_000 };
}

/// Chooses a lane for each event. Events come in order of their start, and the longer of two that start together comes first.
///
/// Before an event is added, [`close`](Self::close) must have been called with its start, so that only events that last beyond
/// that are open. The event then goes to the lane whose innermost open event ends first among those that last as long as the new
/// one. That is the tightest event around it, so its children follow it to its lane. Where no open event is around it, the event
/// goes to the first lane in which nothing is open, and a lane is added only if there is none.
///
/// Each open event has a tag, by which the caller finds it again.
#[derive(Debug)]
pub(crate) struct LaneAllocator<T = ()> {
    limits: LaneLimits,
    lanes: Vec<Lane<T>>,
    /// With several lanes, those that have an open event and room for more: the end of the innermost one, and the lane.
    nesting: BTreeSet<(u64, usize)>,
    /// With several lanes, those that have no open event, but room.
    empty: BTreeSet<usize>,
    /// With several lanes, all open events by their end. Of equal ends the one that was opened last comes first, because it is
    /// the inner one if both are in one lane.
    queue: BinaryHeap<(Reverse<u64>, u64, usize)>,
    /// How many events are open.
    open: usize,
    /// How many events were opened.
    opened: u64,
    /// When the last instant was, in units of the resolution.
    instant: u64,
    /// The lanes that have instants of that time.
    with_instants: Vec<usize>,
}

#[derive(Debug)]
struct Lane<T> {
    /// Ends and tags of the open events, the innermost last. No end is later than the end before it.
    open: Vec<(u64, T)>,
    /// Instants at the time of the last instant.
    instants: usize,
}

impl<T> Lane<T> {
    fn has_room(&self, limits: LaneLimits) -> bool {
        self.open.len() + self.instants < limits.depth
    }

    /// Whether an event that lasts until `end` lies within what is open here, which may be nothing.
    fn is_around(&self, end: u64) -> bool {
        self.open.last().is_none_or(|innermost| innermost.0 >= end)
    }
}

impl<T> LaneAllocator<T> {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        Self {
            limits,
            lanes: Vec::new(),
            nesting: BTreeSet::new(),
            empty: BTreeSet::new(),
            queue: BinaryHeap::new(),
            open: 0,
            opened: 0,
            instant: 0,
            with_instants: Vec::new(),
        }
    }

    /// Closes the events that end at `time` or before, in order of their ends: calls back with the lane and the end of each.
    #[inline]
    pub(crate) fn close<E>(&mut self, time: u64, mut each: impl FnMut(usize, u64) -> Result<(), E>) -> Result<(), E> {
        self.forget_instants(time);
        if let [only] = self.lanes.as_mut_slice() {
            while let Some(end) = only.open.last().map(|innermost| innermost.0).filter(|end| *end <= time) {
                only.open.pop();
                self.open -= 1;
                each(0, end)?;
            }
            return Ok(());
        }
        while let Some((Reverse(end), _, lane)) = self.queue.peek().copied().filter(|next| next.0.0 <= time) {
            self.queue.pop();
            self.change(lane, |lane| {
                lane.open.pop();
            });
            self.open -= 1;
            each(lane, end)?;
        }
        Ok(())
    }

    /// The lane of an event that lasts until `end`, which is open from now on; `None` where the limits leave no room for it.
    #[inline]
    pub(crate) fn open(&mut self, end: u64, tag: T) -> Result<Option<usize>> {
        if let [only] = self.lanes.as_mut_slice() {
            if only.is_around(end) && only.has_room(self.limits) && self.open < self.limits.open {
                only.open.room(1)?;
                only.open.push((end, tag));
                self.open += 1;
                return Ok(Some(0));
            }
        }
        let around = self.nesting.range((end, 0)..).next().map(|around| around.1);
        self.open_in(around, end, tag)
    }

    /// Like [`open`](Self::open), but in a lane in which nothing else is open.
    pub(crate) fn open_alone(&mut self, end: u64, tag: T) -> Result<Option<usize>> {
        self.open_in(None, end, tag)
    }

    /// Like [`open`](Self::open), but in this lane, if the innermost event there lasts as long.
    pub(crate) fn open_inside(&mut self, lane: usize, end: u64, tag: T) -> Result<Option<usize>> {
        match self.lanes.get(lane) {
            Some(found) if found.is_around(end) && found.has_room(self.limits) => self.open_in(Some(lane), end, tag),
            _ => Ok(None),
        }
    }

    /// The tag of the innermost open event of a lane.
    pub(crate) fn innermost(&self, lane: usize) -> Option<&T> {
        self.lanes.get(lane)?.open.last().map(|innermost| &innermost.1)
    }

    /// The lane of an event without duration, which is chosen as in [`open`](Self::open).
    #[inline]
    pub(crate) fn instant(&mut self, time: u64) -> Result<Option<usize>> {
        self.forget_instants(time);
        let lane = match self.lanes.as_slice() {
            [only] if only.has_room(self.limits) => Some(0),
            // What is open lasts beyond this time, so any of it is around the instant.
            _ => match self.nesting.first() {
                Some(around) => Some(around.1),
                None => self.empty_lane()?,
            },
        };
        let Some(lane) = lane else { return Ok(None) };
        if self.lanes[lane].instants == 0 {
            self.with_instants.room(1)?;
            self.with_instants.push(lane);
            self.instant = time / self.limits.resolution;
        }
        self.change(lane, |lane| lane.instants += 1);
        Ok(Some(lane))
    }

    fn open_in(&mut self, lane: Option<usize>, end: u64, tag: T) -> Result<Option<usize>> {
        if self.open >= self.limits.open {
            return Ok(None);
        }
        let lane = match lane {
            Some(lane) => lane,
            None => match self.empty_lane()? {
                Some(lane) => lane,
                None => return Ok(None),
            },
        };
        self.lanes[lane].open.room(1)?;
        self.change(lane, |lane| lane.open.push((end, tag)));
        self.open += 1;
        if self.lanes.len() > 1 {
            self.queue.try_reserve(1).map_err(|_| OutOfMemory)?;
            self.opened += 1;
            self.queue.push((Reverse(end), self.opened, lane));
        }
        Ok(Some(lane))
    }

    /// The first lane in which nothing is open, or a new one; `None` where there are as many lanes as there may be.
    fn empty_lane(&mut self) -> Result<Option<usize>> {
        if let [only] = self.lanes.as_slice() {
            if only.open.is_empty() && only.has_room(self.limits) {
                return Ok(Some(0));
            }
        }
        if let Some(lane) = self.empty.first() {
            return Ok(Some(*lane));
        }
        if self.lanes.len() >= self.limits.lanes {
            return Ok(None);
        }
        self.lanes.room(1)?;
        if let [only] = self.lanes.as_slice() {
            // The lists and the queue, which one lane does not need, begin here.
            self.queue.try_reserve(only.open.len()).map_err(|_| OutOfMemory)?;
            for (end, _) in &only.open {
                self.opened += 1;
                self.queue.push((Reverse(*end), self.opened, 0));
            }
            self.list(0);
        }
        self.lanes.push(Lane { open: Vec::new(), instants: 0 });
        let lane = self.lanes.len() - 1;
        if lane > 0 {
            self.list(lane);
        }
        Ok(Some(lane))
    }

    /// Changes a lane, and what the lists say of it.
    fn change(&mut self, lane: usize, change: impl FnOnce(&mut Lane<T>)) {
        if self.lanes.len() == 1 {
            change(&mut self.lanes[lane]);
            return;
        }
        match self.lanes[lane].open.last() {
            Some(innermost) => self.nesting.remove(&(innermost.0, lane)),
            None => self.empty.remove(&lane),
        };
        change(&mut self.lanes[lane]);
        self.list(lane);
    }

    /// Puts a lane that is in neither list in the one where it belongs, if it has room.
    fn list(&mut self, lane: usize) {
        let found = &self.lanes[lane];
        if found.has_room(self.limits) {
            match found.open.last() {
                Some(innermost) => self.nesting.insert((innermost.0, lane)),
                None => self.empty.insert(lane),
            };
        }
    }

    /// Makes the room free again that instants before `time` have taken.
    #[inline]
    fn forget_instants(&mut self, time: u64) {
        if !self.with_instants.is_empty() && time / self.limits.resolution != self.instant {
            for place in 0..self.with_instants.len() {
                self.change(self.with_instants[place], |lane| lane.instants = 0);
            }
            self.with_instants.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Gives each event of start and duration its lane, and checks that all are closed in the order of their ends.
    fn lanes(limits: LaneLimits, events: &[(u64, u64)]) -> Vec<Option<usize>> {
        let mut lanes = LaneAllocator::new(limits);
        let mut closed = Vec::new();
        let mut close = |lanes: &mut LaneAllocator, time| {
            let Ok(()) = lanes.close(time, |lane, end| {
                closed.push((end, lane));
                Ok::<_, Infallible>(())
            });
        };
        let mut found = Vec::new();
        for (start, duration) in events {
            close(&mut lanes, *start);
            found.push(lanes.open(start + duration, ()).expect("there is memory"));
        }
        close(&mut lanes, u64::MAX);
        assert!(closed.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{closed:?}");
        assert_eq!(closed.len(), found.iter().flatten().count());
        found
    }

    #[test]
    fn what_nests_or_follows_stays_and_what_overlaps_moves() {
        let nested = [(0, 10), (0, 10), (1, 9), (2, 3), (5, 5), (10, 1)];
        assert_eq!(lanes(LaneLimits::VIEWER, &nested), [Some(0); 6]);
        // The second lane's event ends later than the first's, then sooner.
        let overlapping = [(0, 10), (5, 10), (7, 3), (9, 20), (12, 1), (15, 1), (40, 1)];
        assert_eq!(lanes(LaneLimits::VIEWER, &overlapping), [0, 1, 0, 2, 1, 2, 0].map(Some));
    }

    #[test]
    fn children_follow_their_parent_to_its_lane() {
        // The second event crosses the end of the first. What both contain goes to the first, which ends before the second.
        let events = [(0, 100), (10, 100), (20, 30), (21, 5), (60, 50), (70, 5)];
        assert_eq!(lanes(LaneLimits::NONE, &events), [0, 1, 0, 0, 1, 0].map(Some));
    }

    #[test]
    fn a_lane_is_used_again_as_soon_as_it_is_free() {
        // 64 at a time, each of which crosses the ends of 63 others.
        let events: Vec<(u64, u64)> = (0..20_000).map(|number| (number, 64)).collect();
        let found = lanes(LaneLimits::NONE, &events);
        assert_eq!(found, (0..20_000).map(|number| Some(number % 64)).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_too_deep_or_too_much_moves_or_has_no_lane() {
        const DEPTH: usize = LaneLimits::VIEWER.depth;
        const LANES: usize = LaneLimits::VIEWER.lanes;
        let found = lanes(LaneLimits::VIEWER, &[(0, 10); DEPTH + 1]);
        assert_eq!((found[DEPTH - 1], found[DEPTH]), (Some(0), Some(1)));
        // Each ends later than all before it, so it needs a lane of its own.
        let wide: Vec<_> = (0..LANES as u64 + 1).map(|number| (number, 1 << 20)).collect();
        assert_eq!(lanes(LaneLimits::VIEWER, &wide)[LANES - 1..], [Some(LANES - 1), None]);
    }

    #[test]
    fn instants_of_one_time_share_lanes_up_to_their_depth() {
        const DEPTH: usize = LaneLimits::VIEWER.depth;
        let mut lanes = LaneAllocator::new(LaneLimits::VIEWER);
        assert_eq!(lanes.open(9_000, ()), Ok(Some(0)));
        assert_eq!(lanes.open(12_000, ()), Ok(Some(1)));
        let mut counts = [0; 5];
        for number in 0..1_000 {
            let lane = lanes.instant(5_000 + number % 1_000).expect("there is memory").expect("there is room");
            counts[lane] += 1;
        }
        assert_eq!(counts, [DEPTH - 1, DEPTH - 1, DEPTH, DEPTH, 2]);
        // At another time there is room in the innermost event again, and none of the lanes is wasted.
        assert_eq!(lanes.instant(6_000), Ok(Some(0)));
        let Ok(()) = lanes.close(10_000, |_, _| Ok::<_, Infallible>(()));
        assert_eq!(lanes.instant(10_000), Ok(Some(1)));
        let Ok(()) = lanes.close(12_000, |_, _| Ok::<_, Infallible>(()));
        assert_eq!((lanes.instant(12_000), lanes.open(13_000, ())), (Ok(Some(0)), Ok(Some(0))));
    }

    #[test]
    fn an_event_is_put_inside_another_or_alone_as_the_caller_says() {
        let mut lanes = LaneAllocator::new(LaneLimits::NONE);
        assert_eq!(lanes.open_alone(10, 'a'), Ok(Some(0)));
        assert_eq!(lanes.open_alone(9, 'b'), Ok(Some(1)));
        assert_eq!(lanes.open_inside(0, 11, 'c'), Ok(None));
        assert_eq!(lanes.open_inside(0, 8, 'd'), Ok(Some(0)));
        assert_eq!([0, 1, 2].map(|lane| lanes.innermost(lane)), [Some(&'d'), Some(&'b'), None]);
        let Ok(()) = lanes.close(9, |_, _| Ok::<_, Infallible>(()));
        assert_eq!([0, 1].map(|lane| lanes.innermost(lane)), [Some(&'a'), None]);
        assert_eq!(lanes.open_alone(20, 'e'), Ok(Some(1)));
    }

    proptest! {
        #[test]
        fn lanes_nest_and_each_event_is_in_the_tightest_one_around_it(
            mut events in proptest::collection::vec((0_u64..60, 1_u64..40), 0..60)
        ) {
            events.sort_by_key(|(start, duration)| (*start, Reverse(*duration)));
            let found = lanes(LaneLimits::VIEWER, &events);
            for (place, (start, duration)) in events.iter().enumerate() {
                let end = start + duration;
                let mut innermost: Vec<Option<u64>> = Vec::new();
                for ((earlier, longer), lane) in events[..place].iter().zip(&found) {
                    let lane = lane.expect("there are few");
                    innermost.resize(innermost.len().max(lane + 1), None);
                    if *start < earlier + longer {
                        let last = innermost[lane].replace(earlier + longer);
                        prop_assert!(last.is_none_or(|last| earlier + longer <= last), "{events:?} in {found:?}");
                    }
                }
                let around = innermost.iter().flatten().filter(|last| **last >= end).min();
                let lane = found[place].expect("there are few");
                prop_assert_eq!(innermost.get(lane).copied().flatten(), around.copied());
            }
        }
    }
}
