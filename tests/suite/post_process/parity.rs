//! The same planes, lines, events and stats, by name, as TSL's own code makes.
//!
//! TSL is that of TensorFlow 2.21, which is not the newest. The differences, all that are known:
//!
//! - It merges the metadata of a source's events as it meets them, and so leaves out kinds that no event has. We do as
//!   newer versions do and merge the whole table. [`without_unused_kinds`] makes the two the same, and
//!   [`kinds_without_events_are_kept`] holds the difference.
//! - Its sorts are not stable and ours are, so elements that compare equal are compared as sets (`sort_ties`).

use super::spaces::{HOST_SOURCES, NVTX, START, spaces};
use super::{by_name, processed};
use proptest::prelude::{ProptestConfig, proptest};
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use prost::Message as _;
use std::collections::{HashMap, HashSet};
use zprof_proto::{XPlane, XSpace};
use zprof_tests::make::{Plane, space};
use zprof_tests::{Canonical, canonical, oracle};

fn tsl(space: &XSpace, start_ns: u64, stop_ns: u64) -> Canonical {
    canonical(&oracle::post_process(&[(space.encode_to_vec(), start_ns, stop_ns)])[0])
}

/// Where we differ from TSL, apart from the order of equal elements.
fn difference(space: &XSpace, start_ns: u64, stop_ns: u64) -> Option<String> {
    let mut ours = by_name(space, start_ns, stop_ns);
    let mut theirs = tsl(space, start_ns, stop_ns);
    ours.sort_ties("/host:CPU");
    theirs.sort_ties("/host:CPU");
    ours.difference(&theirs)
}

/// Drops metadata that no event has from the planes that are merged into others.
fn without_unused_kinds(mut space: XSpace) -> XSpace {
    let mut before: HashMap<String, usize> = HashMap::new();
    for plane in &mut space.planes {
        let count = before.entry(plane.name.clone()).or_default();
        let merged = match plane.name.as_str() {
            name if HOST_SOURCES.contains(&name) => true,
            // The first goes to the host, and later ones to the second.
            NVTX => *count != 1,
            _ => *count > 0,
        };
        *count += 1;
        if merged {
            let used: HashSet<i64> = events(plane).collect();
            plane.event_metadata.retain(|id, _| used.contains(id));
        }
    }
    space
}

/// The kinds of the events of a plane.
fn events(plane: &XPlane) -> impl Iterator<Item = i64> + '_ {
    plane.lines.iter().flat_map(|line| &line.events).map(|event| event.metadata_id)
}

#[test]
fn a_recorded_space() {
    let raw = include_bytes!("../../fixtures/raw_host_planes.xplane.pb");
    let post = include_bytes!("../../fixtures/raw_host_planes.post.xplane.pb");
    let space = XSpace::decode(raw.as_slice()).expect("the fixture is a space");
    let (start, stop) = (1_700_000_000_000_000_000, 1_700_000_000_000_100_000);
    assert_eq!(by_name(&space, start, stop).difference(&canonical(post)), None);
    assert_eq!(difference(&space, start, stop), None);
}

#[test]
fn kinds_without_events_are_kept() {
    let source = || Plane::new("d").kind("unused", |_| {}).line(1, "l", 5).event("used", 0, 1);
    let space = space([source(), source().kind("new", |_| {})]);
    let kinds = |space: Canonical| space.plane("d").event_metadata.clone();
    assert_eq!(kinds(by_name(&space, 0, 0)), ["\"new\"", "\"unused\"", "\"used\""]);
    assert_eq!(kinds(tsl(&space, 0, 0)), ["\"unused\"", "\"used\""]);
}

#[test]
fn ids_are_those_of_their_entries() {
    let source = |name: &str| Plane::new(name).line(1, "l", 5).event("a", 0, 1).text("k", "v");
    let space = processed(&space(["/host:CPU", "/host:CUPTI", "d", "d"].map(source)), 5, 6);
    for plane in &space.planes {
        assert!(plane.event_metadata.iter().all(|(&id, kind)| id == kind.id && id != 0), "{plane:?}");
        assert!(plane.stat_metadata.iter().all(|(&id, stat)| id == stat.id && id != 0), "{plane:?}");
        assert!(events(plane).all(|id| plane.event_metadata.contains_key(&id)), "{plane:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn made_up_spaces(space in spaces(), start_ns in select(vec![0, 7, START, START + 500]), stop_ns in 0_u64..2) {
        let space = without_unused_kinds(space);
        let stop_ns = stop_ns * (start_ns + 1_000_000);
        if let Some(difference) = difference(&space, start_ns, stop_ns) {
            return Err(TestCaseError::fail(difference));
        }
    }
}
