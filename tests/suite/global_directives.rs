//! Directives: which level each module is recorded up to, for every form of mark, in one session after another.

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;

use zprof::{ErrorKind, Platform, ProfilerOptions};
use zprof_tests::profile::{Recorded, Session, Stat, record, stats};

fn poll<F: Future>(future: F) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(future).poll(&mut context).is_ready());
}

/// Marks of every form in the module where this stands, all of them verbose, and one scope of each other level.
macro_rules! marks {
    ($value:expr) => {
        #[zprof::trace(level = verbose)]
        fn function() {}

        #[zprof::trace(level = verbose, n)]
        async fn future(n: u8) {
            zprof::instant!("within", n, level = verbose);
        }

        pub(in crate::global_directives) fn all() {
            use zprof::TraceFuture as _;
            zprof::scope!("critical", {});
            zprof::scope!("info", level = info, {});
            zprof::scope!("scope", level = verbose, { zprof::instant!("instant", level = verbose) });
            let mut span = zprof::span!("span", level = verbose);
            span.record("added", $value);
            span.end();
            zprof::step!("step", $value, level = verbose, {});
            zprof::counter!("counter", $value, level = verbose);
            function();
            poll(future($value));
            poll(std::future::ready(()).traced(zprof::task!("task", level = verbose)));
        }
    };
}

mod io {
    use super::poll;
    marks!(1_u8);

    pub(super) mod deep {
        use super::poll;
        marks!(2_u8);
    }
}

mod iota {
    use super::poll;
    marks!(3_u8);
}

const VERBOSE: &str = "critical info scope(instant) span step function future(within) task";

/// Options with directives; `here` stands for this module.
fn directed(directives: &str) -> ProfilerOptions {
    ProfilerOptions::default().directives(directives.replace("here", module_path!()))
}

/// All marks of the modules, and what of them a session with these options has: the tree of each, and the values of counters.
fn taken(options: ProfilerOptions) -> ([String; 3], Vec<i64>) {
    let recorded = record(options, || {
        // On threads of their own, so that each has a line.
        for (name, all) in [("io", io::all as fn()), ("deep", io::deep::all), ("iota", iota::all)] {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(all).expect("a thread starts");
            thread.join().expect("it does not panic");
        }
    });
    let of = |name: &str| recorded.lines.iter().find(|line| line.name == name);
    let trees = ["io", "deep", "iota"].map(|name| of(name).map(|line| line.tree()).unwrap_or_default());
    let samples =
        of("_counters_").map(|line| line.events.iter().flat_map(|event| event.stats.clone()).collect::<Vec<_>>());
    let value = |(_, stat): (String, Stat)| match stat {
        Stat::Int(value) => value,
        other => panic!("{other:?}"),
    };
    // What tasks there are stands on lines of their own, and no more of them than of polls.
    let wholes = recorded
        .lines
        .iter()
        .filter(|line| line.name.starts_with("async"))
        .map(|line| line.events.len())
        .sum::<usize>();
    assert_eq!(
        wholes,
        trees.iter().map(|tree| tree.matches("future").count() + tree.matches("task").count()).sum::<usize>()
    );
    assert_eq!(recorded.warnings, Vec::<String>::new());
    (trees, samples.unwrap_or_default().into_iter().map(value).collect())
}

#[test]
fn every_form_goes_by_its_module() {
    let (trees, counters) = taken(directed("here::io=verbose,here::iota=off").host_tracer_level(1));
    assert_eq!((trees, counters), ([VERBOSE, VERBOSE, ""].map(str::to_owned), vec![1, 2]));
}

#[test]
fn the_longest_path_decides_and_the_rest_goes_by_the_level() {
    let (trees, counters) = taken(directed("here::io=off, here::io::deep=info").host_tracer_level(1));
    assert_eq!((trees, counters), (["", "critical info", "critical"].map(str::to_owned), vec![]));
    let (trees, counters) = taken(directed("off,here::io::deep=verbose"));
    assert_eq!((trees, counters), (["", VERBOSE, ""].map(str::to_owned), vec![2]));
    let (trees, counters) = taken(directed("critical,here::io=info"));
    assert_eq!((trees, counters), (["critical info", "critical info", "critical"].map(str::to_owned), vec![]));
    let (trees, counters) = taken(directed("here::io::deep=critical").host_tracer_level(0));
    assert_eq!((trees, counters), (["", "critical", ""].map(str::to_owned), vec![]));
}

