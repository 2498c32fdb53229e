//! Threads whose ticks do not go forward, or lie outside of the session: their records are given steady ticks, so that each
//! scope is shown, in the right order and within the session.
//!
//! This is only for clocks that are at fault. The ticks of a thread may
//!
//! - go back, because the counter was set or its value differs between processors: the thread's time stands still until the
//!   ticks are where they were;
//! - be in a later lap of the source: see [`Laps`];
//! - be ahead of the session's end or behind its start, because its processor's counter differs from the one that took the
//!   anchors: all its ticks are moved by as much. What still lies outside then is at the start or at the end.
//!
//! The drain takes a record after the stop, or a begin without an end, by its tick. So this comes before it.

use super::decode::{Retimed, Words};
use crate::laps::Laps;
use crate::room;

/// What the session knows of its clock.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    pub(crate) laps: Laps,
    /// How many ticks are no fault: those of a millisecond.
    pub(crate) slack: u64,
    /// Steady tick of the session's start.
    pub(crate) start: u64,
    /// Steady tick of the stop, or of the moment that a snapshot shows.
    pub(crate) stop: u64,
    /// Whether the session is over, and no thread goes on.
    pub(crate) is_over: bool,
}

/// A thread's records in steady ticks.
#[derive(Debug)]
pub(crate) struct Straightened {
    pub(crate) chunks: Vec<Retimed>,
    /// The last steady tick that is to be read.
    pub(crate) last: u64,
}

/// What the ticks of a thread are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Course {
    /// Lowest and highest steady tick.
    lowest: u64,
    highest: u64,
    /// It went back by more than the slack.
    goes_back: bool,
}

