//! Folded stacks: one line a stack of scopes, with its own time. Flame graphs are drawn from these.
//!
//! ```text
//! llm.step;decode;matmul 1234567
//! ```
//!
//! The number is the own time of the last scope within just these others, in nanoseconds, rounded to the nearest;
//! stacks of 0 are left out. A scope is within those that contain it; what overlaps in part is beside. Before the
//! scopes stands the program, as `llm (pid 4711)`, if the profile has its name, or else the plane, if several have events; and before a device's scopes the line too, since its lines show one
//! time in several ways. In names a `;` becomes a `,`, and a line break a space; where a name ends in a space and a number, as
//! `layer 1`, the space becomes a `_`, since the number after the stack must be the only one.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use foldhash::fast::FixedState;

use super::about::{About, Process};
use super::filter::matches_any;
use super::nest::{Around, Closed, Nest};
use super::scopes::{LineKind, Scopes, is_device, place};
use super::timeline::{PlaneGroup, Timeline, plane_groups, timelines};
use crate::xspace::Source;
use crate::xspace::names::HOST_CPU;
use crate::xspace::window::Window;
use crate::{Error, ErrorKind, Result};

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

/// Different stacks of scopes, as a tree: each frame is a scope within the frame below it, with its own time in this stack.
///
/// Frames are numbered from 0, and a frame comes after the one below it. Memory is linear in the number of frames and the
/// length of different names, whatever the depth.
#[derive(Clone, Debug, Default)]
pub struct StackTree {
    names: Vec<String>,
    frames: Vec<Frame>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// The frame below, or [`BOTTOM`].
    below: u32,
    /// The place of the name.
    name: u32,
    self_ps: u128,
}

/// Stands for the frame below the lowest ones.
const BOTTOM: u32 = u32::MAX;

/// Writes the folded stacks of a profile to `out`, as [`StackTree::write_folded`] does.
///
/// # Errors
/// As of [`StackTree::add`] and [`StackTree::write_folded`].
pub fn write_folded(source: &dyn Source, out: &mut dyn Write, options: &FoldedOptions) -> Result<()> {
    let mut tree = StackTree::default();
    tree.add(source, None, options)?;
    tree.write_folded(out)
}

impl StackTree {
    /// Adds the stacks of a profile, all of them on a frame called `host` if that is given. Aggregated and asynchronous events,
    /// steps of devices and counters have no place in a stack.
    ///
    /// # Errors
    /// As of [`summarise`](super::summarise), and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for more than 2³² - 1
    /// frames.
    pub fn add(&mut self, source: &dyn Source, host: Option<&str>, options: &FoldedOptions) -> Result<()> {
        let mut window = Window::new(source)?;
        let about = About::read(&mut window)?;
        let mut groups = plane_groups(&mut window)?;
        groups.retain(|group| matches_any(&options.planes, &group.name));
        let mut planes = Vec::new();
        for group in &groups {
            let timelines = timelines(&mut window, group)?;
            if timelines.iter().any(|timeline| timeline.event_count > 0 && is_folded(group, timeline)) {
                planes.push((group, timelines));
            }
        }
        let mut folding = Folding { tree: self, by_name: HashMap::new(), by_scope: HashMap::default(), first_name: 0 };
        let host = host.map_or(Ok(BOTTOM), |host| folding.named(BOTTOM, host))?;
        let name_planes = planes.len() > 1;
        for (group, timelines) in &planes {
            let program = about.process.as_ref().filter(|_| group.name == HOST_CPU).map(Process::label);
            // The program is shown also where it is alone, since it tells more than the name of a plane.
            let plane = match (program, name_planes) {
                (Some(program), _) => folding.named(host, &program)?,
                (None, true) => folding.named(host, &group.name)?,
                (None, false) => host,
            };
            let mut scopes = Scopes::load(&mut window, group)?;
            folding.take_names(&mut scopes)?;
            for timeline in timelines.iter().filter(|timeline| is_folded(group, timeline)) {
                let has_line = options.by_line || is_device(&group.name);
                let base = if has_line { folding.named(plane, &label(timeline))? } else { plane };
                folding.fold(&mut window, timeline, &scopes, base)?;
            }
        }
        Ok(())
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is no frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Names of frames, by their place. A name may be there more than once.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The place of a frame's name among [`names`](Self::names).
    ///
    /// # Panics
    /// If there are not so many frames.
    #[must_use]
    pub fn name_of(&self, frame: usize) -> usize {
        place(self.frames[frame].name)
    }

    /// The frame below a frame, which has a smaller number; `None` at the bottom.
    ///
    /// # Panics
    /// If there are not so many frames.
    #[must_use]
    pub fn below(&self, frame: usize) -> Option<usize> {
        let below = self.frames[frame].below;
        (below != BOTTOM).then(|| place(below))
    }

    /// A frame's own time in nanoseconds, rounded to the nearest: what no frame above it covers.
    ///
    /// # Panics
    /// If there are not so many frames.
    #[must_use]
    pub fn own_ns(&self, frame: usize) -> u128 {
        (self.frames[frame].self_ps + UNIT_PS / 2) / UNIT_PS
    }

    /// Writes the folded stacks to `out`, those without own time left out. The memory besides the tree is linear in the depth of one
    /// stack.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if writing fails.
    pub fn write_folded(&self, out: &mut dyn Write) -> Result<()> {
        self.write_stacks(out).map_err(|error| Error::io("failed to write the folded stacks", error))
    }

    fn write_stacks(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut out = BufWriter::new(out);
        let mut stack = Vec::new();
        for frame in 0..self.frames.len() {
            let own_ns = self.own_ns(frame);
            if own_ns == 0 {
                continue;
            }
            stack.clear();
            stack.extend(std::iter::successors(Some(frame), |frame| self.below(*frame)));
            for (place, frame) in stack.iter().rev().enumerate() {
                if place > 0 {
                    out.write_all(b";")?;
                }
                write_name(&mut out, &self.names[self.name_of(*frame)])?;
            }
            writeln!(out, " {own_ns}")?;
        }
        out.flush()
    }
}

/// Writes a name without what separates frames, stacks and numbers.
fn write_name(out: &mut dyn Write, name: &str) -> std::io::Result<()> {
    // Readers skip what is blank at the end before they look for a number.
    let (name, number) = match name.trim_end().rsplit_once(char::is_whitespace) {
        Some((before, last)) if is_number(last) => (before, Some(last)),
        _ => (name, None),
    };
    let mut rest = name;
    while let Some(at) = rest.find([';', '\n', '\r']) {
        out.write_all(&rest.as_bytes()[..at])?;
        out.write_all(if rest[at..].starts_with(';') { b"," } else { b" " })?;
        rest = &rest[at + 1..];
    }
    out.write_all(rest.as_bytes())?;
    number.map_or(Ok(()), |number| write!(out, "_{number}"))
}

/// Whether readers would take the last word of a name for a number of its own: two numbers make a stack of a comparison.
fn is_number(word: &str) -> bool {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !whole.is_empty() && is_digits(whole) && is_digits(part)
}

/// Whether the line's events are scopes that nest.
fn is_folded(group: &PlaneGroup, timeline: &Timeline) -> bool {
    LineKind::of(group, timeline) == LineKind::Nested
}

/// What a line is called: its name, or its id where it has none.
fn label(timeline: &Timeline) -> String {
    if timeline.name.is_empty() { timeline.id.to_string() } else { timeline.name.clone() }
}

/// A tree to which the stacks of one profile are being added.
struct Folding<'t> {
    tree: &'t mut StackTree,
    /// Frames of hosts, planes and lines, by the frame below and the name.
    by_name: HashMap<(u32, String), u32>,
    /// Frames of scopes of the plane at hand, by the frame below and the scope.
    by_scope: HashMap<(u32, u32), u32, FixedState>,
    /// The place of the name of the plane's first scope.
    first_name: u32,
}

