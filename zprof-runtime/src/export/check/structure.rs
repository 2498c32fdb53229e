//! The structure of an XSpace: fields and their types, strings, and ids that must mean something.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::report::Report;
use super::{FindingKind, survive};
use crate::Result;
use crate::export::text::open_character;
use crate::export::timeline::text;
use crate::xspace::names::{PROFILE_START_TIME, PROFILE_STOP_TIME, TASK_ENVIRONMENT};
use crate::xspace::window::{Cursor, Extent, PIECE, Window, Wire};
use crate::xspace::wire::wide;

/// Size from which on protobuf libraries refuse a message.
const MAX_SIZE: u64 = 1 << 31;
/// Events after which TSL's trace-viewer JSON stops, before its limit was raised.
const MAX_EVENTS: u64 = 1_000_000;
/// Producers, and consumers, that are remembered.
const MAX_FLOWS: usize = 1 << 19;
/// An id by which a producer or consumer says that it has none.
const NO_FLOW: u64 = u64::MAX;
/// Prefixes of device planes, whose ids are processes in trace viewers.
const DEVICES: [&str; 3] = ["/device:GPU:", "/device:TPU:", "/device:CUSTOM:"];

/// Start and end of the session, in nanoseconds since the Unix epoch, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Session {
    pub(super) start_ns: Option<u64>,
    pub(super) stop_ns: Option<u64>,
}

/// What a field must hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Double,
    Text,
    Bytes,
    /// Numbers, one by one or packed.
    Ints,
}

/// A message: what it is called, and its fields.
struct Spec {
    what: &'static str,
    fields: &'static [(u32, Type)],
}

const SPACE: Spec =
    Spec { what: "file", fields: &[(1, Type::Bytes), (2, Type::Text), (3, Type::Text), (4, Type::Text)] };
const PLANE: Spec = Spec {
    what: "plane",
    fields: &[(1, Type::Int), (2, Type::Text), (3, Type::Bytes), (4, Type::Bytes), (5, Type::Bytes), (6, Type::Bytes)],
};
const LINE: Spec = Spec {
    what: "line",
    fields: &[
        (1, Type::Int),
        (2, Type::Text),
        (3, Type::Int),
        (4, Type::Bytes),
        (9, Type::Int),
        (10, Type::Int),
        (11, Type::Text),
    ],
};
const EVENT: Spec =
    Spec { what: "event", fields: &[(1, Type::Int), (2, Type::Int), (3, Type::Int), (4, Type::Bytes), (5, Type::Int)] };
const STAT: Spec = Spec {
    what: "stat",
    fields: &[
        (1, Type::Int),
        (2, Type::Double),
        (3, Type::Int),
        (4, Type::Int),
        (5, Type::Text),
        (6, Type::Bytes),
        (7, Type::Int),
    ],
};
const ENTRY: Spec = Spec { what: "map entry", fields: &[(1, Type::Int), (2, Type::Bytes)] };
const EVENT_METADATA: Spec = Spec {
    what: "event metadata",
    fields: &[(1, Type::Int), (2, Type::Text), (3, Type::Bytes), (4, Type::Text), (5, Type::Bytes), (6, Type::Ints)],
};
const STAT_METADATA: Spec = Spec { what: "stat metadata", fields: &[(1, Type::Int), (2, Type::Text), (3, Type::Text)] };

/// A field of the right type.
#[derive(Clone, Copy)]
enum Given {
    Number(u64),
    Body(Extent),
}

/// Checks the structure, and finds the times of the session.
pub(super) fn check(window: &mut Window<'_>, report: &mut Report) -> Result<Session> {
    let size = window.whole().len;
    if size >= MAX_SIZE {
        let reason = "protobuf libraries, TSL and XProf among them, read less than 2 GiB";
        report.add(FindingKind::TooLarge, None, format_args!("the file has {size} bytes; {reason}"));
    }
    let mut space = Space::default();
    let mut known = size == 0;
    let whole = window.whole();
    let walked = each_field(window, &SPACE, whole, report, |window, report, number, given| {
        known = true;
        match (number, given) {
            (1, Given::Body(body)) => {
                let walked = space.plane(window, body, report);
                survive(walked, report)?;
                (report.plane, report.line, report.event) = (None, None, None);
            }
            (2, Given::Body(body)) => {
                let told = text(window, body)?;
                report.add(FindingKind::Reported, Some(body.at), format_args!("the profiler reported: {told}"));
            }
            (3, Given::Body(body)) => {
                let told = text(window, body)?;
                report.add(FindingKind::Reported, Some(body.at), format_args!("the profiler warned: {told}"));
            }
            _ => {}
        }
        Ok(())
    });
    if survive(walked, report)?.is_some() && !known {
        let message = "no plane, error, warning or host name in the whole file";
        report.add(FindingKind::Malformed, Some(0), format_args!("{message}"));
    }
    space.finish(report);
    Ok(space.session)
}

