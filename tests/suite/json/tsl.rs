//! The document in TSL's own style: equal to the real converter's to the byte, also where it stops at a number of events.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use zprof_runtime::export::JsonOptions;

use super::parity::{MARK, space, tsl_convert, tsl_json};
use super::wire::{bytes, event_metadata, int, message};
use super::{convert_with, fixture_bytes};

fn options(max_events: Option<u64>) -> JsonOptions {
    let mut options = JsonOptions::default();
    options.tsl = true;
    options.max_events = max_events;
    options
}

/// Both documents, and how many events ours has.
fn both(xspace: &[u8], max_events: Option<u64>) -> (String, String, u64) {
    let (ours, summary) = convert_with(xspace, &options(max_events)).expect("is an XSpace");
    (ours, tsl_convert(xspace, max_events), summary.events)
}

/// Says where they differ: the whole documents are long.
fn assert_same(ours: &str, theirs: &str, what: &str) {
    if ours != theirs {
        let at = ours.bytes().zip(theirs.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
        let part = |text: &str| {
            String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(80)..]).chars().take(200).collect::<String>()
        };
        panic!("{what}: byte {at}:\n  ours {}\n  TSL's {}", part(ours), part(theirs));
    }
}

#[test]
fn fixtures_are_tsl_s_to_the_byte() {
    for name in [
        "jax_cpu_small.xplane.pb",
        "jax_cpu_mid.xplane.pb",
        "raw_host_planes.post.xplane.pb",
        "raw_host_planes.xplane.pb",
        "host_events.xplane.pb",
    ] {
        let (ours, theirs, _) = both(&fixture_bytes(name), None);
        assert_same(&ours, &theirs, name);
    }
    // And as it came from another release of it.
    for (xspace, json) in [
        ("jax_cpu_small.xplane.pb", "jax_cpu_small.trace.json.gz"),
        ("jax_cpu_mid.xplane.pb", "jax_cpu_mid.trace.json.gz"),
        ("raw_host_planes.post.xplane.pb", "raw_host_planes.post.trace.json"),
    ] {
        let (ours, _) = convert_with(&fixture_bytes(xspace), &options(None)).expect("is an XSpace");
        assert_same(&ours, &tsl_json(json), json);
    }
}

#[test]
fn a_limit_leaves_the_order_of_tsl_s_heap() {
    let xspace = fixture_bytes("jax_cpu_small.xplane.pb");
    for max_events in [0, 1, 2, 3, 500, 901, 902, 903, 904] {
        let (ours, theirs, events) = both(&xspace, Some(max_events));
        assert_same(&ours, &theirs, &format!("{max_events} events"));
        assert_eq!(events, max_events.min(903));
    }
    // Nothing but events of one time, told apart by their durations.
    let events: Vec<_> = (1..200).map(|duration| message(4, &[int(1, 1), int(2, 5), int(3, duration)])).collect();
    let line = message(3, &[int(1, 7), events.concat()]);
    let space = message(1, &[bytes(2, "/host:CPU"), line, event_metadata(1, &[bytes(2, "e")])]);
    for max_events in [1, 2, 7, 64, 100, 198] {
        let (ours, theirs, _) = both(&space, Some(max_events));
        assert_same(&ours, &theirs, &format!("{max_events} events of one time"));
    }
}

#[test]
fn no_events_at_all_are_tsl_s_to_the_byte() {
    for space in [bytes(4, "host"), message(1, &[bytes(2, "/host:CPU")]), message(1, &[bytes(2, "/device:GPU:\0x")])] {
        let (ours, theirs, _) = both(&space, None);
        assert_same(&ours, &theirs, "empty");
        assert!(ours.ends_with("{}]}"));
    }
}

/// The same bytes with NULs in place of what marks them: no length changes.
fn with_nuls(mut space: Vec<u8>) -> Vec<u8> {
    let mark = MARK.as_bytes();
    while let Some(at) = space.windows(mark.len()).position(|part| part == mark) {
        space[at..at + mark.len()].fill(0);
    }
    space
}

#[test]
fn generated_spaces_are_tsl_s_to_the_byte() {
    let config = Config { cases: 40, max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    let (events, cut) = (Cell::new(0), Cell::new(0_usize));
    let limit = prop_oneof![1 => Just(None), 2 => (0_u64..400).prop_map(Some)];
    let spaces = (space(), limit);
    // Now and then the limits of a round are above what the spaces have.
    for _ in 0..5 {
        let result = TestRunner::new(config.clone()).run(&spaces, |(space, limit)| {
            let space = with_nuls(space);
            let (ours, theirs, count) = both(&space, limit);
            events.set(events.get() + count);
            cut.set(cut.get() + usize::from(Some(count) == limit && count > 1));
            prop_assert_eq!(ours, theirs);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
        if events.get() > 1_000 && cut.get() > 3 {
            return;
        }
    }
    panic!("as good as empty: {} events in all, {} spaces with more events than the limit", events.get(), cut.get());
}
