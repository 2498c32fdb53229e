//! Takes the lines of another host plane into the plane of the program's own scopes.
//!
//! The other plane comes from a plugin's recorder in the same process, so a line of the same id is the same thread,
//! and its events belong between ours. Where they do not nest with ours, the id was a coincidence or the clocks differ,
//! and the line stays one of its own under another id.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use zprof_proto::prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XLine, XPlane, XStat};

use super::names;
use super::writer::{Line, Plane, put_map_entry};

/// Ids of the other plane, as they are in ours.
#[derive(Debug, Default)]
struct Ids {
    events: HashMap<i64, i64, FixedState>,
    stats: HashMap<i64, i64, FixedState>,
    texts: HashMap<u64, u64, FixedState>,
}

impl Plane {
    /// Takes over lines, names and stats of `other`, whose lines count from the session's start. `own_id` gives ids
    /// that no thread has.
    pub(crate) fn adopt(&mut self, other: XPlane, mut own_id: impl FnMut() -> u64) {
        let ids = self.adopt_names(&other);
        let present = std::mem::take(&mut self.stat_names);
        for stat in &other.stats {
            let name = other.stat_metadata.get(&stat.metadata_id).map_or("", |metadata| metadata.name.as_str());
            if !present.iter().any(|known| known == name) {
                let stat = ids.stat(stat.clone());
                self.stats.message(6, &stat.encode_to_vec());
            }
        }
        self.stat_names = present;
        for line in other.lines {
            self.adopt_line(line, &ids, &mut own_id);
        }
    }

    fn adopt_names(&mut self, other: &XPlane) -> Ids {
        let mut ids = Ids::default();
        for (&id, metadata) in &other.stat_metadata {
            let ours = self.names.id(&metadata.name);
            ids.stats.insert(id, signed(ours));
            ids.texts.insert(u64::from_ne_bytes(id.to_ne_bytes()), ours);
        }
        // Names without metadata read as empty ones, and stay so.
        for (&id, metadata) in &other.event_metadata {
            let ours = self.new_kind();
            let mut metadata = metadata.clone();
            metadata.id = signed(ours);
            metadata.child_id.clear();
            metadata.stats = metadata.stats.into_iter().map(|stat| ids.stat(stat)).collect();
            let encoded = metadata.encode_to_vec();
            let put = |out: &mut Vec<u8>| out.extend_from_slice(&encoded);
            self.is_broken |= put_map_entry(&mut self.event_metadata, 4, ours, encoded.len(), put).is_err();
            ids.events.insert(id, signed(ours));
        }
        ids
    }

    fn adopt_line(&mut self, mut line: XLine, ids: &Ids, own_id: &mut impl FnMut() -> u64) {
        line.events.iter_mut().for_each(|event| ids.event(event));
        let id = u64::from_ne_bytes(line.id.to_ne_bytes());
        if let Some(ours) = self.line_mut(id) {
            // Our lines count from the session's start itself.
            let shift = line.timestamp_ns.saturating_mul(1000);
            let moved: Vec<XEvent> = line.events.iter().map(|event| moved(event, shift)).collect();
            if ours.nests_with(&moved.iter().map(times_of).collect::<Vec<_>>()) {
                for event in &moved {
                    ours.push_encoded(&event.encode_to_vec(), times_of(event));
                }
                return;
            }
            let name = signed(self.names.id(names::TID));
            for event in &mut line.events {
                event.stats.push(XStat { metadata_id: name, value: Some(Value::Int64Value(line.id)) });
            }
            line.id = signed(own_id());
        }
        let name = if line.display_name.is_empty() { line.name.clone() } else { line.display_name.clone() };
        let mut adopted = Line::adopted(u64::from_ne_bytes(line.id.to_ne_bytes()), name, head_of(&line));
        for event in &line.events {
            adopted.push_encoded(&event.encode_to_vec(), times_of(event));
        }
        self.push(adopted);
    }
}

/// The fields of a line that stand before its events.
fn head_of(line: &XLine) -> Vec<u8> {
    let (name, display_name) = (line.name.clone(), line.display_name.clone());
    XLine { events: Vec::new(), name, display_name, ..*line }.encode_to_vec()
}

/// The event, later by `shift` ps.
fn moved(event: &XEvent, shift: i64) -> XEvent {
    let mut event = event.clone();
    if let Some(Data::OffsetPs(offset)) = &mut event.data {
        *offset = offset.saturating_add(shift);
    }
    event
}

/// Offset and duration in ps, for sorting; an aggregated event has the offset 0.
fn times_of(event: &XEvent) -> (u64, u64) {
    let offset = if let Some(Data::OffsetPs(offset)) = event.data { offset } else { 0 };
    (u64::from_ne_bytes(offset.to_ne_bytes()), u64::from_ne_bytes(event.duration_ps.to_ne_bytes()))
}

impl Ids {
    /// The stat with our ids. What has no name in the other plane gets none in ours: id 0 is never given.
    fn stat(&self, stat: XStat) -> XStat {
        let metadata_id = self.stats.get(&stat.metadata_id).copied().unwrap_or(0);
        let value = match stat.value {
            Some(Value::RefValue(id)) => self.texts.get(&id).map(|&id| Value::RefValue(id)),
            value => value,
        };
        XStat { metadata_id, value }
    }

    fn event(&self, event: &mut XEvent) {
        event.metadata_id = self.events.get(&event.metadata_id).copied().unwrap_or(0);
        for stat in &mut event.stats {
            *stat = self.stat(std::mem::take(stat));
        }
    }
}

/// An id of our tables, which count up from 1, as XSpace has it.
fn signed(id: u64) -> i64 {
    i64::from_ne_bytes(id.to_ne_bytes())
}
