//! Writes a plane of host events as protobuf bytes, line by line, without a tree of messages in between.
//!
//! Fields written, in this order:
//!
//! | message | fields |
//! |---|---|
//! | XSpace | planes 1, warnings 3, hostnames 4 |
//! | XPlane | name 2, lines 3, event_metadata 4, stat_metadata 5, stats 6 |
//! | XLine | id 1, name 2, display_name 11, then events 4; timestamp_ns 3 is 0 and left out |
//! | XEvent | metadata_id 1, offset_ps 2, duration_ps 3, stats 4 |
//! | XStat | metadata_id 1, then double_value 2, uint64_value 3, int64_value 4, bytes_value 6 or ref_value 7 |

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::display::display_name;
use super::out::{Out, short_varint};
use super::wire::{BYTES, get_varint, put_bytes, put_key, put_uint, put_varint};
use crate::room::{self, OutOfMemory, Result, Room as _};

/// Key byte of `XEvent.stats` and `XLine.events`.
const FIELD_4_BYTES: u8 = 4 << 3 | 2;

/// What the metadata of an event says besides its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventKind<'a> {
    pub(crate) name: &'a str,
    pub(crate) module_path: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
}

/// Name, module path, file and line of an [`EventKind`].
type OwnedKind = (Box<str>, Box<str>, Box<str>, u32);

/// A stat's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StatValue<'a> {
    Int(i64),
    Uint(u64),
    Double(f64),
    /// Interned in the plane's stat metadata.
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// The names of stats and the texts of string values: one table, as XSpace has it.
#[derive(Debug, Default)]
pub(crate) struct StatNames {
    ids: HashMap<Box<str>, u64, FixedState>,
    encoded: Vec<u8>,
    /// There was no memory for one of them.
    is_broken: bool,
}

impl StatNames {
    /// Id of a name or text, new or known. Ids begin at 1.
    pub(crate) fn id(&mut self, name: &str) -> u64 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.ids.len() as u64 + 1;
        self.is_broken |= self.add(name, id).is_err();
        id
    }

    #[cold]
    fn add(&mut self, name: &str, id: u64) -> Result<()> {
        self.ids.room(1)?;
        put_map_entry(&mut self.encoded, 5, id, FIXED + name.len(), |out| {
            put_uint(out, 1, id);
            if !name.is_empty() {
                put_bytes(out, 2, name.as_bytes());
            }
        })?;
        self.ids.insert(room::text(name)?.into_boxed_str(), id);
        Ok(())
    }
}

/// Bytes that keys, lengths and numbers of a metadata entry take at most.
const FIXED: usize = 128;

/// Appends `field = { key: id, value: { … } }`, of which the value takes `most` bytes at most.
pub(super) fn put_map_entry(
    out: &mut Vec<u8>,
    field: u32,
    id: u64,
    most: usize,
    value: impl FnOnce(&mut Vec<u8>),
) -> Result<()> {
    let mut bytes = room::with_room(most)?;
    value(&mut bytes);
    let mut entry = room::with_room(bytes.len() + FIXED)?;
    put_uint(&mut entry, 1, id);
    put_bytes(&mut entry, 2, &bytes);
    out.room(entry.len() + FIXED)?;
    put_bytes(out, field, &entry);
    Ok(())
}

/// Appends a stat as the field whose key is `field_byte`.
#[inline(always)]
fn put_stat(out: &mut Out, field_byte: u8, name: u64, value: StatValue<'_>, names: &mut StatNames) {
    let (field, number) = match value {
        StatValue::Int(value) => (4 << 3, u64::from_ne_bytes(value.to_ne_bytes())),
        StatValue::Uint(value) => (3 << 3, value),
        StatValue::Text(text) => (7 << 3, names.id(text)),
        StatValue::Double(_) | StatValue::Bytes(_) => return put_long_stat(out, field_byte, name, value, names),
    };
    match short_varint(number) {
        // The whole stat in two words: key, length, key, name, key; and the value.
        Some((word, len)) if name < 0x80 => {
            let head = u64::from(field_byte) | (3 + len as u64) << 8 | 1 << 3 << 16 | name << 24 | field << 32;
            out.make_room(0);
            out.fields(|out| {
                out.word(head, 5);
                out.word(word, len);
            });
        }
        _ => put_long_stat(out, field_byte, name, value, names),
    }
}

