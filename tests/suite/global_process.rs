//! Processes: the main thread, programs without a logger, and forks in the middle of a session.

use std::collections::BTreeSet;

use zprof_tests::profile::{Stats, line, read_file, stats};

use crate::actor::play;

#[test]
fn without_a_logger_a_warning_goes_to_standard_error_once() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (stdout, stderr) = play("spill", folder.path());
    let path = folder.path().join("plugins/profile/profiling/profiling.xplane.pb");
    let (lines, warnings, _) = read_file(&path);
    let main = line(&lines, "main");
    let dropped = stdout.trim_end();
    let expected = format!(
        "thread `main` ({}) dropped {dropped} scopes: the recorder's memory limit of 65536 bytes was reached; raise \
         `max_buffer_bytes`",
        main.id
    );
    assert_eq!(warnings, std::slice::from_ref(&expected));
    assert_eq!(stderr, format!("zprof: warning: {expected}\n"));
}

#[test]
fn the_child_of_a_fork_goes_on_and_the_parent_is_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("fork", folder.path());
    let (parent, ..) = read_file(&folder.path().join("parent.pb"));
    let (inherited, warnings, _) = read_file(&folder.path().join("inherited.pb"));
    let (own, ..) = read_file(&folder.path().join("own.pb"));
    let names = |lines: &[zprof_tests::profile::Line]| lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();

    assert_eq!(names(&parent), ["main", "other"]);
    let across = stats([("n", 1.into())]);
    let none = stats([]);
    assert_eq!(line(&parent, "main").told(), [("before", &none), ("across", &across), ("after", &none)]);
    assert_eq!(line(&parent, "other").told(), [("of the other thread", &none)]);

    // The child has what its one thread recorded before the fork, and goes on.
    assert_eq!(names(&inherited), ["main", "of the child"]);
    let main = line(&inherited, "main");
    assert_eq!(&main.told()[..2], [("before", &none), ("across", &across)]);
    let counted: Vec<Stats> = (0..3000).map(|i| stats([("i", i64::from(i).into())])).collect();
    assert!(main.events[2..].iter().map(|event| &event.stats).eq(&counted), "the scopes of the child");
    assert!(main.events[2..].iter().all(|event| event.name == "in child" && event.is_inside(&main.events[1])));
    assert_eq!(line(&inherited, "of the child").names(), ["thread of the child"]);
    let run = folder.path().join("plugins/profile/profiling");
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    let whose = format!(
        "the process that this one was forked from writes `{0}/profiling.xplane.pb`; this profile is beside it, in \
         `{0}/profiling_",
        run.display()
    );
    assert!(warning.starts_with(&whose), "{warning}");

    assert_eq!(own.iter().map(|line| line.told()).collect::<Vec<_>>(), [[("own session", &none)]]);
    let ids = [&parent, &inherited, &own].map(|lines| line(lines, "main").id);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2, "parent and child: {ids:?}");
    assert_eq!(ids[1], ids[2]);
}

#[test]
fn forks_while_other_threads_hold_locks_never_hang() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("fork-storm", folder.path());
    // What is asked for first is the moment.
    for _ in 0..10 {
        play("fork-early", folder.path());
    }
}

#[test]
fn what_threads_of_the_parent_have_takes_no_memory_of_the_child() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("fork-full", folder.path());
}
