//! Steps, instants, counters and flows, as they stand in the XSpace.

use std::collections::HashSet;
use std::thread;

use zprof::{Flow, ProfilerOptions};
use zprof_tests::profile::{Event, Recorded, Session, Stat, Stats, record, recorded, stats};

fn event<'a, T>(recorded: &'a Recorded<T>, name: &str) -> &'a Event {
    recorded.own_line().event(name)
}

#[test]
fn a_step_is_a_root_with_its_number() {
    let recorded = recorded(|| {
        let limit = 7_u8;
        for n in 0..2_i64 {
            zprof::step!("train", n - 1, limit, text = "a");
            let value = zprof::step!("inner", &(n + 1), level = info, { n * 2 });
            assert_eq!(value, n * 2);
        }
        zprof::step!("literal", 3, {});
    });
    let of = |name: &str, number: i64, rest: Stats| {
        let mut all = stats([("step_num", number.into())]);
        all.extend(rest);
        all.extend(stats([("_r", 1.into())]));
        (name.to_owned(), all)
    };
    let own = || stats([("limit", 7.into()), ("text", "a".into())]);
    let told: Vec<(String, Stats)> =
        recorded.own_line().events.iter().map(|event| (event.name.clone(), event.stats.clone())).collect();
    let none = || stats([]);
    assert_eq!(
        told,
        [
            of("train", -1, own()),
            of("inner", 1, none()),
            of("train", 0, own()),
            of("inner", 2, none()),
            of("literal", 3, none())
        ]
    );
    assert_eq!(recorded.own_line().tree(), "train(inner) train(inner) literal");
}

#[test]
fn an_instant_has_no_length_and_lies_where_it_happened() {
    let mut session = Session::new(ProfilerOptions::default().host_tracer_level(2));
    zprof::instant!("before");
    session.start();
    let line = line!() + 1;
    zprof::instant!("first", n = 1, text = String::from("long enough for a few words"), none = None::<u8>);
    zprof::scope!("around", {
        zprof::instant!("within");
        zprof::instant!("too detailed", level = verbose);
        zprof::instant!("detailed", level = info);
    });
    let across = zprof::span!("open");
    zprof::instant!("last");
    let recorded = session.stop();
    zprof::instant!("after");
    drop(across);
    let events = &recorded.own_line().events;
    let told: Vec<(&str, bool)> =
        events.iter().map(|event| (event.name.as_str(), event.start_ps == event.end_ps)).collect();
    let expected = [("first", true), ("around", false), ("within", true), ("detailed", true), ("open", false)];
    assert_eq!(told, [&expected[..], &[("last", true)]].concat());
    let first = event(&recorded, "first");
    assert_eq!(first.stats, stats([("n", 1.into()), ("text", "long enough for a few words".into())]));
    let source = format!("{}:{line}", file!());
    assert_eq!(first.site, stats([("module_path", module_path!().into()), ("source", source.as_str().into())]));
    assert!(event(&recorded, "within").is_inside(event(&recorded, "around")));
    assert_eq!((recorded.profile.scopes, recorded.warnings.len()), (6, 0));
}

