//! Sites and scopes that are made while the program runs: what bridges from other libraries stand on.

use std::sync::mpsc;
use std::thread;

use zprof::ProfilerOptions;
use zprof_runtime::raw::{
    self, Description, Level, MOST_KEYS, NO_FILTER, RawSite, RawValue, Whole, begin, end, instant, note, open,
};
use zprof_tests::profile::{Event, Line, Recorded, Session, Stat, Stats, record, recorded, stats};

fn site_at(level: Level, name: &str, keys: &[&str]) -> &'static RawSite {
    let keys: Vec<_> = keys.iter().map(|key| (*key).to_owned().into()).collect();
    let description = Description {
        name: name.to_owned().into(),
        keys: &keys,
        level,
        filter: NO_FILTER,
        module_path: "a::module".into(),
        file: "file.c".into(),
        line: 7,
    };
    RawSite::make(description).expect("there are few sites")
}

fn site(name: &str, keys: &[&str]) -> &'static RawSite {
    site_at(Level::Critical, name, keys)
}

#[test]
fn a_site_of_a_counter_may_have_scopes_too() {
    let recorded = recorded(|| {
        let both = site("both", &["first", "second"]);
        raw::count(both, RawValue::Signed(1));
        open(both, [RawValue::Signed(2)].as_slice()).end();
        open(both, &[RawValue::Signed(3), RawValue::Signed(4)]).end();
        // More shapes than a site keeps apart.
        for code in 0..64 {
            let kind = |code| [RawValue::Absent, RawValue::Bool(true), RawValue::Float(0.5), RawValue::Text("x")][code];
            open(both, &[kind(code % 4), kind(code / 4 % 4)]).end();
        }
        raw::count(both, RawValue::Float(5.5));
        open(both, [RawValue::Unsigned(6)].as_slice()).end();
    });
    let told: Vec<&Stats> = recorded.lines[1].events.iter().map(|event| &event.stats).collect();
    assert_eq!(told.len(), 67);
    assert_eq!(told[..2], [&stats([("first", 2.into())]), &stats([("first", 3.into()), ("second", 4.into())])]);
    assert_eq!(told[66], &stats([("first", 6.into())]));
    let samples: Vec<&Stats> = recorded.lines[0].events.iter().map(|event| &event.stats).collect();
    assert_eq!(samples, [&stats([("first", 1.into())]), &stats([("first", 5.5.into())])]);
}

