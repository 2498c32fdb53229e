//! Sources of ticks that go back: the laps between two such steps, put on one axis.

use crate::clock::Anchor;
use crate::room::{self, Result};

/// The stretches of a session in which its source goes forward.
///
/// A time-stamp counter should never go back. It does when the machine is suspended, when a virtual machine moves to another
/// host, or when firmware writes it. Then a tick alone does not say when it was. A new lap begins at each anchor that is
/// behind the one before it. [`Laps`] puts all laps on one axis of *steady ticks*, on which anchors go forward: a lap begins
/// as many ticks after the last one as the monotonic clock says.
///
/// With one lap, which is the rule, steady ticks are the ticks of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Laps(Vec<Lap>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lap {
    /// The lowest tick of the source that may be in it.
    lowest: u64,
    /// The highest one.
    highest: u64,
    /// Added to a tick of the source, modulo 2^64, gives the steady tick.
    shift: u64,
}

impl Laps {
    /// The laps of these anchors, and the anchors in steady ticks. They may come in any order: the helper thread may take one
    /// while another thread stops the session, so that one before the last is the later one. The monotonic clock has the order.
    pub(crate) fn of(anchors: &[Anchor]) -> Result<(Self, Vec<Anchor>)> {
        let mut ordered: Vec<Anchor> = room::with_room(anchors.len())?;
        ordered.extend_from_slice(anchors);
        ordered.sort_unstable_by_key(|anchor| anchor.monotonic_ns);
        let anchors = ordered.as_slice();
        let start = anchors.first().map_or(0, |first| first.tick);
        let mut laps = Vec::new();
        room::push(&mut laps, Lap { lowest: start, highest: u64::MAX, shift: 0 })?;
        let mut steady: Vec<Anchor> = room::with_room(anchors.len())?;
        steady.extend(anchors.iter().take(1).copied());
        // Ticks in so many nanoseconds, from the last two anchors that went forward. At first, from the next two.
        let forward = |pair: &[Anchor]| {
            let (ticks, ns) = (pair[1].tick.checked_sub(pair[0].tick)?, pair[1].monotonic_ns - pair[0].monotonic_ns);
            (ticks != 0 && ns != 0).then_some((ticks, ns))
        };
        let monotonic = |pair: &&[Anchor]| pair[1].monotonic_ns >= pair[0].monotonic_ns;
        let mut rate = anchors.windows(2).filter(monotonic).find_map(forward).unwrap_or((1, 1));
        for pair in anchors.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let last = laps.len() - 1;
            if to.tick < from.tick {
                let ns = to.monotonic_ns.saturating_sub(from.monotonic_ns);
                let ticks = u128::from(ns) * u128::from(rate.0) / u128::from(rate.1);
                let ticks = u64::try_from(ticks).unwrap_or(u64::MAX >> 3).max(1);
                laps[last].highest = from.tick.saturating_add(ticks);
                let at = from.tick.wrapping_add(laps[last].shift).wrapping_add(ticks);
                let lowest = to.tick.saturating_sub(ticks);
                room::push(&mut laps, Lap { lowest, highest: u64::MAX, shift: at.wrapping_sub(to.tick) })?;
            } else if monotonic(&pair) {
                rate = forward(pair).unwrap_or(rate);
            }
            let shift = laps[laps.len() - 1].shift;
            steady.push(Anchor { tick: to.tick.wrapping_add(shift), ..to });
        }
        Ok((Self(laps), steady))
    }

    /// How often the source went back.
    pub(crate) fn steps(&self) -> usize {
        self.0.len() - 1
    }

    /// The steady tick of a tick in the last lap.
    pub(crate) fn latest(&self, tick: u64) -> u64 {
        tick.wrapping_add(self.0[self.steps()].shift)
    }

    /// Follows the ticks of one thread, in the order in which it has read them. `slack` is how far a thread that goes on to
    /// another processor may be behind itself although the source is steady.
    pub(crate) fn follow(&self, slack: u64) -> Follower<'_> {
        Follower { laps: &self.0, slack, lap: 0, before: None }
    }
}

/// Gives the ticks of one thread as steady ticks.
#[derive(Debug)]
pub(crate) struct Follower<'a> {
    laps: &'a [Lap],
    slack: u64,
    lap: usize,
    /// The last tick of the source, and the last steady tick.
    before: Option<(u64, u64)>,
}

