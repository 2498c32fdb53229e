//! Times and order: lines count from the start of the session, and their events are in start order.

use super::merge::offset_of;
use std::borrow::Cow;
use std::cmp::Reverse;
use zprof_proto::x_event::Data;
use zprof_proto::{XLine, XPlane, XSpace};

/// Lines further before the session than this do not have a clock that is a little off; they are wrong by themselves,
/// and do not move the other lines of their plane.
const MAX_CLOCK_SKEW_NS: i64 = 60_000_000_000;

/// Makes line timestamps count from `start_ns`, in nanoseconds since the Unix epoch. Smaller ones are left alone: they
/// count from the start of the session already.
pub(super) fn normalise(space: &mut XSpace, start_ns: u64) {
    let start = start_ns as i64; // same bits: a start past 2262 is taken as TSL takes it
    for line in space.planes.iter_mut().flat_map(|plane| &mut plane.lines) {
        if line.timestamp_ns >= start {
            line.timestamp_ns = line.timestamp_ns.wrapping_sub(start);
        }
    }
}

/// Sorts the events of each line by start, and those that start together by length, longest first. Both count as
/// unsigned, so negative ones are the largest.
pub(super) fn sort(space: &mut XSpace) {
    for line in space.planes.iter_mut().flat_map(|plane| &mut plane.lines) {
        // Same bits in both casts: readers take time spans as unsigned.
        line.events.sort_by_key(|event| (offset_of(event) as u64, Reverse(event.duration_ps as u64)));
    }
}

/// Moves what begins before the session to its start, and returns one warning for each move. To be called before
/// [`normalise`], which would leave such lines decades away from the others.
///
/// The lines of a plane share a clock, so they are all moved by what the earliest of them needs. A line that only
/// *counts* from before the session gets another timestamp and keeps its times, without a warning. Timestamps below
/// half of `start_ns` are not absolute: they count from the session's start already.
pub(crate) fn clamp_early_lines(space: &mut XSpace, start_ns: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    let start = i64::try_from(start_ns).unwrap_or(i64::MAX);
    for plane in &mut space.planes {
        clamp_plane(plane, start, &mut warnings);
    }
    warnings
}

/// What is known of a line's times before its events are moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Begin<'a> {
    pub(super) id: i64,
    pub(super) name: Cow<'a, str>,
    pub(super) timestamp_ns: i64,
    /// The least offset of an event that is not aggregated.
    pub(super) first_ps: Option<i64>,
}

/// How a line moves that begins before the session, or shares a clock with one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// By how many nanoseconds it becomes later.
    pub(super) later_ns: i64,
    /// The start of the session, as the line's timestamp counts.
    pub(super) start_ns: i64,
}

/// How each of a plane's lines moves. One that counts from the session's start, and need not move, is left alone.
pub(super) fn shifts<'a>(
    plane: &str,
    lines: impl Iterator<Item = Begin<'a>> + Clone,
    start: i64,
    warnings: &mut Vec<String>,
) -> Vec<Option<Shift>> {
    let early: Vec<i64> = lines.clone().map(|line| early_by(&line, start)).collect();
    // Lines that count from the session's start have another clock than those that count from the Unix epoch.
    let common = [false, true].map(|absolute| {
        let of_clock = lines.clone().zip(&early).filter(|(line, _)| is_absolute(line.timestamp_ns, start) == absolute);
        of_clock.map(|(_, &ns)| ns).filter(|&ns| ns <= MAX_CLOCK_SKEW_NS).max().unwrap_or(0)
    });
    let mut reported = [false; 2];
    let shift = |(line, early): (Begin<'_>, i64)| {
        let is_absolute = is_absolute(line.timestamp_ns, start);
        let clock = usize::from(is_absolute);
        let common = common[clock];
        let alone = early > MAX_CLOCK_SKEW_NS;
        if alone || (early > 0 && early == common && !reported[clock]) {
            let moved = if alone { "it is" } else { "the lines of this plane are" };
            warnings.push(format!(
                "plane `{plane}`: line `{}` (id {}) begins {early} ns before the session; {moved} moved to {early} ns \
                 later",
                line.name, line.id
            ));
            reported[clock] |= !alone;
        }
        let later_ns = if alone { early } else { common };
        let start_ns = if is_absolute { start } else { 0 };
        (is_absolute || later_ns != 0).then_some(Shift { later_ns, start_ns })
    };
    lines.zip(early).map(shift).collect()
}

