//! Merging planes: the host's into one, and those that share a name.
//!
//! Merging moves events; what they refer to is found by name in the target and renumbered in place. Every step is
//! linear in the events, lines and names involved, however many planes there are.

use super::metadata::{FastMap, Ids};
use super::names;
use std::collections::HashSet;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat};

/// The first id for NVTX lines whose own is taken: above every thread id.
const FIRST_SPARE_LINE_ID: i64 = 1 << 32;

/// Moves all host planes into one new plane, [`names::HOST_CPU`], behind the others, and sorts its lines by the name
/// they show. It is there even when nothing was recorded.
pub(super) fn merge_host_planes(space: &mut XSpace) {
    let planes = std::mem::take(&mut space.planes);
    let (sources, mut others): (Vec<_>, Vec<_>) =
        planes.into_iter().partition(|plane| names::HOST_SOURCES.contains(&plane.name.as_str()));
    let nvtx = others.iter().position(|plane| plane.name == names::HOST_NVTX).map(|at| others.remove(at));

    let mut occupied: HashSet<i64> = sources.iter().flat_map(|plane| &plane.lines).map(|line| line.id).collect();
    let mut target = Target::new(XPlane { name: names::HOST_CPU.to_owned(), ..Default::default() });
    for source in sources {
        target.merge(source);
    }
    if let Some(mut nvtx) = nvtx {
        renumber_lines(&mut nvtx, &mut occupied);
        target.merge(nvtx);
    }
    let mut host = target.finish();
    host.lines.sort_by(|a, b| shown_name(a).cmp(shown_name(b)));
    others.push(host);
    space.planes = others;
}

/// Merges planes of one name into the first of them.
pub(super) fn merge_same_names(space: &mut XSpace) {
    let mut first: FastMap<String, usize> = FastMap::default();
    let mut targets: Vec<Slot> = Vec::with_capacity(space.planes.len());
    for plane in std::mem::take(&mut space.planes) {
        if let Some(&at) = first.get(&plane.name) {
            targets[at].merge(plane);
        } else {
            first.insert(plane.name.clone(), targets.len());
            targets.push(Slot::Alone(plane));
        }
    }
    space.planes = targets.into_iter().map(Slot::finish).collect();
}

/// The name that viewers show for a line.
fn shown_name(line: &XLine) -> &str {
    if line.display_name.is_empty() { &line.name } else { &line.display_name }
}

/// Gives lines whose id is in `occupied` another one, and occupies what they end up with.
fn renumber_lines(plane: &mut XPlane, occupied: &mut HashSet<i64>) {
    let mut spare = FIRST_SPARE_LINE_ID;
    for line in &mut plane.lines {
        if occupied.contains(&line.id) {
            while occupied.contains(&spare) {
                spare = spare.wrapping_add(1);
            }
            line.id = spare;
            spare = spare.wrapping_add(1);
        }
        occupied.insert(line.id);
    }
}

/// A plane that may turn out to share its name. It is indexed only then, since indexing also drops its empty lines.
enum Slot {
    Alone(XPlane),
    Merged(Box<Target>),
}

impl Slot {
    fn merge(&mut self, source: XPlane) {
        if let Self::Alone(plane) = self {
            *self = Self::Merged(Box::new(Target::new(std::mem::take(plane))));
        }
        if let Self::Merged(target) = self {
            target.merge(source);
        }
    }

    fn finish(self) -> XPlane {
        match self {
            Self::Alone(plane) => plane,
            Self::Merged(target) => target.finish(),
        }
    }
}

/// A plane that others are merged into.
struct Target {
    /// The plane without its lines.
    plane: XPlane,
    events: Ids,
    stats: Ids,
    /// Index of a plane stat by its metadata id.
    plane_stats: FastMap<i64, usize>,
    /// The lines in order; `None` where an empty one was dropped.
    lines: Vec<Option<Line>>,
    line_by_id: FastMap<i64, usize>,
    /// Lines that have no events so far; the next merge drops them.
    empty: Vec<usize>,
}

impl Target {
    fn new(mut plane: XPlane) -> Self {
        let lines: Vec<_> = std::mem::take(&mut plane.lines).into_iter().map(|line| Some(Line::new(line))).collect();
        let mut plane_stats = FastMap::default();
        for (at, stat) in plane.stats.iter().enumerate() {
            plane_stats.entry(stat.metadata_id).or_insert(at);
        }
        let mut line_by_id = FastMap::default();
        let mut empty = Vec::new();
        for (at, line) in lines.iter().flatten().enumerate() {
            if line.line.events.is_empty() {
                empty.push(at);
            } else {
                line_by_id.entry(line.line.id).or_insert(at);
            }
        }
        let (events, stats) = (Ids::of(&plane.event_metadata), Ids::of(&plane.stat_metadata));
        Self { plane, events, stats, plane_stats, lines, line_by_id, empty }
    }

