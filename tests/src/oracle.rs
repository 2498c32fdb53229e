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
///
/// # Panics
///
/// Panics if it is not there.
#[must_use]
pub fn program(name: &str) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical;

    #[test]
    fn annotations_become_a_plane_and_the_plane_json() {
        let event = |thread_id, start_ns, text: &str| TraceMe {
            thread_id,
            thread_name: format!("thread {thread_id}"),
            start_ns,
            end_ns: start_ns + 5,
            text: text.into(),
        };
        let events = vec![event(7, 10, "tab\tand\nline#k=v,n=-2#"), event(9, 20, "plain"), event(9, 30, "")];
        let planes = host_events(&[(events, 10), (vec![], 1)]);
        let expected = "\
plane \"/host:CPU\" id 0
  event kind \"\"
  event kind \"plain\"
  event kind \"tab\\tand\\nline\"
  stat name \"k\" described \"\"
  stat name \"n\" described \"\"
  stat name \"v\" described \"\"
  line \"thread 7\" id 7 at 10 ns
    at 0 ps for 5000 ps k=ref:\"v\" n=i64:-2 of \"tab\\tand\\nline\"
  line \"thread 9\" id 9 at 10 ns
    at 10000 ps for 5000 ps of \"plain\"
    at 20000 ps for 5000 ps of \"\"
";
        assert_eq!(canonical(&planes[0]).to_string(), expected);
        assert_eq!(canonical(&planes[1]).to_string(), "plane \"/host:CPU\" id 0\n");

        let documents = trace_json(&planes);
        let start = br#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M","pid":701,"#;
        assert!(documents[0].starts_with(start) && documents[1].starts_with(start), "{documents:?}");
        assert!(documents[0].len() > documents[1].len());
    }
}
