//! Who asks for snapshots: several threads, a stop meanwhile, a panic; and XProf, which opens one.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use zprof::{ErrorKind, ProfilerOptions};
use zprof_tests::profile::{Session, Stat, read_file};

use super::{Load, is_whole, options, stat, written};

/// Names of the runs in a session's folder, sorted.
fn runs(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("plugins/profile")).expect("the runs");
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name().into_string().expect("plain");
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn several_at_once_have_a_run_each() {
    let mut session = Session::new(options().keep_last_bytes(32 << 10).session_id("many"));
    session.start();
    let load = Load::start("many", 2);
    load.wait_for(3_000);
    let begun = load.begun();
    let snapshots: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| written(zprof::snapshot()))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a snapshot is written")).collect()
    });
    let mut names = BTreeSet::new();
    for snapshot in &snapshots {
        for (index, begun) in begun.iter().enumerate() {
            is_whole(snapshot, &format!("many {index}"), index, *begun);
        }
        let run = snapshot.profile.protobuf_path.parent().and_then(Path::file_name).expect("it has a folder");
        names.insert(run.to_str().expect("a plain name").to_owned());
    }
    drop(load);
    session.stop();
    let expected = ["many-snapshot-1", "many-snapshot-2", "many-snapshot-3", "many-snapshot-4"];
    assert_eq!(names, expected.map(str::to_owned).into());
    assert_eq!(runs(session.folder()), ["many", expected[0], expected[1], expected[2], expected[3]]);
}

#[test]
fn a_stop_comes_before_or_after() {
    let mut session = Session::new(options());
    let (over, taken) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                match zprof::snapshot() {
                    Ok(Some(profile)) => {
                        let (lines, ..) = read_file(&profile.protobuf_path);
                        let events = lines.iter().map(|line| line.events.len()).sum::<usize>();
                        // One to ten, or none where the session had just begun.
                        assert!(events <= 10, "{events}");
                        taken.store(true, Ordering::Relaxed);
                    }
                    Ok(None) => panic!("zprof is enabled"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WrongState),
                }
            }
        });
        let mut rounds = 0;
        while rounds < 10 || !taken.load(Ordering::Relaxed) {
            session.start();
            for n in 0..10 {
                zprof::scope!("item", n, {});
            }
            assert_eq!(session.stop().own_line().events.len(), 10, "a snapshot takes nothing away");
            rounds += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Panics inside a scope on a thread of its own.
fn panics(name: &str) {
    let doomed = || {
        zprof::scope!("doomed", id = 7);
        panic!("as the test wants");
    };
    thread::Builder::new().name(name.to_owned()).spawn(doomed).expect("a thread").join().expect_err("it panics");
}

#[test]
fn a_panic_leaves_a_snapshot_and_a_storm_leaves_one() {
    let mut session = Session::new(options().snapshot_on_panic(true));
    session.start();
    for _ in 0..5 {
        panics("unlucky");
    }
    let stopped = session.stop();
    assert_eq!(runs(session.folder()), ["profiling", "profiling-snapshot-1"]);
    let (lines, warnings, _) =
        read_file(&session.folder().join("plugins/profile/profiling-snapshot-1/profiling.xplane.pb"));
    let reason = "this snapshot was taken because thread `unlucky` panicked at tests/suite/global_flight/callers.rs:";
    assert!(matches!(warnings.as_slice(), [only] if only.starts_with(reason)), "{warnings:?}");
    let doomed = lines[0].event("doomed");
    assert_eq!((stat(doomed, "id"), stat(doomed, "unfinished")), (Some(Stat::Int(7)), Some(Stat::Int(1))));
    let told = ["of 5 panics, 1 left a snapshot: at most 16, and one in 10000 ms".to_owned()];
    assert_eq!(stopped.warnings, told);
    assert_eq!(stopped.lines.len(), 5);

    // The hook stays, and does nothing in a session that does not ask for it.
    let mut other = ProfilerOptions::default().session_id("other");
    other.repository_path = session.folder().to_owned();
    let mut other = zprof::Platform::host().profiler(other).expect("the options can work");
    other.start().expect("the place is free");
    panics("again");
    other.stop().expect("it is written");
    assert!(catch_unwind(|| panic!("without a session")).is_err());
    assert_eq!(runs(session.folder()), ["other", "profiling", "profiling-snapshot-1"]);
}

#[test]
#[cfg(unix)]
fn the_snapshot_of_a_panic_ends_when_the_panic_begins_however_long_its_message_takes() {
    use zprof_tests::profile::line;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = zprof_tests::program(env!("CARGO_BIN_EXE_ended"));
    let output = program.arg("panics-long").arg(folder.path()).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(runs(folder.path()), ["profiling", "profiling-snapshot-1", "profiling-snapshot-2"]);
    let names = |run: &str| {
        let (lines, ..) = read_file(&folder.path().join("plugins/profile").join(run).join("profiling.xplane.pb"));
        let names = line(&lines, "doomed").names();
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        names.dedup();
        names
    };
    // The ring of the thread has gone on: the snapshot that the program's hook took, and the stop, have the message alone.
    for run in ["profiling", "profiling-snapshot-1"] {
        assert_eq!(names(run), ["open", "print"], "{run}");
    }
    assert_eq!(names("profiling-snapshot-2"), ["work", "open"]);
}

#[test]
fn xprof_opens_a_snapshot() {
    let mut session = Session::new(options().keep_last_bytes(16 << 10));
    session.start();
    zprof::scope!("server", port = 8080);
    for n in 0..5_000 {
        zprof::scope!("item", n, {});
    }
    let snapshot = written(zprof::snapshot());
    session.stop();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let mut command = Command::new("scripts/xprof-check");
    command.current_dir(root).arg(session.folder()).arg("profiling-snapshot-1");
    let output = command.output().expect("the script can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "XProf comes with scripts/get-xprof\n{stdout}\n{stderr}");
    let report: Value = serde_json::from_str(&stdout).expect("xprof-check prints JSON");
    let runs: BTreeSet<&str> = report["runs"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(runs, ["profiling", "profiling-snapshot-1"].into());
    let events = report["hosts"]["profiling"]["events"].as_array().expect("the host is `profiling`");
    let args = |name: &'static str| {
        events.iter().filter(move |event| event["name"] == name).map(|event| event["args"].clone())
    };
    let server: Vec<Value> = args("server").collect();
    assert_eq!(server.len(), 1);
    assert_eq!((&server[0]["port"], &server[0]["unfinished"]), (&8080.into(), &1.into()));
    let shown: BTreeSet<i64> = args("item").filter_map(|args| args["n"].as_i64()).collect();
    let kept: BTreeSet<i64> =
        snapshot.own_line().events.iter().filter(|event| event.name == "item").map(super::number).collect();
    assert_eq!(shown, kept);
}