    /// Merges `source` in. Target lines without events are dropped first, so empty lines survive only from the last
    /// source. Lines are the same if their ids are.
    fn merge(&mut self, mut source: XPlane) {
        self.drop_empty_lines();
        self.events.forget_unnamed();
        self.stats.forget_unnamed();

        let lines = std::mem::take(&mut source.lines);
        let stats = std::mem::take(&mut source.stats);
        let events = std::mem::take(&mut source.event_metadata);
        let mut renumber = Renumber { source, events: FastMap::default(), stats: FastMap::default() };
        for stat in stats {
            self.set_plane_stat(stat, &mut renumber);
        }
        for (id, metadata) in events {
            let target = self.merge_event_metadata(metadata, &mut renumber);
            renumber.events.insert(id, target);
        }
        for line in lines {
            self.merge_line(line, &mut renumber);
        }
    }

    fn finish(mut self) -> XPlane {
        self.plane.lines = self.lines.into_iter().flatten().map(Line::finish).collect();
        self.plane
    }

    fn drop_empty_lines(&mut self) {
        for at in std::mem::take(&mut self.empty) {
            if let Some(line) = self.lines[at].take_if(|line| line.line.events.is_empty()) {
                if self.line_by_id.get(&line.line.id) == Some(&at) {
                    self.line_by_id.remove(&line.line.id);
                }
            }
        }
    }

    /// Writes a stat of the source's plane over the one of its name.
    fn set_plane_stat(&mut self, stat: XStat, renumber: &mut Renumber) {
        let metadata_id = self.stat_id(stat.metadata_id, renumber);
        let at = *self.plane_stats.entry(metadata_id).or_insert_with(|| {
            self.plane.stats.push(XStat { metadata_id, value: None });
            self.plane.stats.len() - 1
        });
        match stat.value {
            // An unset value and a reference into nothing say nothing; what was known stays.
            None => {}
            Some(Value::RefValue(id)) if !renumber.has_text(id) => {}
            value => self.plane.stats[at].value = self.value(value, renumber),
        }
    }

    /// Completes the event metadata of this name with what the target does not say, and returns its id.
    fn merge_event_metadata(&mut self, source: XEventMetadata, renumber: &mut Renumber) -> i64 {
        let id = self.events.get_or_create(&mut self.plane.event_metadata, &source.name);
        let Some(mut target) = self.plane.event_metadata.remove(&id) else { return id };
        if target.display_name.is_empty() {
            target.display_name = source.display_name;
        }
        if target.metadata.is_empty() {
            target.metadata = source.metadata;
        }
        if target.stats.is_empty() {
            target.stats = source.stats;
            for stat in &mut target.stats {
                stat.metadata_id = self.stat_id(stat.metadata_id, renumber);
                if let Some(Value::RefValue(id)) = &mut stat.value {
                    *id = self.text_id(*id, renumber);
                }
            }
        }
        self.plane.event_metadata.insert(id, target);
        id
    }

    fn merge_line(&mut self, source: XLine, renumber: &mut Renumber) {
        let at = *self.line_by_id.entry(source.id).or_insert_with(|| {
            self.lines.push(Some(Line::new(XLine { id: source.id, ..Default::default() })));
            self.empty.push(self.lines.len() - 1);
            self.lines.len() - 1
        });
        // Indexed lines are never the dropped ones.
        let Some(mut target) = self.lines[at].take() else { return };
        let XLine { name, display_name, timestamp_ns, mut events, .. } = source;
        let offset_ps = target.join(name, display_name, timestamp_ns);
        for event in &mut events {
            self.renumber_event(event, offset_ps, renumber);
        }
        target.append(events);
        self.lines[at] = Some(target);
    }