#[derive(Default)]
struct Space {
    session: Session,
    planes: HashSet<String>,
    devices: HashSet<(usize, i64)>,
    shown_events: u64,
    producers: HashSet<(u64, u64)>,
    /// Consumers that tell no other process: where the first of each is.
    consumers: HashMap<(u64, u64), (u64, String)>,
}

/// The metadata of a plane.
#[derive(Default)]
struct Known {
    /// Ids of event metadata, and whether it has a name.
    events: HashMap<i64, bool>,
    stats: HashSet<i64>,
    marks: Marks,
}

/// Ids of stats that are looked at.
#[derive(Default)]
struct Marks {
    producer_type: Option<i64>,
    producer: Option<i64>,
    consumer_type: Option<i64>,
    consumer: Option<i64>,
    process: Option<i64>,
    start: Option<i64>,
    stop: Option<i64>,
}

/// Ids of a plane's lines.
#[derive(Default)]
struct Lines {
    shown: HashSet<i64>,
    cut: HashMap<u32, i64>,
}

/// What of an event's flow its stats say.
#[derive(Default)]
struct Flow {
    producer_type: u64,
    producer: Option<u64>,
    consumer_type: u64,
    consumer: Option<u64>,
    elsewhere: bool,
}

impl Space {
    fn plane(&mut self, window: &mut Window<'_>, body: Extent, report: &mut Report) -> Result<()> {
        report.planes += 1;
        let (mut id, mut name, mut stats) = (0, String::new(), Vec::new());
        let mut known = Known::default();
        each_field(window, &PLANE, body, report, |window, report, number, given| {
            match (number, given) {
                (1, Given::Number(value)) => id = signed(value),
                (2, Given::Body(extent)) => name = text(window, extent)?,
                (5, Given::Body(entry)) => known.stat_metadata(window, entry, report)?,
                (6, Given::Body(stat)) => stats.push(stat),
                _ => {}
            }
            Ok(())
        })?;
        self.plane_name(&name, id, body, report);
        report.plane = Some(name.clone());
        // Event metadata has stats, and events have metadata: so one walk each.
        each_body(window, &PLANE, body, 4, |window, entry| known.event_metadata(window, entry, report))?;
        for stat in stats {
            let (id, value) = known.stat(window, stat, report)?;
            if name == TASK_ENVIRONMENT {
                if Some(id) == known.marks.start {
                    self.session.start_ns = value;
                } else if Some(id) == known.marks.stop {
                    self.session.stop_ns = value;
                }
            }
        }
        let mut lines = Lines::default();
        each_body(window, &PLANE, body, 3, |window, line| self.line(window, line, &known, &mut lines, report))?;
        Ok(())
    }

    fn plane_name(&mut self, name: &str, id: i64, body: Extent, report: &mut Report) {
        if !self.planes.insert(name.to_owned()) {
            let message = format!("a second plane is called `{name}`");
            report.add(FindingKind::RepeatedPlane, Some(body.at), format_args!("{message}"));
        }
        let device = DEVICES.iter().position(|prefix| name.starts_with(prefix));
        if device.is_some_and(|device| !self.devices.insert((device, id))) {
            let message = format!("`{name}` has the id {id}, as another device has");
            report.add(FindingKind::RepeatedDevice, Some(body.at), format_args!("{message}"));
        }
    }

