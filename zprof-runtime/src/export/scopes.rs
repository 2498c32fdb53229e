//! The names of the scopes of a group of planes, and what single events say about themselves beyond name and time.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::json::HIDDEN_EVENTS;
use super::timeline::{PlaneGroup, Timed, Timeline, text};
use crate::Result;
use crate::xspace::reader::{
    Stat, Value, each_event_metadata, each_event_stat, each_metadata_stat, each_stat_metadata,
};
use crate::xspace::window::Window;

type Map<V> = HashMap<i64, V, FixedState>;

/// What a scope is called whose events have no name.
const NAMELESS: &str = "(no name)";
/// The name by which TensorFlow marks a step.
const TRACE_CONTEXT: &str = "TraceContext";

/// A stat that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// `_r`: the event is a step, or another root of what it causes.
    Root,
    /// `iter_num`, the number of a step.
    Iteration,
    /// `step_num`, its number where there is no other.
    Step,
    /// `_a`: the event does not nest.
    Async,
    /// `self_duration_ps` of an aggregated event.
    OwnTime,
    /// `flow`, which goes both in and out where polls and their whole refer to each other.
    Flow,
    /// `tid`, the id of the thread where the line's is another.
    Tid,
}

const MARKS: [(&str, Mark); 7] = [
    ("_r", Mark::Root),
    ("iter_num", Mark::Iteration),
    ("step_num", Mark::Step),
    ("_a", Mark::Async),
    ("self_duration_ps", Mark::OwnTime),
    ("flow", Mark::Flow),
    ("tid", Mark::Tid),
];

/// What an event says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) is_root: bool,
    pub(super) is_async: bool,
    /// The number of a flow that goes both in and out: an asynchronous span and its polls have the same.
    pub(super) link: Option<u64>,
    /// The thread that the event says it ran on.
    pub(super) tid: Option<i64>,
    iteration: Option<i64>,
    step: Option<i64>,
    pub(super) own_ps: Option<u64>,
}

impl Facts {
    /// The number of the step that it is.
    pub(super) fn number(&self) -> Option<i64> {
        self.iteration.or(self.step)
    }

    fn note(&mut self, mark: Mark, value: Value) {
        if mark == Mark::Flow {
            let flow = match value {
                Value::Int(value) => u64::from_ne_bytes(value.to_ne_bytes()),
                Value::Uint(value) => value,
                _ => return,
            };
            // A user's own arrows go one way, and may be of the same event.
            if flow & 3 == 3 {
                self.link = Some(flow >> 2);
            }
            return;
        }
        let number = match value {
            Value::Int(value) => value,
            Value::Uint(value) => i64::try_from(value).unwrap_or(i64::MAX),
            _ => return,
        };
        match mark {
            Mark::Root => self.is_root = number > 0,
            Mark::Iteration => self.iteration = Some(number),
            Mark::Step => self.step = Some(number),
            Mark::Async => self.is_async = number != 0,
            Mark::OwnTime => self.own_ps = u64::try_from(number).ok(),
            Mark::Tid => self.tid = Some(number),
            Mark::Flow => {}
        }
    }
}

/// What events of one metadata have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// The place of the scope's name.
    pub(super) scope: u32,
    /// Whether the events are bookkeeping, which viewers do not show.
    pub(super) is_hidden: bool,
    facts: Facts,
}

/// The scopes of a group of planes.
pub(super) struct Scopes {
    /// Names of scopes, each once.
    pub(super) names: Vec<String>,
    /// By plane of the group: event metadata.
    kinds: Vec<Map<Kind>>,
    /// By plane of the group: the stats that are looked at.
    marks: Vec<Map<Mark>>,
    nameless: Kind,
}

