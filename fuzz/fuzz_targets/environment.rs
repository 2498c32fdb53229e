//! Any variables: each is taken, or refused by an error that names it; none makes `init_from_env` panic.
//!
//! The input is text: each line is `NAME=value`, and a line without `=` is the value of `ZPROF`.

#![no_main]

use std::ffi::OsString;
#[cfg(unix)]
use std::os::unix::ffi::OsStringExt as _;

use libfuzzer_sys::fuzz_target;
use zprof_runtime::ErrorKind;
use zprof_runtime::__test::{requested, unknown_variables};

/// Bytes as the system would hand them over.
#[cfg(unix)]
fn text(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[cfg(not(unix))]
fn text(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fuzz_target!(|bytes: &[u8]| {
    let variables: Vec<(OsString, OsString)> = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (text(&line[..at]), text(&line[at + 1..])),
            None => ("ZPROF".into(), text(line)),
        })
        .collect();
    let told = unknown_variables(&variables);
    assert!(told.iter().all(|warning| warning.contains("ZPROF_")), "{told:?}");
    match requested(&variables) {
        Ok(options) => {
            let is_on = variables.iter().find(|(name, _)| name == "ZPROF").is_some_and(|(_, value)| !value.is_empty());
            assert!(is_on || options.is_none(), "nothing asked for a session");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let message = error.to_string();
            assert!(message.starts_with("no profile: `ZPROF"), "{message}");
        }
    }
});
