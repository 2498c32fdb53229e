//! Walks over the messages of an XSpace: planes, line headers, names, events and stats, each as often as wanted.
//!
//! A walk reads fields in any order and calls back once for each message, in the order of the file. What is repeated
//! where one is meant counts as protobuf says: the last one wins. Unknown fields, and known ones of a wrong wire type,
//! are skipped. Texts stay in the source: a walk gives their [`Extent`]s.
//!
//! | message | fields read here |
//! |---|---|
//! | XSpace | planes 1 |
//! | XPlane | id 1, name 2, lines 3, event_metadata 4, stat_metadata 5, stats 6 |
//! | XLine | id 1, name 2, timestamp_ns 3, events 4, display_id 10, display_name 11 |
//! | XEvent | metadata_id 1, offset_ps 2, duration_ps 3, stats 4, num_occurrences 5 |
//! | XStat | metadata_id 1, double 2, uint64 3, int64 4, str 5, bytes 6, ref 7 |
//! | map entry | key 1, value 2 |
//! | XEventMetadata | name 2, display_name 4, stats 5 |
//! | XStatMetadata | name 2 |

use super::window::{Cursor, Extent, Field, Window, Wire, invalid};
use super::wire::{BYTES, FIXED64, VARINT, get_varint, wide};
use crate::Result;

/// A plane without its content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaneHeader {
    pub(crate) body: Extent,
    pub(crate) id: i64,
    pub(crate) name: Extent,
}

/// A line without its events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineHeader {
    pub(crate) body: Extent,
    /// The id to show: display_id where it is set, else id.
    pub(crate) shown_id: i64,
    /// The name to show: display_name where it is not empty, else name.
    pub(crate) shown_name: Extent,
    pub(crate) timestamp_ns: i64,
    pub(crate) event_count: u64,
}

/// Metadata that events share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventMetadata {
    /// Key of the map, which is what events refer to.
    pub(crate) id: i64,
    pub(crate) name: Extent,
    pub(crate) display_name: Extent,
    /// The entry of the map, for [`each_metadata_stat`].
    pub(crate) entry: Extent,
}

/// An event without its stats.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    pub(crate) body: Extent,
    pub(crate) metadata_id: i64,
    /// Start against the line's timestamp; 0 for an aggregated event.
    pub(crate) offset_ps: i64,
    pub(crate) duration_ps: i64,
    pub(crate) has_stats: bool,
    /// How often an aggregated event, which has no place in time, happened.
    pub(crate) occurrences: Option<i64>,
}

/// The value of a stat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Unset,
    Double(f64),
    Uint(u64),
    Int(i64),
    Str(Extent),
    Bytes(Extent),
    /// Id of the stat metadata whose name is the value.
    Ref(i64),
}

/// One stat of an event or of event metadata.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stat {
    /// Id of the stat metadata whose name is the stat's.
    pub(crate) metadata_id: i64,
    pub(crate) value: Value,
}

/// Walks over the planes of the whole file.
///
/// # Errors
/// `InvalidData` also for a file of which no field is one of an XSpace: any protobuf of another type would pass else,
/// and some texts. An empty file is an empty XSpace.
pub(crate) fn each_plane<'s>(
    window: &mut Window<'s>,
    mut each: impl FnMut(&mut Window<'s>, PlaneHeader) -> Result<()>,
) -> Result<()> {
    let mut space = Cursor::new("file", window.whole());
    let mut known = window.whole().len == 0;
    while let Some(field) = window.field(&mut space)? {
        let Wire::Bytes(body) = field.wire else { continue };
        known |= matches!(field.number, 1..=4);
        if field.number != 1 {
            continue;
        }
        let mut plane = PlaneHeader { body, ..PlaneHeader::default() };
        let mut fields = Cursor::new("plane", body);
        while let Some(field) = window.field(&mut fields)? {
            match field {
                Field { number: 1, wire: Wire::Varint(id) } => plane.id = signed(id),
                Field { number: 2, wire: Wire::Bytes(name) } => plane.name = name,
                _ => {}
            }
        }
        each(window, plane)?;
    }
    if known {
        Ok(())
    } else {
        Err(invalid(0, format_args!("no plane, error, warning or host name in the whole file")))
    }
}

