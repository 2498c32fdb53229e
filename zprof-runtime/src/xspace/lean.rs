//! A plane that passes through a session as the bytes that it came in.

use std::borrow::Cow;
use std::cmp::Reverse;

use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_proto::{XStat, XStatMetadata};

use super::fields::{Field, Fields};
use super::names;
use super::wire::{BYTES, put_bytes, put_key, put_uint, put_varint};
use super::writer::put_map_entry;

/// A plane, in slices of the space that it came in.
#[derive(Debug)]
pub(crate) struct LeanPlane<'a> {
    /// All but the lines, in runs.
    rest: Runs<'a>,
    lines: Vec<LeanLine<'a>>,
    /// Fields that are added.
    added: Vec<u8>,
}

#[derive(Debug, Default)]
struct LeanLine<'a> {
    /// All but timestamp and events, in runs.
    rest: Runs<'a>,
    timestamp_ns: i64,
    events: Runs<'a>,
    sorted: bool,
    /// The least offset, or 0.
    earliest_ps: i64,
}

/// Slices of one buffer, those that touch as one.
#[derive(Debug, Default)]
struct Runs<'a>(Vec<&'a [u8]>);

impl<'a> Runs<'a> {
    /// Adds bytes of `whole`.
    fn push(&mut self, whole: &'a [u8], part: &'a [u8]) {
        if let Some(last) = self.0.last_mut() {
            let begin = last.as_ptr().addr() - whole.as_ptr().addr();
            let end = begin + last.len();
            if whole[end..].as_ptr() == part.as_ptr() {
                *last = &whole[begin..end + part.len()];
                return;
            }
        }
        self.0.push(part);
    }

    fn len(&self) -> usize {
        self.0.iter().map(|run| run.len()).sum()
    }
}

impl<'a> LeanPlane<'a> {
    /// Reads the bytes of a plane down to the times of its events. The error is the bytes from where they are broken.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, &'a [u8]> {
        let mut plane = Self { rest: Runs::default(), lines: Vec::new(), added: Vec::new() };
        for field in Fields::new(body) {
            let field = field?;
            match field.bytes(3) {
                Some(line) => plane.lines.push(LeanLine::read(line)?),
                None => plane.rest.push(body, field.raw),
            }
        }
        Ok(plane)
    }

    /// Whether a line with absolute times counts from before the session, or has an event there: then its times must be
    /// moved, event by event.
    pub(crate) fn begins_early(&self, start_ns: u64) -> bool {
        let start = i64::try_from(start_ns).unwrap_or(i64::MAX);
        let earliest = |line: &LeanLine<'_>| i128::from(line.timestamp_ns) * 1000 + i128::from(line.earliest_ps);
        self.lines.iter().any(|line| line.timestamp_ns > start / 2 && earliest(line) < i128::from(start) * 1000)
    }

    /// Makes the lines count from the session's start and brings their events into order.
    pub(crate) fn normalise(&mut self, start_ns: u64) {
        let start = i64::try_from(start_ns).unwrap_or(i64::MAX);
        for line in &mut self.lines {
            if line.timestamp_ns >= start {
                line.timestamp_ns -= start;
            }
        }
    }

    /// Adds the stat `process_id`, unless the plane has it.
    pub(crate) fn set_process_id(&mut self, process_id: i32) {
        let fields = || self.rest.0.iter().flat_map(|run| Fields::new(run)).filter_map(Result::ok);
        let names = fields().filter_map(|field| field.bytes(5)).filter_map(stat_name);
        let (mut known, mut last) = (None, 0);
        for metadata in names {
            last = last.max(metadata.id);
            if metadata.name == names::PROCESS_ID {
                known = known.or(Some(metadata.id));
            }
        }
        let stats = fields().filter_map(|field| field.bytes(6));
        let mut stats = stats.filter_map(|stat| XStat::decode(stat).ok());
        if known.is_some_and(|id| stats.any(|stat| stat.metadata_id == id)) {
            return;
        }
        let id = known.unwrap_or(last.wrapping_add(1));
        if known.is_none() {
            let key = u64::from_ne_bytes(id.to_ne_bytes());
            let metadata = XStatMetadata { id, name: names::PROCESS_ID.to_owned(), ..Default::default() };
            put_map_entry(&mut self.added, 5, key, |out| out.extend(metadata.encode_to_vec()));
        }
        let stat = XStat { metadata_id: id, value: Some(Value::Int64Value(process_id.into())) };
        put_bytes(&mut self.added, 6, &stat.encode_to_vec());
    }

    /// The plane as a field of an XSpace, in pieces.
    pub(crate) fn into_pieces(self) -> Vec<Cow<'a, [u8]>> {
        let mut pieces = vec![Cow::Owned(Vec::new())];
        pieces.extend(self.rest.0.into_iter().map(Cow::Borrowed));
        for line in self.lines {
            line.put(&mut pieces);
        }
        pieces.push(Cow::Owned(self.added));
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut head = Vec::new();
        put_key(&mut head, 1, BYTES);
        put_varint(&mut head, len as u64);
        pieces[0] = Cow::Owned(head);
        pieces
    }
}

