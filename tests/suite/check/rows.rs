//! One space for each kind of finding, with what is said of it and where.

use std::collections::BTreeSet;
use std::io::{Seek as _, SeekFrom, Write as _};

use prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_proto::{XPlane, XSpace, XStat, XStatMetadata};
use zprof_runtime::export::{CheckOptions, FindingKind, check};
use zprof_tests::make::{Plane, space};

use super::{checked, kinds};
use crate::json::wire::{bytes, event_metadata, int, key, message, varint};

/// A plane with one event.
fn one() -> Plane {
    Plane::new("/host:CPU").line(1, "main", 0).event("e", 0, 10)
}

fn encoded(plane: Plane) -> Vec<u8> {
    space([plane]).encode_to_vec()
}

/// The space of one event, changed.
fn changed(change: impl FnOnce(&mut XSpace)) -> Vec<u8> {
    let mut space = space([one()]);
    change(&mut space);
    space.encode_to_vec()
}

/// A host plane of raw fields, after which come a name and one kind of event.
fn raw(fields: &[Vec<u8>]) -> Vec<u8> {
    let rest = [bytes(2, "/host:CPU"), event_metadata(1, &[bytes(2, "e")])].concat();
    message(1, &[fields.concat(), rest])
}

/// A line with one event, and more fields of the line.
fn raw_line(fields: &[Vec<u8>]) -> Vec<u8> {
    message(3, &[int(1, 1), bytes(2, "main"), fields.concat()])
}

/// The session of a plane: it lasted a microsecond.
fn session() -> Plane {
    Plane::new("Task Environment")
        .plane_stat("profile_start_time", Value::Uint64Value(1_700_000_000_000_000_000))
        .plane_stat("profile_stop_time", Value::Uint64Value(1_700_000_000_000_001_000))
}

fn stat(id: i64, value: Value) -> XStat {
    XStat { metadata_id: id, value: Some(value) }
}

fn event(offset: i64) -> Vec<u8> {
    message(4, &[int(1, 1), int(2, offset), int(3, 1)])
}

/// Every kind with a space in which it, and nothing else, is found once; but for `too-large`, which needs a file.
pub(super) fn all() -> Vec<(FindingKind, Vec<u8>)> {
    let int_value = Value::Int64Value;
    let mut all = vec![
        (FindingKind::Malformed, bytes(1, [0x1a, 100, 0])),
        (FindingKind::WrongType, raw(&[raw_line(&[event(0), bytes(3, "ts")])])),
        (FindingKind::NotUtf8, raw(&[message(3, &[int(1, 1), bytes(2, b"\xff"), event(0)])])),
        (FindingKind::UnknownEvent, changed(|space| space.planes[0].lines[0].events[0].metadata_id = 9)),
        (
            FindingKind::UnknownStat,
            changed(|space| space.planes[0].lines[0].events[0].stats.push(stat(9, int_value(1)))),
        ),
        (FindingKind::UnknownText, encoded(one().stat("s", Value::RefValue(9)))),
        (FindingKind::MetadataId, encoded(one().kind("e", |kind| kind.id = 9))),
        (FindingKind::NegativeDuration, changed(|space| space.planes[0].lines[0].events[0].duration_ps = -1)),
        (FindingKind::BeforeStart, encoded(Plane::new("/host:CPU").line(1, "main", -1).event("e", 999, 5))),
        (
            FindingKind::TimeOverflow,
            encoded(Plane::new("/host:CPU").line(1, "main", i64::MAX / 1_000).event("e", 900, 0)),
        ),
        (
            FindingKind::FarOff,
            space([session(), Plane::new("/host:CPU").line(1, "main", 900_000_000_000_000_000).event("e", 0, 5)])
                .encode_to_vec(),
        ),
        (FindingKind::UnknownField, raw(&[raw_line(&[event(0), int(5, 1)])])),
        (FindingKind::RepeatedMetadata, raw(&[event_metadata(1, &[bytes(2, "other")]), raw_line(&[event(0)])])),
        (FindingKind::RepeatedPlane, space([one(), one()]).encode_to_vec()),
        (
            FindingKind::RepeatedDevice,
            space([Plane::new("/device:GPU:0"), Plane::new("/device:GPU:1").line(1, "s", 0).event("k", 0, 1)])
                .encode_to_vec(),
        ),
        (FindingKind::RepeatedLine, encoded(one().line(1, "other", 0))),
        (FindingKind::ThreadId, encoded(one().line((1 << 32) + 1, "other", 0))),
        (FindingKind::Overlap, encoded(one().event("e", 5, 10))),
        (FindingKind::Unsorted, encoded(Plane::new("/host:CPU").line(1, "main", 0).event("e", 20, 5).event("e", 0, 5))),
        (
            FindingKind::AfterStop,
            space([session(), Plane::new("/host:CPU").line(1, "main", 0).event("e", 999_000, 1_001)]).encode_to_vec(),
        ),
        (FindingKind::Nul, changed(|space| space.hostnames.push("a\0b".into()))),
        (FindingKind::Nameless, encoded(one().event("", 20, 1))),
        (
            FindingKind::DanglingFlow,
            encoded(
                one()
                    .stat("_pt", int_value(5))
                    .stat("_p", Value::Uint64Value(77))
                    .event("met", 20, 1)
                    .stat("_ct", int_value(5))
                    .stat("_c", Value::Uint64Value(77))
                    .event("alone", 30, 1)
                    .stat("_ct", int_value(6))
                    .stat("_c", Value::Uint64Value(77))
                    // These have no id, or one of another process.
                    .event("none", 40, 1)
                    .stat("_c", Value::Uint64Value(u64::MAX))
                    .event("elsewhere", 50, 1)
                    .stat("_pid", int_value(3))
                    .stat("_c", Value::Uint64Value(4)),
            ),
        ),
        (FindingKind::Reported, changed(|space| space.errors.push("no device".into()))),
        (FindingKind::Reported, changed(|space| space.warnings.push("dropped 3 scopes".into()))),
        (FindingKind::Empty, space([Plane::new("/host:CPU").line(1, "main", 0)]).encode_to_vec()),
    ];
    let deep = |plane: Plane, depth: i64| plane.event("e", depth, 2_000 - 2 * depth);
    all.push((FindingKind::TooDeep, encoded((0..513).fold(Plane::new("/host:CPU").line(1, "main", 0), deep))));
    let many = message(4, &[int(1, 1)]).repeat(1_000_001);
    all.push((FindingKind::TooManyEvents, raw(&[raw_line(&[many])])));
    all
}

