//! Any bytes: the check always answers, counts what it tells, and knows what other readers refuse.
//!
//! `cargo +nightly fuzz run check fuzz/corpus/check tests/fixtures`

#![no_main]

use libfuzzer_sys::fuzz_target;
use zprof_runtime::export::{CheckOptions, FindingKind, Severity, SummaryOptions, check, summarise};

fuzz_target!(|bytes: &[u8]| {
    let options = CheckOptions::default();
    let checked = check(&bytes, &options).expect("memory can be read");
    let told: u64 = checked.counts.iter().map(|(_, count)| *count).sum();
    assert_eq!(checked.count(Severity::Error) + checked.count(Severity::Warning), told);
    for (kind, count) in &checked.counts {
        let shown = checked.findings.iter().filter(|finding| finding.kind == *kind).count();
        assert_eq!(shown as u64, (*count).min(options.max_per_kind as u64), "{}", kind.name());
    }
    assert!(checked.findings.iter().all(|finding| !finding.message.is_empty()));
    let is_refused = summarise(&bytes, &SummaryOptions::default()).is_err();
    let is_malformed = checked.counts.iter().any(|(kind, _)| *kind == FindingKind::Malformed);
    assert!(is_malformed || !is_refused, "{:?}", checked.counts);
});