impl Follower<'_> {
    /// The steady tick of the thread's next tick, which is never before the last one. The thread is in the lap of its last
    /// tick, unless it has gone back, or farther than that lap goes: then it is in the next one that the tick fits.
    pub(crate) fn next(&mut self, tick: u64) -> u64 {
        let fits = |lap: &Lap| tick.saturating_add(self.slack) >= lap.lowest && tick <= lap.highest;
        let goes_back = self.before.is_some_and(|(before, _)| tick.saturating_add(self.slack) < before);
        if goes_back || !fits(&self.laps[self.lap]) {
            let first = if goes_back { self.lap + 1 } else { self.lap };
            let next = self.laps.iter().enumerate().skip(first).find(|(_, lap)| fits(lap));
            self.lap = next.map_or(self.lap, |(index, _)| index);
        }
        let steady = tick.wrapping_add(self.laps[self.lap].shift);
        let steady = self.before.map_or(steady, |(_, last)| steady.max(last));
        self.before = Some((tick, steady));
        steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timeline;

    /// Anchors of a source at `ticks` from second to second: a tick is a nanosecond.
    fn seconds(ticks: &[u64]) -> Vec<Anchor> {
        let anchor = |(second, &tick): (u64, &u64)| Anchor { tick, monotonic_ns: second * S, realtime_ns: 0, width: 0 };
        (0..).zip(ticks).map(anchor).collect()
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_anchor_that_is_noted_late_is_no_step_back() {
        let anchor = |at: u64| Anchor { tick: at, monotonic_ns: at, realtime_ns: 0, width: 0 };
        let [start, stop, helpers] = [anchor(10), anchor(20), anchor(21)];
        let (laps, steady) = Laps::of(&[start, helpers, stop]).expect("there is memory");
        assert_eq!(laps.steps(), 0);
        assert_eq!(steady.iter().map(|anchor| anchor.tick).collect::<Vec<_>>(), [10, 20, 21]);
    }

    #[test]
    fn anchors_that_go_forward_are_one_lap() {
        let anchors = seconds(&[5 * S, 6 * S, 9 * S]);
        let (laps, steady) = Laps::of(&anchors).expect("there is memory");
        assert_eq!((laps.steps(), laps.latest(9 * S)), (0, 9 * S));
        assert_eq!(steady, anchors);
        let mut follower = laps.follow(S / 1000);
        // What goes back stands still: the ticks of another processor.
        assert_eq!([5 * S, 7 * S, 6 * S, 8 * S].map(|tick| follower.next(tick)), [5 * S, 7 * S, 7 * S, 8 * S]);
    }

    #[test]
    fn a_source_that_is_reset_goes_on_in_steady_ticks() {
        // It was reset half a second after the second anchor.
        let (laps, steady) = Laps::of(&seconds(&[50 * S, 51 * S, S / 2, 3 * S / 2])).expect("there is memory");
        assert_eq!((laps.steps(), laps.latest(3 * S / 2)), (1, 53 * S));
        assert_eq!(steady, seconds(&[50 * S, 51 * S, 52 * S, 53 * S]));
        let mut follower = laps.follow(S / 1000);
        let ticks = [50 * S, 51 * S + S / 2 - 1, 1, S / 2, S, S - 7, 2 * S];
        let expected =
            [50 * S, 51 * S + S / 2 - 1, 51 * S + S / 2 + 1, 52 * S, 52 * S + S / 2, 52 * S + S / 2, 53 * S + S / 2];
        assert_eq!(ticks.map(|tick| follower.next(tick)), expected);
        // A thread that has slept meanwhile, and one that began then: nothing else has such ticks.
        assert_eq!([51 * S, S].map(|tick| laps.follow(0).next(tick)), [51 * S, 52 * S + S / 2]);
        let mut slept = laps.follow(0);
        assert_eq!([50 * S, S].map(|tick| slept.next(tick)), [50 * S, 52 * S + S / 2]);
        // On the timeline, a second is a second.
        let timeline = Timeline::new(&steady).expect("there is memory");
        let second = |second: u64| timeline.cursor().ps(steady[0].tick + second * S);
        assert_eq!([0, 1, 2, 3].map(second), [0, 1, 2, 3].map(|second| second * S * 1000));
        assert_eq!((timeline.end_ps, timeline.rates), (3 * S * 1000, None));
    }

    #[test]
    fn a_source_that_goes_back_twice_has_three_laps() {
        let (laps, steady) = Laps::of(&seconds(&[9 * S, 5 * S, 6 * S, S, 2 * S])).expect("there is memory");
        assert_eq!(laps.steps(), 2);
        assert_eq!(steady, seconds(&[9 * S, 10 * S, 11 * S, 12 * S, 13 * S]));
        let mut follower = laps.follow(0);
        let ticks = [9 * S, 5 * S, 6 * S + 1, S + 1, 2 * S];
        assert_eq!(ticks.map(|tick| follower.next(tick)), [9 * S, 10 * S, 11 * S + 1, 12 * S + 1, 13 * S]);
    }
}