/// [`put_stat`] for all that does not fit two words.
#[inline(never)]
fn put_long_stat(out: &mut Out, field_byte: u8, name: u64, value: StatValue<'_>, names: &mut StatNames) {
    let bytes = if let StatValue::Bytes(bytes) = value { bytes } else { &[] };
    out.make_room(bytes.len());
    let start = out.len() + 1;
    out.fields(|out| {
        out.byte(field_byte);
        out.byte(0);
        out.byte(1 << 3);
        out.varint(name);
        match value {
            StatValue::Int(value) => {
                out.byte(4 << 3);
                out.varint(u64::from_ne_bytes(value.to_ne_bytes()));
            }
            StatValue::Uint(value) => {
                out.byte(3 << 3);
                out.varint(value);
            }
            StatValue::Double(value) => {
                out.byte(2 << 3 | 1);
                out.fixed64(value.to_bits());
            }
            StatValue::Text(text) => {
                out.byte(7 << 3);
                out.varint(names.id(text));
            }
            StatValue::Bytes(bytes) => {
                out.byte(6 << 3 | 2);
                out.varint(bytes.len() as u64);
            }
        }
    });
    out.slice(bytes);
    out.set_length(start);
}

/// One line of the plane, being written.
#[derive(Debug)]
pub(crate) struct Line {
    id: u64,
    name: String,
    /// The fields before the events.
    head: Vec<u8>,
    events: Out,
    count: u64,
    last: (u64, u64),
    sorted: bool,
}

impl Line {
    pub(crate) fn new(id: u64, name: String, bytes_hint: usize) -> Self {
        let mut head = Vec::new();
        put_uint(&mut head, 1, id);
        if !name.is_empty() {
            put_bytes(&mut head, 2, name.as_bytes());
            put_bytes(&mut head, 11, name.as_bytes());
        }
        Self { id, name, head, events: Out::with_capacity(bytes_hint), count: 0, last: (0, u64::MAX), sorted: true }
    }

    /// A line of another plane: its fields before the events, encoded.
    pub(super) fn adopted(id: u64, name: String, head: Vec<u8>) -> Self {
        Self { head, ..Self::new(id, name, 0) }
    }

    #[inline(always)]
    fn note_times(&mut self, (offset_ps, duration_ps): (u64, u64)) {
        self.count += 1;
        self.sorted &= self.last.0 < offset_ps || (self.last.0 == offset_ps && self.last.1 >= duration_ps);
        self.last = (offset_ps, duration_ps);
    }

    /// Adds an event that is encoded already.
    pub(super) fn push_encoded(&mut self, event: &[u8], times: (u64, u64)) {
        self.note_times(times);
        self.events.message(4, event);
    }

    /// Whether events at these times (offset and duration, ps) nest with the ones that are here.
    pub(super) fn nests_with(&self, times: &[(u64, u64)]) -> bool {
        let mut all = times.to_vec(); // of a plugin's line
        let mut at = 0;
        while let Some((times, end)) = event_at(self.events.written(), at) {
            all.push(times);
            at = end;
        }
        all.sort_by_key(|&(offset, duration)| (offset, Reverse(duration)));
        let mut open: Vec<u64> = Vec::new();
        all.into_iter().all(|(offset, duration)| {
            let end = offset.saturating_add(duration);
            while open.last().is_some_and(|&last| last <= offset) {
                open.pop();
            }
            let nests = open.last().is_none_or(|&last| end <= last);
            open.push(end);
            nests
        })
    }

    /// Begins an event; its stats follow.
    #[inline(always)]
    pub(crate) fn event(&mut self, metadata_id: u64, offset_ps: u64, duration_ps: u64) -> Event<'_> {
        self.note_times((offset_ps, duration_ps));
        let out = &mut self.events;
        out.make_room(0);
        let start = out.len() + 1;
        out.fields(|out| {
            if metadata_id < 0x80 {
                out.word(u64::from(FIELD_4_BYTES) | 1 << 3 << 16 | metadata_id << 24 | 2 << 3 << 32, 5);
            } else {
                out.word(u64::from(FIELD_4_BYTES) | 1 << 3 << 16, 3);
                out.varint(metadata_id);
                out.byte(2 << 3);
            }
            out.varint(offset_ps);
            if duration_ps != 0 {
                out.byte(3 << 3);
                out.varint(duration_ps);
            }
        });
        Event { out, start }
    }

    /// How many events it has.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Brings the events into the order of XSpace: by start, and of those that start together the longest first.
    fn sort(&mut self) -> Result<()> {
        if self.sorted {
            return Ok(());
        }
        self.events.whole()?;
        let mut places = room::with_room(usize::try_from(self.count).unwrap_or(usize::MAX))?;
        let mut at = 0;
        let events = self.events.written();
        while let Some((times, end)) = event_at(events, at) {
            room::push(&mut places, (times, at..end))?;
            at = end;
        }
        // Those of the same times stay in their order: sorting that keeps it would allocate.
        places.sort_unstable_by_key(|((offset, duration), place)| (*offset, Reverse(*duration), place.start));
        let mut sorted = Out::with_capacity(events.len());
        for (_, place) in places {
            sorted.make_room(place.len());
            sorted.slice(&events[place]);
        }
        self.events = sorted;
        self.sorted = true;
        Ok(())
    }
}