    fn line(
        &mut self,
        window: &mut Window<'_>,
        body: Extent,
        known: &Known,
        lines: &mut Lines,
        report: &mut Report,
    ) -> Result<()> {
        report.lines += 1;
        let (mut id, mut display_id, mut name, mut display_name) = (0, 0, String::new(), String::new());
        each_field(window, &LINE, body, report, |window, _, number, given| {
            match (number, given) {
                (1, Given::Number(value)) => id = signed(value),
                (2, Given::Body(extent)) => name = text(window, extent)?,
                (10, Given::Number(value)) => display_id = signed(value),
                (11, Given::Body(extent)) => display_name = text(window, extent)?,
                _ => {}
            }
            Ok(())
        })?;
        let shown_id = if display_id == 0 { id } else { display_id };
        let shown_name = if display_name.is_empty() { name } else { display_name };
        report.line = Some(if shown_name.is_empty() { shown_id.to_string() } else { shown_name });
        lines.check(shown_id, body, report);
        let before = report.events;
        each_body(window, &LINE, body, 4, |window, event| {
            report.event = Some(report.events - before);
            report.events += 1;
            self.event(window, event, known, report)
        })?;
        report.event = None;
        let shown = report.plane.as_deref().is_some_and(|plane| plane.starts_with("/device:") || plane == "/host:CPU");
        if shown {
            self.shown_events += report.events - before;
        }
        report.line = None;
        Ok(())
    }

    fn event(&mut self, window: &mut Window<'_>, body: Extent, known: &Known, report: &mut Report) -> Result<()> {
        let mut id = 0;
        let mut flow = Flow::default();
        each_field(window, &EVENT, body, report, |window, report, number, given| {
            match (number, given) {
                (1, Given::Number(value)) => id = signed(value),
                (4, Given::Body(stat)) => {
                    let (stat, value) = known.stat(window, stat, report)?;
                    flow.note(&known.marks, stat, value);
                }
                _ => {}
            }
            Ok(())
        })?;
        match known.events.get(&id) {
            None => {
                let message = format!("the event's metadata {id} does not exist");
                report.add(FindingKind::UnknownEvent, Some(body.at), format_args!("{message}"));
            }
            Some(false) => {
                let message = format!("the event's metadata {id} has no name");
                report.add(FindingKind::Nameless, Some(body.at), format_args!("{message}"));
            }
            Some(true) => {}
        }
        self.flow(&flow, body.at, report);
        Ok(())
    }

    fn flow(&mut self, flow: &Flow, at: u64, report: &Report) {
        if let Some(id) = flow.producer {
            if self.producers.len() < MAX_FLOWS {
                self.producers.insert((flow.producer_type, id));
            }
        }
        if let Some(id) = flow.consumer.filter(|id| *id != NO_FLOW && !flow.elsewhere) {
            if self.consumers.len() < MAX_FLOWS {
                if let Entry::Vacant(free) = self.consumers.entry((flow.consumer_type, id)) {
                    // The names of lines would be many; the byte tells the place.
                    free.insert((at, report.plane.clone().unwrap_or_default()));
                }
            }
        }
    }

    /// What can only be said of the whole.
    fn finish(&self, report: &mut Report) {
        if report.events == 0 && !report.has(FindingKind::Malformed) {
            report.add(FindingKind::Empty, None, format_args!("the space holds no event"));
        }
        if self.shown_events > MAX_EVENTS {
            let count = self.shown_events;
            let message = format!("{count} events are shown; TSL's trace-viewer JSON stops at {MAX_EVENTS}");
            report.add(FindingKind::TooManyEvents, None, format_args!("{message}"));
        }
        report.flows_unchecked = self.producers.len() >= MAX_FLOWS || self.consumers.len() >= MAX_FLOWS;
        if report.flows_unchecked {
            return;
        }
        let alone = self.consumers.iter().filter(|(flow, _)| !self.producers.contains(flow));
        let mut alone: Vec<_> = alone.collect();
        alone.sort_by_key(|(_, (at, _))| *at);
        for ((kind, id), (at, plane)) in alone {
            report.plane = Some(plane.clone());
            let message = format!(
                "no producer has the type {kind} and id {id} that a consumer names; a profile that keeps only the latest, or \
                 had no room, may have lost it"
            );
            report.add(FindingKind::DanglingFlow, Some(*at), format_args!("{message}"));
        }
        report.plane = None;
    }
}

