//! Nesting on one line: which event is inside which, and how much of its time is its own.
//!
//! Every instant belongs to one of the events open then: the one that comes last in the order of starts, and of equal
//! starts the shorter. An event's own time is what belongs to it. Where events nest, that is its duration without its
//! children's, each subtracted once. Where they overlap in part, the later one owns what both cover; so no time is
//! counted twice, none is negative, and the sum over a line is the time in which anything was open.

/// A finished event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed<T> {
    pub(super) tag: T,
    pub(super) duration_ps: u64,
    pub(super) self_ps: u64,
}

/// What an event starts within.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'n, T> {
    /// The innermost open event that it lies inside of.
    pub(super) inside: Option<&'n T>,
    /// The open event across whose end it lies, if it nests badly.
    pub(super) across: Option<&'n T>,
    /// How many events it lies inside of.
    pub(super) depth: usize,
}

struct Open<T> {
    end_ps: i128,
    duration_ps: u64,
    self_ps: u64,
    /// Place of the innermost open event that this one lies inside of.
    parent: Option<usize>,
    /// How many it lies inside of, itself included.
    depth: usize,
    tag: T,
}

/// Events that are open, from the first to the last of one line.
pub(super) struct Nest<T> {
    open: Vec<Open<T>>,
    /// Up to here every instant is given to an event.
    now_ps: i128,
    /// At how many open events those that ended under a later one are looked for.
    full: usize,
}

/// Open events below which none are looked for that have ended.
const FEW: usize = 256;

impl<T: Copy> Nest<T> {
    pub(super) fn new() -> Self {
        Self { open: Vec::new(), now_ps: i128::MIN, full: FEW }
    }

