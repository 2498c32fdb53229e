//! Time: raw ticks on the hot path, anchors against the wall clock, and one integer function from ticks to time.
//!
//! A tick is one step of the processor's time-stamp counter where that is invariant and the system trusts it, else a
//! nanosecond of the monotonic clock. Only this file reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::room::{self, Result};

/// Where ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The processor's counter.
    Counter,
    /// The operating system's monotonic clock, in nanoseconds.
    System,
}

impl Source {
    /// The best source that can be trusted here, and now: a system may lose its trust in a counter at any time.
    pub(crate) fn detect() -> Self {
        if counter::is_trusted() == Some(true) { Self::Counter } else { Self::System }
    }

    /// Whether the system says that this source, which it trusted once, cannot be trusted any more. `false` where it cannot be
    /// asked, as where no more files can be opened: that says nothing of the source.
    pub(crate) fn is_distrusted(self) -> bool {
        self == Self::Counter && counter::is_trusted() == Some(false)
    }

    /// The present tick.
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Counter => counter::read(),
            Self::System => system_ticks(),
        }
    }

    /// Name, as the profile carries it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => counter::NAME,
            Self::System => "monotonic",
        }
    }
}

/// The processor's counter, or the system's clock under the same face.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    pub(super) const NAME: &str = "tsc";

    #[inline(always)]
    #[allow(unsafe_code)] // the instruction has no safe form
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has rdtsc; it touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// `None` where the system cannot be asked.
    pub(super) fn is_trusted() -> Option<bool> {
        if is_invariant() { super::kernel_trusts("tsc") } else { Some(false) }
    }

    /// Leaf 0x8000_0007, EDX bit 8: the counter runs at one rate in every power state.
    #[allow(unsafe_code, unused_unsafe)] // cpuid is a safe function from Rust 1.94 on
    fn is_invariant() -> bool {
        // SAFETY: every x86-64 processor has cpuid.
        let highest = unsafe { std::arch::x86_64::__cpuid(0x8000_0000) }.eax;
        if highest < 0x8000_0007 {
            return false;
        }
        // SAFETY: as above, and the leaf exists.
        let leaf = unsafe { std::arch::x86_64::__cpuid(0x8000_0007) };
        leaf.edx & 1 << 8 != 0
    }
}

/// The virtual counter of 64-bit Arm, invariant by architecture.
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod counter {
    pub(super) const NAME: &str = "cntvct";

    #[inline(always)]
    #[allow(unsafe_code)] // the register has no safe form
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: user code may read the virtual counter on every supported system; it touches no memory.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    pub(super) fn is_trusted() -> Option<bool> {
        Some(true)
    }
}

/// Miri has no counter. The system's clock stands for one, so that scopes take the short way, as on real processors.
#[cfg(miri)]
mod counter {
    pub(super) const NAME: &str = "miri";

    pub(super) fn read() -> u64 {
        super::system_ticks()
    }

    pub(super) fn is_trusted() -> Option<bool> {
        Some(true)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", miri)))]
mod counter {
    pub(super) const NAME: &str = "monotonic";

    pub(super) fn read() -> u64 {
        super::system_ticks()
    }

    pub(super) fn is_trusted() -> Option<bool> {
        Some(false)
    }
}

/// Linux takes a counter off its list of clock sources when it finds it unstable; other systems do not say.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn kernel_trusts(name: &str) -> Option<bool> {
    let list = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource").ok()?;
    Some(list.split_whitespace().any(|source| source == name))
}

#[cfg(all(not(target_os = "linux"), target_arch = "x86_64", not(miri)))]
fn kernel_trusts(_name: &str) -> Option<bool> {
    // Hypervisors of other systems announce an invariant counter that is not one across processors.
    Some(cfg!(target_os = "macos"))
}

/// Nanoseconds of the monotonic clock: on Linux and macOS it is slewed as the wall clock is, but never set.
#[cfg(unix)]
#[allow(unsafe_code)] // no safe binding gives the number
fn system_ticks() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec. The clock always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanoseconds.unwrap_or(0)
}

