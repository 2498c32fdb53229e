//! An XSpace in a form that depends on names, not on ids or on the order of tables.

use prost::Message as _;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat};

/// A space by name: equal for spaces that mean the same. Its [`Display`](fmt::Display) is a tree, one fact a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    /// Host names, errors and warnings, one line of text each.
    pub notes: Vec<String>,
    /// The planes in order.
    pub planes: Vec<Plane>,
}

/// A plane by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Name and id.
    pub head: String,
    /// The plane's stats in order, such as `cores=i64:8`.
    pub stats: Vec<String>,
    /// The lines in order.
    pub lines: Vec<Line>,
    /// What the event metadata table says, sorted.
    pub event_metadata: Vec<String>,
    /// What the stat metadata table says, sorted.
    pub stat_metadata: Vec<String>,
}

/// A line of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The name shown, by which lines are sorted.
    pub shown: String,
    /// All that the line says about itself.
    pub head: String,
    /// The events in order.
    pub events: Vec<Event>,
}

/// An event of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Offset and duration in picoseconds, by which events are sorted; the offset of an aggregated event is 0.
    pub span: (i64, i64),
    /// All that the event says, metadata included.
    pub text: String,
}

/// Reads a space by name.
///
/// # Panics
///
/// Panics if `bytes` is not an XSpace.
#[must_use]
pub fn canonical(bytes: &[u8]) -> Canonical {
    let space = XSpace::decode(bytes).expect("bytes of an XSpace");
    let mut notes = Vec::new();
    for (kind, texts) in [("host", &space.hostnames), ("error", &space.errors), ("warning", &space.warnings)] {
        notes.extend(texts.iter().map(|text| format!("{kind} {text:?}")));
    }
    Canonical { notes, planes: space.planes.iter().map(plane).collect() }
}

impl Canonical {
    /// The first plane of this name.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    #[must_use]
    pub fn plane(&self, name: &str) -> &Plane {
        let head = format!("plane {name:?}");
        let found = self.planes.iter().find(|plane| plane.head.starts_with(&head));
        found.unwrap_or_else(|| panic!("no plane `{name}` in\n{self}"))
    }

    /// Puts equal elements, which a sort may leave in any order, into one order: events that begin together and last
    /// equally long, and neighbouring lines of `plane` that show the same name.
    pub fn sort_ties(&mut self, plane: &str) {
        let head = format!("plane {plane:?}");
        for plane in &mut self.planes {
            for line in &mut plane.lines {
                for tie in line.events.chunk_by_mut(|a, b| a.span == b.span) {
                    tie.sort_by(|a, b| a.text.cmp(&b.text));
                }
            }
            if plane.head.starts_with(&head) {
                for tie in plane.lines.chunk_by_mut(|a, b| a.shown == b.shown) {
                    tie.sort_by(|a, b| a.head.cmp(&b.head));
                }
            }
        }
    }

    /// Says where this space is not the other one: the first line of the trees that differs, with some around it.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        const AROUND: usize = 12;
        let (left, right) = (self.to_string(), other.to_string());
        let (left, right): (Vec<_>, Vec<_>) = (left.lines().collect(), right.lines().collect());
        let same = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
        if same == left.len() && same == right.len() {
            return None;
        }
        let part = |lines: &[&str]| lines.iter().skip(same).take(AROUND).copied().collect::<Vec<_>>().join("\n");
        let before = left[same.saturating_sub(AROUND)..same].join("\n");
        Some(format!("after\n{before}\n--- left has\n{}\n--- right has\n{}", part(&left), part(&right)))
    }
}

impl fmt::Display for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        for plane in &self.planes {
            writeln!(f, "{}", plane.head)?;
            for (kind, texts) in
                [("stat", &plane.stats), ("event kind", &plane.event_metadata), ("stat name", &plane.stat_metadata)]
            {
                for text in texts {
                    writeln!(f, "  {kind} {text}")?;
                }
            }
            for line in &plane.lines {
                writeln!(f, "  {}", line.head)?;
                for event in &line.events {
                    writeln!(f, "    {}", event.text)?;
                }
            }
        }
        Ok(())
    }
}