/// The stat metadata in an entry of the map.
fn stat_name(entry: &[u8]) -> Option<XStatMetadata> {
    let mut value = None;
    for field in Fields::new(entry) {
        value = field.ok()?.bytes(2).or(value);
    }
    XStatMetadata::decode(value?).ok()
}

impl<'a> LeanLine<'a> {
    fn read(body: &'a [u8]) -> Result<Self, &'a [u8]> {
        let mut line = Self { sorted: true, ..Self::default() };
        let mut last = (0, Reverse(u64::MAX));
        for field in Fields::new(body) {
            let field = field?;
            if let Some(event) = field.bytes(4) {
                let times = times(event)?;
                line.sorted &= last <= times;
                line.earliest_ps = line.earliest_ps.min(i64::from_ne_bytes(times.0.to_ne_bytes()));
                last = times;
                line.events.push(body, field.raw);
            } else if let Some(timestamp) = field.varint(3) {
                line.timestamp_ns = i64::from_ne_bytes(timestamp.to_ne_bytes());
            } else {
                line.rest.push(body, field.raw);
            }
        }
        Ok(line)
    }

    fn put(self, pieces: &mut Vec<Cow<'a, [u8]>>) {
        let mut timestamp = Vec::new();
        if self.timestamp_ns != 0 {
            put_uint(&mut timestamp, 3, u64::from_ne_bytes(self.timestamp_ns.to_ne_bytes()));
        }
        let mut head = Vec::new();
        put_key(&mut head, 3, BYTES);
        put_varint(&mut head, (self.rest.len() + timestamp.len() + self.events.len()) as u64);
        pieces.push(Cow::Owned(head));
        pieces.extend(self.rest.0.iter().map(|run| Cow::Borrowed(*run)));
        pieces.push(Cow::Owned(timestamp));
        if self.sorted {
            pieces.extend(self.events.0.into_iter().map(Cow::Borrowed));
        } else {
            pieces.push(Cow::Owned(sorted(&self.events)));
        }
    }
}

/// What events are ordered by: the offset, an aggregated event's being 0, then the duration, longest first.
type Times = (u64, Reverse<u64>);

#[inline]
fn times(event: &[u8]) -> Result<Times, &[u8]> {
    let (mut offset, mut duration) = (0, 0);
    for field in Fields::new(event) {
        let field = field?;
        match field {
            Field { number: 2, .. } => offset = field.varint(2).unwrap_or(offset),
            Field { number: 3, .. } => duration = field.varint(3).unwrap_or(duration),
            // The other member of the oneof: the last on the wire wins.
            Field { number: 5, .. } => offset = 0,
            _ => {}
        }
    }
    Ok((offset, Reverse(duration)))
}

/// The events in order, as fields.
fn sorted(events: &Runs<'_>) -> Vec<u8> {
    let fields = events.0.iter().flat_map(|run| Fields::new(run)).filter_map(Result::ok);
    let mut order: Vec<(Times, &[u8])> =
        fields.filter_map(|field| Some((times(field.bytes(4)?).ok()?, field.raw))).collect();
    order.sort_by_key(|(times, _)| *times);
    let mut sorted = Vec::with_capacity(events.len());
    order.iter().for_each(|(_, raw)| sorted.extend_from_slice(raw));
    sorted
}
