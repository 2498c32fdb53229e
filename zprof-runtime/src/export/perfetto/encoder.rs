//! The packets of a trace, as protobuf.
//!
//! | message | fields written here |
//! |---|---|
//! | Trace | packet 1 |
//! | TracePacket | clock_snapshot 6, timestamp 8, trusted_packet_sequence_id 10, track_event 11, interned_data 12, sequence_flags 13, timestamp_clock_id 58, trace_packet_defaults 59, track_descriptor 60 |
//! | TracePacketDefaults | track_event_defaults 11, timestamp_clock_id 58 |
//! | TrackEventDefaults | track_uuid 11 |
//! | ClockSnapshot | clocks 1: clock_id 1, timestamp 2, is_incremental 3 |
//! | TrackDescriptor | uuid 1, name 2, process 3, thread 4, parent_uuid 5, counter 8, child_ordering 11, sibling_order_rank 12, process_ordering 19, thread_ordering 20 |
//! | ProcessDescriptor | pid 1, process_name 6 |
//! | ThreadDescriptor | pid 1, tid 2, thread_name 5 |
//! | CounterDescriptor | unit_name 6 |
//! | TrackEvent | debug_annotations 4, type 9, name_iid 10, track_uuid 11, name 23, counter_value 30, double_counter_value 44, flow_ids 47, terminating_flow_ids 48 |
//! | DebugAnnotation | name_iid 1, uint_value 3, int_value 4, double_value 5, string_value 6, string_value_iid 17 |
//! | InternedData | event_names 2, debug_annotation_names 3, debug_annotation_string_values 29: iid 1, text 2 |
//!
//! Tracks have the ids 1, 2, 3, …; the root, id 0, says that processes and threads are ordered by rank.
//!
//! Events of one thread follow each other in the file. They begin with a packet that sets the thread's track and a clock as
//! defaults of the sequence and starts that clock at 0, so that a time is the ns since the packet before. A sequence has 64
//! such clocks, 64 to 127. A new sequence, whose first packet says that nothing is known yet, begins with each plane, when
//! the clocks are used up, and when many texts have been interned. The trace's own clock is BOOTTIME, and a session begins
//! at its 0. No packet asks for the state of its sequence: none can be lost, since this is a file.

use super::flow::End;
use super::intern::{Family, Table};
use super::names::{ArgValue, Names, Text, put_as_name};
use super::output::{Output, put_text, text_len};
use crate::Result;
use crate::export::json::names::Rank;
use crate::xspace::reader::Value;
use crate::xspace::window::{Extent, Window};
use crate::xspace::wire::{BYTES, FIXED64, put_bytes, put_key, put_uint, put_varint, wide};

/// The clock that trace time is counted in.
const BOOTTIME: u64 = 6;
/// Clocks of a sequence's own.
const FIRST_CLOCK: u64 = 64;
const LAST_CLOCK: u64 = 127;
/// Flag of a sequence's first packet: nothing is known yet.
const STATE_CLEARED: u64 = 1;
/// Texts of events' own up to which they are interned.
const LONGEST_INTERNED: u64 = 1 << 10;
/// Bytes up to which a value of bytes is shown.
const LONGEST_BYTES: u64 = 4_096;
/// `CounterDescriptor` and others are found in this order by readers: EXPLICIT of each kind of order.
const EXPLICIT_CHILDREN: u64 = 3;
const EXPLICIT: u64 = 1;

/// What an event is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// When an event is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    /// Not before the packet before, on the clock of the thread, in ns.
    Next(u64),
    /// At any time, in ns.
    Any(u64),
}

/// A text of the source that stands within the message in the making.
struct Splice {
    at: usize,
    text: Extent,
    len: u64,
}

/// Makes packets, one at a time.
pub(super) struct Encoder<'w> {
    out: Output<'w>,
    table: Table,
    /// The sequence, from 1; 0 before the first.
    sequence: u32,
    clock: u64,
    /// Time of the packet before, on `clock`.
    last_ns: u64,
    /// Track of the thread.
    track: u64,
    /// The message in the making, without its splices.
    body: Vec<u8>,
    splices: Vec<Splice>,
}