impl Lines {
    fn check(&mut self, id: i64, body: Extent, report: &mut Report) {
        if !self.shown.insert(id) {
            report.add(FindingKind::RepeatedLine, Some(body.at), format_args!("a second line shows the id {id}"));
            return;
        }
        let cut = id as u32; // what trace-viewer JSON keeps
        if let Some(other) = self.cut.insert(cut, id) {
            let message = format!("the ids {other} and {id} are both {cut} in 32 bits");
            report.add(FindingKind::ThreadId, Some(body.at), format_args!("{message}"));
        }
    }
}

impl Known {
    fn stat_metadata(&mut self, window: &mut Window<'_>, entry: Extent, report: &mut Report) -> Result<()> {
        let (mut id, mut name) = (0, Extent::default());
        let key = map_entry(window, entry, &STAT_METADATA, report, |_, _, number, given| {
            match (number, given) {
                (1, Given::Number(value)) => id = signed(value),
                (2, Given::Body(extent)) => name = extent,
                _ => {}
            }
            Ok(())
        })?;
        let is_new = self.stats.insert(key);
        metadata_id("stat", key, id, is_new, entry, report);
        let marks = &mut self.marks;
        if name.len <= wide(PROFILE_START_TIME.len()) {
            match window.piece(name)? {
                b"_pt" => marks.producer_type = Some(key),
                b"_p" => marks.producer = Some(key),
                b"_ct" => marks.consumer_type = Some(key),
                b"_c" => marks.consumer = Some(key),
                b"_pid" => marks.process = Some(key),
                name if name == PROFILE_START_TIME.as_bytes() => marks.start = Some(key),
                name if name == PROFILE_STOP_TIME.as_bytes() => marks.stop = Some(key),
                _ => {}
            }
        }
        Ok(())
    }

    fn event_metadata(&mut self, window: &mut Window<'_>, entry: Extent, report: &mut Report) -> Result<()> {
        let (mut id, mut has_name) = (0, false);
        let key = map_entry(window, entry, &EVENT_METADATA, report, |window, report, number, given| {
            match (number, given) {
                (1, Given::Number(value)) => id = signed(value),
                (2 | 4, Given::Body(extent)) => has_name |= extent.len > 0,
                (5, Given::Body(stat)) => _ = self.stat(window, stat, report)?,
                _ => {}
            }
            Ok(())
        })?;
        let is_new = self.events.insert(key, has_name).is_none();
        metadata_id("event", key, id, is_new, entry, report);
        Ok(())
    }

    /// Checks a stat; returns the id of its name, and its value if that is a number.
    fn stat(&self, window: &mut Window<'_>, body: Extent, report: &mut Report) -> Result<(i64, Option<u64>)> {
        let (mut id, mut number_value, mut text_id) = (0, None, None);
        each_field(window, &STAT, body, report, |_, _, number, given| {
            match (number, given) {
                (1, Given::Number(value)) => id = signed(value),
                (3 | 4, Given::Number(value)) => (number_value, text_id) = (Some(value), None),
                (7, Given::Number(value)) => (number_value, text_id) = (None, Some(signed(value))),
                _ => (number_value, text_id) = (None, None),
            }
            Ok(())
        })?;
        if !self.stats.contains(&id) {
            let message = format!("the stat's metadata {id} does not exist");
            report.add(FindingKind::UnknownStat, Some(body.at), format_args!("{message}"));
        }
        if let Some(text_id) = text_id.filter(|text_id| !self.stats.contains(text_id)) {
            let message = format!("the stat's value is the text {text_id}, which does not exist");
            report.add(FindingKind::UnknownText, Some(body.at), format_args!("{message}"));
        }
        Ok((id, number_value))
    }
}

impl Flow {
    fn note(&mut self, marks: &Marks, stat: i64, value: Option<u64>) {
        let Some(value) = value else { return };
        let stat = Some(stat);
        if stat == marks.producer_type {
            self.producer_type = value;
        } else if stat == marks.producer {
            self.producer = Some(value);
        } else if stat == marks.consumer_type {
            self.consumer_type = value;
        } else if stat == marks.consumer {
            self.consumer = Some(value);
        } else if stat == marks.process {
            self.elsewhere = true;
        }
    }
}