    /// Opens an event. They come by start, and those of one start by duration, longest first. `tag` makes what is kept
    /// of it, from that of the event around it. Events that are over are given to `close` first.
    pub(super) fn enter<E>(
        &mut self,
        start_ps: i128,
        duration_ps: u64,
        tag: impl FnOnce(Around<'_, T>) -> Result<T, E>,
        close: &mut impl FnMut(Closed<T>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.advance(start_ps, close)?;
        let end_ps = start_ps + i128::from(duration_ps);
        if self.open.len() >= self.full {
            self.drop_ended(close)?;
        }
        // What contains the new one contains whatever is open and ends before it, or is not around that.
        let last = self.open.len().checked_sub(1);
        let mut parent = last;
        while let Some(place) = parent {
            if self.open[place].end_ps >= end_ps {
                break;
            }
            parent = self.open[place].parent;
        }
        let inside = parent.map(|place| &self.open[place]);
        let across = if parent == last { None } else { last.map(|place| &self.open[place].tag) };
        let depth = inside.map_or(0, |inside| inside.depth);
        let tag = tag(Around { inside: inside.map(|open| &open.tag), across, depth })?;
        self.open.push(Open { end_ps, duration_ps, self_ps: 0, parent, depth: depth + 1, tag });
        Ok(())
    }

    /// Closes what is still open, at its own end. The nest can be used for another line then.
    pub(super) fn finish<E>(&mut self, close: &mut impl FnMut(Closed<T>) -> Result<(), E>) -> Result<(), E> {
        self.advance(i128::MAX, close)?;
        (self.now_ps, self.full) = (i128::MIN, FEW);
        Ok(())
    }

    /// Gives the time up to `to_ps` away, and closes what has ended by then unless a later one covers it.
    fn advance<E>(&mut self, to_ps: i128, close: &mut impl FnMut(Closed<T>) -> Result<(), E>) -> Result<(), E> {
        while let Some(last) = self.open.last_mut() {
            let until = last.end_ps.min(to_ps);
            if until > self.now_ps {
                // An event never owns more than its duration: it owns nothing before its start.
                last.self_ps += u64::try_from(until - self.now_ps).unwrap_or(0);
                self.now_ps = until;
            }
            if last.end_ps > to_ps {
                return Ok(());
            }
            if let Some(Open { duration_ps, self_ps, tag, .. }) = self.open.pop() {
                close(Closed { tag, duration_ps, self_ps })?;
            }
        }
        self.now_ps = to_ps;
        Ok(())
    }

    /// Closes the events that ended below a later one, so that a chain of overlaps does not pile up.
    fn drop_ended<E>(&mut self, close: &mut impl FnMut(Closed<T>) -> Result<(), E>) -> Result<(), E> {
        let mut places = Vec::with_capacity(self.open.len());
        let mut kept = 0;
        for open in &self.open {
            places.push(kept);
            kept += usize::from(open.end_ps > self.now_ps);
        }
        let now_ps = self.now_ps;
        let mut kept = Vec::with_capacity(kept);
        // From the last on, so that what is inside closes before what is around it.
        for mut open in self.open.drain(..).rev() {
            if open.end_ps > now_ps {
                // What contains an event ends no earlier, so it is kept too.
                open.parent = open.parent.map(|place| places[place]);
                kept.push(open);
            } else {
                let Open { duration_ps, self_ps, tag, .. } = open;
                close(Closed { tag, duration_ps, self_ps })?;
            }
        }
        kept.reverse();
        self.full = FEW.max(2 * kept.len());
        self.open = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Runs events of start and duration through a nest: own times and containers, by the events' place.
    fn nest(events: &[(i64, u64)]) -> (Vec<u64>, Vec<Option<usize>>) {
        let mut nest = Nest::new();
        let mut own = vec![u64::MAX; events.len()];
        let mut parents = vec![None; events.len()];
        let mut close = |closed: Closed<usize>| {
            assert_eq!(closed.duration_ps, events[closed.tag].1);
            own[closed.tag] = closed.self_ps;
            Ok::<_, Infallible>(())
        };
        for (index, &(start, duration)) in events.iter().enumerate() {
            let tag = |around: Around<'_, usize>| {
                parents[index] = around.inside.copied();
                Ok(index)
            };
            let Ok(()) = nest.enter(start.into(), duration, tag, &mut close);
        }
        let Ok(()) = nest.finish(&mut close);
        (own, parents)
    }

    #[test]
    fn own_time_is_what_no_later_event_covers() {
        type Row<'a> = (&'a [(i64, u64)], &'a [u64], &'a [Option<usize>]);
        let rows: [Row<'_>; 7] = [
            (&[(0, 10), (2, 3), (5, 2)], &[5, 3, 2], &[None, Some(0), Some(0)]),
            (&[(0, 10), (0, 10), (0, 4)], &[0, 6, 4], &[None, Some(0), Some(1)]),
            (&[(0, 10), (5, 10)], &[5, 10], &[None, None]),
            (&[(0, 4), (4, 4)], &[4, 4], &[None, None]),
            (&[(0, 4), (2, 0), (4, 0)], &[4, 0, 0], &[None, Some(0), None]),
            (&[(0, 20), (1, 5), (4, 10), (13, 3)], &[5, 3, 9, 3], &[None, Some(0), Some(0), Some(0)]),
            (&[(-5, 3), (7, 1)], &[3, 1], &[None, None]),
        ];
        for (events, own, parents) in rows {
            assert_eq!(nest(events), (own.to_vec(), parents.to_vec()), "{events:?}");
        }
    }

    #[test]
    fn a_chain_of_overlaps_does_not_pile_up() {
        let mut nest = Nest::new();
        let mut closed = 0_u64;
        let mut close = |event: Closed<()>| {
            closed += 1;
            assert_eq!(event.self_ps, 1);
            Ok::<_, Infallible>(())
        };
        for start in 0..100_000_i128 {
            let Ok(()) = nest.enter(start, if start == 99_999 { 1 } else { 2 }, |_| Ok(()), &mut close);
            assert!(nest.open.len() <= FEW);
        }
        let Ok(()) = nest.finish(&mut close);
        assert_eq!(closed, 100_000);
    }

    proptest! {
        #[test]
        fn any_events_own_what_intervals_say(events in vec((0_i64..40, 0_u64..25), 0..30)) {
            let mut events = events;
            events.sort_by_key(|&(start, duration)| (start, std::cmp::Reverse(duration)));
            let (own, parents) = nest(&events);
            let mut expected = vec![0; events.len()];
            let inside = |instant: i64, (start, duration): (i64, u64)| {
                start <= instant && instant < start + i64::try_from(duration).expect("is small")
            };
            for instant in 0..70 {
                if let Some(owner) = (0..events.len()).rev().find(|&index| inside(instant, events[index])) {
                    expected[owner] += 1;
                }
            }
            prop_assert_eq!(own, expected);
            let end = |(start, duration): (i64, u64)| start + i64::try_from(duration).expect("is small");
            for (index, parent) in parents.iter().enumerate() {
                let contains = |other: &usize| {
                    end(events[*other]) >= end(events[index]) && end(events[*other]) > events[index].0
                };
                prop_assert_eq!(*parent, (0..index).rev().find(contains), "{:?}", events);
            }
        }
    }
}
