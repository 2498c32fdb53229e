//! Any bytes from a plugin: they are refused with a place and a reason, or they become a space that every reader takes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{SummaryOptions, summarise};
use zprof_runtime::xspace::join_bytes;

fuzz_target!(|bytes: &[u8]| match join_bytes(bytes, 7, 1_700_000_000_000_000_000) {
    Ok(space) => {
        let summary = summarise(&space.as_slice(), &SummaryOptions::default());
        if let Err(error) = summary {
            assert!(summarise(&bytes, &SummaryOptions::default()).is_err(), "only the joined space is broken: {error}");
        }
    }
    Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}"),
});
