//! Made-up spaces with everything in them that post-processing tells apart.

use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use std::collections::HashSet;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata};

/// Planes that are merged into the host's.
pub(super) const HOST_SOURCES: [&str; 5] =
    ["/host:TPU-runtime", "/host:CUPTI", "/host:python-tracer", "/host:ROCTRACER", "/host:CPU"];
/// The plane that is merged into the host's with line ids of its own.
pub(super) const NVTX: &str = "/host:NVTX-CUPTI";
/// A start of a session, in nanoseconds since the Unix epoch.
pub(super) const START: u64 = 1_700_000_000_000_000_000;

const START_SIGNED: i64 = 1_700_000_000_000_000_000;
const OTHERS: [&str; 7] =
    [NVTX, "/device:GPU:0", "/device:GPU:1", "/host:metadata", "Task Environment", "/custom:x", ""];
const NAMES: [&str; 7] = ["", "a", "b", "op", "Ω", "process_id", "profile_start_time"];

/// Spaces of up to eight planes, most of them of the host and many of one name.
pub(super) fn spaces() -> impl Strategy<Value = XSpace> {
    (vec(plane(), 0..8), vec(Just("host".to_owned()), 0..2)).prop_map(|(planes, hostnames)| XSpace {
        planes,
        hostnames,
        warnings: vec!["w".into()],
        ..Default::default()
    })
}

fn plane() -> impl Strategy<Value = XPlane> {
    let name = prop_oneof![3 => select(&HOST_SOURCES[..]), 1 => Just(NVTX), 3 => select(&OTHERS[..])];
    (name, 0_i64..3, vec(line(), 0..5), btree_map(1_i64..8, kind(), 0..6), btree_map(1_i64..8, text(), 0..6), stats())
        .prop_map(|(name, id, lines, kinds, texts, stats)| {
            let event_metadata = kinds.into_iter().map(|(id, kind)| (id, XEventMetadata { id, ..kind })).collect();
            let stat_metadata = texts.into_iter().map(|(id, stat)| (id, XStatMetadata { id, ..stat })).collect();
            let mut plane = XPlane { id, name: name.into(), lines, event_metadata, stat_metadata, stats };
            make_names_clear(&mut plane);
            keep_unknown_ids_unknown(&mut plane);
            plane
        })
}

/// Which of two entries of one name TSL takes is up to its hash table, so one of them goes. In planes that are only
/// ever sources, stats may share a name, since there each is found by its id.
fn make_names_clear(plane: &mut XPlane) {
    let mut seen = HashSet::new();
    plane.event_metadata.retain(|_, kind| kind.name.is_empty() || seen.insert(kind.name.clone()));
    if !HOST_SOURCES.contains(&plane.name.as_str()) {
        seen.clear();
        plane.stat_metadata.retain(|_, stat| stat.name.is_empty() || seen.insert(stat.name.clone()));
    }
    // The same holds for the metadata of a nameless kind, which a merge makes one of many.
    let mut nameless = plane.event_metadata.values().filter(|kind| kind.name.is_empty()).cloned();
    if let Some(first) = nameless.next() {
        drop(nameless);
        for (&id, kind) in plane.event_metadata.iter_mut().filter(|(_, kind)| kind.name.is_empty()) {
            *kind = XEventMetadata { id, ..first.clone() };
        }
    }
}

/// New metadata gets the ids after the largest, so in a target an unknown id that is larger may come to mean something;
/// what, is up to the order of TSL's hash table. Moves such ids out of reach.
fn keep_unknown_ids_unknown(plane: &mut XPlane) {
    let (kinds, texts) = (&mut plane.event_metadata, &plane.stat_metadata);
    let move_stats = |stats: &mut Vec<XStat>| {
        for stat in stats {
            if !texts.contains_key(&stat.metadata_id) {
                stat.metadata_id += 1000;
            }
            if let Some(Value::RefValue(id @ 0..1000)) = &mut stat.value
                && !texts.keys().any(|&known| known.unsigned_abs() == *id)
            {
                *id += 1000;
            }
        }
    };
    for event in plane.lines.iter_mut().flat_map(|line| &mut line.events) {
        if !kinds.contains_key(&event.metadata_id) {
            event.metadata_id += 1000;
        }
        move_stats(&mut event.stats);
    }
    let known: HashSet<i64> = kinds.keys().copied().collect();
    for kind in kinds.values_mut() {
        move_stats(&mut kind.stats);
        for child in kind.child_id.iter_mut().filter(|child| !known.contains(child)) {
            *child += 1000;
        }
    }
    move_stats(&mut plane.stats);
}

