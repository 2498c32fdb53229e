//! One axis of time for everything that a trace shows.
//!
//! Times in an XSpace count from the start of its own session. A trace of several hosts needs one axis for all of them,
//! and no viewer shows what lies before 0. So before a trace is written, this module decides by how much the times of each
//! host move:
//!
//! | what | where it is on the axis |
//! |---|---|
//! | hosts that say when their sessions started | apart as their starts are; the earliest start is 0 |
//! | hosts of which one does not say it, or whose starts are more than a day apart | each at 0, with a note |
//! | events that begin less than a day before their session | where they are; the whole axis moves so that the first of them is at 0 |
//! | lines at the time of day, in a session whose start is known | as if the start had been taken off |
//! | all other events outside of 2^64 ps | wrapped modulo 2^64 |
//!
//! Each of these, but for the first, is reported as a note, with its cure.

use std::fmt;

use super::Filter;
use super::about::About;
use super::host::Host;
use super::timeline::text;
use crate::xspace::reader::{LineHeader, PlaneHeader, each_event, each_line_with, each_plane, read_times};
use crate::xspace::window::{Extent, Window};
use crate::{ErrorKind, Result};

/// Clocks that differ by more than this are not compared, and events that begin earlier than this have no place.
pub(super) const MAX_APART_PS: i128 = 86_400 * 1_000_000_000_000;

/// Where the times of one host are on the axis of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Axis {
    /// How much later the times of the host are on the axis, in picoseconds.
    shift_ps: i64,
    /// Start of the session, where it is taken off lines at the time of day.
    start_ns: Option<i64>,
}

impl Axis {
    fn new(about: &About, shift_ps: i128) -> Self {
        let start_ns = about.start_ns.and_then(|start_ns| i64::try_from(start_ns).ok());
        Self { shift_ps: i64::try_from(shift_ps).unwrap_or(0), start_ns }
    }

    /// Whether a line is at the time of day, in a session whose times count from its start. No session is as long as half of
    /// the time since 1970.
    fn is_far_off(&self, timestamp_ns: i64) -> bool {
        self.start_ns.is_some_and(|start_ns| timestamp_ns >= start_ns / 2)
    }

    /// What a line's timestamp stands for on the axis, in picoseconds modulo 2^64: an event's start is this and its offset.
    pub(super) fn base_ps(&self, timestamp_ns: i64) -> i64 {
        let start_ns = self.start_ns.filter(|_| self.is_far_off(timestamp_ns)).unwrap_or(0);
        timestamp_ns.wrapping_sub(start_ns).wrapping_mul(1_000).wrapping_add(self.shift_ps)
    }

    /// The same, exactly.
    fn exact_base_ps(&self, timestamp_ns: i64) -> i128 {
        let start_ns = self.start_ns.filter(|_| self.is_far_off(timestamp_ns)).unwrap_or(0);
        (i128::from(timestamp_ns) - i128::from(start_ns)) * 1_000 + i128::from(self.shift_ps)
    }
}

/// The axes of a trace's hosts, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Axes {
    pub(super) hosts: Vec<Axis>,
    /// How much later the axis begins than the earliest session, because of events before it, in picoseconds.
    pub(super) early_ps: u64,
    /// What the user should know, in words.
    pub(super) notes: Vec<String>,
}

/// A host for which an axis is wanted.
pub(super) struct Member<'a, 's> {
    /// The name, where there are several hosts.
    pub(super) host: Option<&'a str>,
    pub(super) about: &'a About,
    pub(super) window: &'a mut Window<'s>,
}

