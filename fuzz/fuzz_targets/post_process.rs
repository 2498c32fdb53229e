//! Any bytes: the steps that finish a session's space refuse them, or give a space that can be read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::xspace::{finish_bytes, post_process_bytes};

fuzz_target!(|bytes: &[u8]| {
    match post_process_bytes(bytes, 0, 0) {
        Ok(space) => drop(post_process_bytes(&space, 0, 0).expect("a finished space can be read")),
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}"),
    }
    if let Err(error) = finish_bytes(bytes, 7, 1_700_000_000_000_000_000, 1_700_000_001_000_000_000) {
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    }
});
