//! Times of events: their range, their order, and how they nest.

use std::fmt;

use super::FindingKind;
use super::report::Report;
use super::structure::Session;
use crate::Result;
use crate::export::nest::{Around, Nest};
use crate::export::scopes::{LineKind, Scopes};
use crate::export::timeline::{PlaneGroup, Timed, Timeline, timelines};
use crate::xspace::reader::read_event;
use crate::xspace::window::Window;

/// How deep Perfetto nests slices.
const MAX_DEPTH: usize = 512;

/// What the nest keeps of an event.
#[derive(Clone, Copy)]
struct Tag {
    index: u32,
    end_ps: i128,
}

/// Picoseconds, which read as nanoseconds.
struct Ns(i128);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ps = self.0.unsigned_abs();
        write!(f, "{sign}{}", ps / 1_000)?;
        if ps % 1_000 == 0 { Ok(()) } else { write!(f, ".{:03}", ps % 1_000) }
    }
}

/// Checks the times of a plane.
pub(super) fn check(window: &mut Window<'_>, group: &PlaneGroup, session: Session, report: &mut Report) -> Result<()> {
    let scopes = Scopes::load(window, group)?;
    report.plane = Some(group.name.clone());
    for timeline in timelines(window, group)? {
        let name = &timeline.name;
        report.line = Some(if name.is_empty() { timeline.id.to_string() } else { name.clone() });
        let is_far = far_off(&timeline, session, report);
        ranges(window, &timeline, session, is_far, report)?;
        if LineKind::of(group, &timeline) == LineKind::Nested {
            nesting(window, &timeline, &scopes, report)?;
        }
        (report.line, report.event) = (None, None);
    }
    report.plane = None;
    Ok(())
}

/// Whether a line is at absolute time in a session that is not.
fn far_off(timeline: &Timeline, session: Session, report: &mut Report) -> bool {
    let Some(start_ns) = session.start_ns.and_then(|start_ns| i64::try_from(start_ns).ok()) else { return false };
    let parts = timeline.parts.iter().map(|(_, part)| part).filter(|part| part.event_count > 0);
    // A session is shorter than half the time since 1970.
    let Some(part) = parts.into_iter().find(|part| start_ns > 0 && part.timestamp_ns >= start_ns / 2) else {
        return false;
    };
    let message = format!(
        "the line begins at {} ns, which is the time of day; the session's start was not taken off",
        part.timestamp_ns
    );
    report.add(FindingKind::FarOff, Some(part.body.at), format_args!("{message}"));
    true
}

fn ranges(
    window: &mut Window<'_>,
    timeline: &Timeline,
    session: Session,
    is_far: bool,
    report: &mut Report,
) -> Result<()> {
    let lasted_ps = match session {
        Session { start_ns: Some(start), stop_ns: Some(stop) } if stop >= start => {
            Some(i128::from(stop - start) * 1_000)
        }
        _ => None,
    };
    timeline.each_in_file(window, |window, timed| {
        report.event = Some(timed.index.into());
        let at = Some(timed.body.at);
        if timed.duration_ps == 0 {
            let duration_ps = read_event(window, timed.body)?.duration_ps;
            if duration_ps < 0 {
                report.add(
                    FindingKind::NegativeDuration,
                    at,
                    format_args!("the event lasts {} ns", Ns(duration_ps.into())),
                );
            }
        }
        // What follows would be said of every event of a line that is far off.
        if timed.is_aggregated || is_far {
            return Ok(());
        }
        let (start_ps, end_ps) = (timed.start_ps, timed.end_ps());
        if start_ps < 0 {
            report.add(FindingKind::BeforeStart, at, format_args!("the event starts at {} ns", Ns(start_ps)));
        }
        if i64::try_from(start_ps).is_err() || i64::try_from(end_ps).is_err() {
            let message = format!("the event ends at {} ns, which in picoseconds does not fit 64 bits", Ns(end_ps));
            report.add(FindingKind::TimeOverflow, at, format_args!("{message}"));
        } else if let Some(lasted_ps) = lasted_ps.filter(|lasted_ps| end_ps > *lasted_ps) {
            let (late, lasted) = (Ns(end_ps - lasted_ps), Ns(lasted_ps));
            let message = format!("the event ends {late} ns after the session, which lasted {lasted} ns");
            report.add(FindingKind::AfterStop, at, format_args!("{message}"));
        }
        Ok(())
    })?;
    report.event = None;
    Ok(())
}

fn nesting(window: &mut Window<'_>, timeline: &Timeline, scopes: &Scopes, report: &mut Report) -> Result<()> {
    if !timeline.is_in_order(window)? {
        let at = timeline.parts.first().map(|(_, part)| part.body.at);
        report.add(FindingKind::Unsorted, at, format_args!("the line's events are not in the order of time"));
    }
    let mut nest = Nest::new();
    timeline.each_in_time(window, |window, timed| {
        let kind = scopes.kind(timed);
        if timed.is_aggregated || kind.is_hidden || scopes.facts(window, timed, kind)?.is_async {
            return Ok(());
        }
        report.event = Some(timed.index.into());
        let tag = |around: Around<'_, Tag>| {
            look_around(timed, around, report);
            Ok(Tag { index: timed.index, end_ps: timed.end_ps() })
        };
        nest.enter(timed.start_ps, timed.duration_ps, tag, &mut |_| Ok(()))
    })?;
    report.event = None;
    Ok(())
}

fn look_around(timed: &Timed, around: Around<'_, Tag>, report: &mut Report) {
    if let Some(across) = around.across {
        let message = format!(
            "the event starts in event {} and ends {} ns after it",
            across.index,
            Ns(timed.end_ps() - across.end_ps)
        );
        report.add(FindingKind::Overlap, Some(timed.body.at), format_args!("{message}"));
    }
    if around.depth >= MAX_DEPTH {
        let message = format!("the event lies in {} others; Perfetto shows {MAX_DEPTH} levels", around.depth);
        report.add(FindingKind::TooDeep, Some(timed.body.at), format_args!("{message}"));
    }
}
