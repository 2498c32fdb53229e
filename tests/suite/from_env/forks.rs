//! Children of a profiled process: none touches what is its parent's.

use std::fs;
use std::path::Path;

use super::{Program, line, names, read_file, runs, stats, told, worked};

#[test]
fn a_child_writes_only_what_it_asks_for_itself() {
    let ended = Program::new("fork").with_folder("explicit").run();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "true\n0x300\ntrue\n0x400\n0x500\n0xf\n", "{}", ended.stderr);

    let profiles: Vec<_> = ended.runs().iter().map(|run| run.join("profiling.xplane.pb")).collect();
    assert_eq!(profiles.len(), 2, "parent, and the child with a session of the environment: {profiles:?}");
    let mains: Vec<_> = profiles.iter().map(|path| told(&read_file(path).0, "main")).collect();
    let own = vec![("own".to_owned(), stats([]))];
    let parent = worked(&[("parent", stats([]))]);
    assert!(mains == [parent.clone(), own.clone()] || mains == [own, parent], "{mains:?}");

    let explicit = ended.folder.path().join("explicit");
    let [run] = &runs(&explicit)[..] else { panic!("one run") };
    assert_eq!(names(run), ["profiling.trace.json", "profiling.xplane.pb"]);
    let lines = read_file(&run.join("profiling.xplane.pb")).0;
    assert_eq!(line(&lines, "main").names(), ["explicit"]);
    // Each process tells of its own profile.
    let mut expected: Vec<String> = profiles.iter().map(|path| format!("zprof: {} (", path.display())).collect();
    expected.sort();
    let mut told: Vec<&str> = ended.stderr.lines().collect();
    told.sort_unstable();
    assert_eq!(told.len(), 2, "{}", ended.stderr);
    assert!(told.iter().zip(&expected).all(|(line, start)| line.starts_with(start)), "{}", ended.stderr);
    assert!(fs::read_dir(ended.folder.path()).expect("it is there").count() == 2);
}

#[test]
fn a_child_has_a_session_while_its_parent_writes_one() {
    const MUCH: usize = 50_000;
    let ended = Program::new("fork-at-end").with_folder("explicit").run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "true\n0x500\n"), "{}", ended.stderr);
    let [own] = &ended.runs()[..] else { panic!("one run of the parent") };
    let lines = read_file(&own.join("profiling.xplane.pb")).0;
    assert_eq!(line(&lines, "main").events.iter().filter(|event| event.name == "much").count(), MUCH);
    let [run] = &runs(&ended.folder.path().join("explicit"))[..] else { panic!("one run of the child") };
    let lines = read_file(&run.join("profiling.xplane.pb")).0;
    // The thread that forked keeps its name as the child's only one.
    assert_eq!(line(&lines, "forking").names(), ["explicit"]);
}

#[test]
fn a_panic_is_an_instant_and_leaves_a_snapshot_whichever_hook_came_first() {
    for part in ["panics-first", "panics-last"] {
        let ended = Program::new(part).with_folder("explicit").run();
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "true\n0x600\n"), "{}", ended.stderr);
        // The environment's session has no snapshots of panics.
        let [own] = &ended.runs()[..] else { panic!("one run of the parent: {:?}", ended.runs()) };
        let panics = |path: &Path, thread: &str| {
            let lines = read_file(&path.join("profiling.xplane.pb")).0;
            let events = lines.iter().flat_map(|line| line.events.iter().map(move |event| (line, event)));
            let panics: Vec<_> = events.filter(|(_, event)| event.name == "panic").collect();
            let [(line, panic)] = panics.as_slice() else { panic!("{part}: {panics:?} in {}", path.display()) };
            assert_eq!(line.name, thread, "{part}");
            assert_eq!(panic.stats[0], ("message".to_owned(), "caught".into()), "{part}");
        };
        panics(own, "first");
        let explicit = runs(&ended.folder.path().join("explicit"));
        let [run, snapshot] = explicit.as_slice() else { panic!("{part}: {explicit:?}") };
        assert!(snapshot.ends_with("profiling-snapshot-1"), "{}", snapshot.display());
        panics(run, "second");
        panics(snapshot, "second");
        // Each is told of once.
        assert_eq!(ended.stderr.matches(") panicked at").count(), 2, "{}", ended.stderr);
    }
}
