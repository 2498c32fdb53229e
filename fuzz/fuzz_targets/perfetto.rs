//! Any bytes: the Perfetto export refuses them with a place and a reason, or writes a trace that its readers lose nothing of:
//! each event is on a track that was described, each slice that begins ends on its track, not before it begins, and texts and
//! clocks are known in their sequence.
//!
//! `cargo +nightly fuzz run perfetto fuzz/corpus/perfetto tests/fixtures`

#![no_main]

use std::collections::{HashMap, HashSet};

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{PerfettoOptions, write_perfetto};

/// A field of a message: its number, and its number or its content.
type Field<'b> = (u64, u64, &'b [u8]);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a varint ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f).wrapping_shl(shift);
        if *byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let len = match key & 7 {
            0 => {
                fields.push((key >> 3, varint(&mut bytes), &[][..]));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).expect("fits memory"),
            wire_type => panic!("wire type {wire_type}"),
        };
        let (content, rest) = bytes.split_at(len);
        bytes = rest;
        fields.push((key >> 3, 0, content));
    }
    fields
}

fn number(fields: &[Field<'_>], number: u64) -> Option<u64> {
    fields.iter().rfind(|field| field.0 == number).map(|field| field.1)
}

fn message<'b>(fields: &[Field<'b>], number: u64) -> Option<Vec<Field<'b>>> {
    fields.iter().rfind(|field| field.0 == number).map(|field| self::fields(field.2))
}

/// What a reader knows of the sequence.
#[derive(Default)]
struct Sequence {
    id: u64,
    /// Texts by family and number.
    texts: HashSet<(u64, u64)>,
    clocks: HashMap<u64, u64>,
    clock: u64,
    track: u64,
}

/// Counts the events of a trace.
fn count_events(trace: &[u8]) -> u64 {
    let mut sequence = Sequence::default();
    let mut tracks = HashSet::new();
    let mut timeline: Vec<(u64, u64, u64)> = Vec::new();
    let mut count = 0;
    for (field, _, packet) in fields(trace) {
        assert_eq!(field, 1, "a packet");
        let packet = fields(packet);
        if let Some(track) = message(&packet, 60) {
            assert!(number(&track, 5).is_none_or(|parent| tracks.contains(&parent)), "a parent");
            assert!(tracks.insert(number(&track, 1).expect("an id")), "a track twice");
            continue;
        }
        let id = number(&packet, 10).expect("a sequence");
        if number(&packet, 13) == Some(1) {
            assert!(id > sequence.id);
            sequence = Sequence { id, ..Sequence::default() };
        }
        assert_eq!(id, sequence.id);
        for (family, _, entry) in message(&packet, 12).unwrap_or_default() {
            let entry = fields(entry);
            assert!(sequence.texts.insert((family, number(&entry, 1).expect("a number"))), "a number twice");
            let text = entry.iter().find(|field| field.0 == 2).expect("a text").2;
            assert!(std::str::from_utf8(text).is_ok());
        }
        if let Some(defaults) = message(&packet, 59) {
            sequence.clock = number(&defaults, 58).expect("a clock");
            sequence.track = number(&message(&defaults, 11).expect("defaults of events"), 11).expect("a track");
            assert!(sequence.clocks.insert(sequence.clock, 0).is_none(), "a clock twice");
            continue;
        }
        let mut time = number(&packet, 8).expect("a time");
        if number(&packet, 58).is_none() {
            let clock = sequence.clocks.get_mut(&sequence.clock).expect("a clock");
            *clock = clock.checked_add(time).expect("time does not wrap");
            time = *clock;
        }
        let event = message(&packet, 11).expect("an event");
        let track = number(&event, 11).unwrap_or(sequence.track);
        assert!(tracks.contains(&track), "no track {track}");
        let kind = number(&event, 9).expect("a type");
        timeline.push((time, track, kind));
        count += u64::from(kind != 2);
        let known = |family, iid| assert!(sequence.texts.contains(&(family, iid)), "no text {iid} in {family}");
        if let Some(iid) = number(&event, 10) {
            known(2, iid);
        }
        for (_, _, annotation) in event.iter().filter(|field| field.0 == 4) {
            let annotation = fields(annotation);
            known(3, number(&annotation, 1).expect("a name"));
            if let Some(iid) = number(&annotation, 17) {
                known(29, iid);
            }
        }
    }
    // Readers sort by time and keep the order of equals.
    timeline.sort_by_key(|event| event.0);
    let mut open: HashMap<u64, u64> = HashMap::new();
    for (_, track, kind) in timeline {
        let depth = open.entry(track).or_default();
        match kind {
            1 => *depth += 1,
            2 => *depth = depth.checked_sub(1).expect("an end of something"),
            3 | 4 => {}
            kind => panic!("type {kind}"),
        }
        assert!(*depth <= 250);
    }
    assert!(open.values().all(|depth| *depth == 0), "slices that never end");
    count
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte, if it is small, is a limit of events, so that this path is met as well.
    let mut options = PerfettoOptions::default();
    options.max_events = bytes.first().filter(|first| **first < 8).map(|first| u64::from(*first));
    let bytes = if options.max_events.is_some() { &bytes[1..] } else { bytes };
    let mut trace = Vec::new();
    match write_perfetto(&bytes, &mut trace, &options) {
        Ok(summary) => {
            assert_eq!(count_events(&trace), summary.events);
            assert!(options.max_events.is_none_or(|max_events| summary.events <= max_events));
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("at byte "), "{error}");
        }
    }
});