/// Nanoseconds of the monotonic clock, from a day before the first call.
#[cfg(not(unix))]
fn system_ticks() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    const START: u64 = 86_400_000_000_000;
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
    START + u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX >> 3)
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn realtime_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// One moment on all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// Tick in the middle of the bracket.
    pub(crate) tick: u64,
    /// Monotonic clock, ns.
    pub(crate) monotonic_ns: u64,
    /// Wall clock, ns since the Unix epoch.
    pub(crate) realtime_ns: i64,
    /// Ticks between the two sides of the bracket.
    pub(crate) width: u64,
}

impl Anchor {
    /// Brackets the system's clocks between two ticks, several times, and keeps the tightest.
    pub(crate) fn take(source: Source) -> Self {
        const TRIES: usize = 16;
        let attempt = || {
            let before = source.now();
            let realtime_ns = realtime_ns();
            let monotonic_ns = system_ticks();
            let width = source.now().saturating_sub(before);
            Self { tick: before + width / 2, monotonic_ns, realtime_ns, width }
        };
        let first = attempt();
        (1..TRIES).map(|_| attempt()).fold(first, |best, next| if next.width < best.width { next } else { best })
    }

    /// Where the wall clock stands against the monotonic one.
    fn offset_ns(self) -> i128 {
        i128::from(self.realtime_ns) - i128::from(self.monotonic_ns)
    }
}

/// Ticks to picoseconds since the session's start: piecewise linear through the anchors, monotone, and the same for
/// every tick, so that durations are differences.
///
/// The wall clock gives the start; from there on time goes as the monotonic clock goes, which follows the wall clock's
/// slewing but not its being set.
#[derive(Debug)]
pub(crate) struct Timeline {
    segments: Vec<Segment>,
    /// Wall clock at the session's start, ns since the Unix epoch.
    pub(crate) start_ns: i64,
    /// Session time at the last anchor, ps.
    pub(crate) end_ps: u64,
    /// How far an anchor was off the line through its neighbours, at most, plus half the widest bracket; ns.
    pub(crate) residual_ns: u64,
    /// By how much the wall clock was set, each time that it was; ns.
    pub(crate) steps_ns: Vec<i64>,
    /// The lowest and the highest rate between two anchors, in ticks per second, where they differ too much for a counter
    /// that is invariant.
    pub(crate) rates: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    tick: u64,
    ps: u64,
    /// Picoseconds per tick, times 2^32.
    rate: u64,
}

/// Below this, the wall clock was not set: the two clocks of an anchor are read one after the other.
const LEAST_STEP_NS: u128 = 50_000;

impl Timeline {
    /// A timeline through `anchors`, in their order; the first one is the session's start.
    pub(crate) fn new(anchors: &[Anchor]) -> Result<Self> {
        let first = anchors.first().copied();
        let first = first.unwrap_or(Anchor { tick: 0, monotonic_ns: 0, realtime_ns: 0, width: 0 });
        let mut points: Vec<(u64, u64)> = room::with_room(anchors.len() + 1)?;
        points.push((first.tick, 0));
        let mut last = (first.tick, 0);
        for anchor in anchors.iter().filter(|anchor| anchor.tick > first.tick) {
            let ps = anchor.monotonic_ns.saturating_sub(first.monotonic_ns).saturating_mul(1000);
            if anchor.tick > last.0 && ps >= last.1 {
                last = (anchor.tick, ps);
                points.push(last);
            }
        }
        let line = |pair: &[(u64, u64)]| Segment { tick: pair[0].0, ps: pair[0].1, rate: rate(pair[0], pair[1]) };
        let mut segments: Vec<Segment> = room::with_room(anchors.len() + 1)?;
        segments.extend(points.windows(2).map(line));
        if segments.is_empty() {
            segments.push(Segment { tick: first.tick, ps: 0, rate: 1000 << 32 });
        }
        let steps = anchors.windows(2).map(|pair| pair[1].offset_ns() - pair[0].offset_ns());
        let steps = steps.filter(|step| step.unsigned_abs() > LEAST_STEP_NS);
        let steps_ns = steps.map(|step| i64::try_from(step).unwrap_or(i64::MAX));
        let steps_ns = room::collect(steps_ns, anchors.len())?;
        let residual_ns = residual_ns(&points, anchors, segments[0].rate);
        let rates = unsteady_rates(&points);
        Ok(Self { segments, start_ns: first.realtime_ns, end_ps: last.1, residual_ns, steps_ns, rates })
    }