impl<'w> Encoder<'w> {
    /// Begins the trace.
    pub(super) fn new(out: Output<'w>) -> Self {
        let mut encoder = Self {
            out,
            table: Table::default(),
            sequence: 0,
            clock: LAST_CLOCK,
            last_ns: 0,
            track: 0,
            body: Vec::new(),
            splices: Vec::new(),
        };
        put_uint(&mut encoder.body, 1, 0);
        put_uint(&mut encoder.body, 19, EXPLICIT);
        put_uint(&mut encoder.body, 20, EXPLICIT);
        encoder.end_short(60);
        encoder
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> Result<()> {
        self.out.finish()
    }

    /// Texts of another plane follow.
    pub(super) fn begin_plane(&mut self) {
        self.clock = LAST_CLOCK;
    }

    /// Describes a process.
    pub(super) fn process(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        pid: u32,
        rank: u32,
        host: Option<&str>,
        name: Extent,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        let mut fixed = Vec::new();
        put_uint(&mut fixed, 1, u64::from(pid));
        let prefix = host.map(|host| format!("{host} ")).unwrap_or_default();
        self.named_message(window, 3, &fixed, 6, &prefix, name)?;
        put_uint(&mut self.body, 12, u64::from(rank));
        self.end_message(window, &[], 60)
    }

    /// Describes a thread.
    pub(super) fn thread(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        (pid, tid): (u32, u32),
        rank: u32,
        name: Extent,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        let mut fixed = Vec::new();
        put_uint(&mut fixed, 1, u64::from(pid));
        put_uint(&mut fixed, 2, u64::from(tid));
        self.named_message(window, 4, &fixed, 5, "", name)?;
        put_uint(&mut self.body, 11, EXPLICIT_CHILDREN);
        put_uint(&mut self.body, 12, u64::from(rank));
        self.end_message(window, &[], 60)
    }

    /// Describes the lane of a thread with this number, from 2.
    pub(super) fn lane(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        parent: u64,
        name: Extent,
        number: u64,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        let len = text_len(window, name)?;
        let suffix = if len == 0 { format!("({number})") } else { format!(" ({number})") };
        put_key(&mut self.body, 2, BYTES);
        put_varint(&mut self.body, len + wide(suffix.len()));
        self.splice(name, len);
        self.body.extend_from_slice(suffix.as_bytes());
        put_uint(&mut self.body, 5, parent);
        put_uint(&mut self.body, 12, number.min(i32::MAX as u64)); // positive
        self.end_message(window, &[], 60)
    }

    /// Describes a counter.
    pub(super) fn counter(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        parent: u64,
        names: &Names,
        name: Text,
        unit: Rank,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        match name {
            Text::Symbol(symbol) => put_bytes(&mut self.body, 2, names.text(symbol)),
            Text::Source(extent) => self.inline_text(window, 2, extent)?,
        }
        put_uint(&mut self.body, 5, parent);
        let mut counter = Vec::new();
        put_bytes(&mut counter, 6, names.text(unit));
        put_bytes(&mut self.body, 8, &counter);
        self.end_message(window, &[], 60)
    }

    /// Events of this thread's track follow.
    pub(super) fn begin_track(&mut self, uuid: u64) {
        self.track = uuid;
        let mut head = Vec::new();
        if self.clock == LAST_CLOCK || self.table.is_full() {
            self.sequence += 1; // each takes more bytes than fit 32 bits could count: none is used twice in a real file
            self.clock = FIRST_CLOCK;
            self.table.begin();
            put_uint(&mut head, 13, STATE_CLEARED);
        } else {
            self.clock += 1;
        }
        self.last_ns = 0;
        put_uint(&mut head, 10, u64::from(self.sequence));

        let mut event_defaults = Vec::new();
        put_uint(&mut event_defaults, 11, uuid);
        let mut defaults = Vec::new();
        put_uint(&mut defaults, 58, self.clock);
        put_bytes(&mut defaults, 11, &event_defaults);
        put_bytes(&mut head, 59, &defaults);

        let mut snapshot = Vec::new();
        for (clock, incremental) in [(BOOTTIME, false), (self.clock, true)] {
            let mut reading = Vec::new();
            put_uint(&mut reading, 1, clock);
            put_uint(&mut reading, 2, 0);
            if incremental {
                put_uint(&mut reading, 3, 1);
            }
            put_bytes(&mut snapshot, 1, &reading);
        }
        put_bytes(&mut head, 6, &snapshot);
        put_bytes(&mut self.out.buffer, 1, &head);
    }

    /// Begins an event, on the thread's track or on another.
    #[inline]
    pub(super) fn begin(&mut self, r#type: Type, track: u64) {
        if self.table.is_full() {
            self.begin_track(self.track);
        }
        self.begin_message();
        self.put_type(r#type, track);
    }

    #[inline]
    fn put_type(&mut self, r#type: Type, track: u64) {
        self.body.extend_from_slice(&[9 << 3, r#type as u8]); // the field's number; all are below 128
        if track != self.track {
            put_uint(&mut self.body, 11, track);
        }
    }

    #[inline]
    pub(super) fn name(&mut self, window: &mut Window<'_>, names: &Names, name: Text) -> Result<()> {
        match name {
            Text::Symbol(symbol) => {
                let number = self.table.symbol(Family::EventName, symbol, names.text(symbol));
                put_uint(&mut self.body, 10, u64::from(number));
                Ok(())
            }
            Text::Source(extent) => self.inline_text(window, 23, extent),
        }
    }

    /// A value of the event's own as its name.
    pub(super) fn value_name(&mut self, window: &mut Window<'_>, names: &Names, value: ArgValue) -> Result<()> {
        match value {
            ArgValue::Text(text) => self.name(window, names, text),
            ArgValue::Own(extent) => self.inline_text(window, 23, extent),
            value => {
                let mut text = Vec::new();
                put_as_name(&mut text, value);
                put_bytes(&mut self.body, 23, &text);
                Ok(())
            }
        }
    }

    #[inline]
    pub(super) fn flow(&mut self, end: End) {
        put_key(&mut self.body, if end.terminates { 48 } else { 47 }, FIXED64);
        self.body.extend_from_slice(&end.id.to_le_bytes());
    }

    /// The sample of a counter, which is a number.
    pub(super) fn sample(&mut self, value: Value) {
        let double = match value {
            Value::Int(number) => return put_uint(&mut self.body, 30, number as u64), // keeps every bit
            Value::Uint(number) => match i64::try_from(number) {
                Ok(_) => return put_uint(&mut self.body, 30, number),
                Err(_) => number as f64, // the nearest double; the field has no larger integers
            },
            Value::Double(number) => number,
            Value::Unset | Value::Str(_) | Value::Bytes(_) | Value::Ref(_) => return,
        };
        put_key(&mut self.body, 44, FIXED64);
        self.body.extend_from_slice(&double.to_bits().to_le_bytes());
    }

    /// An argument.
    #[inline]
    pub(super) fn annotation(
        &mut self,
        window: &mut Window<'_>,
        names: &Names,
        rank: Rank,
        value: ArgValue,
    ) -> Result<()> {
        let name = self.table.symbol(Family::AnnotationName, rank, names.text(rank));
        let string = match value {
            ArgValue::Text(Text::Symbol(symbol)) => {
                Some(self.table.symbol(Family::AnnotationString, symbol, names.text(symbol)))
            }
            ArgValue::Own(extent) if extent.len <= LONGEST_INTERNED => {
                Some(self.table.own(window.piece(extent)?, put_text))
            }
            ArgValue::Own(extent) | ArgValue::Text(Text::Source(extent)) => {
                return self.long_annotation(window, name, extent);
            }
            ArgValue::Bytes(extent) => return self.bytes_annotation(window, name, extent),
            ArgValue::Int(_) | ArgValue::Uint(_) | ArgValue::Double(_) => None,
        };
        // At most 23 bytes: the length takes one.
        self.body.extend_from_slice(&[4 << 3 | 2, 0]);
        let start = self.body.len();
        put_uint(&mut self.body, 1, u64::from(name));
        match (string, value) {
            (Some(number), _) => put_uint(&mut self.body, 17, u64::from(number)),
            (None, ArgValue::Int(number)) => put_uint(&mut self.body, 4, number as u64), // keeps every bit
            (None, ArgValue::Uint(number)) => put_uint(&mut self.body, 3, number),
            (None, ArgValue::Double(number)) => {
                put_key(&mut self.body, 5, FIXED64);
                self.body.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            (None, ArgValue::Text(_) | ArgValue::Own(_) | ArgValue::Bytes(_)) => {}
        }
        self.body[start - 1] = (self.body.len() - start) as u8; // see above
        Ok(())
    }

    fn long_annotation(&mut self, window: &mut Window<'_>, name: u32, text: Extent) -> Result<()> {
        let mut fixed = Vec::new();
        put_uint(&mut fixed, 1, u64::from(name));
        self.named_message(window, 4, &fixed, 6, "", text)
    }

    fn bytes_annotation(&mut self, window: &mut Window<'_>, name: u32, bytes: Extent) -> Result<()> {
        let text = if bytes.len <= LONGEST_BYTES {
            window.piece(bytes)?.iter().map(|byte| format!("{byte:02x}")).collect()
        } else {
            format!("<{} opaque bytes>", bytes.len)
        };
        let mut annotation = Vec::new();
        put_uint(&mut annotation, 1, u64::from(name));
        put_bytes(&mut annotation, 6, text.as_bytes());
        put_bytes(&mut self.body, 4, &annotation);
        Ok(())
    }

    /// Ends the event that was begun last.
    #[inline]
    pub(super) fn end(&mut self, window: &mut Window<'_>, time: Time) -> Result<()> {
        let mut head = [0; 32];
        let len = self.put_head(&mut head, time);
        self.end_message(window, &head[..len], 11)
    }

    /// Writes the end of the innermost slice of a track.
    #[inline]
    pub(super) fn slice_end(&mut self, track: u64, time: Time) -> Result<()> {
        self.begin_message();
        self.put_type(Type::SliceEnd, track);
        let mut head = [0; 32];
        let len = self.put_head(&mut head, time);
        let out = &mut self.out.buffer;
        // Both lengths are below 128: the head has at most 24 bytes, the body 13.
        out.extend_from_slice(&[1 << 3 | 2, (len + 2 + self.body.len()) as u8]);
        out.extend_from_slice(&head[..len]);
        out.extend_from_slice(&[11 << 3 | 2, self.body.len() as u8]);
        out.extend_from_slice(&self.body);
        self.out.flush_batch()
    }

    /// Writes the time and the sequence of an event's packet; returns how many bytes they take.
    #[inline]
    fn put_head(&mut self, head: &mut [u8; 32], time: Time) -> usize {
        let mut rest = Vec::new();
        let mut at = 0;
        let mut put = |byte: u8| {
            head[at] = byte;
            at += 1;
        };
        let mut varint = |field: u8, mut value: u64| {
            put(field << 3);
            while value >= 0x80 {
                put((value & 0x7f) as u8 | 0x80); // seven bits
                value >>= 7;
            }
            put(value as u8); // below 0x80
        };
        match time {
            Time::Next(ns) => {
                varint(8, ns.wrapping_sub(self.last_ns));
                self.last_ns = ns;
            }
            Time::Any(ns) => {
                varint(8, ns);
                put_uint(&mut rest, 58, BOOTTIME);
            }
        }
        varint(10, u64::from(self.sequence));
        head[at..at + rest.len()].copy_from_slice(&rest);
        at + rest.len()
    }

    fn begin_message(&mut self) {
        self.body.clear();
        self.splices.clear();
    }

    /// A text of the source goes here.
    fn splice(&mut self, text: Extent, len: u64) {
        if len > 0 {
            self.splices.push(Splice { at: self.body.len(), text, len });
        }
    }

    /// A field that is a text of the source.
    fn inline_text(&mut self, window: &mut Window<'_>, field: u32, text: Extent) -> Result<()> {
        let len = text_len(window, text)?;
        put_key(&mut self.body, field, BYTES);
        put_varint(&mut self.body, len);
        self.splice(text, len);
        Ok(())
    }

    /// A field that is a message of `fixed` and, unless it is empty, a name.
    fn named_message(
        &mut self,
        window: &mut Window<'_>,
        field: u32,
        fixed: &[u8],
        name_field: u32,
        prefix: &str,
        name: Extent,
    ) -> Result<()> {
        let name_len = text_len(window, name)?;
        let len = wide(prefix.len()) + name_len;
        let mut head = fixed.to_vec();
        if len > 0 {
            put_key(&mut head, name_field, BYTES);
            put_varint(&mut head, len);
        }
        put_key(&mut self.body, field, BYTES);
        put_varint(&mut self.body, wide(head.len()) + len);
        self.body.extend_from_slice(&head);
        self.body.extend_from_slice(prefix.as_bytes());
        self.splice(name, name_len);
        Ok(())
    }

    /// Writes a packet of `head`, what was interned for it, and the message in the making as the field `field`.
    #[inline]
    fn end_message(&mut self, window: &mut Window<'_>, head: &[u8], field: u32) -> Result<()> {
        let spliced: u64 = self.splices.iter().map(|splice| splice.len).sum();
        let body_len = wide(self.body.len()) + spliced;
        let news = &self.table.news;
        let key_len = if field < 16 { 1 } else { 2 };
        let mut len = wide(head.len()) + key_len + varint_len(body_len) + body_len;
        if !news.is_empty() {
            len += 1 + varint_len(wide(news.len())) + wide(news.len());
        }
        let out = &mut self.out.buffer;
        put_key(out, 1, BYTES);
        put_varint(out, len);
        out.extend_from_slice(head);
        if !news.is_empty() {
            put_bytes(out, 12, news);
            self.table.news.clear();
        }
        put_key(out, field, BYTES);
        put_varint(out, body_len);
        if self.splices.is_empty() {
            out.extend_from_slice(&self.body);
            return self.out.flush_batch();
        }
        let mut from = 0;
        for splice in &self.splices {
            self.out.buffer.extend_from_slice(&self.body[from..splice.at]);
            self.out.put_source(window, splice.text)?;
            from = splice.at;
        }
        self.out.buffer.extend_from_slice(&self.body[from..]);
        self.out.flush_batch()
    }

    /// Writes a packet that is one short message.
    fn end_short(&mut self, field: u32) {
        let mut packet = Vec::new();
        put_bytes(&mut packet, field, &self.body);
        put_bytes(&mut self.out.buffer, 1, &packet);
        self.body.clear();
    }
}

/// How many bytes a varint takes.
#[inline]
fn varint_len(value: u64) -> u64 {
    u64::from((70 - (value | 1).leading_zeros()) / 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_varint_is_known_before_it_is_written() {
        for value in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(varint_len(value), wide(out.len()), "{value}");
        }
    }
}