fn line() -> impl Strategy<Value = XLine> {
    let id = select(vec![1, 2, 3, 10, 1 << 32, (1 << 32) + 1, -5, i64::MAX]);
    let timestamp_ns = prop_oneof![
        4 => START_SIGNED..START_SIGNED + 3000,
        2 => START_SIGNED - 3000..START_SIGNED,
        1 => -5_i64..900,
        1 => select(vec![0, i64::MAX / 1000]),
    ];
    let name = || select(vec!["", "t", "main", "B"]);
    (id, name(), name(), timestamp_ns, vec(event(), 0..6), select(vec![0_i64, 0, 9]), select(vec![0_i64, 0, 8]))
        .prop_map(|(id, name, display_name, timestamp_ns, events, display_id, duration_ps)| XLine {
            id,
            name: name.into(),
            display_name: display_name.into(),
            timestamp_ns,
            events,
            display_id,
            duration_ps,
        })
}

fn event() -> impl Strategy<Value = XEvent> {
    let offset = prop_oneof![
        4 => 0_i64..20,
        3 => 0_i64..10_000_000,
        2 => -3_000_000_i64..0,
        1 => select(vec![i64::MIN, -1, i64::MAX, 1 << 62]),
    ];
    let data = prop_oneof![
        6 => offset.prop_map(|offset| Some(Data::OffsetPs(offset))),
        1 => (-1_i64..5).prop_map(|count| Some(Data::NumOccurrences(count))),
        1 => Just(None),
    ];
    let duration_ps = prop_oneof![4 => 0_i64..5, 1 => any::<i64>()];
    (0_i64..10, data, duration_ps, stats()).prop_map(|(metadata_id, data, duration_ps, stats)| XEvent {
        metadata_id,
        data,
        duration_ps,
        stats,
    })
}

fn kind() -> impl Strategy<Value = XEventMetadata> {
    let display_name = select(vec!["", "D", "E"]);
    (select(&NAMES[..]), display_name, vec(any::<u8>(), 0..2), stats(), vec(0_i64..9, 0..2)).prop_map(
        |(name, display_name, metadata, stats, child_id)| XEventMetadata {
            id: 0,
            name: name.into(),
            metadata,
            display_name: display_name.into(),
            stats,
            child_id,
        },
    )
}

fn text() -> impl Strategy<Value = XStatMetadata> {
    (select(&NAMES[..]), select(vec!["", "d"])).prop_map(|(name, description)| XStatMetadata {
        id: 0,
        name: name.into(),
        description: description.into(),
    })
}

/// Stats of every type; some of unknown names, and some references into nothing.
fn stats() -> impl Strategy<Value = Vec<XStat>> {
    let value = prop_oneof![
        any::<f64>().prop_map(Value::DoubleValue),
        any::<u64>().prop_map(Value::Uint64Value),
        any::<i64>().prop_map(Value::Int64Value),
        select(vec!["", "text", "Ω"]).prop_map(|text| Value::StrValue(text.into())),
        vec(any::<u8>(), 0..3).prop_map(Value::BytesValue),
        (0_u64..10).prop_map(Value::RefValue),
        Just(Value::RefValue(u64::MAX)),
    ];
    vec((0_i64..10, weighted(0.9, value)).prop_map(|(metadata_id, value)| XStat { metadata_id, value }), 0..3)
}