impl Axes {
    /// Finds the axes of these hosts, for the events that the filter keeps. Walks once over the times of all events, those of
    /// planes too that a format does not show, so that all formats have the same times.
    pub(super) fn find(members: Vec<Member<'_, '_>>, filter: &Filter) -> Result<Self> {
        let mut axes = Self::default();
        let named: Vec<_> = members.iter().map(|member| (member.host.unwrap_or(""), member.about)).collect();
        let later = starts(&named, &mut axes.notes);
        let mut earliest_ps = 0;
        for (Member { host, about, window }, later_ps) in members.into_iter().zip(later) {
            let axis = Axis::new(about, later_ps);
            each_plane(window, |window, plane| {
                let name = text(window, plane.name)?;
                if !filter.keeps_plane(name.as_bytes()) {
                    return Ok(());
                }
                let outside = outside(window, plane, &axis, about, Some(filter))?;
                earliest_ps = earliest_ps.min(outside.earliest_ps);
                let name = host.map_or_else(|| name.clone(), |host| format!("{host} {name}"));
                outside.report(&name, true, &mut axes.notes);
                Ok(())
            })
            .map_err(|error| match host {
                Some(host) if error.kind() == ErrorKind::InvalidData => error.context(format_args!("host `{host}`")),
                _ => error,
            })?;
            axes.hosts.push(axis);
        }
        // To a whole nanosecond, so that times in nanoseconds keep the picoseconds that they had.
        let early_ps = -earliest_ps.div_euclid(1_000) * 1_000;
        for axis in &mut axes.hosts {
            axis.shift_ps = axis.shift_ps.saturating_add(i64::try_from(early_ps).unwrap_or(0));
        }
        axes.early_ps = u64::try_from(early_ps).unwrap_or(0);
        Ok(axes)
    }

    /// The filter for times of this axis, where the earliest session begins at `early_ps`.
    pub(super) fn filter(&self, filter: &Filter) -> Filter {
        let later = |time: Option<u64>| time.map(|time| time.saturating_add(self.early_ps));
        Filter { from_ps: later(filter.from_ps), until_ps: later(filter.until_ps), ..filter.clone() }
    }
}

/// How much later each host's session started than the first one, in picoseconds; 0 where the starts cannot be compared.
fn starts(hosts: &[(&str, &About)], notes: &mut Vec<String>) -> Vec<i128> {
    let none = vec![0; hosts.len()];
    if hosts.len() < 2 {
        return none;
    }
    let unknown: Vec<_> = hosts.iter().filter(|(_, about)| about.start_ns.is_none()).map(|(name, _)| *name).collect();
    const APART: &str = "each host counts from its own start, so events of different hosts cannot be compared in time";
    if let [first, rest @ ..] = unknown.as_slice() {
        let (and, does) = match rest.len() {
            0 => (String::new(), "does"),
            1 => (" and one more host".to_owned(), "do"),
            more => (format!(" and {more} more hosts"), "do"),
        };
        notes.push(format!("host `{first}`{and} {does} not say when the session started: {APART}"));
        return none;
    }
    let start = |about: &About| i128::from(about.start_ns.unwrap_or(0)) * 1_000;
    let by_start = |at: &&(&str, &About)| start(at.1);
    let (Some(first), Some(last)) = (hosts.iter().min_by_key(by_start), hosts.iter().max_by_key(by_start)) else {
        return none;
    };
    let begin = start(first.1);
    let apart = start(last.1) - begin;
    if apart > MAX_APART_PS {
        let (first, last) = (first.0, last.0);
        notes.push(format!(
            "the session of host `{last}` started {} after that of host `{first}`, so their clocks differ or they are of \
             different runs: {APART}",
            Time(apart)
        ));
        return none;
    }
    let stop = |about: &About| about.stop_ns.map(|stop| i128::from(stop) * 1_000);
    let ended = hosts.iter().filter_map(|(name, about)| Some((stop(about)?, *name))).min();
    if let Some((end, name)) = ended.filter(|(end, _)| *end < begin + apart) {
        notes.push(format!(
            "the session of host `{}` started {} after that of host `{name}` had ended: the clocks of their machines differ, or \
             they are of different runs",
            last.0,
            Time(begin + apart - end)
        ));
    }
    hosts.iter().map(|(_, about)| start(about) - begin).collect()
}

