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
//! | TrackEvent | category_iids 3, debug_annotations 4, legacy_event 6, type 9, name_iid 10, track_uuid 11, name 23, counter_value 30, double_counter_value 44, flow_ids 47 |
//! | LegacyEvent | bind_id 8, flow_direction 13 |
//! | DebugAnnotation | name_iid 1, uint_value 3, int_value 4, double_value 5, string_value 6, string_value_iid 17 |
//! | InternedData | event_categories 1, event_names 2, debug_annotation_names 3, debug_annotation_string_values 29: iid 1, text 2 |
//!
//! Tracks have the ids 1, 2, 3, …; the root, id 0, says that processes and threads are ordered by rank.
//!
//! Events of one thread follow each other in the file. They begin with a packet that sets the thread's track and a clock as
//! defaults of the sequence and starts that clock at 0, so that a time is the ns since the packet before. A sequence has 64
//! such clocks, 64 to 127. A new sequence, whose first packet says that nothing is known yet, begins with each plane, when
//! the clocks are used up, and when many texts have been interned. The trace's own clock is BOOTTIME, and a session begins
//! at its 0. No packet asks for the state of its sequence: none can be lost, since this is a file.

use super::flow::End;
use super::intern::{Family, Symbol, Table};
use super::names::{ArgValue, Names, Text, put_as_name};
use super::output::{Output, put_text, text_len};
use crate::Result;
use crate::export::json::names::Rank;
use crate::xspace::reader::Value;
use crate::xspace::window::{Extent, Window};
use crate::xspace::wire::{BYTES, FIXED64, VARINT, put_bytes, put_key, put_uint, put_varint, wide};

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
/// An arrow that comes in, and that may come in elsewhere too.
const FLOW_IN: u8 = 1;
/// By rank: the order of processes and threads.
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
pub(super) struct Splice {
    pub(super) at: usize,
    pub(super) text: Extent,
    pub(super) len: u64,
}

/// Makes packets, one at a time.
pub(super) struct Encoder<'w> {
    out: Output<'w>,
    table: Table,
    /// The sequence, from 1; 0 before the first.
    sequence: u32,
    /// What stands between time and event in each packet of the sequence, and how many bytes it is.
    sequence_word: (u64, usize),
    clock: u64,
    /// Time of the packet before, on `clock`.
    last_ns: u64,
    /// Track of the thread.
    track: u64,
    /// The description of a track in the making, without its splices.
    pub(super) body: Vec<u8>,
    pub(super) splices: Vec<Splice>,
    /// Where the event in the making lies in the buffer.
    event: Place,
}

/// Where an event's packet lies in the buffer, which holds it whole but for splices until it ends.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Where the length of the packet has room of a byte.
    packet: usize,
    /// Where the length of the event has room of a byte.
    event: usize,
}

