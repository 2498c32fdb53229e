//! The files of a run on a disk that fills up, and under a process that is killed while it writes them.

use std::collections::BTreeSet;
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
    let protobuf = run.join("profiling.xplane.pb");
    let protobuf = protobuf.display();
    let refused = format!(
        "WrongState: failed to start the profiler: its last session is not written yet to `{protobuf}`; call stop"
    );
    let expected = [
        format!("Io: failed to write the profile `{protobuf}`: File too large (os error 27)"),
        refused,
        "[\".zprof-profiling.lock\"]".to_owned(),
        "5000 [\"profiling.trace.json\", \"profiling.xplane.pb\"]".to_owned(),
    ];
    assert_eq!(stdout.lines().collect::<Vec<_>>(), expected);
    assert_eq!(stderr, "");
    let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
    assert_eq!(lines.iter().map(|line| line.events.len()).collect::<Vec<_>>(), [5000]);
    assert!(run.join("profiling.trace.json").is_file());
}

#[test]
fn a_stop_that_can_open_no_file_says_nothing_of_the_clock() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (stdout, stderr) = play("no-descriptors", folder.path());
    assert_eq!((stdout.as_str(), stderr.as_str()), ("Io 1 []\n", ""));
}

#[test]
fn a_profile_whose_json_has_no_room_is_there_without_it() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (stdout, stderr) = play("json-limit", folder.path());
    let runs = folder.path().join("plugins/profile");
    let path = |run: &str, file: &str| runs.join(run).join(file).display().to_string();
    let missing = |run: &str| {
        format!(
            "the profile is in `{}`; only its JSON is missing: failed to write `{}`: failed to write the JSON: File too large \
             (os error 27); `zprof convert` makes it where there is room",
            path(run, "profiling.xplane.pb"),
            path(run, "profiling.trace.json")
        )
    };
    let (run, snapshot) = ("profiling", "profiling-snapshot-1");
    let whole = |round: u32| {
        let (protobuf, json) = (path(run, "profiling.xplane.pb"), path(run, "profiling.trace.json"));
        format!("{round} 5000 {protobuf} `{json}` [\"profiling.trace.json\", \"profiling.xplane.pb\"]")
    };
    let expected = [
        whole(0),
        // The JSON of the older profile is gone: it would belong to no XSpace.
        format!("1 5000 {} `` [\"profiling.xplane.pb\"]", path(run, "profiling.xplane.pb")),
        missing(run),
        whole(2),
        format!("{} `` [{:?}]", path(snapshot, "profiling.xplane.pb"), missing(snapshot)),
        "[\"profiling.xplane.pb\"]".to_owned(),
    ];
    assert_eq!(stdout.lines().collect::<Vec<_>>(), expected);
    let told = [run, snapshot, run].map(|run| format!("zprof: warning: {}", missing(run)));
    assert_eq!(stderr.lines().collect::<Vec<_>>(), told);
    for run in [run, snapshot] {
        let (lines, warnings, _) = read_file(&runs.join(run).join("profiling.xplane.pb"));
        assert_eq!(lines.iter().map(|line| line.events.len()).collect::<Vec<_>>(), [5000]);
        assert_eq!(warnings, Vec::<String>::new());
    }
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
    let (mut pairs, mut half) = (0, BTreeSet::new());
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
        let process = child.id();
        child.kill().expect("the child runs");
        child.wait().expect("the child has ended");

        let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
        let whole = generation(&lines);
        // Between the new XSpace and its JSON there is the XSpace alone, for a moment that a kill rarely meets.
        if let Some(json) = json_generation(&run.join("profiling.trace.json")) {
            assert_eq!(json, whole, "round {round}");
            pairs += 1;
        }
        let listing = fs::read_dir(&run).expect("the folder can be listed");
        let names = listing.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let left: BTreeSet<String> =
            names.filter(|name| !["profiling.xplane.pb", "profiling.trace.json"].contains(&name.as_str())).collect();
        let own = |name: &String| name == ".zprof-profiling.lock" || name.starts_with(&format!(".zprof-{process}-"));
        assert!(left.iter().all(own), "of the killed process alone: {left:?}");
        half.extend(left);
    }
    assert!(pairs > 0, "no kill left a pair");
    assert!(half.iter().any(|name| name.ends_with(".tmp")), "no kill met a file that was being written: {half:?}");

    // The next run has room for all of it.
    let (_, stderr) = play("once", folder.path());
    assert_eq!(stderr, "");
    let mut names: Vec<_> =
        fs::read_dir(&run).expect("it is there").map(|entry| entry.expect("it is").file_name()).collect();
    names.sort();
    assert_eq!(names, ["profiling.trace.json", "profiling.xplane.pb"]);
}