/// Walks over what the profiler says of the space: whether it is an error, or a warning, and the text.
pub(crate) fn each_note<'s>(
    window: &mut Window<'s>,
    mut each: impl FnMut(&mut Window<'s>, bool, Extent) -> Result<()>,
) -> Result<()> {
    let mut space = Cursor::new("file", window.whole());
    while let Some(field) = window.field(&mut space)? {
        if let Field { number: number @ (2 | 3), wire: Wire::Bytes(text) } = field {
            each(window, number == 2, text)?;
        }
    }
    Ok(())
}

/// Walks over the lines of a plane. Each is read to its end before it is given, as its header may follow its events.
pub(crate) fn each_line<'s>(
    window: &mut Window<'s>,
    plane: Extent,
    mut each: impl FnMut(&mut Window<'s>, LineHeader) -> Result<()>,
) -> Result<()> {
    each_line_with(window, plane, |_, (), _| Ok(()), |window, header, ()| each(window, header))
}

/// The same with something noted of each line's events, of which there are no stats here.
pub(crate) fn each_line_with<'s, T: Default>(
    window: &mut Window<'s>,
    plane: Extent,
    mut note: impl FnMut(&mut Window<'s>, &mut T, Extent) -> Result<()>,
    mut each: impl FnMut(&mut Window<'s>, LineHeader, T) -> Result<()>,
) -> Result<()> {
    each_message(window, "plane", plane, 3, |window, body| {
        let mut line = LineHeader { body, ..LineHeader::default() };
        let mut noted = T::default();
        let (mut id, mut display_id, mut name, mut display_name) = (0, 0, Extent::default(), Extent::default());
        let mut fields = Cursor::new("line", body);
        while let Some(field) = window.field(&mut fields)? {
            match field {
                Field { number: 4, wire: Wire::Bytes(event) } => {
                    line.event_count += 1;
                    note(window, &mut noted, event)?;
                }
                Field { number: 1, wire: Wire::Varint(value) } => id = signed(value),
                Field { number: 2, wire: Wire::Bytes(text) } => name = text,
                Field { number: 3, wire: Wire::Varint(value) } => line.timestamp_ns = signed(value),
                Field { number: 10, wire: Wire::Varint(value) } => display_id = signed(value),
                Field { number: 11, wire: Wire::Bytes(text) } => display_name = text,
                _ => {}
            }
        }
        line.shown_id = if display_id != 0 { display_id } else { id };
        line.shown_name = if display_name.len != 0 { display_name } else { name };
        each(window, line, noted)
    })
}

/// Walks over the stat metadata of a plane: id and name. An id may come again; the last one counts.
pub(crate) fn each_stat_metadata<'s>(
    window: &mut Window<'s>,
    plane: Extent,
    mut each: impl FnMut(&mut Window<'s>, i64, Extent) -> Result<()>,
) -> Result<()> {
    each_message(window, "plane", plane, 5, |window, entry| {
        let mut name = Extent::default();
        let id = map_entry(window, entry, |window, value| {
            let mut fields = Cursor::new("stat metadata", value);
            while let Some(field) = window.field(&mut fields)? {
                if let Field { number: 2, wire: Wire::Bytes(text) } = field {
                    name = text;
                }
            }
            Ok(())
        })?;
        each(window, id, name)
    })
}

/// Walks over the event metadata of a plane. An id may come again; the last one counts.
pub(crate) fn each_event_metadata<'s>(
    window: &mut Window<'s>,
    plane: Extent,
    mut each: impl FnMut(&mut Window<'s>, &EventMetadata) -> Result<()>,
) -> Result<()> {
    each_message(window, "plane", plane, 4, |window, entry| {
        let mut metadata = EventMetadata { entry, ..EventMetadata::default() };
        metadata.id = map_entry(window, entry, |window, value| {
            let mut fields = Cursor::new("event metadata", value);
            while let Some(field) = window.field(&mut fields)? {
                match field {
                    Field { number: 2, wire: Wire::Bytes(text) } => metadata.name = text,
                    Field { number: 4, wire: Wire::Bytes(text) } => metadata.display_name = text,
                    _ => {}
                }
            }
            Ok(())
        })?;
        each(window, &metadata)
    })
}

/// Walks over the events of a line without reading them.
#[inline]
pub(crate) fn each_event_body<'s>(
    window: &mut Window<'s>,
    line: Extent,
    each: impl FnMut(&mut Window<'s>, Extent) -> Result<()>,
) -> Result<()> {
    each_message(window, "line", line, 4, each)
}

/// Walks over the events of a line.
#[inline]
pub(crate) fn each_event<'s>(
    window: &mut Window<'s>,
    line: Extent,
    mut each: impl FnMut(&mut Window<'s>, &Event) -> Result<()>,
) -> Result<()> {
    each_message(window, "line", line, 4, |window, body| {
        let event = read_event(window, body)?;
        each(window, &event)
    })
}

/// Reads an event without its stats.
#[inline]
pub(crate) fn read_event(window: &mut Window<'_>, body: Extent) -> Result<Event> {
    read_event_with(window, body, |_, _| Ok(()))
}

/// Reads an event, and calls back with the extent of each of its stats on the way.
#[inline]
pub(crate) fn read_event_with<'s>(
    window: &mut Window<'s>,
    body: Extent,
    mut each: impl FnMut(&mut Window<'s>, Extent) -> Result<()>,
) -> Result<Event> {
    let (mut event, done) = read_head(window, body);
    let mut fields = Cursor::new("event", Extent { at: body.at + done, len: body.len - done });
    while let Some(field) = window.field(&mut fields)? {
        match field {
            Field { number: 1, wire: Wire::Varint(value) } => event.metadata_id = signed(value),
            Field { number: 2, wire: Wire::Varint(value) } => {
                (event.offset_ps, event.occurrences) = (signed(value), None);
            }
            Field { number: 3, wire: Wire::Varint(value) } => event.duration_ps = signed(value),
            Field { number: 4, wire: Wire::Bytes(stat) } => {
                event.has_stats = true;
                each(window, stat)?;
            }
            // The other side of the oneof: an aggregated event has no offset.
            Field { number: 5, wire: Wire::Varint(value) } => {
                (event.offset_ps, event.occurrences) = (0, Some(signed(value)));
            }
            _ => {}
        }
    }
    Ok(event)
}

/// Reads what an event begins with as programs write it: id, offset and duration in this order, those that are not 0. Gives
/// also the bytes that this took; whatever follows is for the walk over its fields, as is all of it if it looks odd.
#[inline]
fn read_head(window: &Window<'_>, body: Extent) -> (Event, u64) {
    let mut event = Event { body, ..Event::default() };
    let Some(bytes) = window.near::<40>(body.at) else { return (event, 0) };
    let mut done = 0;
    for (key, value) in [(1, &mut event.metadata_id), (2, &mut event.offset_ps), (3, &mut event.duration_ps)] {
        if bytes[done] == key << 3 {
            let Some((number, len)) = get_varint(&bytes[done + 1..]) else { break };
            *value = signed(number);
            done += 1 + len; // at most 33 in all
        }
    }
    // Else it went beyond the event.
    if wide(done) <= body.len { (event, wide(done)) } else { (Event { body, ..Event::default() }, 0) }
}

/// Offset and duration of an event, read up to its first stat if they stand before it: in files that programs write they
/// do, and where they do not, both may be wrong.
#[inline]
pub(crate) fn read_times(window: &mut Window<'_>, body: Extent) -> Result<(i64, i64)> {
    let (head, done) = read_head(window, body);
    let is_whole = done == body.len;
    if is_whole || head.duration_ps != 0 && window.near(body.at + done).is_some_and(|[key]| *key == 4 << 3 | 2) {
        return Ok((head.offset_ps, head.duration_ps));
    }
    let event = read_event(window, body)?;
    Ok((event.offset_ps, event.duration_ps))
}

/// Walks over the stats of a plane.
pub(crate) fn each_plane_stat<'s>(
    window: &mut Window<'s>,
    plane: Extent,
    each: impl FnMut(&mut Window<'s>, &Stat) -> Result<()>,
) -> Result<()> {
    each_stat(window, "plane", plane, 6, each)
}

/// Walks over the stats of an event.
#[inline]
pub(crate) fn each_event_stat<'s>(
    window: &mut Window<'s>,
    event: Extent,
    each: impl FnMut(&mut Window<'s>, &Stat) -> Result<()>,
) -> Result<()> {
    each_stat(window, "event", event, 4, each)
}

/// Walks over the stats of event metadata, of which the map's entry is given.
pub(crate) fn each_metadata_stat<'s>(
    window: &mut Window<'s>,
    entry: Extent,
    mut each: impl FnMut(&mut Window<'s>, &Stat) -> Result<()>,
) -> Result<()> {
    map_entry(window, entry, |window, value| each_stat(window, "event metadata", value, 5, &mut each)).map(|_| ())
}

#[inline]
fn each_stat<'s>(
    window: &mut Window<'s>,
    what: &'static str,
    owner: Extent,
    number: u32,
    mut each: impl FnMut(&mut Window<'s>, &Stat) -> Result<()>,
) -> Result<()> {
    each_message(window, what, owner, number, |window, body| {
        let stat = read_stat(window, body)?;
        each(window, &stat)
    })
}

/// Reads a stat.
#[inline]
pub(crate) fn read_stat(window: &mut Window<'_>, body: Extent) -> Result<Stat> {
    if let Some(stat) = read_short_stat(window, body) {
        return Ok(stat);
    }
    let mut stat = Stat { metadata_id: 0, value: Value::Unset };
    let mut fields = Cursor::new("stat", body);
    while let Some(field) = window.field(&mut fields)? {
        match field {
            Field { number: 1, wire: Wire::Varint(value) } => stat.metadata_id = signed(value),
            Field { number: 2, wire: Wire::Fixed64(bits) } => stat.value = Value::Double(f64::from_bits(bits)),
            Field { number: 3, wire: Wire::Varint(value) } => stat.value = Value::Uint(value),
            Field { number: 4, wire: Wire::Varint(value) } => stat.value = Value::Int(signed(value)),
            Field { number: 5, wire: Wire::Bytes(text) } => stat.value = Value::Str(text),
            Field { number: 6, wire: Wire::Bytes(bytes) } => stat.value = Value::Bytes(bytes),
            Field { number: 7, wire: Wire::Varint(value) } => stat.value = Value::Ref(signed(value)),
            _ => {}
        }
    }
    Ok(stat)
}

/// A stat as programs write it: id and value, each once and in this order. `None` if it looks different.
#[inline]
fn read_short_stat(window: &Window<'_>, body: Extent) -> Option<Stat> {
    let bytes = window.near::<24>(body.at)?;
    if bytes[0] != 1 << 3 {
        return None;
    }
    let (id, id_len) = get_varint(&bytes[1..])?;
    let key_at = 1 + id_len; // at most 11
    let rest = &bytes[key_at + 1..];
    let key = bytes[key_at];
    let (value, len) = match key >> 3 {
        2 => (Value::Double(f64::from_bits(u64::from_le_bytes(*rest.first_chunk()?))), 8),
        number => {
            let (word, len) = get_varint(rest)?;
            let head = wide(key_at + 1 + len);
            let extent = Extent { at: body.at + head, len: word };
            match number {
                3 => (Value::Uint(word), wide(len)),
                4 => (Value::Int(signed(word)), wide(len)),
                5 => (Value::Str(extent), wide(len).checked_add(word)?),
                6 => (Value::Bytes(extent), wide(len).checked_add(word)?),
                7 => (Value::Ref(signed(word)), wide(len)),
                _ => return None,
            }
        }
    };
    let wire_type = [0, 0, FIXED64, VARINT, VARINT, BYTES, BYTES, VARINT].get(usize::from(key >> 3))?;
    let is_whole = wide(key_at + 1).checked_add(len)? == body.len && u32::from(key & 7) == *wire_type;
    is_whole.then_some(Stat { metadata_id: signed(id), value })
}

/// Calls back with each message that `owner` holds in the field `number`.
#[inline]
fn each_message<'s>(
    window: &mut Window<'s>,
    what: &'static str,
    owner: Extent,
    number: u32,
    mut each: impl FnMut(&mut Window<'s>, Extent) -> Result<()>,
) -> Result<()> {
    let mut fields = Cursor::new(what, owner);
    while let Some(field) = window.field(&mut fields)? {
        if let Wire::Bytes(body) = field.wire {
            if field.number == number {
                each(window, body)?;
            }
        }
    }
    Ok(())
}

/// Reads a map entry: gives its key and calls back with its value, which a file may repeat.
fn map_entry<'s>(
    window: &mut Window<'s>,
    entry: Extent,
    mut each_value: impl FnMut(&mut Window<'s>, Extent) -> Result<()>,
) -> Result<i64> {
    let mut id = 0;
    let mut fields = Cursor::new("map entry", entry);
    while let Some(field) = window.field(&mut fields)? {
        match field {
            Field { number: 1, wire: Wire::Varint(key) } => id = signed(key),
            Field { number: 2, wire: Wire::Bytes(value) } => each_value(window, value)?,
            _ => {}
        }
    }
    Ok(id)
}

/// An int64 field: the varint holds its two's complement.
#[inline]
fn signed(value: u64) -> i64 {
    value as i64 // keeps every bit
}