/// Offset and duration of the event that begins at `at`, and where it ends: of the fields of an event, in any order.
fn event_at(bytes: &[u8], at: usize) -> Option<((u64, u64), usize)> {
    let rest = bytes.get(at + 1..)?;
    let (len, len_bytes) = get_varint(rest)?;
    let end = at + 1 + len_bytes + usize::try_from(len).ok()?;
    let mut body = bytes.get(at + 1 + len_bytes..end)?;
    let (mut offset, mut duration) = (0, 0);
    while let Some((key, key_bytes)) = get_varint(body) {
        let (value, value_bytes) = get_varint(body.get(key_bytes..)?)?;
        let mut used = key_bytes + value_bytes;
        match key {
            OFFSET => offset = value,
            DURATION => duration = value,
            key if key & 7 == u64::from(BYTES) => used += usize::try_from(value).ok()?,
            _ => {}
        }
        body = body.get(used..)?;
    }
    Some(((offset, duration), end))
}

/// Key of `XEvent.offset_ps`.
const OFFSET: u64 = 2 << 3;
/// Key of `XEvent.duration_ps`.
const DURATION: u64 = 3 << 3;

/// An event being written; it is whole when this is dropped by [`Event::end`].
#[derive(Debug)]
pub(crate) struct Event<'a> {
    out: &'a mut Out,
    start: usize,
}

impl Event<'_> {
    /// Adds a stat by the id of its name.
    #[inline(always)]
    pub(crate) fn stat(&mut self, name: u64, value: StatValue<'_>, names: &mut StatNames) {
        put_stat(self.out, FIELD_4_BYTES, name, value, names);
    }

    /// Completes the event.
    #[inline]
    pub(crate) fn end(self) {
        self.out.set_length(self.start);
    }
}

/// A plane of host events.
#[derive(Debug)]
pub(crate) struct Plane {
    name: String,
    lines: Vec<Line>,
    kinds: HashMap<OwnedKind, u64, FixedState>,
    /// How many kinds have an id.
    kinds_given: u64,
    pub(super) event_metadata: Vec<u8>,
    /// There was no memory for something.
    pub(super) is_broken: bool,
    pub(crate) names: StatNames,
    pub(super) stats: Out,
    /// Names of the stats of the plane itself.
    pub(super) stat_names: Vec<String>,
}

