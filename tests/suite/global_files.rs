//! The files of a run on a disk that fills up, and under a process that is killed while it writes them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Instant;

use zprof_tests::profile::{Line, Stat, read_file};

use crate::actor::{actor, play};

#[test]
fn a_stop_can_be_tried_again_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (stdout, stderr) = play("file-limit", folder.path());
    let run = folder.path().join("plugins/profile/profiling");
    let (protobuf, json) = (run.join("profiling.xplane.pb"), run.join("profiling.trace.json"));
    let (protobuf, json) = (protobuf.display(), json.display());
    let refused = format!(
        "WrongState: failed to start the profiler: its last session is not written yet to `{protobuf}`; call stop"
    );
    let expected = [
        format!("Io: failed to write the profile `{protobuf}`: File too large (os error 27)"),
        refused.clone(),
        "[]".to_owned(),
        format!(
            "Io: failed to convert `{protobuf}` to `{json}`: failed to write the JSON: File too large (os error 27)"
        ),
        refused,
        "[\"profiling.xplane.pb\"]".to_owned(),
        "5000".to_owned(),
    ];
    assert_eq!(stdout.lines().collect::<Vec<_>>(), expected);
    assert_eq!(stderr, "");
    let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
    assert_eq!(lines.iter().map(|line| line.events.len()).collect::<Vec<_>>(), [5000]);
    assert!(run.join("profiling.trace.json").is_file());
}

/// The one generation that all scopes of a profile are of.
fn generation(lines: &[Line]) -> i64 {
    assert_eq!((lines.len(), lines[0].events.len()), (1, 2000));
    let first = &lines[0].events[0].stats;
    assert!(lines[0].events.iter().all(|event| event.stats == *first));
    match first.as_slice() {
        [(name, Stat::Int(generation))] if name == "generation" => *generation,
        other => panic!("{other:?}"),
    }
}

/// The generation that a JSON file shows, which must be whole.
fn json_generation(path: &Path) -> Option<i64> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("failed to read `{}`: {error}", path.display()),
    };
    let document: serde_json::Value = serde_json::from_slice(&text).expect("the document is whole");
    let events = document["traceEvents"].as_array().expect("a list");
    let scopes: Vec<_> = events.iter().filter(|event| event["name"] == "rewrite").collect();
    assert_eq!(scopes.len(), 2000);
    let generation = &scopes[0]["args"]["generation"];
    assert!(scopes.iter().all(|event| event["args"]["generation"] == *generation));
    Some(generation.as_i64().or_else(|| generation.as_str()?.parse().ok()).expect("a number"))
}

#[test]
fn a_process_that_is_killed_leaves_whole_files_that_fit_together() {
    const ROUNDS: u32 = 40;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let run = folder.path().join("plugins/profile/profiling");
    let (_never, nothing) = mpsc::channel::<()>();
    let (mut pairs, mut alone) = (0, 0);
    for round in 0..ROUNDS {
        let mut child =
            actor("rewrite", folder.path(), &[]).stdout(Stdio::piped()).spawn().expect("the actor can be run");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        // The second stop replaces the files of the first. The kill comes at another part of it in each round; a turn
        // takes as long as the one before.
        let mut next = || lines.next().expect("another line").expect("a line");
        assert_eq!(next(), "0");
        let began = Instant::now();
        assert_eq!(next(), "1");
        let wait = began.elapsed() * round / ROUNDS;
        assert!(nothing.recv_timeout(wait).is_err());
        child.kill().expect("the child runs");
        child.wait().expect("the child has ended");

        let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
        let whole = generation(&lines);
        match json_generation(&run.join("profiling.trace.json")) {
            Some(json) => {
                assert_eq!(json, whole, "round {round}");
                pairs += 1;
            }
            None => alone += 1,
        }
    }
    assert!(pairs > 0 && alone > 0, "{pairs} pairs, {alone} without JSON: the kills came at no interesting moment");
    let listing = fs::read_dir(&run).expect("the folder can be listed");
    let names = listing.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let half: Vec<String> = names.filter(|name| !name.starts_with("profiling.")).collect();
    assert!(half.iter().all(|name| name.starts_with(".zprof-") && name.ends_with(".tmp")), "{half:?}");
}
