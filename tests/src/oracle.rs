//! TSL's own code, as programs that `scripts/get-tsl-oracle` builds.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// A finished annotation of TSL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMe {
    /// Id of the thread; equal ones that follow each other are one list.
    pub thread_id: i64,
    /// Name of the thread, without tabs.
    pub thread_name: String,
    /// Start in nanoseconds since the Unix epoch.
    pub start_ns: i64,
    /// End in nanoseconds since the Unix epoch.
    pub end_ns: i64,
    /// Name and metadata as TSL encodes them, without NUL.
    pub text: String,
}

/// TSL's post-processing of each `(space, start_ns, stop_ns)`.
///
/// # Panics
///
/// Panics if the oracle is not there or fails.
#[must_use]
pub fn post_process(inputs: &[(Vec<u8>, u64, u64)]) -> Vec<Vec<u8>> {
    let inputs = inputs.iter().map(|(space, start, stop)| (space.clone(), vec![start.to_string(), stop.to_string()]));
    run("zprof_pp", inputs)
}

/// The space that TSL makes of each `(annotations, session start in ns)`.
///
/// # Panics
///
/// Panics if the oracle is not there or fails.
#[must_use]
pub fn host_events(inputs: &[(Vec<TraceMe>, u64)]) -> Vec<Vec<u8>> {
    let record = |event: &TraceMe| {
        let TraceMe { thread_id, thread_name, start_ns, end_ns, text } = event;
        format!("{thread_id}\t{thread_name}\t{start_ns}\t{end_ns}\t{text}\0")
    };
    let inputs = inputs
        .iter()
        .map(|(events, start)| (events.iter().map(record).collect::<String>().into_bytes(), vec![start.to_string()]));
    run("zprof_hc", inputs)
}

/// The trace-viewer JSON that TSL makes of each space.
///
/// # Panics
///
/// Panics if the oracle is not there or fails.
#[must_use]
pub fn trace_json(spaces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    run("zprof_tj", spaces.iter().map(|space| (space.clone(), vec![])))
}

/// Runs one program on many inputs, each with its further arguments; gives the outputs.
fn run(name: &str, inputs: impl Iterator<Item = (Vec<u8>, Vec<String>)>) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut arguments: Vec<OsString> = Vec::new();
    let mut outputs = Vec::new();
    for (number, (input, further)) in inputs.enumerate() {
        let path = folder.path().join(format!("{number}.in"));
        fs::write(&path, input).expect("the temporary folder is writable");
        arguments.push(path.into());
        outputs.push(folder.path().join(format!("{number}.out")));
        arguments.extend(outputs.last().map(Into::into));
        arguments.extend(further.into_iter().map(Into::into));
    }
    let program = program(name);
    let result = Command::new(&program).args(arguments).output();
    let result = result.unwrap_or_else(|cause| panic!("failed to run `{}`: {cause}", program.display()));
    assert!(
        result.status.success(),
        "`{}` failed with {}:\n{}",
        program.display(),
        result.status,
        String::from_utf8_lossy(&result.stderr)
    );
    outputs.iter().map(|path| fs::read(path).expect("the program wrote its output")).collect()
}

/// The path of an oracle program: below `ZPROF_TSL_ORACLE`, else where the script puts it.
fn program(name: &str) -> PathBuf {
    let cache = || {
        let given = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        given.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
    };
    let folder = env::var_os("ZPROF_TSL_ORACLE").map(PathBuf::from);
    let folder = folder.or_else(|| Some(cache()?.join("zprof-tools").join("tsl-oracle"))).unwrap_or_default();
    let path = folder.join("bin").join(name);
    assert!(
        path.is_file(),
        "the TSL oracle `{}` is not there; run scripts/get-tsl-oracle once, or set ZPROF_TSL_ORACLE to the folder that \
         it printed",
        path.display()
    );
    path
}
