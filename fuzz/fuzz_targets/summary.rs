//! Any bytes: the summary refuses them with a place and a reason, or its numbers agree with each other.
//!
//! `cargo +nightly fuzz run summary fuzz/corpus/summary tests/fixtures`

#![no_main]

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{PlaneSummary, ScopeSummary, SummaryOptions, summarise};

fuzz_target!(|bytes: &[u8]| {
    match summarise(&bytes, &SummaryOptions::default()) {
        Ok(summary) => summary.planes.iter().for_each(agrees),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("at byte "), "{error}");
        }
    }
});

fn agrees(plane: &PlaneSummary) {
    let events: u64 = plane.lines.iter().map(|line| line.events).sum();
    assert_eq!(plane.events(), events);
    for line in &plane.lines {
        let width = line.span_ps.map_or(0, |(start, end)| (end - start).try_into().expect("does not end before"));
        assert!(line.busy_ps <= width, "{line:?}");
    }
    plane.scopes.iter().for_each(runs_agree);
    assert!(plane.scopes.is_sorted_by(|left, right| left.self_ps >= right.self_ps));
    for series in &plane.steps {
        runs_agree(&series.all);
        assert!(series.steps.is_sorted_by_key(|step| step.start_ps));
        assert!(series.steps.iter().all(|step| step.self_ps <= step.duration_ps), "{series:?}");
    }
    let steps: usize = plane.steps.iter().map(|series| series.steps.len()).sum();
    assert!(steps as u64 <= events, "{steps} steps of {events} events");
}

fn runs_agree(scope: &ScopeSummary) {
    let Some(runs) = &scope.runs else { return };
    assert!(scope.self_ps <= scope.total_ps, "{scope:?}");
    assert!([runs.min_ps, runs.p50_ps, runs.p99_ps, runs.max_ps].is_sorted(), "{scope:?}");
    assert!(scope.total_ps <= scope.runs_total_ps, "{scope:?}");
    let (count, total) = (u128::from(scope.count), scope.runs_total_ps);
    assert!(u128::from(runs.min_ps) * count <= total && total <= u128::from(runs.max_ps) * count, "{scope:?}");
    assert_eq!(runs.deviation_ps.is_some(), scope.count > 1);
    assert!(runs.deviation_ps.is_none_or(|deviation| deviation.is_finite() && deviation >= 0.0), "{scope:?}");
}