/// What of a plane lies outside of its session.
#[derive(Clone, Copy, Debug, Default)]
struct Outside {
    /// Events that begin before the session, and by how much the first does, in picoseconds.
    early: (u64, i128),
    /// Events that begin after the session, and by how much the last does, in picoseconds. Those that only end after it are usual:
    /// whatever stops the session may be recorded itself.
    late: (u64, i128),
    /// How long the session lasted, if that is known.
    lasted_ps: Option<i128>,
    /// Events that have no place on the axis.
    misplaced: u64,
    /// Lines that were at the time of day.
    far_off: u64,
    /// Start of the first event on the axis, if it is before 0 and has a place; in picoseconds.
    earliest_ps: i128,
}

/// What of a plane's events lies outside of its session, of those that the filter keeps.
fn outside(
    window: &mut Window<'_>,
    plane: PlaneHeader,
    axis: &Axis,
    about: &About,
    filter: Option<&Filter>,
) -> Result<Outside> {
    let mut outside = Outside { lasted_ps: about.lasted_ps(), ..Outside::default() };
    let mut odd = Vec::new();
    each_line_with(window, plane.body, Span::note, |_, line, span: Span| {
        if line.event_count > 0 {
            outside.far_off += u64::from(axis.is_far_off(line.timestamp_ns));
            let begin = axis.exact_base_ps(line.timestamp_ns) - i128::from(axis.shift_ps);
            let (first, last) = (begin + i128::from(span.first_ps), begin + i128::from(span.last_ps));
            if first < 0 || last >= 1 << 64 || outside.lasted_ps.is_some_and(|lasted| last > lasted) {
                odd.push(line);
            }
        }
        Ok(())
    })?;
    // Few lines have any, so that their events are read once more and not all at first.
    odd.into_iter().try_for_each(|line| outside.count(window, line, axis, filter))?;
    Ok(outside)
}

/// First and last start of a line's events, against its timestamp.
#[derive(Default)]
struct Span {
    first_ps: i64,
    last_ps: i64,
}

impl Span {
    #[inline]
    fn note(window: &mut Window<'_>, span: &mut Self, event: Extent) -> Result<()> {
        let (offset_ps, _) = read_times(window, event)?;
        span.first_ps = span.first_ps.min(offset_ps);
        span.last_ps = span.last_ps.max(offset_ps);
        Ok(())
    }
}

impl Outside {
    fn count(&mut self, window: &mut Window<'_>, line: LineHeader, axis: &Axis, filter: Option<&Filter>) -> Result<()> {
        let base_ps = axis.exact_base_ps(line.timestamp_ns);
        let later_ps = i128::from(axis.shift_ps);
        each_event(window, line.body, |_, event| {
            if event.occurrences.is_some() {
                return Ok(());
            }
            let start_ps = base_ps + i128::from(event.offset_ps);
            // Durations are modulo 2^64, as traces have them.
            if filter.is_some_and(|filter| !filter.keeps_interval(start_ps, event.duration_ps as u64)) {
                return Ok(());
            }
            let of_session = start_ps - later_ps;
            if !(-MAX_APART_PS..1 << 64).contains(&of_session) {
                self.misplaced += 1;
                return Ok(());
            }
            if of_session < 0 {
                self.early = (self.early.0 + 1, self.early.1.max(-of_session));
                self.earliest_ps = self.earliest_ps.min(start_ps);
            }
            if let Some(late) = self.lasted_ps.map(|lasted| of_session - lasted).filter(|late| *late > 0) {
                self.late = (self.late.0 + 1, self.late.1.max(late));
            }
            Ok(())
        })
    }