impl Scopes {
    pub(super) fn load(window: &mut Window<'_>, group: &PlaneGroup) -> Result<Self> {
        let mut scopes = Self {
            names: vec![NAMELESS.to_owned()],
            kinds: Vec::new(),
            marks: Vec::new(),
            nameless: Kind { scope: 0, is_hidden: false, facts: Facts::default() },
        };
        let mut places = HashMap::from([(String::new(), 0)]);
        for header in &group.planes {
            let mut marks = Map::default();
            each_stat_metadata(window, header.body, |window, id, name| {
                let found = MARKS.iter().find(|(mark, _)| is_text(window, name, mark));
                match found {
                    Some((_, mark)) => marks.insert(id, *mark),
                    None => marks.remove(&id),
                };
                Ok(())
            })?;
            let mut kinds = Map::default();
            each_event_metadata(window, header.body, |window, metadata| {
                let full_name = text(window, metadata.name)?;
                let mut facts = Facts { is_root: full_name == TRACE_CONTEXT, ..Facts::default() };
                if !marks.is_empty() {
                    each_metadata_stat(window, metadata.entry, |_, stat| {
                        note(&mut facts, &marks, stat);
                        Ok(())
                    })?;
                }
                let is_hidden = HIDDEN_EVENTS.contains(&full_name.as_str());
                let name = match metadata.display_name.len {
                    0 => full_name,
                    _ => text(window, metadata.display_name)?,
                };
                let scope = scopes.place(&mut places, name);
                kinds.insert(metadata.id, Kind { scope, is_hidden, facts });
                Ok(())
            })?;
            scopes.kinds.push(kinds);
            scopes.marks.push(marks);
        }
        Ok(scopes)
    }

    pub(super) fn name(&self, scope: u32) -> &str {
        self.names.get(place(scope)).map_or(NAMELESS, String::as_str)
    }

    pub(super) fn kind(&self, timed: &Timed) -> Kind {
        let kinds = self.kinds.get(place(timed.plane));
        kinds.and_then(|kinds| kinds.get(&timed.metadata_id)).copied().unwrap_or(self.nameless)
    }

    /// What the event and its metadata say; the event's own word counts.
    pub(super) fn facts(&self, window: &mut Window<'_>, timed: &Timed, kind: Kind) -> Result<Facts> {
        let mut facts = kind.facts;
        let Some(marks) = self.marks.get(place(timed.plane)) else { return Ok(facts) };
        if timed.has_stats && !marks.is_empty() {
            each_event_stat(window, timed.body, |_, stat| {
                note(&mut facts, marks, stat);
                Ok(())
            })?;
        }
        Ok(facts)
    }

    fn place(&mut self, places: &mut HashMap<String, u32>, name: String) -> u32 {
        if let Some(&place) = places.get(&name) {
            return place;
        }
        // As many names as 32 bits count do not fit memory; what would come after them has none.
        let Ok(place) = u32::try_from(self.names.len()) else { return 0 };
        self.names.push(name.clone());
        places.insert(name, place);
        place
    }
}

/// What the events of a line are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Scopes that nest.
    Nested,
    /// Scopes that overlap, as they wait for something.
    Async,
    /// Steps of a device, which say when, and not what, it does.
    Steps,
    /// Samples of counters.
    Counters,
}

impl LineKind {
    pub(super) fn of(group: &PlaneGroup, timeline: &Timeline) -> Self {
        match timeline.name.as_str() {
            "_counters_" => Self::Counters,
            "Async XLA Ops" => Self::Async,
            "Steps" | "Sparse Core Steps" if is_device(&group.name) => Self::Steps,
            _ => Self::Nested,
        }
    }
}

/// Whether a plane is an accelerator's.
pub(super) fn is_device(plane: &str) -> bool {
    ["/device", "#Chip", "/custom:"].iter().any(|start| plane.starts_with(start))
}

/// A place in a list in memory.
pub(super) fn place(index: u32) -> usize {
    index as usize // no target of ours has smaller addresses
}

fn note(facts: &mut Facts, marks: &Map<Mark>, stat: &Stat) {
    if let Some(mark) = marks.get(&stat.metadata_id) {
        facts.note(*mark, stat.value);
    }
}

/// Whether a text of the source is this one; one that cannot be read is not, and fails elsewhere.
fn is_text(window: &mut Window<'_>, extent: crate::xspace::window::Extent, wanted: &str) -> bool {
    extent.len == crate::xspace::wire::wide(wanted.len())
        && window.piece(extent).is_ok_and(|text| text == wanted.as_bytes())
}
