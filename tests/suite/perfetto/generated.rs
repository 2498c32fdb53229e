//! Generated spaces, most of them odd: unsorted, overlapping, respelled, mangled.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use zprof_runtime::ErrorKind;

use super::{check, convert, convert_hosts, events, json};
use crate::json::fixture_bytes;
use crate::json::parity::space;

#[test]
fn generated_spaces_hold_everything_of_their_json() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let spaces: Vec<Vec<u8>> =
        (0..60).map(|_| space().new_tree(&mut runner).expect("is generated").current()).collect();
    let traces: Vec<_> =
        spaces.iter().map(|space| (convert(space).unwrap_or_else(|error| panic!("{error}")), json(space))).collect();
    let reports = check(traces.iter().map(|((trace, _), json)| (trace.as_slice(), Some(json.as_str()))));
    let mut count = 0;
    for (report, ((_, summary), _)) in reports.iter().zip(&traces) {
        assert_eq!(events(report).len() as u64, summary.events);
        count += summary.events;
    }
    assert!(count > 3_000, "the spaces should not be as good as empty: {count} events in all");

    // Together they show what they show alone.
    let names: Vec<String> = (0..spaces.len()).map(|number| format!("host {number}")).collect();
    let hosts: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(spaces.iter().map(Vec::as_slice)).collect();
    let (trace, summary) = convert_hosts(&hosts).expect("are XSpaces");
    assert_eq!(summary.events, count);
    assert_eq!(events(&check([(trace.as_slice(), None)])[0]).len() as u64, count);
}

/// Traces that came of mangled bytes, for one look at all of them.
fn survive(xspace: &[u8], traces: &RefCell<Vec<Vec<u8>>>) {
    match convert(xspace) {
        Ok((trace, _)) => traces.borrow_mut().push(trace),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            let message = error.to_string();
            assert!(message.starts_with("not an XSpace: ") && message.contains("at byte "), "{message}");
        }
    }
}

#[test]
fn mangled_bytes_are_refused_or_make_a_sound_trace() {
    let traces = RefCell::new(Vec::new());
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let config = |cases| Config { cases, failure_persistence: None, ..Config::default() };
    for (name, cases) in [("raw_host_planes.post.xplane.pb", 400), ("jax_cpu_small.xplane.pb", 20)] {
        let whole = fixture_bytes(name);
        let done = TestRunner::new(config(cases)).run(&flips, |flips| {
            let mut space = whole.clone();
            for (place, byte) in flips {
                let place = place.index(space.len());
                space[place] = byte;
            }
            survive(&space, &traces);
            Ok(())
        });
        done.unwrap_or_else(|error| panic!("{error}"));
        for end in (0..whole.len()).step_by(whole.len() / 50) {
            survive(&whole[..end], &traces);
        }
    }
    let traces = traces.into_inner();
    assert!(traces.len() > 40, "only {} were read", traces.len());
    check(traces.iter().map(|trace| (trace.as_slice(), None)));
}
