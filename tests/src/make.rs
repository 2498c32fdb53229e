//! Spaces written down by name: the ids of metadata are given out in order of first use.

use std::collections::BTreeMap;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata};

/// A plane in the making.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    plane: XPlane,
}

impl Plane {
    /// A plane of this name, with nothing in it.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { plane: XPlane { name: name.into(), ..Default::default() } }
    }

    /// Adds a line; the events that follow go there.
    #[must_use]
    pub fn line(mut self, id: i64, name: &str, timestamp_ns: i64) -> Self {
        self.plane.lines.push(XLine { id, name: name.into(), timestamp_ns, ..Default::default() });
        self
    }

    /// Adds an event to the last line; times in picoseconds.
    ///
    /// # Panics
    ///
    /// Panics if there is no line.
    #[must_use]
    pub fn event(self, name: &str, offset_ps: i64, duration_ps: i64) -> Self {
        self.push(name, Data::OffsetPs(offset_ps), duration_ps)
    }

    /// Adds an aggregated event to the last line; the duration in picoseconds.
    ///
    /// # Panics
    ///
    /// Panics if there is no line.
    #[must_use]
    pub fn aggregated(self, name: &str, count: i64, duration_ps: i64) -> Self {
        self.push(name, Data::NumOccurrences(count), duration_ps)
    }

    /// Adds a stat to the last event.
    ///
    /// # Panics
    ///
    /// Panics if there is no event.
    #[must_use]
    pub fn stat(mut self, name: &str, value: Value) -> Self {
        let metadata_id = self.name(name);
        let event = self.plane.lines.last_mut().and_then(|line| line.events.last_mut()).expect("an event");
        event.stats.push(XStat { metadata_id, value: Some(value) });
        self
    }

    /// Adds a stat to the last event that refers to a string.
    ///
    /// # Panics
    ///
    /// Panics if there is no event.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        let id = self.name(text).try_into().expect("ids are positive");
        self.stat(name, Value::RefValue(id))
    }

    /// Adds a stat to the plane.
    #[must_use]
    pub fn plane_stat(mut self, name: &str, value: Value) -> Self {
        let metadata_id = self.name(name);
        self.plane.stats.push(XStat { metadata_id, value: Some(value) });
        self
    }

    /// Changes the metadata of the events of this name, which need not exist.
    #[must_use]
    pub fn kind(mut self, name: &str, change: impl FnOnce(&mut XEventMetadata)) -> Self {
        let id = self.kind_id(name);
        change(self.plane.event_metadata.entry(id).or_default());
        self
    }

    /// The plane as a message.
    #[must_use]
    pub fn build(self) -> XPlane {
        self.plane
    }

    /// Adds an event to the last line.
    fn push(mut self, name: &str, data: Data, duration_ps: i64) -> Self {
        let metadata_id = self.kind_id(name);
        let line = self.plane.lines.last_mut().expect("a line before its events");
        line.events.push(XEvent { metadata_id, data: Some(data), duration_ps, stats: vec![] });
        self
    }

    /// The id of the event metadata of this name.
    fn kind_id(&mut self, name: &str) -> i64 {
        let table = &mut self.plane.event_metadata;
        if let Some((&id, _)) = table.iter().find(|(_, kind)| kind.name == name) {
            return id;
        }
        let id = next_id(table);
        table.insert(id, XEventMetadata { id, name: name.into(), ..Default::default() });
        id
    }

    /// The id of the stat metadata of this name.
    fn name(&mut self, name: &str) -> i64 {
        let table = &mut self.plane.stat_metadata;
        if let Some((&id, _)) = table.iter().find(|(_, stat)| stat.name == name) {
            return id;
        }
        let id = next_id(table);
        table.insert(id, XStatMetadata { id, name: name.into(), ..Default::default() });
        id
    }
}

/// A space of these planes.
#[must_use]
pub fn space(planes: impl IntoIterator<Item = Plane>) -> XSpace {
    XSpace { planes: planes.into_iter().map(Plane::build).collect(), ..Default::default() }
}

fn next_id<T>(table: &BTreeMap<i64, T>) -> i64 {
    table.last_key_value().map_or(1, |(&id, _)| id + 1)
}