#[test]
fn directives_that_met_no_scope_are_named_at_the_end() {
    let recorded = record(directed("off,here::io=info,here::io::deep=off,here::oi=verbose,no-crate=critical"), io::all);
    let missed = format!("{}::oi=verbose", module_path!());
    let unmet = [&"no_crate=critical".to_owned(), &format!("{}::io::deep=off", module_path!()), &missed];
    assert_eq!(recorded.profile.unmet_directives.iter().collect::<Vec<_>>(), unmet);
    // It is of no matter to readers of the profile.
    assert_eq!(recorded.warnings, Vec::<String>::new());

    let mut session = Session::new(directed("here::oi=verbose"));
    session.start();
    let snapshot = zprof::snapshot().expect("it is written").expect("zprof is enabled");
    assert_eq!(snapshot.unmet_directives, Vec::<String>::new(), "its scopes may come yet");
    assert_eq!(session.stop().profile.unmet_directives, [missed]);
    // One at a time.
    drop(session);
    assert_eq!(record(ProfilerOptions::default(), io::all).profile.unmet_directives, Vec::<String>::new());
}

#[test]
fn a_session_goes_by_its_own_directives() {
    let of = |options: ProfilerOptions| taken(options).0;
    for _ in 0..3 {
        assert_eq!(of(directed("here::io=off")), ["", "", VERBOSE]);
        assert_eq!(of(directed("here::iota=off,here::io=verbose")), [VERBOSE, VERBOSE, ""]);
        assert_eq!(of(ProfilerOptions::default()), [VERBOSE; 3]);
        assert_eq!(of(directed("off")), [""; 3]);
        assert_eq!(of(ProfilerOptions::default().host_tracer_level(2)), ["critical info"; 3]);
    }
}

#[test]
fn the_filter_is_asked_as_well() {
    let options = directed("here=info").host_traceme_filter_mask(1 << 3);
    let recorded = record(options, || {
        zprof::scope!("passes", level = info, filter = 3, {});
        zprof::scope!("too detailed", level = verbose, filter = 3, {});
        zprof::scope!("of another filter", level = info, filter = 4, {});
        zprof::scope!("without a filter", {});
    });
    assert_eq!(recorded.own_line().names(), ["passes", "without a filter"]);
    assert_eq!(recorded.environment["directives"], Stat::from(concat!(module_path!(), "=info")));
}

mod taken_out {
    pub(super) fn span() -> zprof::Span {
        zprof::span!("left out")
    }
}

#[test]
fn what_is_left_out_writes_nothing_when_it_ends() {
    let mut session = Session::new(directed("here::taken_out=off"));
    let (before, left_out_before) = (zprof::span!("before"), taken_out::span());
    session.start();
    drop((before, left_out_before));
    let mut outer = zprof::span!("outer");
    let mut inner = taken_out::span();
    let innermost = zprof::span!("innermost");
    inner.record("n", 1);
    outer.record("n", 2);
    drop(innermost);
    drop(inner);
    outer.end();
    let across = taken_out::span();
    let recorded = session.stop();
    let told = [
        ("before", &stats([("started_before", 1.into())])),
        ("outer", &stats([("n", 2.into())])),
        ("innermost", &stats([])),
    ];
    assert_eq!(recorded.own_line().told(), told);
    assert_eq!((recorded.warnings, recorded.profile.scopes), (vec![], 3));

    // Its end comes in a session that takes it.
    let mut other = session;
    other.start();
    drop(across);
    assert_eq!(other.stop().lines, []);
}

#[test]
fn threads_that_meet_a_site_at_once_agree() {
    const THREADS: usize = 4;
    let many = || {
        for n in 0..2_000_u32 {
            zprof::scope!("here", n);
            io::deep::all();
        }
    };
    for (directives, each) in
        [("here::io=off", 2_000), ("off,here::io::deep=critical", 2_000), ("here::io=critical", 4_000)]
    {
        let recorded: Recorded = record(directed(directives), || {
            thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(many))));
        });
        let counts: Vec<usize> = recorded.lines.iter().map(|line| line.events.len()).collect();
        assert_eq!(counts, [each; THREADS], "{directives}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_before_the_start() {
    let error =
        Platform::host().profiler(ProfilerOptions::default().directives("my_crate=info, other")).expect_err("no level");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "failed to read directive 2 of `my_crate=info, other`: `other` is no level; write `off`, `critical`, `info` or `verbose` \
         for all modules that are not named, or a module and its level, `my_crate::io=info`"
    );
}