    /// Says what lies outside of the session, and what can be done about it. `is_trace` says whether a trace is written, where
    /// the times of all events move.
    fn report(&self, plane: &str, is_trace: bool, notes: &mut Vec<String>) {
        let events = |count: u64| if count == 1 { "1 event".to_owned() } else { format!("{count} events") };
        let begin = |count| if count == 1 { "begins" } else { "begin" };
        let (count, most) = self.early;
        if count > 0 {
            let moved = if is_trace { "the trace begins there; " } else { "" };
            let cure = if is_trace { ", or leave them out by `--time-range 0..`" } else { "" };
            notes.push(format!(
                "{} of `{plane}` {} up to {} before the session: {moved}wait for the device before the session starts, or set \
                 its clock{cure}",
                events(count),
                begin(count),
                Time(most)
            ));
        }
        let (count, most) = self.late;
        if count > 0 {
            notes.push(format!(
                "{} of `{plane}` {} up to {} after the session: wait for the device before the session stops, or set its clock",
                events(count),
                begin(count),
                Time(most)
            ));
        }
        if self.misplaced > 0 {
            notes.push(format!(
                "{} of `{plane}` {} more than a day before the session or ages after it, and {} shown at a wrong time: the times in the \
                 file are wrong; `zprof check` lists them",
                events(self.misplaced),
                begin(self.misplaced),
                if self.misplaced == 1 { "is" } else { "are" }
            ));
        }
        if self.far_off > 0 {
            let (lines, count) = if self.far_off == 1 { ("line", "counts") } else { ("lines", "count") };
            let taken = if is_trace { "is taken off here" } else { "was not taken off" };
            notes.push(format!(
                "{} {lines} of `{plane}` {count} from 1970 and not from the session's start, which {taken}; other viewers show such \
                 lines decades away, so report it to the maker of the profiler",
                self.far_off
            ));
        }
    }
}

/// What the space says of its session, and what of these planes lies outside of it, in words.
pub(super) fn notes(
    window: &mut Window<'_>,
    planes: impl Iterator<Item = PlaneHeader>,
) -> Result<(About, Vec<String>)> {
    let about = About::read(window)?;
    let axis = Axis::new(&about, 0);
    let mut notes = Vec::new();
    for plane in planes {
        let outside = outside(window, plane, &axis, &about, None)?;
        outside.report(&text(window, plane.name)?, false, &mut notes);
    }
    Ok((about, notes))
}

/// Where the hosts of a run are on one axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStarts {
    /// How much later each host's session started than the first one, in picoseconds; all 0 where that is not known.
    pub later_ps: Vec<i128>,
    /// Why times of different hosts cannot be compared, or seem wrong, where that is so.
    pub notes: Vec<String>,
}

/// Finds where the hosts of a run are on one axis, by the start times in their spaces.
///
/// # Errors
/// [`ErrorKind::InvalidData`](crate::ErrorKind::InvalidData) if the bytes of a host are not an XSpace, with the offset and the
/// reason; [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
pub fn host_starts(hosts: &[Host<'_>]) -> Result<HostStarts> {
    let mut abouts = Vec::new();
    for host in hosts {
        abouts.push((host.name, About::read(&mut Window::small(host.source)?)?));
    }
    let named: Vec<_> = abouts.iter().map(|(name, about)| (*name, about)).collect();
    let mut notes = Vec::new();
    let later_ps = starts(&named, &mut notes);
    Ok(HostStarts { later_ps, notes })
}

/// Picoseconds in a unit that suits them, with three digits behind the point.
struct Time(i128);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, i128); 5] =
            [("days", MAX_APART_PS), ("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)];
        let (unit, ps) = UNITS.into_iter().find(|(_, ps)| self.0 >= *ps).unwrap_or(("ns", 1_000));
        let thousandths = self.0 * 1_000 / ps;
        write!(f, "{}", thousandths / 1_000)?;
        match thousandths % 1_000 {
            0 => {}
            rest => write!(f, ".{}", format!("{rest:03}").trim_end_matches('0'))?,
        }
        write!(f, " {unit}")
    }
}