/// [`clamp_early_lines`] for one plane.
pub(super) fn clamp_plane(plane: &mut XPlane, start: i64, warnings: &mut Vec<String>) {
    let shifts = shifts(&plane.name, plane.lines.iter().map(Begin::of), start, warnings);
    for (line, shift) in plane.lines.iter_mut().zip(shifts) {
        let Some(Shift { later_ns, start_ns }) = shift else { continue };
        line.timestamp_ns = line.timestamp_ns.saturating_add(later_ns);
        if line.timestamp_ns < start_ns {
            count_from(line, start_ns);
        }
    }
}

impl<'a> Begin<'a> {
    fn of(line: &'a XLine) -> Self {
        let timed = line.events.iter().filter(|event| !matches!(event.data, Some(Data::NumOccurrences(_))));
        let first_ps = timed.map(offset_of).min();
        Self { id: line.id, name: Cow::Borrowed(&line.name), timestamp_ns: line.timestamp_ns, first_ps }
    }
}

/// Whether a line counts from the Unix epoch, as raw lines do.
fn is_absolute(timestamp_ns: i64, start: i64) -> bool {
    timestamp_ns > start / 2
}

/// By how many nanoseconds, rounded up, the first event of a line begins before the session, which starts at `start` for a line
/// that counts from the Unix epoch and else at 0; 0 if none does.
fn early_by(line: &Begin<'_>, start: i64) -> i64 {
    let Some(first) = line.first_ps else { return 0 };
    let start = if is_absolute(line.timestamp_ns, start) { start } else { 0 };
    let early_ps = (i128::from(start) - i128::from(line.timestamp_ns)) * 1000 - i128::from(first);
    let early_ns = (early_ps + 999).div_euclid(1000).max(0);
    i64::try_from(early_ns).unwrap_or(i64::MAX)
}

