//! Any bytes: the folded stacks are refused with a place and a reason, or are lines of names and a number that add up to
//! the time in which anything ran.
//!
//! `cargo +nightly fuzz run folded fuzz/corpus/folded tests/fixtures`

#![no_main]

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{FoldedOptions, PlaneSummary, SummaryOptions, summarise, write_folded};

fuzz_target!(|bytes: &[u8]| {
    // The last byte says how, so that both ways are met.
    let mut options = FoldedOptions::default();
    options.by_line = bytes.last().is_some_and(|last| last % 2 == 1);
    let mut folded = Vec::new();
    let written = write_folded(&bytes, &mut folded, &options);
    let summary = summarise(&bytes, &SummaryOptions::default());
    if let Err(error) = &written {
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("at byte "), "{error}");
        assert!(summary.is_err(), "{error}");
    }
    // The stacks read less: what is broken elsewhere is not theirs to find.
    let (Ok(()), Ok(summary)) = (written, summary) else { return };
    let planes = summary.planes;
    let busy: u128 = planes.iter().flat_map(|plane| &plane.lines).map(|line| line.busy_ps).sum();
    let text = String::from_utf8(folded).expect("stacks are text");
    let mut sum = 0;
    for line in text.lines() {
        let (_, number) = line.rsplit_once(' ').expect("a number comes last");
        let number: u128 = number.parse().expect("is a number");
        assert_ne!(number, 0, "{line}");
        sum += number;
    }
    // Each stack is rounded to nanoseconds, and there are no more than events.
    let events: u64 = planes.iter().map(PlaneSummary::events).sum();
    assert!((sum * 1_000).abs_diff(busy) <= 500 * u128::from(events), "{sum} ns for {busy} ps");
});
