//! A plane that passes through a session as the bytes that it came in.

use std::borrow::Cow;
use std::cmp::Reverse;

use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_proto::{XStat, XStatMetadata};

use super::fields::{Field, Fields};
use super::names;
use super::normalise::{Begin, Shift, shifts};
use super::wire::{BYTES, put_bytes, put_key, put_uint, put_varint};
use super::writer::put_map_entry;
use crate::room::{self, OutOfMemory};

/// A plane, in slices of the space that it came in.
#[derive(Debug)]
pub(crate) struct LeanPlane<'a> {
    /// All but the lines, in runs.
    rest: Runs<'a>,
    lines: Vec<LeanLine<'a>>,
    /// Fields that are added.
    added: Vec<u8>,
    /// There was no memory for one of those.
    is_broken: bool,
}

#[derive(Debug, Default)]
struct LeanLine<'a> {
    body: &'a [u8],
    /// All but timestamp and events, in runs.
    rest: Runs<'a>,
    timestamp_ns: i64,
    events: Runs<'a>,
    sorted: bool,
    /// The least offset of an event that is not aggregated.
    first_ps: Option<i64>,
    /// What is taken from the offset of every such event.
    earlier_ps: i128,
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

    fn fields(&self) -> impl Iterator<Item = Field<'a>> + '_ {
        self.0.iter().flat_map(|run| Fields::new(run)).filter_map(Result::ok)
    }
}

impl<'a> LeanPlane<'a> {
    /// Reads the bytes of a plane down to the times of its events. The error is the bytes from where they are broken.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, &'a [u8]> {
        let mut plane = Self { rest: Runs::default(), lines: Vec::new(), added: Vec::new(), is_broken: false };
        for field in Fields::new(body) {
            let field = field?;
            match field.bytes(3) {
                Some(line) => plane.lines.push(LeanLine::read(line)?),
                None => plane.rest.push(body, field.raw),
            }
        }
        Ok(plane)
    }

    /// Moves what begins before the session to its start, as [`clamp_plane`](super::normalise::clamp_plane) does.
    pub(crate) fn clamp(&mut self, name: &str, start: i64, warnings: &mut Vec<String>) {
        let shifts = shifts(name, self.lines.iter().map(LeanLine::begin), start, warnings);
        for (line, shift) in self.lines.iter_mut().zip(shifts) {
            let Some(Shift { later_ns, start_ns }) = shift else { continue };
            line.timestamp_ns = line.timestamp_ns.saturating_add(later_ns);
            if line.timestamp_ns < start_ns {
                line.earlier_ps = (i128::from(start_ns) - i128::from(line.timestamp_ns)) * 1000;
                line.timestamp_ns = start_ns;
            }
        }
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
        let names = self.rest.fields().filter_map(|field| field.bytes(5)).filter_map(stat_name);
        let (mut known, mut last) = (None, 0);
        for metadata in names {
            last = last.max(metadata.id);
            if metadata.name == names::PROCESS_ID {
                known = known.or(Some(metadata.id));
            }
        }
        let stats = self.rest.fields().filter_map(|field| field.bytes(6));
        let mut stats = stats.filter_map(|stat| XStat::decode(stat).ok());
        if known.is_some_and(|id| stats.any(|stat| stat.metadata_id == id)) {
            return;
        }
        let id = known.unwrap_or(last.wrapping_add(1));
        if known.is_none() {
            let key = u64::from_ne_bytes(id.to_ne_bytes());
            let metadata = XStatMetadata { id, name: names::PROCESS_ID.to_owned(), ..Default::default() };
            let encoded = metadata.encode_to_vec();
            let added = put_map_entry(&mut self.added, 5, key, encoded.len(), |out| out.extend_from_slice(&encoded));
            self.is_broken |= added.is_err();
        }
        let stat = XStat { metadata_id: id, value: Some(Value::Int64Value(process_id.into())) };
        put_bytes(&mut self.added, 6, &stat.encode_to_vec());
    }

    /// An error if there was no memory for a part of it.
    pub(crate) fn whole(&self) -> room::Result<()> {
        if self.is_broken { Err(OutOfMemory) } else { Ok(()) }
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
        let mut line = Self { body, sorted: true, ..Self::default() };
        let mut last = (0, Reverse(u64::MAX));
        for field in Fields::new(body) {
            let field = field?;
            if let Some(event) = field.bytes(4) {
                let times = Times::read(event)?;
                line.sorted &= last <= times.key();
                last = times.key();
                if !times.aggregated {
                    line.first_ps = Some(line.first_ps.map_or(times.offset_ps, |first| first.min(times.offset_ps)));
                }
                line.events.push(body, field.raw);
            } else if let Some(timestamp) = field.varint(3) {
                line.timestamp_ns = signed(timestamp);
            } else {
                line.rest.push(body, field.raw);
            }
        }
        Ok(line)
    }

    fn begin(&self) -> Begin<'a> {
        let mut begin = Begin { timestamp_ns: self.timestamp_ns, first_ps: self.first_ps, ..Begin::default() };
        for field in self.rest.fields() {
            if let Some(id) = field.varint(1) {
                begin.id = signed(id);
            } else if let Some(name) = field.bytes(2) {
                begin.name = String::from_utf8_lossy(name);
            }
        }
        begin
    }

    fn put(self, pieces: &mut Vec<Cow<'a, [u8]>>) {
        let mut timestamp = Vec::new();
        if self.timestamp_ns != 0 {
            put_uint(&mut timestamp, 3, unsigned(self.timestamp_ns));
        }
        let moved = (!self.sorted || self.earlier_ps != 0).then(|| self.moved());
        let events = moved.as_ref().map_or_else(|| self.events.len(), Vec::len);
        let mut head = Vec::new();
        put_key(&mut head, 3, BYTES);
        put_varint(&mut head, (self.rest.len() + timestamp.len() + events) as u64);
        pieces.push(Cow::Owned(head));
        pieces.extend(self.rest.0.iter().map(|run| Cow::Borrowed(*run)));
        pieces.push(Cow::Owned(timestamp));
        match moved {
            Some(events) => pieces.push(Cow::Owned(events)),
            None => pieces.extend(self.events.0.into_iter().map(Cow::Borrowed)),
        }
    }

    /// The events as fields, at their moved times and in order. Takes 16 bytes an event besides, where there is no order
    /// yet.
    fn moved(&self) -> Vec<u8> {
        let mut moved = Vec::with_capacity(self.events.len());
        let times = |event: Field<'_>| Some(Times::read(event.bytes(4)?).ok()?.earlier(self.earlier_ps));
        if self.events.fields().filter_map(times).map(|times| times.key()).is_sorted() {
            self.events.fields().for_each(|event| self.put_event(event, &mut moved));
            return moved;
        }
        let event_at = |at: usize| Fields::new(self.body.get(at..).unwrap_or_default()).next()?.ok();
        let begin = self.body.as_ptr().addr();
        let entry = |event: Field<'_>| Some((times(event)?.key().0, event.raw.as_ptr().addr() - begin));
        let mut order: Vec<(u64, usize)> = Vec::with_capacity(self.events.fields().count());
        order.extend(self.events.fields().filter_map(entry));
        let duration = |at| Reverse(event_at(at).and_then(times).map_or(0, |times| times.duration_ps));
        order.sort_unstable_by(|(offset, at), (other, other_at)| {
            let longest_first = || duration(*at).cmp(&duration(*other_at));
            offset.cmp(other).then_with(longest_first).then(at.cmp(other_at))
        });
        let events = order.into_iter().filter_map(|(_, at)| event_at(at));
        events.for_each(|event| self.put_event(event, &mut moved));
        moved
    }

    /// Writes one event at its moved time.
    fn put_event(&self, event: Field<'_>, out: &mut Vec<u8>) {
        let Some(body) = event.bytes(4).filter(|_| self.earlier_ps != 0) else { return out.extend(event.raw) };
        let Some(times) = Times::read(body).ok().filter(|times| !times.aggregated) else {
            return out.extend(event.raw);
        };
        let offset = unsigned(times.earlier(self.earlier_ps).offset_ps);
        let kept = || Fields::new(body).filter_map(Result::ok).filter(|field| !matches!(field.number, 2 | 5));
        let mut digits = Vec::with_capacity(16);
        put_uint(&mut digits, 2, offset);
        put_key(out, 4, BYTES);
        put_varint(out, (kept().map(|field| field.raw.len()).sum::<usize>() + digits.len()) as u64);
        kept().for_each(|field| out.extend(field.raw));
        out.extend(digits);
    }
}