impl Steady {
    /// The records in steady ticks; `None` where theirs are steady, or where there is no memory for a copy. `ended` is the
    /// tick at which the thread ended, or 0. All records were written before `taken`, a tick of the source.
    pub(crate) fn straighten(&self, chunks: &[Words<'_>], ended: u64, taken: u64) -> Option<Straightened> {
        let course = self.course(chunks)?;
        let taken = self.laps.latest(taken);
        let is_ahead = course.highest > taken.saturating_add(self.slack);
        let is_behind = course.lowest.saturating_add(self.slack) < self.start;
        if !course.goes_back && !is_ahead && !is_behind && self.laps.steps() == 0 {
            return None;
        }
        // A thread that goes on after a snapshot's moment is not ahead.
        let end = if self.is_over { self.stop } else { taken.max(self.start) };
        let ahead = if is_ahead { course.highest.saturating_sub(end) } else { 0 };
        let behind = if is_behind && !is_ahead { self.start - course.lowest } else { 0 };
        let moved = |tick: u64| {
            let moved = tick.saturating_sub(ahead).saturating_add(behind);
            if is_ahead || is_behind { moved.clamp(self.start, end) } else { moved }
        };
        let mut follower = self.laps.follow(self.slack);
        let mut steady = |tick| moved(follower.next(tick));
        let mut copies = room::with_room(chunks.len()).ok()?;
        for words in chunks {
            copies.push(Retimed::of(*words, &mut steady)?);
        }
        // Zero is of a thread that goes on, and the largest tick of one that ended when there was no session.
        let ended = if ended == 0 || ended == u64::MAX { u64::MAX } else { steady(ended) };
        // A thread whose ring has gone round since the moment of a snapshot has a window of its own.
        let last = if moved(course.lowest) > self.stop { end } else { self.stop };
        Some(Straightened { chunks: copies, last: last.min(ended) })
    }

    /// What the ticks of a thread are like; `None` where it has none.
    fn course(&self, chunks: &[Words<'_>]) -> Option<Course> {
        let mut follower = self.laps.follow(self.slack);
        let (mut course, mut before) = (None::<Course>, 0);
        for tick in chunks.iter().flat_map(|words| words.ticks()) {
            let steady = follower.next(tick);
            let goes_back = tick.saturating_add(self.slack) < before;
            before = tick;
            course = Some(course.map_or(Course { lowest: steady, highest: steady, goes_back }, |course| Course {
                // They never go back.
                highest: steady,
                goes_back: course.goes_back || goes_back,
                ..course
            }));
        }
        course
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::clock::Anchor;
    use crate::record::drain::{Fate, Scopes};
    use crate::record::ring::{BEGIN, END, head};
    use crate::site::{Level, Memo, NO_FILTER, Origin, Site};
    use crate::value::Shape;

    fn site() -> &'static Site {
        static SITE: Site = Site {
            name: "s",
            label: "s\0",
            given: 0,
            keys: &[],
            level: Level::Critical,
            filter: NO_FILTER,
            module_path: "m",
            file: "f",
            line: 1,
            memo: Memo::new(),
        };
        &SITE
    }

    static SHAPE: Shape = Shape { site: Origin::Coded(site), kinds: Cow::Borrowed(&[]), plain: true };

    /// Nanoseconds of a second, which are its ticks.
    const S: u64 = 1_000_000_000;

    /// A session whose source had these ticks from second to second, the last one at its stop.
    fn steady(ticks: &[u64]) -> Steady {
        let anchor =
            |(second, tick): (u64, &u64)| Anchor { tick: *tick, monotonic_ns: second * S, realtime_ns: 0, width: 0 };
        let anchors: Vec<Anchor> = (0..).zip(ticks).map(anchor).collect();
        let (laps, anchors) = Laps::of(&anchors).expect("there is memory");
        let stop = anchors[anchors.len() - 1].tick;
        Steady { laps, slack: S / 1000, start: anchors[0].tick, stop, is_over: true }
    }

    /// Records that begin a scope at each even place and end it at each odd one.
    fn scopes(ticks: &[u64]) -> Vec<u64> {
        let shape = std::ptr::from_ref(&SHAPE).expose_provenance() as u64;
        let record = |(index, tick): (usize, &u64)| {
            if index % 2 == 0 { vec![head(*tick, BEGIN), shape] } else { vec![head(*tick, END)] }
        };
        ticks.iter().enumerate().flat_map(record).collect()
    }

    /// The begin and end of each scope that a thread with these ticks has in the profile, whose records were taken `later`
    /// ticks after the stop. `None` where they are read as they are.
    fn shown(steady: &Steady, ticks: &[u64], later: u64) -> Option<Vec<(u64, u64)>> {
        let words = scopes(ticks);
        let taken = steady.stop.wrapping_sub(steady.laps.latest(0)) + later;
        let straightened = steady.straighten(&[Words::written(&words)], 0, taken)?;
        let chunks: Vec<Words<'_>> = straightened.chunks.iter().map(Retimed::words).collect();
        let scopes = Scopes::resolve(&chunks, 0, straightened.last).expect("there is memory");
        let mut shown = Vec::new();
        scopes.for_each(|scope| {
            assert_eq!(scope.fate, Fate::default());
            shown.push((scope.begin, scope.end));
        });
        Some(shown)
    }

    #[test]
    fn a_steady_clock_is_left_alone() {
        let steady = steady(&[10 * S, 11 * S, 12 * S]);
        assert_eq!(shown(&steady, &[10 * S, 11 * S, 11 * S, 12 * S], 5), None);
        // Processors whose counters are a little apart.
        assert_eq!(shown(&steady, &[10 * S - 9, 11 * S, 11 * S - 9, 12 * S + 9], 5), None);
        assert_eq!(shown(&steady, &[], 5), None);
        // A thread that meets the stop late, before its records are taken.
        assert_eq!(shown(&steady, &[10 * S, 11 * S, 12 * S, 14 * S], 2 * S), None);
    }

    #[test]
    fn scopes_around_a_reset_keep_their_order_and_length() {
        let steady = steady(&[50 * S, 51 * S, S / 2, 3 * S / 2]);
        let ticks = [50 * S, 51 * S, 51 * S + S / 4, S / 4, S, S + 7];
        let expected = [(50 * S, 51 * S), (51 * S + S / 4, 51 * S + 3 * S / 4), (52 * S + S / 2, 52 * S + S / 2 + 7)];
        assert_eq!(shown(&steady, &ticks, 5), Some(expected.to_vec()));
    }

    #[test]
    fn a_step_back_between_two_anchors_loses_no_scope() {
        let steady = steady(&[10 * S, 11 * S, 12 * S]);
        let ticks = [10 * S, 11 * S, 11 * S - S / 2, 11 * S - S / 4, 11 * S + 1, 11 * S + 2];
        let expected = [(10 * S, 11 * S), (11 * S, 11 * S), (11 * S + 1, 11 * S + 2)];
        assert_eq!(shown(&steady, &ticks, 5), Some(expected.to_vec()));
    }

    #[test]
    fn a_processor_that_is_ahead_or_behind_is_moved_into_the_session() {
        let steady = steady(&[10 * S, 11 * S, 12 * S]);
        let ahead = [10 * S, 11 * S, 13 * S, 13 * S + 7].map(|tick| tick + 100 * S);
        let moved = [(9 * S - 7, 10 * S - 7), (12 * S - 7, 12 * S)];
        // Its first scope began before the session, as far as can be told.
        assert_eq!(shown(&steady, &ahead, 5), Some(vec![(10 * S, 10 * S), moved[1]]));
        let behind = [2 * S, 3 * S, 3 * S, 4 * S];
        assert_eq!(shown(&steady, &behind, 5), Some(vec![(10 * S, 11 * S), (11 * S, 12 * S)]));
    }

    #[test]
    fn a_snapshot_shows_a_thread_that_is_ahead_up_to_its_last_record() {
        let steady = Steady { is_over: false, ..steady(&[10 * S, 11 * S]) };
        let ahead = [110 * S, 110 * S + S / 4];
        assert_eq!(shown(&steady, &ahead, S), Some(vec![(11 * S + 3 * S / 4, 12 * S)]));
        // One that only goes on after the moment of the snapshot is not ahead.
        assert_eq!(shown(&steady, &[10 * S, 11 * S + S / 2], S), None);
    }
}