#[test]
fn a_counter_has_the_samples_of_all_threads_and_places() {
    let recorded = recorded(|| {
        for n in 0..300_u32 {
            zprof::counter!("queue", n);
        }
        let other = thread::spawn(|| (0..200_i64).for_each(|n| zprof::counter!("queue", -1 - n)));
        other.join().expect("it does not panic");
        zprof::counter!("bytes", bytes = u64::MAX, level = verbose, filter = 3);
        zprof::counter!("load", 0.1_f32);
        zprof::counter!("load", &&f64::NEG_INFINITY);
        zprof::counter!("load", usize::MAX >> 1);
    });
    let line = recorded.line("_counters_");
    assert_eq!(line.id, i64::MAX);
    assert!(line.events.windows(2).all(|pair| pair[0].start_ps <= pair[1].start_ps));
    assert!(line.events.iter().all(|event| event.start_ps == event.end_ps && event.site.is_empty()));
    let values = |name: &str| -> Vec<(String, Stat)> {
        line.events.iter().filter(|event| event.name == name).flat_map(|event| event.stats.clone()).collect()
    };
    let expected = (0..300).chain((0..200).map(|n| -1 - n)).map(|n: i64| ("value".to_owned(), Stat::Int(n)));
    assert_eq!(values("queue"), expected.collect::<Vec<_>>());
    assert_eq!(values("bytes"), stats([("bytes", Stat::Uint(u64::MAX))]));
    let loads = [0.1_f32.into(), f64::NEG_INFINITY].map(|load: f64| ("value", load.into()));
    let [small, infinite] = loads;
    assert_eq!(
        values("load"),
        stats([small, infinite, ("value", i64::try_from(usize::MAX >> 1).expect("it fits").into())])
    );
    // Samples are no scopes, and a thread without any has no line.
    assert_eq!((recorded.profile.scopes, recorded.lines.len()), (0, 1));
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn counters_obey_level_and_session() {
    let mut session = Session::new(ProfilerOptions::default().host_tracer_level(1));
    zprof::counter!("early", 1);
    session.start();
    zprof::counter!("critical", 1);
    zprof::counter!("verbose", 1, level = verbose);
    let first = session.stop();
    zprof::counter!("late", 1);
    session.start();
    zprof::scope!("alone", {});
    let second = session.stop();
    assert_eq!(first.line("_counters_").names(), ["critical"]);
    assert_eq!(second.lines.iter().map(|line| line.names()).collect::<Vec<_>>(), [["alone"]]);
}

#[test]
fn what_finds_no_room_is_counted() {
    let options = ProfilerOptions::default().max_buffer_bytes(64 << 10);
    let recorded = record(options, || {
        for n in 0..5_000_u64 {
            zprof::counter!("n", n);
            zprof::instant!("n", n);
        }
    });
    let [instants, samples] = [recorded.own_line(), recorded.line("_counters_")].map(|line| line.events.len() as u64);
    assert!(instants > 500 && samples > 500, "{instants} {samples}");
    assert_eq!(recorded.profile.scopes, instants);
    assert_eq!(instants + samples + recorded.profile.dropped_scopes, 10_000);
    assert_eq!(recorded.warnings.len(), 1, "{:?}", recorded.warnings);
}

/// Number of the flow that begins or ends at an event, with types 0.
fn ends(event: &Event) -> Vec<(&str, i64)> {
    let ends = event.stats.chunks(2).map(|pair| match pair {
        [(kind, Stat::Int(0)), (key, Stat::Int(number))] if ["_pt", "_ct"].contains(&kind.as_str()) => {
            (key.as_str(), *number)
        }
        other => panic!("{other:?}"),
    });
    ends.collect()
}

#[zprof::trace(sends = flow)]
fn traced(flow: Flow) {}

#[test]
fn flows_join_events_across_threads() {
    let recorded = recorded(|| {
        let flow = zprof::flow();
        zprof::scope!("sender", sends = flow, {});
        thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || zprof::instant!("receiver", receives = &Some(flow)))
            .expect("a thread starts")
            .join()
            .expect("it does not panic");
        let next = zprof::flow();
        zprof::span!("both", receives = flow, sends = next).end();
        zprof::scope!("neither", sends = None, receives = None::<Flow>, {});
        traced(next);
        zprof::scope!("keys", r#sends = 1, r#receives = 2, {});
        assert_ne!(flow, next);
    });
    let [("_p", flow)] = ends(event(&recorded, "sender"))[..] else { panic!("{recorded:?}") };
    assert_eq!(ends(recorded.line("receiver").event("receiver")), [("_c", flow)]);
    let [("_p", next), ("_c", same)] = ends(event(&recorded, "both"))[..] else { panic!("{recorded:?}") };
    assert!(same == flow && next != flow);
    assert_eq!(ends(event(&recorded, "traced")), [("_p", next)]);
    assert_eq!(event(&recorded, "neither").stats, stats([]));
    assert_eq!(event(&recorded, "keys").stats, stats([("sends", 1.into()), ("receives", 2.into())]));
}

#[test]
fn no_two_flows_are_the_same() {
    let threads: Vec<_> =
        (0..4).map(|_| thread::spawn(|| (0..1_000).map(|_| zprof::flow()).collect::<Vec<Flow>>())).collect();
    let all: HashSet<Flow> = threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect();
    assert_eq!(all.len(), 4_000);
}
