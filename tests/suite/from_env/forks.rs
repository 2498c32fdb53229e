//! Children of a profiled process: none touches what is its parent's.

use std::fs;

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