#[test]
fn every_kind_is_found_alone() {
    for (kind, bytes) in all() {
        assert_eq!(kinds(&bytes), [(kind.name(), 1)]);
    }
}

#[test]
fn no_kind_is_left_out() {
    let mut found: BTreeSet<_> = all().into_iter().map(|(kind, _)| kind.name()).collect();
    found.insert(FindingKind::TooLarge.name());
    // The table in the documentation, as that is what people read.
    let source = include_str!("../../../zprof-runtime/src/export/check/mod.rs");
    let rows = source.lines().filter(|line| line.starts_with("//! | `"));
    let documented: BTreeSet<_> =
        rows.flat_map(|row| row.split('|').nth(1).expect("a cell").split('`').skip(1).step_by(2)).collect();
    assert_eq!(found, documented);
}

#[test]
fn a_file_beyond_two_gibibytes_is_found() {
    let mut file = tempfile::tempfile().expect("a file");
    // A hole in metadata that nobody reads.
    let hole = 2_u64 << 30;
    let value_len = 1 + varint(hole).len() as u64 + hole;
    let entry = [int(1, 1), key(2, 2), varint(value_len + 2), int(1, 1), key(3, 2), varint(hole)].concat();
    let entry_len = entry.len() as u64 + hole;
    let rest = [bytes(2, "/host:CPU"), raw_line(&[event(0)])].concat();
    let head = [key(4, 2), varint(entry_len), entry].concat();
    let plane_len = head.len() as u64 + hole + rest.len() as u64;
    file.write_all(&[key(1, 2), varint(plane_len), head].concat()).expect("is written");
    file.seek(SeekFrom::Current(hole.cast_signed())).expect("seeks");
    file.write_all(&rest).expect("is written");
    let found = check(&file, &CheckOptions::default()).expect("can be read");
    let counts: Vec<_> = found.counts.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    // The metadata has no name, as the hole takes its place.
    assert_eq!(counts, [("too-large", 1), ("nameless", 1)]);
}

