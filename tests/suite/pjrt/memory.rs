//! Large spaces: they are looked at where the plugin keeps them.

use std::fs;

use super::{Counts, Fake, ONE_SESSION, load, space};
use zprof_runtime::__test::PluginSession;

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
