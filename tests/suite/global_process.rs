//! Processes: the main thread, programs without a logger, and forks in the middle of a session.

use std::collections::BTreeSet;

use zprof_tests::profile::{Stat, Stats, line, read_file, stats};

use crate::actor::{actor, play};

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
    let (inherited, warnings, environment) = read_file(&folder.path().join("inherited.pb"));
    let (own, ..) = read_file(&folder.path().join("own.pb"));
    let names = |lines: &[zprof_tests::profile::Line]| lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();

    assert_eq!(names(&parent), ["main", "other"]);
    let across = stats([("n", 1.into())]);
    let none = stats([]);
    assert_eq!(line(&parent, "main").told(), [("before", &none), ("across", &across), ("after", &none)]);
    assert_eq!(line(&parent, "other").told(), [("of the other thread", &none)]);

    // The child has what was open in its one thread at the fork, and goes on.
    assert_eq!(names(&inherited), ["main", "of the child"]);
    let main = line(&inherited, "main");
    let across = stats([("n", 1.into()), ("started_before", 1.into())]);
    assert_eq!(&main.told()[..1], [("across", &across)]);
    let counted: Vec<Stats> = (0..3000).map(|i| stats([("i", i64::from(i).into())])).collect();
    assert!(main.events[1..].iter().map(|event| &event.stats).eq(&counted), "the scopes of the child");
    assert!(main.events[1..].iter().all(|event| event.name == "in child" && event.is_inside(&main.events[0])));
    assert_eq!(line(&inherited, "of the child").names(), ["thread of the child"]);
    let run = folder.path().join("plugins/profile/profiling");
    let [begins, beside] = warnings.as_slice() else { panic!("{warnings:?}") };
    let whose = format!(
        "the process that this one was forked from writes `{0}/profiling.xplane.pb`; this profile is beside it, in \
         `{0}/profiling_",
        run.display()
    );
    assert!(beside.starts_with(&whose), "{beside}");
    let (from, after) = (number(&environment["forked_from"]), number(&environment["forked_after_ns"]));
    let parent_id = u64::try_from(line(&parent, "main").id).expect("a thread's id");
    assert_eq!(from, parent_id, "the main thread has the id of its process");
    let child = main.id;
    let expected = format!(
        "this is the profile of process {child}, which was forked from process {from}: it begins at the fork, {after} ns after \
         the session's start; the scopes before then are in the profile of process {from}, if that is written"
    );
    assert_eq!(begins, &expected);

    assert_eq!(own.iter().map(|line| line.told()).collect::<Vec<_>>(), [[("own session", &none)]]);
    let ids = [&parent, &inherited, &own].map(|lines| line(lines, "main").id);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2, "parent and child: {ids:?}");
    assert_eq!(ids[1], ids[2]);
}

fn number(stat: &Stat) -> u64 {
    let Stat::Uint(number) = stat else { panic!("no number: {stat:?}") };
    *number
}

#[test]
fn the_child_of_a_fork_has_the_scopes_that_are_open_whenever_they_began() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // All is kept; a ring that has evicted some of the begins; and one of a few chunks.
    for keep in ["0", "1000000", "50000"] {
        let output = actor("fork-open", folder.path(), &[keep]).output().expect("the actor can be run");
        assert!(output.status.success(), "{keep}: {}", String::from_utf8_lossy(&output.stderr));
        let (lines, _, _) = read_file(&folder.path().join("child.pb"));
        assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["main"], "{keep}");
        let main = line(&lines, "main");
        let one = |name: &'static str| (name.to_owned(), 1.into());
        let (unfinished, before) = (one("unfinished"), one("started_before"));
        let outer = vec![one("n"), ("later".to_owned(), "also some words".into()), unfinished.clone(), before.clone()];
        let text = ("text".to_owned(), "as long as several words".into());
        let middle = vec![text, ("in child".to_owned(), 5.into()), unfinished, before.clone()];
        let inner = vec![one("at once"), ("in child".to_owned(), 4.into()), before.clone()];
        let ended = vec![before];
        let mut begun = vec![("outer", &outer), ("middle", &middle), ("inner", &inner)];
        // A small ring has the last of the scopes of the child, and no more those that ended before.
        let is_small = keep == "50000";
        if !is_small {
            begun.extend([("innermost", &ended), ("first in child", &ended)]);
        }
        assert_eq!(main.told()[..begun.len()], begun, "{keep}");
        let expected: Vec<Stats> = (0..2_000).map(|n| stats([("n", n.into())])).collect();
        let events = &main.events[begun.len()..];
        let expected = &expected[expected.len() - events.len()..];
        assert!(is_small || events.len() == 2_000, "{keep}: {}", events.len());
        assert!(!events.is_empty() && events.iter().all(|event| event.name == "e"), "{keep}");
        assert!(events.iter().map(|event| &event.stats).eq(expected), "{keep}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_fork_copies_no_pages_of_the_recorder() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (stdout, _) = play("fork-resident", folder.path());
    let (grown, less) = stdout.trim_end().split_once(' ').expect("two numbers");
    let (grown, less): (u64, u64) = (grown.parse().expect("a number"), less.parse().expect("a number"));
    assert!(grown > 12 << 20, "the session takes too little to tell: {grown}");
    assert!(less + (4 << 20) > grown, "of {grown} bytes of the session, the child lacks {less}");
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
fn handlers_of_forks_with_scopes_never_wait_for_their_own_thread() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("fork-handlers", folder.path());
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_that_no_handler_of_forks_knows_of_is_refused_sessions() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("fork-astray", folder.path());
}

#[test]
fn what_threads_of_the_parent_have_takes_no_memory_of_the_child() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    play("fork-full", folder.path());
}