impl Folding<'_> {
    /// Moves the names of a plane's scopes into the tree. From here on, scopes are those of this plane.
    fn take_names(&mut self, scopes: &mut Scopes) -> Result<()> {
        self.by_scope.clear();
        self.first_name = number(self.tree.names.len())?;
        self.tree.names.append(&mut scopes.names);
        number(self.tree.names.len()).map(drop)
    }

    fn fold(&mut self, window: &mut Window<'_>, timeline: &Timeline, scopes: &Scopes, base: u32) -> Result<()> {
        let mut nest: Nest<u32> = Nest::new();
        timeline.each_in_time(window, |window, timed| {
            let kind = scopes.kind(timed);
            if kind.is_hidden || timed.is_aggregated || scopes.facts(window, timed, kind)?.is_async {
                return Ok(());
            }
            let mut closed = Vec::new();
            let tag = |around: Around<'_, u32>| self.of_scope(around.inside.copied().unwrap_or(base), kind.scope);
            nest.enter(timed.start_ps, timed.duration_ps, tag, &mut |event| {
                closed.push(event);
                Ok::<_, Error>(())
            })?;
            closed.into_iter().for_each(|event| self.close(event));
            Ok(())
        })?;
        nest.finish(&mut |event| {
            self.close(event);
            Ok(())
        })
    }

    fn close(&mut self, event: Closed<u32>) {
        self.tree.frames[place(event.tag)].self_ps += u128::from(event.self_ps);
    }

    /// The frame of this name on the frame `below`.
    fn named(&mut self, below: u32, name: &str) -> Result<u32> {
        if let Some(frame) = self.by_name.get(&(below, name.to_owned())) {
            return Ok(*frame);
        }
        let place = number(self.tree.names.len())?;
        self.tree.names.push(name.to_owned());
        let frame = self.push(below, place)?;
        self.by_name.insert((below, name.to_owned()), frame);
        Ok(frame)
    }

    /// The frame of this scope of the plane at hand on the frame `below`.
    fn of_scope(&mut self, below: u32, scope: u32) -> Result<u32> {
        if let Some(frame) = self.by_scope.get(&(below, scope)) {
            return Ok(*frame);
        }
        let frame = self.push(below, self.first_name + scope)?;
        self.by_scope.insert((below, scope), frame);
        Ok(frame)
    }

    fn push(&mut self, below: u32, name: u32) -> Result<u32> {
        let frame = number(self.tree.frames.len())?;
        self.tree.frames.push(Frame { below, name, self_ps: 0 });
        Ok(frame)
    }
}

/// A number of a frame or a name, which is below [`BOTTOM`].
fn number(count: usize) -> Result<u32> {
    u32::try_from(count).ok().filter(|number| *number != BOTTOM).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the profile has more different stacks than a flame graph can hold: 4294967295",
        )
    })
}