/// Makes a line whose events begin at or after `start` count from there.
fn count_from(line: &mut XLine, start: i64) {
    let earlier_ps = (i128::from(start) - i128::from(line.timestamp_ns)) * 1000;
    line.timestamp_ns = start;
    for event in &mut line.events {
        if !matches!(event.data, Some(Data::NumOccurrences(_))) {
            let offset = i128::from(offset_of(event)) - earlier_ps;
            event.data = Some(Data::OffsetPs(i64::try_from(offset).unwrap_or(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zprof_proto::XEvent;

    const START: i64 = 1_700_000_000_000_000_000;

    fn line(name: &str, timestamp_ns: i64, offsets_ps: &[i64]) -> XLine {
        let event = |&offset| XEvent { data: Some(Data::OffsetPs(offset)), duration_ps: 7, ..Default::default() };
        let events = offsets_ps.iter().map(event).collect();
        XLine { name: name.into(), timestamp_ns, events, ..Default::default() }
    }

    /// Clamps a plane of `lines`; gives each line's timestamp after the start and its offsets, and the warnings.
    fn clamped(lines: Vec<XLine>) -> (Vec<(i64, Vec<i64>)>, Vec<String>) {
        let plane = XPlane { name: "p".into(), lines, ..Default::default() };
        let mut space = XSpace { planes: vec![plane], ..Default::default() };
        let warnings = clamp_early_lines(&mut space, START as u64); // positive
        let times = |line: &XLine| (line.timestamp_ns.wrapping_sub(START), line.events.iter().map(offset_of).collect());
        (space.planes[0].lines.iter().map(times).collect(), warnings)
    }

    #[test]
    fn lines_in_the_session_stay() {
        let (lines, warnings) =
            clamped(vec![line("a", START, &[0, 5]), line("b", START + 9, &[-9000]), line("c", START, &[])]);
        assert_eq!(lines, [(0, vec![0, 5]), (9, vec![-9000]), (0, vec![])]);
        assert_eq!(warnings, [] as [&str; 0]);
    }

    #[test]
    fn a_line_that_only_counts_from_before_keeps_its_times() {
        let (lines, warnings) = clamped(vec![line("a", START - 5, &[5000, 6001]), line("empty", START - 5, &[])]);
        assert_eq!(lines, [(0, vec![0, 1001]), (0, vec![])]);
        assert_eq!(warnings, [] as [&str; 0]);
    }

    #[test]
    fn a_plane_whose_clock_is_behind_moves_as_one() {
        let lines =
            vec![line("a", START - 100, &[0, 1_000_000]), line("b", START - 300, &[1, 2]), line("c", START, &[3])];
        let (lines, warnings) = clamped(lines);
        assert_eq!(lines, [(200, vec![0, 1_000_000]), (0, vec![1, 2]), (300, vec![3])]);
        let expected = "plane `p`: line `b` (id 0) begins 300 ns before the session; \
                        the lines of this plane are moved to 300 ns later";
        assert_eq!(warnings, [expected]);
    }

    #[test]
    fn a_line_from_another_age_moves_alone() {
        let age = 3_600_000_000_000;
        let (lines, warnings) = clamped(vec![line("a", START - age, &[-1, 4]), line("b", START, &[3])]);
        assert_eq!(lines, [(1, vec![-1, 4]), (0, vec![3])]);
        let expected = "plane `p`: line `a` (id 0) begins 3600000000001 ns before the session; \
                        it is moved to 3600000000001 ns later";
        assert_eq!(warnings, [expected]);
    }

    #[test]
    fn lines_that_count_from_the_session_stay_where_they_are_in_it() {
        let (lines, warnings) = clamped(vec![line("a", 5, &[0]), line("b", -5, &[5_000])]);
        assert_eq!(lines, [(5 - START, vec![0]), (-5 - START, vec![5_000])]);
        assert_eq!(warnings, [] as [&str; 0]);
    }

    #[test]
    fn lines_that_count_from_the_session_and_begin_before_it_move_with_their_plane() {
        let lines = vec![line("a", 5, &[0]), line("b", -5, &[-7]), line("c", -4, &[4_000]), line("d", START, &[1])];
        let (lines, warnings) = clamped(lines);
        let expected = [(11 - START, vec![0]), (1 - START, vec![-7]), (2 - START, vec![4_000]), (0, vec![1])];
        assert_eq!(lines, expected);
        let expected = "plane `p`: line `b` (id 0) begins 6 ns before the session; \
                        the lines of this plane are moved to 6 ns later";
        assert_eq!(warnings, [expected]);
    }

    #[test]
    fn the_extremes_do_not_overflow() {
        for offset in [i64::MIN, -1, 0, i64::MAX] {
            for timestamp in [i64::MIN, -1, START / 2 + 1, START - 1, i64::MAX] {
                let (lines, _) = clamped(vec![line("a", timestamp, &[offset]), line("b", START - 1, &[0])]);
                let relative = timestamp <= START / 2;
                assert!(relative || lines[0].0 >= 0, "timestamp {timestamp}, offset {offset}: {lines:?}");
            }
        }
        let mut space = XSpace {
            planes: vec![XPlane { lines: vec![line("a", 5, &[0])], ..Default::default() }],
            ..Default::default()
        };
        let before = space.clone();
        assert_eq!(clamp_early_lines(&mut space, u64::MAX), [] as [&str; 0]);
        assert_eq!(space, before);
    }
}