    fn renumber_event(&mut self, event: &mut XEvent, offset_ps: i64, renumber: &mut Renumber) {
        event.metadata_id = match renumber.events.get(&event.metadata_id) {
            Some(&id) => id,
            None => {
                let id = self.events.get_or_create(&mut self.plane.event_metadata, "");
                renumber.events.insert(event.metadata_id, id);
                id
            }
        };
        if !matches!(event.data, Some(Data::NumOccurrences(_))) {
            event.data = Some(Data::OffsetPs(offset_of(event).wrapping_add(offset_ps)));
        }
        for stat in &mut event.stats {
            stat.metadata_id = self.stat_id(stat.metadata_id, renumber);
            stat.value = self.value(stat.value.take(), renumber);
        }
    }

    /// A value of the source as the target has it. A reference into nothing becomes an unset value.
    fn value(&mut self, value: Option<Value>, renumber: &mut Renumber) -> Option<Value> {
        match value {
            Some(Value::RefValue(id)) if !renumber.has_text(id) => None,
            Some(Value::RefValue(id)) => Some(Value::RefValue(self.text_id(id, renumber))),
            value => value,
        }
    }

    /// The target's id for a reference of the source.
    fn text_id(&mut self, reference: u64, renumber: &mut Renumber) -> u64 {
        let id = self.stat_id(reference as i64, renumber); // same bits: the table's keys are signed
        id as u64 // and back
    }

    /// The target's stat metadata id for one of the source; an unknown one has an empty name.
    fn stat_id(&mut self, source_id: i64, renumber: &mut Renumber) -> i64 {
        if let Some(&id) = renumber.stats.get(&source_id) {
            return id;
        }
        let name = renumber.source.stat_metadata.get(&source_id).map_or("", |metadata| &metadata.name);
        let id = self.stats.get_or_create(&mut self.plane.stat_metadata, name);
        renumber.stats.insert(source_id, id);
        id
    }
}

/// The ids of one source, as the target has them.
struct Renumber {
    /// The source; only its stat metadata is still there.
    source: XPlane,
    events: FastMap<i64, i64>,
    stats: FastMap<i64, i64>,
}

impl Renumber {
    /// Whether a reference of the source points to something.
    fn has_text(&self, reference: u64) -> bool {
        self.source.stat_metadata.contains_key(&(reference as i64)) // same bits: the table's keys are signed
    }
}

/// A line of the target. Moving its start moves the offsets of its events; that is done once, at the end.
struct Line {
    line: XLine,
    /// Sum of all moves so far, in picoseconds, and their number.
    moved: (i64, usize),
    /// Index of the first event of each appended run, with `moved` of that time.
    runs: Vec<(usize, (i64, usize))>,
}

impl Line {
    fn new(line: XLine) -> Self {
        Self { line, moved: (0, 0), runs: vec![(0, (0, 0))] }
    }

    /// Takes over what a line to be appended says about itself; returns what its events' offsets grow by.
    fn join(&mut self, name: String, display_name: String, timestamp_ns: i64) -> i64 {
        let line = &mut self.line;
        if line.events.is_empty() {
            line.timestamp_ns = timestamp_ns;
            if line.display_name.is_empty() {
                line.display_name = if display_name.is_empty() { name.clone() } else { display_name };
            }
            line.name = name;
            return 0;
        }
        if line.name.is_empty() {
            line.name = name;
        }
        let later_ps = timestamp_ns.wrapping_sub(line.timestamp_ns).wrapping_mul(1000);
        if timestamp_ns > line.timestamp_ns {
            return later_ps;
        }
        line.timestamp_ns = timestamp_ns;
        if later_ps != 0 {
            self.moved = (self.moved.0.wrapping_sub(later_ps), self.moved.1 + 1);
        }
        0
    }

    fn append(&mut self, mut events: Vec<XEvent>) {
        if self.line.events.is_empty() {
            self.line.events = events;
        } else {
            self.runs.push((self.line.events.len(), self.moved));
            self.line.events.append(&mut events);
        }
    }

    fn finish(mut self) -> XLine {
        let mut end = self.line.events.len();
        for &(start, (sum, count)) in self.runs.iter().rev() {
            // An aggregated event that is moved becomes one with an offset, even if the moves add up to nothing.
            if self.moved.1 > count {
                let later_ps = self.moved.0.wrapping_sub(sum);
                for event in &mut self.line.events[start..end] {
                    event.data = Some(Data::OffsetPs(offset_of(event).wrapping_add(later_ps)));
                }
            }
            end = start;
        }
        self.line
    }
}

/// The offset of an event in picoseconds; 0 for an aggregated one.
pub(super) fn offset_of(event: &XEvent) -> i64 {
    match event.data {
        Some(Data::OffsetPs(offset)) => offset,
        Some(Data::NumOccurrences(_)) | None => 0,
    }
}