    /// A timeline on which a tick is a nanosecond, from this one on.
    pub(crate) fn of_ticks(first: u64) -> Self {
        let segments = vec![Segment { tick: first, ps: 0, rate: 1000 << 32 }];
        Self { segments, start_ns: 0, end_ps: 0, residual_ns: 0, steps_ns: Vec::new(), rates: None }
    }

    /// Tick of the session's start.
    pub(crate) fn first_tick(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.tick)
    }

    /// Wall clock at the session's end, ns since the Unix epoch, on the session's own axis.
    pub(crate) fn stop_ns(&self) -> i64 {
        // Rounded up, so that nothing ends after it.
        self.start_ns.saturating_add(i64::try_from(self.end_ps.div_ceil(1000)).unwrap_or(i64::MAX))
    }

    /// The same line, with its zero at `tick`. What came before then is at 0.
    pub(crate) fn from(&self, tick: u64) -> Result<Self> {
        let origin = self.cursor().ps(tick);
        let after = self.segments.partition_point(|segment| segment.tick <= tick);
        let rate = self.segments[after.saturating_sub(1)].rate;
        let later = self.segments.get(after..).unwrap_or_default();
        let mut segments = room::with_room(later.len() + 1)?;
        segments.push(Segment { tick, ps: 0, rate });
        segments.extend(later.iter().map(|segment| Segment { ps: segment.ps.saturating_sub(origin), ..*segment }));
        let start_ns = self.start_ns.saturating_add(i64::try_from(origin / 1000).unwrap_or(i64::MAX));
        let steps_ns = room::collect(self.steps_ns.iter().copied(), self.steps_ns.len())?;
        let (end_ps, residual_ns) = (self.end_ps.saturating_sub(origin), self.residual_ns);
        Ok(Self { segments, start_ns, end_ps, residual_ns, steps_ns, rates: self.rates })
    }

    /// The tick at `ps`, but for what rounding takes.
    pub(crate) fn tick(&self, ps: u64) -> u64 {
        let after = self.segments.partition_point(|segment| segment.ps <= ps);
        let segment = self.segments[after.saturating_sub(1)];
        let scaled = (u128::from(ps - segment.ps.min(ps)) << 32) / u128::from(segment.rate.max(1));
        segment.tick.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX >> 3))
    }

    /// A converter that remembers its place; ticks of one thread come nearly in order.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor { segments: &self.segments, at: 0 }
    }
}

/// Converts ticks, fastest for ticks near the last one.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    segments: &'a [Segment],
    at: usize,
}

impl Cursor<'_> {
    /// Picoseconds since the session's start; 0 for ticks before it.
    #[inline]
    pub(crate) fn ps(&mut self, tick: u64) -> u64 {
        let mut segment = self.segments[self.at];
        let after = self.segments.get(self.at + 1).is_some_and(|next| tick >= next.tick);
        if tick < segment.tick || after {
            self.at = self.segments.partition_point(|segment| segment.tick <= tick).saturating_sub(1);
            segment = self.segments[self.at];
        }
        let ticks = tick.saturating_sub(segment.tick);
        let scaled = (u128::from(ticks) * u128::from(segment.rate)) >> 32;
        segment.ps.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX >> 1))
    }
}