impl Plane {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            lines: Vec::new(),
            kinds: HashMap::default(),
            kinds_given: 0,
            event_metadata: Vec::new(),
            is_broken: false,
            names: StatNames::default(),
            stats: Out::default(),
            stat_names: Vec::new(),
        }
    }

    /// Id of a kind of event, new or known. Ids begin at 1. The source location becomes stats of the metadata:
    /// `module_path`, and `source` as `file:line`; without a file there is none.
    pub(crate) fn event_kind(&mut self, kind: EventKind<'_>) -> u64 {
        self.known_or_new_kind(kind).unwrap_or_else(|_| {
            self.is_broken = true;
            0
        })
    }

    fn known_or_new_kind(&mut self, kind: EventKind<'_>) -> Result<u64> {
        let boxed = |text: &str| room::text(text).map(String::into_boxed_str);
        let key = (boxed(kind.name)?, boxed(kind.module_path)?, boxed(kind.file)?, kind.line);
        let next = self.kinds_given + 1;
        self.kinds.room(1)?;
        let id = *self.kinds.entry(key).or_insert(next);
        if id == next {
            self.kinds_given = next;
            let names = &mut self.names;
            let most = FIXED + 2 * kind.name.len();
            put_map_entry(&mut self.event_metadata, 4, id, most, |out| {
                put_uint(out, 1, id);
                if !kind.name.is_empty() {
                    put_bytes(out, 2, kind.name.as_bytes());
                }
                if let Some(shown) = display_name(kind.name) {
                    put_bytes(out, 4, shown.as_bytes());
                }
                if kind.file.is_empty() {
                    return;
                }
                let source = format!("{}:{}", kind.file, kind.line);
                let mut stats = Out::default();
                for (name, text) in [("module_path", kind.module_path), ("source", source.as_str())] {
                    let name = names.id(name);
                    put_stat(&mut stats, 5 << 3 | 2, name, StatValue::Text(text), names);
                }
                out.extend_from_slice(stats.written());
            })?;
        }
        Ok(id)
    }

    /// Adds a stat of the plane itself.
    pub(crate) fn stat(&mut self, name: &str, value: StatValue<'_>) {
        let kept = room::text(name).and_then(|name| room::push(&mut self.stat_names, name));
        self.is_broken |= kept.is_err();
        let name = self.names.id(name);
        put_stat(&mut self.stats, 6 << 3 | 2, name, value, &mut self.names);
    }

    /// An id for a kind of event of another plane.
    pub(super) fn new_kind(&mut self) -> u64 {
        self.kinds_given += 1;
        self.kinds_given
    }

    /// The line of this id.
    pub(super) fn line_mut(&mut self, id: u64) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.id == id)
    }

    /// Adds a finished line.
    pub(crate) fn push(&mut self, line: Line) {
        self.is_broken |= room::push(&mut self.lines, line).is_err();
    }

    /// Events on all lines.
    pub(crate) fn events(&self) -> u64 {
        self.lines.iter().map(Line::count).sum()
    }

    /// The plane as a field of an XSpace, in pieces to be written one after the other; an error if there was no memory for a part
    /// of it.
    pub(crate) fn into_pieces(mut self) -> Result<Vec<Vec<u8>>> {
        if self.is_broken || self.names.is_broken {
            return Err(OutOfMemory);
        }
        // Those of one name stay in their order: sorting that keeps it would allocate.
        let mut order = room::collect(0..self.lines.len(), self.lines.len())?;
        order.sort_unstable_by(|&a, &b| place(&self.lines[a].name).cmp(&place(&self.lines[b].name)).then(a.cmp(&b)));
        let mut head = Vec::new();
        put_bytes(&mut head, 2, self.name.as_bytes());
        let mut pieces = room::with_room(2 * self.lines.len() + 5)?;
        pieces.extend([Vec::new(), head]);
        for index in order {
            let line = &mut self.lines[index];
            line.sort()?;
            let events = std::mem::take(&mut line.events).into_bytes()?;
            let mut head = Vec::new();
            put_key(&mut head, 3, BYTES);
            put_varint(&mut head, (line.head.len() + events.len()) as u64);
            head.extend_from_slice(&line.head);
            pieces.extend([head, events]);
        }
        pieces.extend([self.event_metadata, self.names.encoded, self.stats.into_bytes()?]);
        let len: usize = pieces.iter().map(Vec::len).sum();
        let mut prefix = Vec::new();
        put_key(&mut prefix, 1, BYTES);
        put_varint(&mut prefix, len as u64);
        pieces[0] = prefix;
        Ok(pieces)
    }
}

/// Where a line's name sorts: `main` before `main (overlap)`, `main (overlap 2)` and `main (overlap 10)`.
fn place(name: &str) -> (&str, u64, &str) {
    let stem = name.strip_suffix(')').unwrap_or(name);
    match stem.rsplit_once(' ').and_then(|(stem, number)| Some((stem, number.parse().ok()?))) {
        Some((stem, number)) => (stem, number, name),
        None => (stem, 0, name),
    }
}

/// Appends a text field of an XSpace.
pub(crate) fn put_text(out: &mut Vec<u8>, field: u32, text: &str) -> Result<()> {
    out.room(FIXED + text.len())?;
    put_bytes(out, field, text.as_bytes());
    Ok(())
}

/// `XSpace.errors`.
pub(crate) const ERRORS: u32 = 2;
/// `XSpace.warnings`.
pub(crate) const WARNINGS: u32 = 3;
/// `XSpace.hostnames`.
pub(crate) const HOSTNAMES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn numbered_lines_follow_the_first() {
        let sorted =
            ["async", "async 2", "async 10", "main", "main (overlap)", "main (overlap 2)", "main (overlap 10)"];
        let mut names = sorted;
        names.sort_unstable();
        assert_ne!(names, sorted);
        names.sort_by(|a, b| place(a).cmp(&place(b)));
        assert_eq!(names, sorted);
    }
}
