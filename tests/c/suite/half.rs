//! One timeline: this program is half Rust and half C.

use std::thread;

use zprof::ProfilerOptions;
use zprof_tests::profile::{Session, Stat, Stats, recorded, stats};
use zprof_tests_c::{Across, name, receive, scopes, start};

#[test]
fn scopes_of_both_nest_on_one_line() {
    let recorded = recorded(|| {
        zprof::scope!("rust.outer", n = 1);
        scopes(1, || {
            zprof::scope!("rust.inner");
            scopes(0, || zprof::instant!("rust.instant"));
        });
    });
    let line = recorded.own_line();
    assert_eq!(line.tree(), "rust.outer(c.scope(c.scope(rust.inner(c.scope(rust.instant)))))");
    let depth = |depth: i64| stats([("depth", depth.into())]);
    assert_eq!(
        line.told(),
        [
            ("rust.outer", &stats([("n", 1.into())])),
            ("c.scope", &depth(1)),
            ("c.scope", &depth(0)),
            ("rust.inner", &stats([])),
            ("c.scope", &depth(0)),
            ("rust.instant", &stats([])),
        ]
    );
    let source = line.events[1].site.iter().find(|(key, _)| key == "source").expect("C sites have places");
    let Stat::Text(place) = &source.1 else { panic!("{source:?}") };
    assert!(place.contains("programs/half.c:"), "{place}");
    assert_eq!(line.events[1].site.iter().find(|(key, _)| key == "module_path").expect("and modules").1, "c".into());
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn a_flow_goes_from_rust_to_c() {
    let recorded = recorded(|| {
        let flow = zprof::flow();
        zprof::scope!("rust.send", sends = flow);
        let number = zprof_c::flow_number(flow);
        let name = "receiver".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || receive(number)).expect("a thread");
        thread.join().expect("it does not panic");
        i64::try_from(number).expect("numbers are small")
    });
    let flow = |key, kind| stats([(kind, 0.into()), (key, recorded.value.into())]);
    assert_eq!(recorded.own_line().told(), [("rust.send", &flow("_p", "_pt"))]);
    assert_eq!(recorded.line("receiver").told(), [("c.receive", &flow("_c", "_ct"))]);
    let counters = recorded.line("_counters_");
    assert_eq!(counters.told(), [("received", &stats([("value", 1.into())]))]);
}

#[test]
fn c_names_a_thread_at_any_time_and_the_system_keeps_the_beginning() {
    let recorded = recorded(|| {
        let named = thread::spawn(|| {
            scopes(0, || zprof::instant!("before the name"));
            let is_taken = name(c"a name that is longer than the system's");
            (is_taken, std::fs::read_to_string("/proc/thread-self/comm").expect("the system says it"))
        });
        let other = thread::Builder::new().name("of Rust's".to_owned()).spawn(|| {
            let is_taken = name(c"of \xff C's");
            scopes(0, || ());
            is_taken
        });
        (named.join().expect("it does not panic"), other.expect("a thread").join().expect("nor does this"))
    });
    assert_eq!(recorded.value, ((true, "a name that is \n".to_owned()), true));
    assert_eq!(recorded.line("a name that is longer than the system's").tree(), "c.scope(before the name)");
    assert_eq!(recorded.line("of \u{fffd} C's").tree(), "c.scope");
}

#[test]
fn what_is_open_at_start_or_stop_is_marked() {
    let mut session = Session::new(ProfilerOptions::default());
    let (before, never) = (Across::open(), Across::open());
    session.start();
    before.end();
    let at_stop = Across::open();
    let first = session.stop();
    at_stop.end();
    never.end();
    let told: Vec<&Stats> = first.own_line().events.iter().map(|event| &event.stats).collect();
    let mark = |name: &str| stats([(name, 1.into())]);
    assert_eq!(told, [&mark("started_before"), &mark("unfinished")]);
    assert_eq!(first.own_line().names(), ["c.across", "c.across"]);
}

#[test]
fn a_process_has_one_session_whichever_half_starts_it() {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    assert_eq!(start(), zprof_c::abi::status::ALREADY_ACTIVE);
    assert_eq!(session.stop().warnings, Vec::<String>::new());
}