fn plane(plane: &XPlane) -> Plane {
    let kinds: BTreeMap<i64, String> =
        plane.event_metadata.iter().map(|(&id, metadata)| (id, event_metadata(metadata, plane))).collect();
    let mut event_metadata: Vec<_> = kinds.values().cloned().collect();
    event_metadata.sort();
    let mut stat_metadata: Vec<_> =
        plane.stat_metadata.values().map(|stat| format!("{:?} described {:?}", stat.name, stat.description)).collect();
    stat_metadata.sort();
    Plane {
        head: format!("plane {:?} id {}", plane.name, plane.id),
        stats: plane.stats.iter().map(|one| stat(one, plane)).collect(),
        lines: plane.lines.iter().map(|one| line(one, &kinds, plane)).collect(),
        event_metadata,
        stat_metadata,
    }
}

fn event_metadata(metadata: &XEventMetadata, plane: &XPlane) -> String {
    let mut text = format!("{:?}", metadata.name);
    if !metadata.display_name.is_empty() {
        write!(text, " shown {:?}", metadata.display_name).expect("a string takes all");
    }
    if !metadata.metadata.is_empty() {
        write!(text, " bytes {:02x?}", metadata.metadata).expect("a string takes all");
    }
    push_stats(&mut text, &metadata.stats, plane);
    for child in &metadata.child_id {
        let child = plane.event_metadata.get(child).map(|child| &child.name);
        write!(text, " child {child:?}").expect("a string takes all");
    }
    text
}

fn line(line: &XLine, kinds: &BTreeMap<i64, String>, plane: &XPlane) -> Line {
    let XLine { id, name, display_id, display_name, timestamp_ns, duration_ps, events } = line;
    let mut head = format!("line {name:?} id {id} at {timestamp_ns} ns");
    if !display_name.is_empty() {
        write!(head, " shown {display_name:?}").expect("a string takes all");
    }
    if *display_id != 0 {
        write!(head, " shown id {display_id}").expect("a string takes all");
    }
    if *duration_ps != 0 {
        write!(head, " for {duration_ps} ps").expect("a string takes all");
    }
    let shown = if display_name.is_empty() { name } else { display_name };
    Line { shown: shown.clone(), head, events: events.iter().map(|one| event(one, kinds, plane)).collect() }
}

fn event(event: &XEvent, kinds: &BTreeMap<i64, String>, plane: &XPlane) -> Event {
    let (offset, mut text) = match event.data {
        Some(Data::OffsetPs(offset)) => (offset, format!("at {offset} ps")),
        Some(Data::NumOccurrences(count)) => (0, format!("{count} times")),
        None => (0, "at no time".to_owned()),
    };
    write!(text, " for {} ps", event.duration_ps).expect("a string takes all");
    push_stats(&mut text, &event.stats, plane);
    match kinds.get(&event.metadata_id) {
        Some(kind) => write!(text, " of {kind}"),
        None => write!(text, " of unknown kind {}", event.metadata_id),
    }
    .expect("a string takes all");
    Event { span: (offset, event.duration_ps), text }
}

fn push_stats(text: &mut String, stats: &[XStat], plane: &XPlane) {
    for one in stats {
        text.push(' ');
        text.push_str(&stat(one, plane));
    }
}

/// A stat as `name=type:value`; strings are quoted, doubles exact to the bit.
fn stat(stat: &XStat, plane: &XPlane) -> String {
    let name = match plane.stat_metadata.get(&stat.metadata_id) {
        Some(metadata) if plain(&metadata.name) => metadata.name.clone(),
        Some(metadata) => format!("{:?}", metadata.name),
        None => format!("<unknown {}>", stat.metadata_id),
    };
    let value = match &stat.value {
        None => "unset".to_owned(),
        Some(Value::DoubleValue(value)) if value.is_nan() => format!("f64:nan:{:016x}", value.to_bits()),
        Some(Value::DoubleValue(value)) => format!("f64:{value:?}"),
        Some(Value::Uint64Value(value)) => format!("u64:{value}"),
        Some(Value::Int64Value(value)) => format!("i64:{value}"),
        Some(Value::StrValue(value)) => format!("str:{value:?}"),
        Some(Value::BytesValue(value)) => format!("bytes:{value:02x?}"),
        Some(Value::RefValue(id)) => {
            let text = i64::try_from(*id).ok().and_then(|id| plane.stat_metadata.get(&id));
            text.map_or_else(|| format!("ref:<unknown {id}>"), |text| format!("ref:{:?}", text.name))
        }
    };
    format!("{name}={value}")
}

/// Whether a name can stand without quotes and cannot be taken for something else.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.')
}
