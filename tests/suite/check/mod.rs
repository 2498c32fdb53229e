//! The check: every kind of finding has a space that it is found in, at its place, and sound ones have none.

mod rows;

use std::collections::BTreeSet;

use proptest::prelude::*;
use prost::Message as _;
use zprof_proto::XSpace;
use zprof_runtime::export::{CheckOptions, Checked, FindingKind, Severity, check};

use crate::json::fixture_bytes;
use crate::json::wire::{Kind, Random, respell};

/// What is found in these bytes.
fn checked(bytes: &[u8]) -> Checked {
    check(&bytes, &CheckOptions::default()).expect("memory can be read")
}

/// The kinds that are found in these bytes, with their numbers.
fn kinds(bytes: &[u8]) -> Vec<(&'static str, u64)> {
    checked(bytes).counts.iter().map(|(kind, count)| (kind.name(), *count)).collect()
}

#[test]
fn fixtures_are_as_sound_as_they_are() {
    let rows: [(&str, &[(&str, u64)]); 5] = [
        // JAX's annotations begin before the Python frames that open them end, and stop_trace ends after the session.
        ("jax_cpu_small", &[("overlap", 20), ("after-stop", 1)]),
        ("jax_cpu_mid", &[("overlap", 300), ("after-stop", 1)]),
        // Before post-processing lines are at the time of day, and not in order.
        ("raw_host_planes", &[("time-overflow", 11), ("repeated-plane", 1), ("repeated-device", 1), ("unsorted", 3)]),
        ("raw_host_planes.post", &[]),
        ("host_events", &[]),
    ];
    for (name, expected) in rows {
        assert_eq!(kinds(&fixture_bytes(&format!("{name}.xplane.pb"))), expected, "{name}");
    }
}

#[test]
fn what_is_looked_at_is_counted() {
    let bytes = fixture_bytes("jax_cpu_small.xplane.pb");
    let found = checked(&bytes);
    let space = XSpace::decode(bytes.as_slice()).expect("is an XSpace");
    let lines = space.planes.iter().flat_map(|plane| &plane.lines);
    let events: usize = lines.clone().map(|line| line.events.len()).sum();
    assert_eq!((found.planes, found.lines, found.events), (3, lines.count() as u64, events as u64));
    assert_eq!((found.count(Severity::Error), found.count(Severity::Warning)), (0, 21));
    assert_eq!(found.findings.len(), 6, "five of a kind, and one");
    let mut options = CheckOptions::default();
    options.max_per_kind = 0;
    let counted = check(&bytes.as_slice(), &options).expect("memory can be read");
    assert_eq!((counted.findings.len(), &counted.counts), (0, &found.counts));
}

#[test]
fn every_spelling_is_as_sound_but_for_fields_nobody_knows() {
    for (name, spellings) in [("jax_cpu_small.xplane.pb", 2), ("raw_host_planes.post.xplane.pb", 40)] {
        let bytes = fixture_bytes(name);
        let known = |bytes: &[u8]| {
            let mut kinds = kinds(bytes);
            // Spellings have unknown fields between, some with numbers of known ones.
            kinds.retain(|(kind, _)| !["unknown-field", "wrong-type"].contains(kind));
            kinds
        };
        for seed in 0..spellings {
            assert_eq!(known(&respell(Kind::Space, &bytes, &mut Random(seed))), known(&bytes), "{name}, seed {seed}");
        }
    }
}

#[test]
fn kinds_are_named_once_and_errors_come_first() {
    let found: BTreeSet<_> = rows::all().into_iter().map(|(kind, _)| kind).collect();
    let names: BTreeSet<_> = found.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), found.len());
    let severities: Vec<_> = found.iter().map(|kind| kind.severity()).collect();
    assert!(severities.is_sorted_by(|left, right| left >= right), "{severities:?}");
    assert_eq!(FindingKind::FarOff.severity(), Severity::Error);
    assert_eq!(FindingKind::UnknownField.severity(), Severity::Warning);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_judged(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = fixture_bytes("raw_host_planes.post.xplane.pb");
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let found = checked(&bytes);
        // What prost refuses is an error here too.
        let refused = XSpace::decode(bytes.as_slice()).is_err();
        prop_assert!(!refused || found.count(Severity::Error) > 0, "{:?}", found);
    }
}