#[test]
fn a_site_takes_values_of_any_kind_in_any_scope() {
    let recorded = recorded(|| {
        let all = site("all", &["absent", "bool", "signed", "unsigned", "float", "text", "_p", "_c"]);
        let text = String::from("longer than a word, and #=, in it");
        let mut values = [
            RawValue::Absent,
            RawValue::Bool(true),
            RawValue::Signed(-5),
            RawValue::Unsigned(u64::MAX),
            RawValue::Float(0.1),
            RawValue::Text(&text),
            RawValue::Sends(77),
            RawValue::Receives(78),
        ];
        open(all, &values).end();
        values.rotate_left(1);
        values[5..].copy_from_slice(&[RawValue::Text(""), RawValue::Absent, RawValue::Absent]);
        open(all, &values).end();
        // Fewer values than keys, more, and none.
        open(all, [RawValue::Text("one")].as_slice()).end();
        open(site("few", &["a"]), &[RawValue::Signed(1), RawValue::Signed(2)]).end();
        open(site("none", &[]), &[RawValue::Signed(1)]).end();
    });
    assert_eq!(
        recorded.own_line().told(),
        [
            (
                "all",
                &stats([
                    ("bool", 1.into()),
                    ("signed", (-5).into()),
                    ("unsigned", Stat::Uint(u64::MAX)),
                    ("float", 0.1.into()),
                    ("text", "longer than a word, and #=, in it".into()),
                    ("_pt", 0.into()),
                    ("_p", 77.into()),
                    ("_ct", 0.into()),
                    ("_c", 78.into()),
                ])
            ),
            (
                "all",
                &[
                    stats([
                        ("absent", 1.into()),
                        ("bool", (-5).into()),
                        ("signed", Stat::Uint(u64::MAX)),
                        ("unsigned", 0.1.into()),
                        ("float", "longer than a word, and #=, in it".into()),
                    ]),
                    stats([("text", "".into())]),
                ]
                .concat()
            ),
            ("all", &stats([("absent", "one".into())])),
            ("few", &stats([("a", 1.into())])),
            ("none", &stats([])),
        ]
    );
    let of_site = stats([("module_path", "a::module".into()), ("source", "file.c:7".into())]);
    assert!(recorded.own_line().events.iter().all(|event| event.site == of_site));
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

/// A value of one of six kinds, and the stat that it becomes.
fn varied(number: usize) -> (RawValue<'static>, Option<Stat>) {
    match number % 6 {
        0 => (RawValue::Absent, None),
        1 => (RawValue::Bool(true), Some(1.into())),
        2 => (RawValue::Signed(-7), Some((-7).into())),
        3 => (RawValue::Unsigned(8), Some(8.into())),
        4 => (RawValue::Float(9.5), Some(9.5.into())),
        _ => (RawValue::Text("longer than a word"), Some("longer than a word".into())),
    }
}

#[test]
fn a_site_whose_kinds_never_stay_the_same_loses_nothing() {
    let keys: Vec<String> = (0..MOST_KEYS).map(|key| format!("k{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    // 216 combinations of kinds by three digits to the base of six, on three of many keys, from two threads at once.
    let places = [0, 9, MOST_KEYS - 1];
    let digits = |number: usize| [number % 6, number / 6 % 6, number / 36];
    let work = |site: &'static RawSite| {
        for number in 0..216 {
            let mut values = [RawValue::Absent; MOST_KEYS];
            for (place, digit) in places.into_iter().zip(digits(number)) {
                values[place] = varied(digit).0;
            }
            open(site, &values).end();
            instant(site, &values);
        }
    };
    let recorded = recorded(|| {
        let site = site("varied", &keys);
        thread::scope(|scope| {
            for name in ["one", "two"] {
                thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, || work(site)).expect("a thread");
            }
        });
    });
    let expected: Vec<Stats> = (0..216)
        .flat_map(|number| {
            let values = places.into_iter().zip(digits(number));
            let stats: Stats =
                values.filter_map(|(place, digit)| Some((keys[place].to_owned(), varied(digit).1?))).collect();
            [stats.clone(), stats]
        })
        .collect();
    for name in ["one", "two"] {
        let told: Vec<&Stats> = recorded.line(name).events.iter().map(|event| &event.stats).collect();
        assert_eq!(told, expected.iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn sessions_and_levels_are_obeyed() {
    let [loud, quiet] = [Level::Critical, Level::Verbose].map(|level| site_at(level, "at level", &["n"]));
    let value = |n| [RawValue::Signed(n)];
    let mut session = Session::new(ProfilerOptions::default().host_tracer_level(2));
    let (before, silent) = (open(loud, &value(1)), open(quiet, &value(2)));
    session.start();
    assert!(raw::listens(Level::Critical, NO_FILTER) && raw::listens(Level::Info, NO_FILTER));
    assert!(!raw::listens(Level::Verbose, NO_FILTER));
    open(quiet, &value(3)).end();
    instant(quiet, &value(3));
    before.end();
    silent.end();
    open(loud, &value(4)).end();
    let across = open(loud, &value(5));
    across.note("added", RawValue::Text("then"));
    let leaked = open(loud, &value(6));
    let first = session.stop();
    assert!(!raw::listens(Level::Critical, NO_FILTER));
    across.note("added", RawValue::Text("too late"));
    session.start();
    across.end();
    drop(leaked);
    let second = session.stop();
    let of = |recorded: &Recorded| -> Vec<Stats> {
        recorded.own_line().events.iter().map(|event| event.stats.clone()).collect()
    };
    assert_eq!(
        of(&first),
        [
            stats([("started_before", 1.into())]),
            stats([("n", 4.into())]),
            stats([("n", 5.into()), ("added", "then".into()), ("unfinished", 1.into())]),
            stats([("n", 6.into()), ("unfinished", 1.into())]),
        ]
    );
    assert_eq!(of(&second), [stats([("started_before", 1.into())])]);
    assert_eq!(second.own_line().names(), ["at level"]);
}

#[test]
fn a_handle_ends_its_own_scope_once_on_its_own_thread() {
    let site = site("handled", &["n"]);
    let recorded = recorded(|| {
        let [outer, inner, last] = [1, 2, 3].map(|n| begin(site, &[RawValue::Signed(n)]));
        assert!(outer != 0 && outer != inner && inner != last);
        assert!(note(inner, "later", RawValue::Float(0.5)));
        thread::spawn(move || assert!(!end(outer) && !note(outer, "later", RawValue::Bool(true))))
            .join()
            .expect("it does not panic");
        // Out of order, and each once.
        assert!(end(inner) && !end(inner) && !note(inner, "later", RawValue::Bool(true)));
        assert!(end(last) && end(outer) && !end(outer) && !end(0));
        let open = thread::Builder::new().name("ends".to_owned()).spawn(move || begin(site, &[RawValue::Signed(4)]));
        let handle = open.expect("a thread").join().expect("it does not panic");
        assert!(!end(handle));
    });
    let told = |line: &str| recorded.line(line).told().into_iter().map(|told| told.1.clone()).collect::<Vec<_>>();
    let own = recorded.own_line();
    assert_eq!(own.tree(), "handled(handled)");
    assert_eq!(told("ends"), [stats([("n", 4.into()), ("unfinished", 1.into())])]);
    let overlap = format!("{} (overlap)", own.name);
    assert_eq!(told(&overlap), [stats([("n", 3.into()), ("tid", recorded.tid.into())])]);
}

#[test]
fn counters_of_one_name_are_one_curve() {
    let (plain, unit) = (site("queue", &[]), site("bytes", &["MiB"]));
    let recorded = recorded(|| {
        raw::count(plain, RawValue::Signed(-3));
        raw::count(plain, RawValue::Unsigned(u64::MAX));
        zprof::counter!("queue", 4);
        raw::count(plain, RawValue::Float(0.5));
        raw::count(plain, RawValue::Text("no number"));
        raw::count(plain, RawValue::Absent);
        raw::count(unit, RawValue::Unsigned(7));
    });
    let line = recorded.line("_counters_");
    let queue = |value: Stat| ("queue", stats([("value", value)]));
    let expected = [
        queue((-3).into()),
        queue(Stat::Uint(u64::MAX)),
        queue(4.into()),
        queue(0.5.into()),
        ("bytes", stats([("MiB", 7.into())])),
    ];
    let told: Vec<(&str, Stats)> = line.told().into_iter().map(|(name, stats)| (name, stats.clone())).collect();
    assert_eq!(told, expected);
}

/// Number of the whole that an event belongs to, and its other stats.
pub(crate) fn flow(event: &Event) -> (Option<u64>, Stats) {
    let (flows, others): (Stats, Stats) = event.stats.iter().cloned().partition(|(name, _)| name == "flow");
    let number = flows.first().map(|(_, stat)| match stat {
        Stat::Uint(number) => *number,
        Stat::Int(number) => u64::try_from(*number).expect("flows are positive"),
        other => panic!("{other:?}"),
    });
    (number, others)
}

/// Opens slices of a whole in another thread, and gives it back.
fn elsewhere(mut whole: Whole, site: &'static RawSite, values: [RawValue<'static>; 2], times: usize) -> Whole {
    let (sender, receiver) = mpsc::channel();
    let other = thread::Builder::new().name("other".to_owned()).spawn(move || {
        (0..times).for_each(|_| whole.open(site, &values).end());
        sender.send(whole).expect("somebody waits");
    });
    other.expect("a thread").join().expect("it does not panic");
    receiver.recv().expect("it was sent")
}

#[test]
fn a_span_of_several_threads_is_asynchronous_too() {
    let site = site("whole", &["n", "text"]);
    let values = |n| [RawValue::Signed(n), RawValue::Text("of a whole")];
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    let mut once = Whole::begin();
    once.open(site, &values(1)).end();
    once.end(site);
    let mut whole = Whole::begin();
    whole.open(site, &values(2)).end();
    // In another thread the second and third time, and open to the end.
    let mut whole = elsewhere(whole, site, values(2), 2);
    let mut open_one = Whole::begin();
    open_one.open(site, &values(3)).end();
    open_one.open(site, &values(3)).end();
    let first = session.stop();
    session.start();
    whole.open(site, &values(2)).end();
    let whole = elsewhere(whole, site, values(2), 1);
    whole.end(site);
    open_one.open(site, &values(3)).end();
    open_one.end(site);
    let second = session.stop();

    let own = |n: i64| stats([("n", n.into()), ("text", "of a whole".into())]);
    let told = |line: &Line| line.events.iter().map(flow).collect::<Vec<_>>();
    let spans = |recorded: &Recorded| -> Vec<Event> {
        let lines = recorded.lines.iter().filter(|line| line.name.starts_with("async"));
        lines.flat_map(|line| line.events.clone()).collect()
    };
    let whole = |own: Stats, mark: &str, polls: i64| {
        [own, stats([(mark, 1.into()), ("polls", polls.into()), ("_a", 1.into())])].concat()
    };
    let [span] = &spans(&first)[..] else { panic!("{first:?}") };
    let (number, told_of_span) = flow(span);
    assert_eq!(told_of_span, whole(own(2), "unfinished", 3));
    assert!(number.is_some());
    // A span that one thread enters has slices alone, and each of them has its values.
    assert_eq!(told(first.own_line()), [(None, own(1)), (number, own(2)), (None, own(3)), (None, own(3))]);
    assert_eq!(told(first.line("other")), [(number, own(2)), (number, stats([]))]);
    let slices = || first.lines.iter().flat_map(|line| &line.events).filter(|event| flow(event).0 == number);
    assert!(slices().all(|slice| slice.is_inside(span)));
    // In the next session it is told anew.
    let [span] = &spans(&second)[..] else { panic!("{second:?}") };
    assert_eq!((flow(span), span.start_ps), ((number, whole(own(2), "started_before", 2)), 0));
    assert_eq!(told(second.own_line()), [(number, own(2)), (None, own(3))]);
    assert_eq!(told(second.line("other")), [(number, own(2))]);
}

#[test]
fn what_finds_no_room_is_counted() {
    let site = site("many", &["n"]);
    let recorded = record(ProfilerOptions::default().max_buffer_bytes(64 << 10), || {
        for n in 0..5_000 {
            open(site, &[RawValue::Signed(n)]).end();
        }
    });
    let kept = recorded.own_line().events.len() as u64;
    assert!(kept > 500, "{kept}");
    assert_eq!(kept + recorded.profile.dropped_scopes, 5_000);
}
