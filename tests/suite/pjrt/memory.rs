//! Large spaces: they are looked at where the plugin keeps them.

use std::fs;

use super::{Counts, Fake, ONE_SESSION, library, load, space};
use zprof::{Platform, ProfilerOptions};
use zprof_runtime::__test::PluginSession;
use zprof_tests::profile::exclusive;

/// The most memory that the process had since [`forget_peak`], in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of the peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process do that");
}

/// What a session that collects `megabytes` takes, in units of that, before it is destroyed.
fn taken(megabytes: usize, collect: impl FnOnce(&mut PluginSession) -> usize) -> f64 {
    let fake = Fake::new(&format!("megabytes={megabytes}"));
    let mut session = PluginSession::create(&load(&fake), &[]).expect("a session");
    session.start().expect("it starts");
    session.stop().expect("it stops");
    forget_peak();
    let before = peak();
    let size = collect(&mut session);
    assert!((megabytes << 20..(megabytes + 1) << 20).contains(&size), "{size}");
    let taken = (peak() - before) as f64 / size as f64;
    drop(session);
    assert_eq!(fake.counts(), Counts { collected: 1, ..ONE_SESSION });
    taken
}

#[test]
fn a_gigabyte_is_looked_at_in_the_plugins_own_memory() {
    let events = taken(8, |session| {
        session
            .collect_with(|bytes| {
                assert_eq!(space(bytes).planes[0].lines[0].events.len(), (8 << 20) / 64);
                bytes.len()
            })
            .expect("it collects")
    });
    assert!(events > 1.0, "{events}");
    let lent = taken(1024, |session| session.collect_with(<[u8]>::len).expect("it collects"));
    assert!((0.99..1.05).contains(&lent), "{lent} times its size, of which the plugin has one");
    let copied = taken(256, |session| session.collect().expect("it collects").len());
    assert!((1.99..2.05).contains(&copied), "{copied} times its size, of which the plugin has one");
}

/// What the stop of a whole session takes, in units of the space of `megabytes` that the plugin makes.
fn stopped(megabytes: usize, further: &str) -> f64 {
    let fake = Fake::new(&format!("megabytes={megabytes},{further}"));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let platform = Platform::load(library()).expect("the fake is a plugin");
    let mut profiler = platform.profiler(options).expect("good options");
    profiler.start().expect("nothing else runs");
    (0..1000).for_each(|index| {
        zprof::scope!("launch", index = index);
    });
    forget_peak();
    let before = peak();
    let profile = profiler.stop().expect("the files can be written").expect("it was running");
    let taken = (peak() - before) as f64 / (megabytes << 20) as f64;
    assert_eq!(profile.warnings.len(), usize::from(further.contains("shift")), "{:?}", profile.warnings);
    assert_eq!(fake.counts(), ONE_SESSION);
    taken
}

/// More than the allocator takes from what it has kept.
const MEGABYTES: usize = 34;

#[test]
fn a_stop_takes_less_than_twice_the_space_beside_the_plugins_own() {
    let _alone = exclusive();
    let passed = stopped(MEGABYTES, "");
    assert!((1.9..2.1).contains(&passed), "{passed} times the space, of which the plugin has one");
    // Sorted and moved: the copy, the events in order, and 16 bytes for each of them; the plugin has freed its own.
    let written_anew = stopped(MEGABYTES, "unsorted,shift-ns=-5000000000");
    assert!((1.9..2.4).contains(&written_anew), "{written_anew} times the space");
}