/// The rate of a segment, rounded down, so that no segment runs past the start of the next.
fn rate(from: (u64, u64), to: (u64, u64)) -> u64 {
    let scaled = (u128::from(to.1 - from.1) << 32) / u128::from((to.0 - from.0).max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The lowest and the highest rate between two points, in ticks per second, where one is an eighth more than the other. The
/// monotonic clock follows the slewing of the wall clock, which takes no more than a twelfth.
fn unsteady_rates(points: &[(u64, u64)]) -> Option<(u64, u64)> {
    /// Between points that are nearer, the time that reading two clocks takes counts too much.
    const LEAST_PS: u64 = 500_000_000_000;
    let pairs = points.windows(2).filter(|pair| pair[1].1 - pair[0].1 >= LEAST_PS);
    let rates = pairs.map(|pair| {
        let rate = u128::from(pair[1].0 - pair[0].0) * 1_000_000_000_000 / u128::from(pair[1].1 - pair[0].1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    });
    let (lowest, highest) = rates.fold((u64::MAX, 0), |(low, high), rate| (low.min(rate), high.max(rate)));
    (highest > lowest && highest - lowest > lowest / 8).then_some((lowest, highest))
}

/// How well straight lines fit the anchors.
fn residual_ns(points: &[(u64, u64)], anchors: &[Anchor], rate: u64) -> u64 {
    let widest = anchors.iter().map(|anchor| anchor.width).max().unwrap_or(0);
    let half_ps = (u128::from(widest / 2) * u128::from(rate)) >> 32;
    let half = u64::try_from(half_ps / 1000).unwrap_or(u64::MAX >> 1);
    let bend = points.windows(3).map(|three| {
        let line = [Segment { tick: three[0].0, ps: three[0].1, rate: self::rate(three[0], three[2]) }];
        let expected = Cursor { segments: &line, at: 0 }.ps(three[1].0);
        expected.abs_diff(three[1].1).div_ceil(1000)
    });
    bend.max().unwrap_or(0).saturating_add(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An anchor on a wall clock that shows 7 ns at the monotonic clock's 0.
    fn anchor(tick: u64, ns: u64) -> Anchor {
        Anchor { tick, monotonic_ns: ns, realtime_ns: 7 + ns as i64, width: 0 }
    }

    #[test]
    fn the_line_goes_through_every_anchor() {
        let anchors = [anchor(1000, 50_000), anchor(4000, 51_000), anchor(7000, 52_001)];
        let timeline = Timeline::new(&anchors).expect("there is memory");
        let mut cursor = timeline.cursor();
        assert_eq!(cursor.ps(1000), 0);
        assert_eq!(cursor.ps(4000), 1_000_000);
        assert!(cursor.ps(7000).abs_diff(2_001_000) <= 1, "a rate is rounded down");
        assert_eq!(cursor.ps(10), 0, "before the start");
        assert_eq!((timeline.start_ns, timeline.stop_ns()), (50_007, 52_008));
    }

    #[test]
    fn it_is_monotone_and_durations_are_differences() {
        let anchors = [anchor(0, 0), anchor(3_000_000_007, 999_999_999), anchor(5_999_999_999, 2_000_000_123)];
        let timeline = Timeline::new(&anchors).expect("there is memory");
        let (mut forth, mut back) = (timeline.cursor(), timeline.cursor());
        let mut last = 0;
        for tick in (2_999_990_000..3_000_010_000).chain(5_999_999_000..6_000_001_000) {
            let ps = forth.ps(tick);
            assert!(ps >= last, "tick {tick}");
            last = ps;
        }
        for tick in (2_999_990_000..3_000_010_000).rev() {
            assert_eq!(back.ps(tick), timeline.cursor().ps(tick));
        }
    }

    #[test]
    fn a_line_may_begin_later() {
        let anchors = [anchor(1000, 50_000), anchor(4000, 51_000), anchor(7000, 52_001)];
        let whole = Timeline::new(&anchors).expect("there is memory");
        let (cut, origin) = (whole.from(2500).expect("there is memory"), whole.cursor().ps(2500));
        for tick in [0, 1000, 2500, 2501, 3999, 4000, 5000, 7000, 8000] {
            let expected = whole.cursor().ps(tick).saturating_sub(origin);
            assert!(cut.cursor().ps(tick).abs_diff(expected) <= 1, "tick {tick}");
        }
        // Whole nanoseconds: the start rounded down, the length up.
        assert_eq!((cut.start_ns, cut.stop_ns()), (50_506, whole.stop_ns()));
        for tick in [1000, 2500, 4000, 6999] {
            assert!(whole.tick(whole.cursor().ps(tick)).abs_diff(tick) <= 1, "tick {tick}");
        }
    }

    /// Anchors of a source at `ticks` for one second each: a tick is a nanosecond.
    fn seconds(ticks: &[u64]) -> Vec<Anchor> {
        (0..).zip(ticks).map(|(second, &tick)| anchor(tick, second * 1_000_000_000)).collect()
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_rate_that_doubles_is_told_and_followed() {
        let timeline = Timeline::new(&seconds(&[10 * S, 11 * S, 13 * S, 15 * S])).expect("there is memory");
        assert_eq!(timeline.rates, Some((S, 2 * S)));
        let ps = [10, 11, 12, 13, 14, 15].map(|tick| timeline.cursor().ps(tick * S));
        assert_eq!(ps, [0, 1000, 1500, 2000, 2500, 3000].map(|ms| ms * S));
        assert_eq!(timeline.from(12 * S).expect("there is memory").rates, timeline.rates);
        // An eighth may be the wall clock's slewing, and short intervals say nothing.
        assert_eq!(Timeline::new(&seconds(&[10 * S, 11 * S, 12 * S + S / 8])).expect("there is memory").rates, None);
        assert_eq!(
            Timeline::new(&[anchor(0, 0), anchor(S, S), anchor(2 * S, S + S / 4)]).expect("there is memory").rates,
            None
        );
    }

    #[test]
    fn a_suspended_machine_takes_no_time() {
        // The counter goes on for an hour, and the monotonic clock stands still.
        let timeline = Timeline::new(&seconds(&[0, S, 3602 * S, 3603 * S])).expect("there is memory");
        assert_eq!(timeline.rates, Some((S, 3601 * S)));
        let mut cursor = timeline.cursor();
        assert_eq!(cursor.ps(S), S * 1000);
        assert!(cursor.ps(3602 * S).abs_diff(2 * S * 1000) <= 1);
        assert!(cursor.ps(3603 * S).abs_diff(3 * S * 1000) <= 1);
        assert_eq!(timeline.end_ps, 3 * S * 1000);
    }

    #[test]
    fn a_wall_clock_that_is_set_is_told_and_not_followed() {
        let second = 3_000_000_000;
        let hour = -3_600_000_000_000;
        let at = |seconds: u64, set: i64| {
            let right = anchor(seconds * second, seconds * 1_000_000_000);
            Anchor { realtime_ns: right.realtime_ns + set, ..right }
        };
        let timeline =
            Timeline::new(&[at(0, 0), at(1, hour), at(2, hour), at(3, hour + 60_000)]).expect("there is memory");
        assert_eq!(timeline.steps_ns, [hour, 60_000]);
        assert!(timeline.cursor().ps(3 * second).abs_diff(3_000_000_000_000) < 10);
        assert_eq!(timeline.stop_ns(), 3_000_000_007);
    }

    #[test]
    fn the_residual_is_the_bend_of_the_line_and_half_the_bracket() {
        let wide = Anchor { width: 200, ..anchor(2_000_000, 2_000_000) };
        let timeline = Timeline::new(&[anchor(0, 0), anchor(1_000_000, 1_000_700), wide]).expect("there is memory");
        assert_eq!(timeline.residual_ns, 700 + 100);
        assert_eq!(timeline.steps_ns, [0; 0]);
    }

    #[test]
    fn ticks_of_both_sources_go_forward() {
        for source in [Source::detect(), Source::System] {
            let before = source.now();
            let anchor = Anchor::take(source);
            assert!(before <= anchor.tick && anchor.tick <= source.now(), "{source:?}");
        }
    }
}