fn metadata_id(what: &str, key: i64, id: i64, is_new: bool, entry: Extent, report: &mut Report) {
    if id != key {
        let message = format!("the {what} metadata {key} says that its id is {id}");
        report.add(FindingKind::MetadataId, Some(entry.at), format_args!("{message}"));
    }
    if !is_new {
        let message = format!("the {what} metadata {key} comes again; the last counts");
        report.add(FindingKind::RepeatedMetadata, Some(entry.at), format_args!("{message}"));
    }
}

/// Reads a map's entry: gives its key, and calls back with each field of its value, which a file may split.
fn map_entry<'s>(
    window: &mut Window<'s>,
    entry: Extent,
    value: &Spec,
    report: &mut Report,
    mut each: impl FnMut(&mut Window<'s>, &mut Report, u32, Given) -> Result<()>,
) -> Result<i64> {
    let mut key = 0;
    each_field(window, &ENTRY, entry, report, |window, report, number, given| {
        match (number, given) {
            (1, Given::Number(number)) => key = signed(number),
            (2, Given::Body(body)) => each_field(window, value, body, report, &mut each)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(key)
}

/// Calls back with each field of a message that is as it should be, and reports the others.
fn each_field<'s>(
    window: &mut Window<'s>,
    spec: &Spec,
    body: Extent,
    report: &mut Report,
    mut each: impl FnMut(&mut Window<'s>, &mut Report, u32, Given) -> Result<()>,
) -> Result<()> {
    let mut fields = Cursor::new(spec.what, body);
    while let Some(field) = window.field(&mut fields)? {
        let number = field.number;
        let Some((_, wanted)) = spec.fields.iter().find(|(known, _)| *known == number) else {
            let message = format!("a {} has no field {number}", spec.what);
            report.add(FindingKind::UnknownField, Some(body.at), format_args!("{message}"));
            continue;
        };
        let given = match (wanted, field.wire) {
            (Type::Int | Type::Ints, Wire::Varint(value)) | (Type::Double, Wire::Fixed64(value)) => {
                Given::Number(value)
            }
            (Type::Bytes | Type::Ints, Wire::Bytes(body)) => Given::Body(body),
            (Type::Text, Wire::Bytes(body)) => {
                check_text(window, spec, number, body, report)?;
                Given::Body(body)
            }
            _ => {
                let message = format!("field {number} of a {} has another type than the format says", spec.what);
                report.add(FindingKind::WrongType, Some(body.at), format_args!("{message}"));
                continue;
            }
        };
        each(window, report, number, given)?;
    }
    Ok(())
}

/// Calls back with each message in the field `number`, which was checked before.
fn each_body<'s>(
    window: &mut Window<'s>,
    spec: &Spec,
    body: Extent,
    number: u32,
    mut each: impl FnMut(&mut Window<'s>, Extent) -> Result<()>,
) -> Result<()> {
    let mut fields = Cursor::new(spec.what, body);
    while let Some(field) = window.field(&mut fields)? {
        if let Wire::Bytes(body) = field.wire {
            if field.number == number {
                each(window, body)?;
            }
        }
    }
    Ok(())
}

fn check_text(window: &mut Window<'_>, spec: &Spec, number: u32, body: Extent, report: &mut Report) -> Result<()> {
    let Extent { mut at, mut len } = body;
    let (mut broken, mut nul) = (None, None);
    while len > 0 {
        let piece = window.piece(Extent { at, len })?;
        let done = if len > PIECE { piece.len() - open_character(piece) } else { piece.len() };
        let piece = &piece[..done];
        if let (None, Err(error)) = (broken, std::str::from_utf8(piece)) {
            broken = Some(at + wide(error.valid_up_to()));
        }
        nul = nul.or_else(|| piece.iter().position(|byte| *byte == 0).map(|place| at + wide(place)));
        at += wide(done);
        len -= wide(done);
    }
    let what = spec.what;
    if broken.is_some() {
        report.add(FindingKind::NotUtf8, broken, format_args!("string {number} of a {what} is not UTF-8"));
    }
    if nul.is_some() {
        report.add(FindingKind::Nul, nul, format_args!("string {number} of a {what} holds a NUL"));
    }
    Ok(())
}

/// An int64 field: the varint holds its two's complement.
fn signed(value: u64) -> i64 {
    value as i64 // keeps every bit
}