#[test]
fn findings_say_where() {
    let place = |bytes: &[u8]| {
        let found = checked(bytes);
        let finding = &found.findings[0];
        (finding.message.clone(), finding.plane.clone(), finding.line.clone(), finding.event, finding.at)
    };
    let here = |line: Option<&str>| (Some("/host:CPU".to_owned()), line.map(str::to_owned));

    let overlapping = encoded(one().event("e", 5, 10));
    let second = overlapping.windows(8).rposition(|bytes| bytes == [0x22, 6, 8, 1, 16, 5, 24, 10]).expect("is there");
    let (plane, line) = here(Some("main"));
    let message = "the event starts in event 0 and ends 0.005 ns after it".to_owned();
    assert_eq!(place(&overlapping), (message, plane, line, Some(1), Some(second as u64 + 2)));

    let text = raw(&[message_with_text(b"ok\xff")]);
    let at = text.iter().position(|byte| *byte == 0xff).expect("is there");
    let (message, _, _, event, found_at) = place(&text);
    assert_eq!((message.as_str(), event), ("string 2 of a line is not UTF-8", None));
    assert_eq!(found_at, Some(at as u64));

    let (message, ..) = place(b"This is no profile at all.");
    assert!(message.contains("at byte 0") || message.contains("byte"), "{message}");

    let lost = changed(|space| space.planes[0].lines[0].events[0].metadata_id = 9);
    let (plane, line) = here(Some("main"));
    let at = lost.windows(2).position(|bytes| bytes == [8, 9]).expect("is there") as u64;
    assert_eq!(place(&lost), ("the event's metadata 9 does not exist".to_owned(), plane, line, Some(0), Some(at)));
}

fn message_with_text(text: &[u8]) -> Vec<u8> {
    message(3, &[int(1, 1), bytes(2, text), event(0)])
}

#[test]
fn one_malformed_plane_hides_no_other() {
    let broken = bytes(1, [0x1a, 100, 0]);
    let good = changed(|space| space.planes[0].lines[0].events[0].metadata_id = 9);
    let both = [broken.clone(), good, broken].concat();
    assert_eq!(kinds(&both), [("malformed", 2), ("unknown-event", 1)]);
    assert_eq!(kinds(b"\x0a"), [("malformed", 1)]);
    assert_eq!(kinds(&int(9, 3)), [("malformed", 1), ("unknown-field", 1), ("empty", 0)][..2]);
    assert_eq!(kinds(&[]), [("empty", 1)]);
}

#[test]
fn asynchronous_and_aggregated_events_do_not_overlap() {
    let asynchronous = one().event("e", 5, 10).stat("_a", Value::Int64Value(1));
    let line = Plane::new("/device:TPU:0").line(1, "Async XLA Ops", 0).event("e", 0, 10).event("e", 5, 10);
    let aggregated = Plane::new("/device:TPU:1").line(1, "ops", 0).aggregated("e", 3, 10).aggregated("e", 3, 12);
    let aggregated = XPlane { id: 1, ..aggregated.build() };
    let mut space = space([asynchronous, line]);
    space.planes.push(aggregated);
    let found = kinds(&space.encode_to_vec());
    // Aggregated events are in the order of the file, longest first is asked of those with a time only.
    assert!(found.iter().all(|(kind, _)| *kind == "unsorted"), "{found:?}");
}

#[test]
fn metadata_of_stats_is_checked_as_that_of_events_is() {
    let plane = |change: fn(&mut XPlane)| {
        changed(|space| {
            let plane = &mut space.planes[0];
            plane.stat_metadata.insert(1, XStatMetadata { id: 1, name: "s".into(), ..Default::default() });
            change(plane);
        })
    };
    assert_eq!(kinds(&plane(|_| ())), []);
    let id = plane(|plane| plane.stat_metadata.insert(2, XStatMetadata::default()).map_or((), drop));
    assert_eq!(kinds(&id), [("metadata-id", 1)]);
    let shared = plane(|plane| {
        plane.event_metadata.values_mut().for_each(|kind| kind.stats.push(stat(4, Value::RefValue(5))));
    });
    assert_eq!(kinds(&shared), [("unknown-stat", 1), ("unknown-text", 1)]);
    let of_plane = plane(|plane| plane.stats.push(stat(1, Value::RefValue(5))));
    assert_eq!(kinds(&of_plane), [("unknown-text", 1)]);
}