impl<'w> Encoder<'w> {
    /// Begins the trace.
    pub(super) fn new(out: Output<'w>) -> Self {
        let mut encoder = Self {
            out,
            table: Table::default(),
            sequence: 0,
            sequence_word: (0, 0),
            clock: LAST_CLOCK,
            last_ns: 0,
            track: 0,
            body: Vec::new(),
            splices: Vec::new(),
            event: Place::default(),
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

    /// Events of this thread's track follow.
    pub(super) fn begin_track(&mut self, uuid: u64) {
        self.track = uuid;
        let mut head = Vec::new();
        if self.clock == LAST_CLOCK || self.table.is_full() {
            self.sequence += 1; // each takes more bytes than fit 32 bits could count: none is used twice in a real file
            self.clock = FIRST_CLOCK;
            self.table.begin();
            put_uint(&mut head, 13, STATE_CLEARED);
            let mut word = Vec::with_capacity(8);
            put_uint(&mut word, 10, u64::from(self.sequence));
            put_key(&mut word, 11, BYTES);
            let len = word.len(); // at most 7
            word.resize(8, 0);
            self.sequence_word = (word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)), len);
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
        let mut packet = Vec::new();
        put_bytes(&mut packet, 1, &head);
        self.out.put(&packet);
    }

    /// Begins an event, on the thread's track or on another.
    #[inline]
    pub(super) fn begin(&mut self, r#type: Type, track: u64, time: Time) {
        if self.table.is_full() {
            self.begin_track(self.track);
        }
        self.splices.clear();
        self.put_head(r#type, track, time);
    }

    /// Puts the fixed part of an event's packet: at most 40 bytes.
    #[inline]
    fn put_head(&mut self, r#type: Type, track: u64, time: Time) {
        let Self { out, sequence_word: (sequence, sequence_len), last_ns, track: own, .. } = self;
        let buffer = &mut out.buffer;
        buffer.make_room(0);
        let start = buffer.len();
        let mut event = start;
        buffer.fields(|out| {
            out.word(u64::from_le_bytes([key(1, BYTES), 0, key(8, VARINT), 0, 0, 0, 0, 0]), 3);
            match time {
                Time::Next(ns) => {
                    out.varint(ns.wrapping_sub(*last_ns));
                    *last_ns = ns;
                }
                Time::Any(ns) => {
                    out.varint(ns);
                    out.byte(key(58 & 0xf, VARINT) | 0x80);
                    out.byte((58 >> 4) as u8);
                    out.byte(BOOTTIME as u8);
                }
            }
            out.word(*sequence, *sequence_len);
            event += out.len();
            out.word(u64::from_le_bytes([0, key(9, VARINT), r#type as u8, 0, 0, 0, 0, 0]), 3);
            if track != *own {
                out.byte(key(11, VARINT));
                out.varint(track);
            }
        });
        self.event = Place { packet: start + 1, event };
    }

    #[inline]
    pub(super) fn name(&mut self, window: &mut Window<'_>, names: &Names, name: Text) -> Result<()> {
        match name {
            Text::Symbol(symbol) => {
                let number = self.table.symbol(Family::EventName, symbol, names.text(symbol));
                self.put_number(key(10, VARINT), u64::from(number));
                Ok(())
            }
            Text::Source(extent) => self.event_text(window, 23, extent),
        }
    }

    /// The category of the event.
    #[inline]
    pub(super) fn category(&mut self, names: &Names, symbol: Symbol) {
        let number = self.table.symbol(Family::Category, symbol, names.text(symbol));
        self.put_number(key(3, VARINT), u64::from(number));
    }

    /// A value of the event's own as its name.
    pub(super) fn value_name(&mut self, window: &mut Window<'_>, names: &Names, value: ArgValue) -> Result<()> {
        match value {
            ArgValue::Text(text) => self.name(window, names, text),
            ArgValue::Own(extent) => self.event_text(window, 23, extent),
            value => {
                let mut text = Vec::new();
                put_as_name(&mut text, value);
                let mut field = Vec::new();
                put_bytes(&mut field, 23, &text);
                self.out.put(&field);
                Ok(())
            }
        }
    }

    /// One end of an arrow; of those that are in, an event has one at most.
    #[inline]
    pub(super) fn flow(&mut self, end: End) {
        let buffer = &mut self.out.buffer;
        buffer.make_room(0);
        if end.is_in {
            let start = buffer.len() + 1;
            // At most 15 bytes.
            buffer.fields(|out| {
                out.word(u64::from_le_bytes([key(6, BYTES), 0, key(8, VARINT), 0, 0, 0, 0, 0]), 3);
                out.varint(end.id);
                out.byte(key(13, VARINT));
                out.byte(FLOW_IN);
            });
            buffer.set_length(start);
        } else {
            buffer.fields(|out| {
                out.byte(key(47 & 0xf, FIXED64) | 0x80);
                out.byte(47 >> 4);
                out.fixed64(end.id);
            });
        }
    }

    /// The sample of a counter, which is a number.
    pub(super) fn sample(&mut self, value: Value) {
        let mut field = Vec::new();
        let mut put_double = |number: f64| {
            put_key(&mut field, 44, FIXED64);
            field.extend_from_slice(&number.to_bits().to_le_bytes());
        };
        match value {
            Value::Int(number) => put_uint(&mut field, 30, number as u64), // keeps every bit
            Value::Uint(number) if i64::try_from(number).is_ok() => put_uint(&mut field, 30, number),
            // The nearest double; the field has no larger integers.
            Value::Uint(number) => put_double(number as f64),
            Value::Double(number) => put_double(number),
            Value::Unset | Value::Str(_) | Value::Bytes(_) | Value::Ref(_) => {}
        }
        self.out.put(&field);
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
                self.table.symbol(Family::AnnotationString, symbol, names.text(symbol))
            }
            ArgValue::Own(extent) if extent.len <= LONGEST_INTERNED => self.table.own(window.piece(extent)?, put_text),
            ArgValue::Own(extent) | ArgValue::Text(Text::Source(extent)) => {
                return self.long_annotation(window, name, extent);
            }
            ArgValue::Bytes(extent) => return self.bytes_annotation(window, name, extent),
            ArgValue::Int(_) | ArgValue::Uint(_) | ArgValue::Double(_) => 0,
        };
        let buffer = &mut self.out.buffer;
        buffer.make_room(0);
        let start = buffer.len() + 1;
        // At most 20 bytes.
        buffer.fields(|out| {
            out.word(u64::from_le_bytes([key(4, BYTES), 0, key(1, VARINT), 0, 0, 0, 0, 0]), 3);
            out.small_varint(u64::from(name));
            match value {
                ArgValue::Int(number) => {
                    out.byte(key(4, VARINT));
                    out.varint(number as u64); // keeps every bit
                }
                ArgValue::Uint(number) => {
                    out.byte(key(3, VARINT));
                    out.varint(number);
                }
                ArgValue::Double(number) => {
                    out.byte(key(5, FIXED64));
                    out.fixed64(number.to_bits());
                }
                ArgValue::Text(_) | ArgValue::Own(_) | ArgValue::Bytes(_) => {
                    out.byte(key(17 & 0xf, VARINT) | 0x80);
                    out.byte((17 >> 4) as u8);
                    out.small_varint(u64::from(string));
                }
            }
        });
        buffer.set_length(start);
        Ok(())
    }

    fn long_annotation(&mut self, window: &mut Window<'_>, name: u32, text: Extent) -> Result<()> {
        let len = text_len(window, text)?;
        let mut inner = Vec::new();
        put_uint(&mut inner, 1, u64::from(name));
        put_key(&mut inner, 6, BYTES);
        put_varint(&mut inner, len);
        let mut field = Vec::new();
        put_key(&mut field, 4, BYTES);
        put_varint(&mut field, wide(inner.len()) + len);
        field.extend_from_slice(&inner);
        self.out.put(&field);
        self.event_splice(text, len);
        Ok(())
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
        let mut field = Vec::new();
        put_bytes(&mut field, 4, &annotation);
        self.out.put(&field);
        Ok(())
    }

    /// Ends the event that was begun last.
    #[inline]
    pub(super) fn end(&mut self, window: &mut Window<'_>) -> Result<()> {
        if !self.splices.is_empty() {
            return self.end_long(window);
        }
        let buffer = &mut self.out.buffer;
        buffer.set_length(self.event.event);
        if !self.table.news.is_empty() {
            buffer.message(12, &self.table.news);
            self.table.news.clear();
        }
        buffer.set_length(self.event.packet);
        self.out.flush_batch()
    }

    /// Ends an event with splices: takes it out of the buffer and puts it back piece by piece.
    #[cold]
    fn end_long(&mut self, window: &mut Window<'_>) -> Result<()> {
        let Place { packet, event } = self.event;
        let written = self.out.buffer.written();
        let head = written[packet + 1..event - 1].to_vec();
        self.body.clear();
        self.body.extend_from_slice(&written[event + 1..]);
        self.out.buffer.cut(packet - 1);
        self.end_message(window, &head, 11)
    }

    /// Writes the end of the innermost slice of a track.
    #[inline]
    pub(super) fn slice_end(&mut self, track: u64, time: Time) -> Result<()> {
        self.put_head(Type::SliceEnd, track, time);
        let buffer = &mut self.out.buffer;
        buffer.set_length(self.event.event);
        buffer.set_length(self.event.packet);
        self.out.flush_batch()
    }

    #[inline]
    fn put_number(&mut self, key: u8, number: u64) {
        let buffer = &mut self.out.buffer;
        buffer.make_room(0);
        buffer.fields(|out| {
            out.byte(key);
            out.small_varint(number);
        });
    }

    /// A field of the event in the making that is a text of the source.
    fn event_text(&mut self, window: &mut Window<'_>, field: u32, text: Extent) -> Result<()> {
        let len = text_len(window, text)?;
        let mut head = Vec::new();
        put_key(&mut head, field, BYTES);
        put_varint(&mut head, len);
        self.out.put(&head);
        self.event_splice(text, len);
        Ok(())
    }

    /// A text of the source goes here in the event in the making.
    fn event_splice(&mut self, text: Extent, len: u64) {
        if len > 0 {
            let at = self.out.buffer.len() - self.event.event - 1;
            self.splices.push(Splice { at, text, len });
        }
    }

    /// Writes a packet of `head`, what was interned for it, and the message in the making as the field `field`.
    pub(super) fn end_message(&mut self, window: &mut Window<'_>, head: &[u8], field: u32) -> Result<()> {
        let spliced: u64 = self.splices.iter().map(|splice| splice.len).sum();
        let mut front = head.to_vec();
        if !self.table.news.is_empty() {
            put_bytes(&mut front, 12, &self.table.news);
            self.table.news.clear();
        }
        put_key(&mut front, field, BYTES);
        put_varint(&mut front, wide(self.body.len()) + spliced);
        let mut packet = Vec::new();
        put_key(&mut packet, 1, BYTES);
        put_varint(&mut packet, wide(front.len() + self.body.len()) + spliced);
        self.out.put(&packet);
        self.out.put(&front);
        let mut from = 0;
        for splice in &self.splices {
            self.out.put(&self.body[from..splice.at]);
            self.out.put_source(window, splice.text)?;
            from = splice.at;
        }
        self.out.put(&self.body[from..]);
        self.out.flush_batch()
    }

    /// Writes a packet that is one short message.
    fn end_short(&mut self, field: u32) {
        let mut packet = Vec::new();
        put_bytes(&mut packet, field, &self.body);
        let mut trace = Vec::new();
        put_bytes(&mut trace, 1, &packet);
        self.out.put(&trace);
        self.body.clear();
    }
}

/// The key of a field below 16, in its one byte.
const fn key(field: u8, wire_type: u32) -> u8 {
    field << 3 | wire_type as u8 // at most 5
}
