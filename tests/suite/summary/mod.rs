//! Summaries and folded stacks: equal to what a slow and simple computation over the decoded message says.

// Only Linux holds a process to a limit of address space.
#[cfg(target_os = "linux")]
mod memory;
mod reference;
mod rows;
mod spaces;

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message as _;
use zprof_proto::XSpace;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{FoldedOptions, Runs, ScopeSummary, Summary, SummaryOptions, summarise, write_folded};

use self::reference::{Numbers, Plane, Sums};
use crate::json::fixture_bytes;
use crate::json::wire::{Kind, Random, respell};

/// The summary of these bytes.
fn summary(bytes: &[u8]) -> Summary {
    summarise(&bytes, &SummaryOptions::default()).expect("is an XSpace")
}

/// A summary as the reference has it.
fn planes(summary: &Summary) -> Vec<Plane> {
    let planes = summary.planes.iter().map(|plane| Plane {
        name: plane.name.clone(),
        lines: plane
            .lines
            .iter()
            .map(|line| (line.id, line.name.clone(), line.events, line.span_ps, line.busy_ps))
            .collect(),
        scopes: plane.scopes.iter().map(|scope| (scope.name.clone(), sums(scope))).collect(),
        async_spans: plane
            .async_spans
            .iter()
            .map(|spans| {
                let polls = spans.polls.as_ref().map(|polls| (polls.count, polls.total_ps, polls.waiting_ps));
                let (total, all) = (spans.total_ps, spans.runs_total_ps);
                let runs = spans.runs.as_ref().map(numbers);
                (spans.name.clone(), (Sums { count: spans.count, total, all, own: 0, runs }, polls))
            })
            .collect(),
        steps: plane
            .steps
            .iter()
            .map(|series| {
                let steps = series.steps.iter().map(|step| {
                    let largest = step.largest.clone();
                    (step.line_id, step.number, step.start_ps, step.duration_ps, step.self_ps, largest)
                });
                (series.name.clone(), (sums(&series.all), steps.collect()))
            })
            .collect(),
        events_hidden: plane.events_hidden,
        counter_samples: plane.counter_samples,
    });
    planes.collect()
}

fn sums(scope: &ScopeSummary) -> Sums {
    let runs = scope.runs.as_ref().map(numbers);
    let (total, all) = (scope.total_ps, scope.runs_total_ps);
    Sums { count: scope.count, total, all, own: scope.self_ps, runs }
}

fn numbers(runs: &Runs) -> Numbers {
    Numbers { min: runs.min_ps, p50: runs.p50_ps, p99: runs.p99_ps, max: runs.max_ps }
}

/// Holds a summary to the reference's.
fn assert_right(space: &XSpace, bytes: &[u8], what: &str) {
    let found = summary(bytes);
    let (mut ours, theirs) = (planes(&found), reference::planes(space));
    ours.iter_mut().zip(&theirs).for_each(|(ours, theirs)| take_near_percentiles(ours, theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{what}");
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
    assert_order(&found);
    assert_eq!(folded(bytes), reference::folded(space), "{what}: folded stacks");
}

/// Percentiles of more than 512 runs may be off by 1/256; those that are no more are taken as right.
fn take_near_percentiles(ours: &mut Plane, theirs: &Plane) {
    for (name, ours) in ours.scopes.iter_mut().filter(|(_, ours)| ours.count > 512) {
        let theirs = theirs.scopes.get(name).and_then(|theirs| theirs.runs);
        let (Some(ours), Some(theirs)) = (&mut ours.runs, theirs) else { continue };
        for (ours, theirs) in [(&mut ours.p50, theirs.p50), (&mut ours.p99, theirs.p99)] {
            if ours.abs_diff(theirs) <= theirs / 256 {
                *ours = theirs;
            }
        }
    }
}

/// Scopes come by own time, and their order is told by names where that is equal.
fn assert_order(summary: &Summary) {
    for plane in &summary.planes {
        let keys: Vec<_> =
            plane.scopes.iter().map(|scope| (std::cmp::Reverse(scope.self_ps), scope.name.clone())).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        let keys: Vec<_> =
            plane.async_spans.iter().map(|spans| (std::cmp::Reverse(spans.total_ps), spans.name.clone())).collect();
        assert!(keys.is_sorted(), "{keys:?}");
    }
}

/// Folded stacks as a map.
fn folded(bytes: &[u8]) -> BTreeMap<String, u128> {
    let mut out = Vec::new();
    write_folded(&bytes, &mut out, &FoldedOptions::default()).expect("is an XSpace");
    let text = String::from_utf8(out).expect("is UTF-8");
    let mut stacks = BTreeMap::new();
    for line in text.lines() {
        let (stack, number) = line.rsplit_once(' ').expect("a stack and a number");
        *stacks.entry(stack.to_owned()).or_default() += number.parse::<u128>().expect("a number");
    }
    stacks
}

#[test]
fn fixtures_sum_up_as_the_reference_says() {
    for name in ["jax_cpu_small", "jax_cpu_mid", "raw_host_planes", "raw_host_planes.post", "host_events"] {
        let bytes = fixture_bytes(&format!("{name}.xplane.pb"));
        assert_right(&XSpace::decode(bytes.as_slice()).expect("is an XSpace"), &bytes, name);
    }
}

#[test]
fn every_spelling_of_a_fixture_sums_up_the_same() {
    for (name, spellings) in [("jax_cpu_small.xplane.pb", 3), ("raw_host_planes.post.xplane.pb", 40)] {
        let bytes = fixture_bytes(name);
        let expected = summary(&bytes);
        for seed in 0..spellings {
            let other = respell(Kind::Space, &bytes, &mut Random(seed));
            assert!(summary(&other) == expected, "{name}, seed {seed}");
        }
    }
}

#[test]
fn the_deviation_is_that_of_a_sample() {
    let bytes = fixture_bytes("jax_cpu_small.xplane.pb");
    let space = XSpace::decode(bytes.as_slice()).expect("is an XSpace");
    let mut checked = 0;
    for (scope, expected) in summary(&bytes).planes.iter().flat_map(|plane| &plane.scopes).filter_map(|scope| {
        let durations = reference::durations(&space, &scope.name);
        (durations.len() > 1).then(|| (scope, reference::deviation(&durations)))
    }) {
        let found = scope.runs.as_ref().and_then(|runs| runs.deviation_ps).expect("has two runs");
        assert!((found - expected).abs() <= expected * 1e-9 + 1e-6, "{}: {found} for {expected}", scope.name);
        checked += 1;
    }
    assert!(checked > 20, "only {checked} scopes have two runs");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_space_sums_up_as_the_reference_says(space in spaces::spaces()) {
        assert_right(&space, &space.encode_to_vec(), "a made-up space");
    }

    #[test]
    fn flipped_bytes_are_survived(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = fixture_bytes("raw_host_planes.post.xplane.pb");
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let source = bytes.as_slice();
        let found = summarise(&source, &SummaryOptions::default());
        let folded = write_folded(&source, &mut Vec::new(), &FoldedOptions::default());
        // Stacks need less of the space than sums do.
        prop_assert!(found.is_err() || folded.is_ok());
        for error in [found.err(), folded.err()].into_iter().flatten() {
            prop_assert_eq!(error.kind(), ErrorKind::InvalidData);
            prop_assert!(error.to_string().contains("at byte "), "{}", error);
        }
    }
}