fn signed(value: u64) -> i64 {
    i64::from_ne_bytes(value.to_ne_bytes())
}

fn unsigned(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

/// When an event is.
#[derive(Clone, Copy)]
struct Times {
    /// 0 where it is aggregated.
    offset_ps: i64,
    duration_ps: u64,
    aggregated: bool,
}

impl Times {
    #[inline]
    fn read(event: &[u8]) -> Result<Self, &[u8]> {
        let mut times = Self { offset_ps: 0, duration_ps: 0, aggregated: false };
        for field in Fields::new(event) {
            let field = field?;
            // Offset and count are members of a oneof: the last on the wire wins.
            if let Some(offset) = field.varint(2) {
                (times.offset_ps, times.aggregated) = (signed(offset), false);
            } else if let Some(duration) = field.varint(3) {
                times.duration_ps = duration;
            } else if field.varint(5).is_some() {
                (times.offset_ps, times.aggregated) = (0, true);
            }
        }
        Ok(times)
    }

    /// What events are ordered by: both count as unsigned, and the longest of those that start together is first.
    fn key(self) -> (u64, Reverse<u64>) {
        (unsigned(self.offset_ps), Reverse(self.duration_ps))
    }

    /// So much earlier, unless it is aggregated.
    fn earlier(self, earlier_ps: i128) -> Self {
        if self.aggregated {
            return self;
        }
        Self { offset_ps: i64::try_from(i128::from(self.offset_ps) - earlier_ps).unwrap_or(0), ..self }
    }
}
