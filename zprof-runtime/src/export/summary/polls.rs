//! The polls of asynchronous spans: how long threads worked at a span, and how long it waited.
//!
//! An asynchronous span and its slices on threads carry the same number in their flows. A span may be entered while it is
//! open already, on the same thread or on another one. So its slices are no set of disjoint intervals, and their durations
//! cannot simply be added up:
//!
//! - Polled time is the union of a span's slices on each thread, added up over the threads.
//! - Covered time is the union of its slices over all threads, within the span. The span waited in the rest.
//!
//! Slices are walked a second time for this, after all lines have been summed up, because a span's own event may stand behind
//! its slices or before them. A walk keeps the spans and slices of some numbers only, so that memory is bounded.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::scopes::{LineKind, Scopes};
use super::super::timeline::{PlaneGroup, Timed, Timeline};
use crate::Result;
use crate::xspace::window::Window;

/// Spans and slices that one walk keeps, of some 64 bytes each. One span may have more slices than that.
const MOST: usize = 1 << 20;

/// The polls of the asynchronous spans of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Polled {
    /// Polls of the outermost spans.
    pub(super) count: u64,
    /// How long threads ran those.
    pub(super) total_ps: u128,
    /// How long any thread was in one of the outermost spans.
    pub(super) covered_ps: u128,
    /// The durations of spans that were polled inside another span of the same scope.
    pub(super) inner_ps: u128,
}

/// A span or a slice of one.
struct Part {
    number: u64,
    start_ps: i128,
    end_ps: i128,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    /// The span, which has this scope.
    Span(u32),
    /// A slice on the thread with this id.
    Slice {
        thread: i64,
        /// Whether it is inside a slice of another span of the same scope.
        is_inner: bool,
    },
}

/// The polls by the scope of the span that they belong to. `linked` says how many events of each line have a number.
pub(super) fn polled(
    window: &mut Window<'_>,
    group: &PlaneGroup,
    timelines: &[Timeline],
    scopes: &Scopes,
    linked: &[usize],
) -> Result<BTreeMap<u32, Polled>> {
    let walks = linked.iter().sum::<usize>().div_ceil(MOST);
    let mut found = BTreeMap::new();
    for walk in 0..walks {
        let mut parts = Vec::new();
        for (timeline, _) in timelines.iter().zip(linked).filter(|(_, linked)| **linked > 0) {
            // Numbers that follow each other belong to spans of one time and one length, so each goes to another walk.
            take_parts(window, group, timeline, scopes, &mut parts, |number| number % walks as u64 == walk as u64)?;
        }
        parts.sort_unstable_by_key(|part: &Part| (part.number, part.start_ps, Reverse(part.end_ps)));
        parts.chunk_by(|left, right| left.number == right.number).for_each(|parts| measure(parts, &mut found));
    }
    Ok(found)
}

/// Adds the spans and slices of a line whose numbers are `wanted`.
fn take_parts(
    window: &mut Window<'_>,
    group: &PlaneGroup,
    timeline: &Timeline,
    scopes: &Scopes,
    parts: &mut Vec<Part>,
    wanted: impl Fn(u64) -> bool,
) -> Result<()> {
    let kind_of_line = LineKind::of(group, timeline);
    // The scopes of a thread that cross each other are on further lines, whose events say the thread's id.
    let is_overlap = timeline.name.contains(" (overlap");
    let mut around: BTreeMap<u32, (i128, u64)> = BTreeMap::new();
    timeline.each_in_time(window, |window, timed| {
        let kind = scopes.kind(timed);
        if kind.is_hidden || timed.is_aggregated {
            return Ok(());
        }
        let facts = scopes.facts(window, timed, kind)?;
        let Some(number) = facts.link else { return Ok(()) };
        let of = if facts.is_async || kind_of_line == LineKind::Async {
            Of::Span(kind.scope)
        } else {
            let is_inner = is_inner(around.entry(kind.scope).or_insert((i128::MIN, number)), timed, number);
            Of::Slice { thread: facts.tid.filter(|_| is_overlap).unwrap_or(timeline.id), is_inner }
        };
        if wanted(number) {
            parts.push(Part { number, start_ps: timed.start_ps, end_ps: timed.end_ps(), of });
        }
        Ok(())
    })
}

/// Whether a slice is inside a slice of another span of the same scope. `around` is the end and the number of the outermost
/// slice of that scope on the line so far.
fn is_inner(around: &mut (i128, u64), timed: &Timed, number: u64) -> bool {
    if timed.start_ps >= around.0 {
        *around = (timed.end_ps(), number);
    }
    around.1 != number && timed.end_ps() <= around.0
}

/// Adds up the spans and slices of one number, which come by their starts, the longest of one start first.
fn measure(parts: &[Part], found: &mut BTreeMap<u32, Polled>) {
    let spans = || {
        parts.iter().filter_map(|part| match part.of {
            Of::Span(scope) => Some((scope, part)),
            Of::Slice { .. } => None,
        })
    };
    let Some((scope, _)) = spans().next() else { return };
    let is_inner = parts.iter().any(|part| matches!(part.of, Of::Slice { is_inner: true, .. }));
    if is_inner {
        for (scope, span) in spans() {
            found.entry(scope).or_default().inner_ps += length(span.start_ps, span.end_ps);
        }
        return;
    }
    // Up to where a slice covers the time: on each thread, and on any.
    let mut by_thread: BTreeMap<i64, i128> = BTreeMap::new();
    let mut covered: Vec<(i128, i128)> = Vec::new();
    let mut polled = Polled::default();
    for part in parts {
        let Of::Slice { thread, .. } = part.of else { continue };
        let reach = by_thread.entry(thread).or_insert(i128::MIN);
        if part.start_ps >= *reach || part.end_ps > *reach {
            polled.count += 1;
            polled.total_ps += length(part.start_ps.max(*reach), part.end_ps);
            *reach = part.end_ps;
        }
        match covered.last_mut() {
            Some((_, end)) if part.start_ps <= *end => *end = part.end_ps.max(*end),
            _ => covered.push((part.start_ps, part.end_ps)),
        }
    }
    if polled.count == 0 {
        return;
    }
    let all = found.entry(scope).or_default();
    all.count += polled.count;
    all.total_ps += polled.total_ps;
    for (scope, span) in spans() {
        let first = covered.partition_point(|(_, end)| *end <= span.start_ps);
        let within = covered[first..].iter().take_while(|(start, _)| *start < span.end_ps);
        let covered_ps =
            within.map(|(start, end)| length((*start).max(span.start_ps), (*end).min(span.end_ps))).sum::<u128>();
        found.entry(scope).or_default().covered_ps += covered_ps;
    }
}

/// How long it is from one time to another one that is no earlier.
fn length(start_ps: i128, end_ps: i128) -> u128 {
    (end_ps - start_ps).unsigned_abs()
}
