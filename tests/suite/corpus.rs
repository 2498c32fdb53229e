//! Inputs that fuzzing has found, through every reader: none panics, and a refusal says why. `scripts/test-long fuzz` looks for
//! more; what it finds is kept in fuzz/corpus.

use std::fs;
use std::path::{Path, PathBuf};

use zprof_runtime::ErrorKind;
use zprof_runtime::export::{
    CheckOptions, FoldedOptions, JsonOptions, PerfettoOptions, SummaryOptions, check, summarise, write_folded,
    write_json, write_perfetto,
};
use zprof_runtime::xspace::{finish_bytes, join_bytes, post_process_bytes};

/// The kept inputs of these fuzz targets.
fn kept(targets: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let files = |target: &&str| fs::read_dir(corpus.join(target)).expect("the corpus is in the repository");
    let paths = targets.iter().flat_map(files).map(|entry| entry.expect("the folder can be read").path());
    paths.map(|path| (path.clone(), fs::read(path).expect("the file can be read"))).collect()
}

#[test]
fn every_reader_takes_or_refuses_every_kept_input() {
    let inputs = kept(&["check", "folded", "join", "json", "perfetto", "post_process", "summary"]);
    assert!(inputs.len() > 300, "only {} inputs", inputs.len());
    for (path, bytes) in inputs {
        check(&bytes.as_slice(), &CheckOptions::default()).expect("memory can be read");
        let bytes = bytes.as_slice();
        let outcomes = [
            write_json(&bytes, &mut Vec::new(), &JsonOptions::default()).map(drop),
            write_perfetto(&bytes, &mut Vec::new(), &PerfettoOptions::default()).map(drop),
            write_folded(&bytes, &mut Vec::new(), &FoldedOptions::default()).map(drop),
            summarise(&bytes, &SummaryOptions::default()).map(drop),
            join_bytes(bytes, 7, 1_700_000_000_000_000_000).map(drop),
            post_process_bytes(bytes, 0, 0).map(drop),
            finish_bytes(bytes, 7, 1_700_000_000_000_000_000, 1_700_000_001_000_000_000).map(drop),
        ];
        for error in outcomes.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{}: {error}", path.display());
        }
    }
}

#[cfg(unix)] // variables of any bytes
#[test]
fn every_kept_environment_asks_for_a_session_or_is_refused() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use zprof_runtime::__test::{requested, unknown_variables};

    let inputs = kept(&["environment"]);
    assert!(inputs.len() > 40, "only {} inputs", inputs.len());
    for (path, bytes) in inputs {
        let lines = bytes.split(|byte| *byte == b'\n');
        let variables: Vec<(OsString, OsString)> = lines
            .map(|line| match line.iter().position(|byte| *byte == b'=') {
                Some(at) => (OsString::from_vec(line[..at].to_vec()), OsString::from_vec(line[at + 1..].to_vec())),
                None => ("ZPROF".into(), OsString::from_vec(line.to_vec())),
            })
            .collect();
        assert!(unknown_variables(&variables).iter().all(|warning| warning.contains("ZPROF_")), "{}", path.display());
        if let Err(error) = requested(&variables) {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}: {error}", path.display());
        }
    }
}
