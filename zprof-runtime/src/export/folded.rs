//! Folded stacks: one line a stack of scopes, with its own time. Flame graphs are drawn from these.
//!
//! ```text
//! llm.step;decode;matmul 1234567
//! ```
//!
//! The number is the own time of the last scope within just these others, in nanoseconds, rounded to the nearest;
//! stacks of 0 are left out. A scope is within those that contain it; what overlaps in part is beside. Before the
//! scopes stands the plane, if several have events; and before a device's scopes the line too, since its lines show one
//! time in several ways. In names a `;` becomes a `,`, and a line break a space.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use super::filter::matches_any;
use super::nest::{Around, Closed, Nest};
use super::scopes::{LineKind, Scopes, is_device};
use super::timeline::{PlaneGroup, Timeline, plane_groups, timelines};
use crate::xspace::Source;
use crate::xspace::window::Window;
use crate::{Error, Result};

/// Picoseconds of the unit.
const UNIT_PS: u128 = 1_000;

/// What to fold.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FoldedOptions {
    /// Only planes whose names match one of these, as in [`Filter::planes`](super::Filter::planes).
    pub planes: Vec<String>,
    /// Whether the line stands before every stack: each thread has a tower of its own.
    pub by_line: bool,
}

/// A stack that occurred.
struct Stack {
    /// The place of the stack without its last frame.
    below: Option<usize>,
    frame: String,
    self_ps: u128,
}

/// All stacks: those of scopes stand on that of their plane and line.
#[derive(Default)]
struct Stacks {
    stacks: Vec<Stack>,
    /// Stacks by what they stand on and their last scope, of the plane at hand.
    by_scope: HashMap<(Option<usize>, u32), usize>,
    by_name: HashMap<(Option<usize>, String), usize>,
}

/// Writes the folded stacks of a profile to `out`. Aggregated and asynchronous events, steps of devices and counters
/// have no place in a stack.
///
/// Memory is bounded by names and different stacks, and else as that of [`summarise`](super::summarise).
///
/// # Errors
/// As of [`summarise`](super::summarise), and [`ErrorKind::Io`](crate::ErrorKind::Io) if writing fails.
pub fn write_folded(source: &dyn Source, out: &mut dyn Write, options: &FoldedOptions) -> Result<()> {
    let mut window = Window::new(source)?;
    let mut groups = plane_groups(&mut window)?;
    groups.retain(|group| matches_any(&options.planes, &group.name));
    let mut planes = Vec::new();
    for group in &groups {
        let timelines = timelines(&mut window, group)?;
        if timelines.iter().any(|timeline| timeline.event_count > 0 && is_folded(group, timeline)) {
            planes.push((group, timelines));
        }
    }
    let mut stacks = Stacks::default();
    let name_planes = planes.len() > 1;
    for (group, timelines) in &planes {
        let plane = name_planes.then(|| stacks.named(None, &group.name));
        stacks.by_scope.clear();
        let scopes = Scopes::load(&mut window, group)?;
        for timeline in timelines.iter().filter(|timeline| is_folded(group, timeline)) {
            let line = (options.by_line || is_device(&group.name)).then(|| stacks.named(plane, &label(timeline)));
            stacks.fold(&mut window, timeline, &scopes, line.or(plane))?;
        }
    }
    stacks.write(out).map_err(|error| Error::io("failed to write the folded stacks", error))
}

/// Whether the line's events are scopes that nest.
fn is_folded(group: &PlaneGroup, timeline: &Timeline) -> bool {
    LineKind::of(group, timeline) == LineKind::Nested
}

/// What a line is called: its name, or its id where it has none.
fn label(timeline: &Timeline) -> String {
    if timeline.name.is_empty() { timeline.id.to_string() } else { timeline.name.clone() }
}

impl Stacks {
    fn fold(
        &mut self,
        window: &mut Window<'_>,
        timeline: &Timeline,
        scopes: &Scopes,
        base: Option<usize>,
    ) -> Result<()> {
        let mut nest: Nest<usize> = Nest::new();
        timeline.each_in_time(window, |window, timed| {
            let kind = scopes.kind(timed);
            if kind.is_hidden || timed.is_aggregated || scopes.facts(window, timed, kind)?.is_async {
                return Ok(());
            }
            let mut closed = Vec::new();
            let tag =
                |around: Around<'_, usize>| Ok(self.of_scope(around.inside.copied().or(base), kind.scope, scopes));
            nest.enter(timed.start_ps, timed.duration_ps, tag, &mut |event| {
                closed.push(event);
                Ok::<_, Error>(())
            })?;
            closed.into_iter().for_each(|event| self.add(event));
            Ok(())
        })?;
        nest.finish(&mut |event| {
            self.add(event);
            Ok(())
        })
    }

    fn add(&mut self, event: Closed<usize>) {
        self.stacks[event.tag].self_ps += u128::from(event.self_ps);
    }

    fn named(&mut self, below: Option<usize>, frame: &str) -> usize {
        let next = self.stacks.len();
        let place = *self.by_name.entry((below, frame.to_owned())).or_insert(next);
        self.push(place, below, frame);
        place
    }

    fn of_scope(&mut self, below: Option<usize>, scope: u32, scopes: &Scopes) -> usize {
        let next = self.stacks.len();
        let place = *self.by_scope.entry((below, scope)).or_insert(next);
        self.push(place, below, scopes.name(scope));
        place
    }

    /// Adds a stack, if its place is new.
    fn push(&mut self, place: usize, below: Option<usize>, frame: &str) {
        if place == self.stacks.len() {
            let frame = frame.replace(';', ",").replace(['\n', '\r'], " ");
            self.stacks.push(Stack { below, frame, self_ps: 0 });
        }
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut out = BufWriter::new(out);
        for stack in &self.stacks {
            let units = (stack.self_ps + UNIT_PS / 2) / UNIT_PS;
            if units == 0 {
                continue;
            }
            let mut frames = vec![stack.frame.as_str()];
            let mut below = stack.below;
            while let Some(stack) = below.and_then(|place| self.stacks.get(place)) {
                frames.push(&stack.frame);
                below = stack.below;
            }
            frames.reverse();
            writeln!(out, "{} {units}", frames.join(";"))?;
        }
        out.flush()
    }
}
