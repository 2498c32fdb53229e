//! Parity with TSL: the same scopes, written as TraceMe texts and converted and post-processed by TSL's own code, make
//! the same plane but for the differences that stand here, each with its reason and its exact compensation.

use std::collections::BTreeSet;
use std::thread;

use proptest::prelude::{any, prop};
use proptest::proptest;
use prost::Message as _;
use zprof_proto::XSpace;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_tests::canonical;
use zprof_tests::oracle::{TraceMe, host_events, post_process};
use zprof_tests::profile::{Event, Line, Recorded, Stat, recorded};

/// Session times of the environment, in nanoseconds.
fn times<T>(recorded: &Recorded<T>) -> (u64, u64) {
    let time = |name: &str| match recorded.environment[name] {
        Stat::Uint(time) => time,
        ref other => panic!("`{name}` is {other:?}"),
    };
    (time("profile_start_time"), time("profile_stop_time"))
}

/// The text that a TraceMe with the metadata of the event has.
fn text(event: &Event) -> String {
    let value = |stat: &Stat| match stat {
        Stat::Int(value) => value.to_string(),
        Stat::Uint(value) => value.to_string(),
        // The doubles of these tests have at most six digits, where `%g` prints what Rust prints.
        Stat::Double(value) => value.to_string(),
        Stat::Text(value) => value.clone(),
        other => panic!("no value of a scope: {other:?}"),
    };
    if event.stats.is_empty() {
        return event.name.clone();
    }
    let pairs: Vec<String> = event.stats.iter().map(|(name, stat)| format!("{name}={}", value(stat))).collect();
    format!("{}#{}#", event.name, pairs.join(","))
}

/// What TSL makes of the recorded scopes: converted, then post-processed.
fn as_tsl<T>(recorded: &Recorded<T>) -> XSpace {
    let (start_ns, stop_ns) = times(recorded);
    let ns = |ps: i64| i64::try_from(start_ns).expect("before the year 2262") + ps / 1000;
    let mut records = Vec::new();
    for Line { id, name, events } in &recorded.lines {
        // TSL records a scope when it ends.
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_by_key(|event| (event.end_ps, std::cmp::Reverse(event.start_ps)));
        records.extend(events.into_iter().map(|event| TraceMe {
            thread_id: *id,
            thread_name: name.clone(),
            start_ns: ns(event.start_ps),
            end_ns: ns(event.end_ps),
            text: text(event),
        }));
    }
    let converted = host_events(&[(records, start_ns)]).remove(0);
    let processed = post_process(&[(converted, start_ns, stop_ns)]).remove(0);
    XSpace::decode(processed.as_slice()).expect("TSL writes an XSpace")
}

/// Our space with every difference taken out, one by one.
fn as_ours<T>(recorded: &Recorded<T>) -> XSpace {
    let mut space = XSpace::decode(recorded.space.as_slice()).expect("it is an XSpace");
    host_name_is_the_sessions(&mut space);
    process_id_is_the_sessions(&mut space);
    environment_tells_more(&mut space);
    kinds_tell_their_site(&mut space);
    one_kind_a_site(&mut space);
    picoseconds_are_kept(&mut space);
    space
}

/// TSL's session adds the host's name after post-processing, as ours does; the oracle has no session.
fn host_name_is_the_sessions(space: &mut XSpace) {
    assert_eq!(std::mem::take(&mut space.hostnames), ["profiling"]);
}

/// Likewise the process id.
fn process_id_is_the_sessions(space: &mut XSpace) {
    let plane = &mut space.planes[0];
    let [stat] = &plane.stats[..] else { panic!("other stats than one: {:?}", plane.stats) };
    let id = stat.metadata_id;
    assert_eq!(plane.stat_metadata[&id].name, "process_id");
    assert_eq!(stat.value, Some(Value::Int64Value(std::process::id().into())));
    plane.stats.clear();
    plane.stat_metadata.remove(&id);
}

/// Clock, residual, dropped scopes and the program stand in the environment, and the options, which TSL's session adds there too.
fn environment_tells_more(space: &mut XSpace) {
    let plane = &mut space.planes[1];
    let name = |id: i64| plane.stat_metadata[&id].name.clone();
    let more = ["process_name", "process_id", "clock", "clock_residual_ns", "dropped_scopes", "profile_options"];
    let (ours, tsls): (Vec<_>, Vec<_>) =
        std::mem::take(&mut plane.stats).into_iter().partition(|stat| more.contains(&name(stat.metadata_id).as_str()));
    assert_eq!(ours.iter().map(|stat| name(stat.metadata_id)).collect::<Vec<_>>(), more);
    let kept: BTreeSet<i64> = tsls.iter().map(|stat| stat.metadata_id).collect();
    plane.stats = tsls;
    plane.stat_metadata.retain(|id, _| kept.contains(id));
}

/// Module and source line of a site are stats of its event metadata; TSL's newest has `_src` in each event.
fn kinds_tell_their_site(space: &mut XSpace) {
    let plane = &mut space.planes[0];
    for kind in plane.event_metadata.values_mut() {
        let names: Vec<&str> =
            kind.stats.iter().map(|stat| plane.stat_metadata[&stat.metadata_id].name.as_str()).collect();
        assert_eq!(names, ["module_path", "source"]);
        kind.stats.clear();
    }
    // The names and texts that nothing else refers to go with them.
    let mut used = BTreeSet::new();
    for stat in plane.lines.iter().flat_map(|line| &line.events).flat_map(|event| &event.stats) {
        used.insert(stat.metadata_id);
        if let Some(Value::RefValue(id)) = stat.value {
            used.insert(i64::try_from(id).expect("ids are positive"));
        }
    }
    plane.stat_metadata.retain(|id, _| used.contains(id));
}

/// Two sites of one name are two kinds of event; TSL has one kind a name.
fn one_kind_a_site(space: &mut XSpace) {
    let plane = &mut space.planes[0];
    let mut names = BTreeSet::new();
    let first: BTreeSet<i64> =
        plane.event_metadata.iter().filter(|(_, kind)| names.insert(&kind.name)).map(|(&id, _)| id).collect();
    let by_name = |name: &str| first.iter().find(|id| plane.event_metadata[id].name == name).copied();
    for event in plane.lines.iter_mut().flat_map(|line| &mut line.events) {
        event.metadata_id = by_name(&plane.event_metadata[&event.metadata_id].name).expect("every name has a first");
    }
    plane.event_metadata.retain(|id, _| first.contains(id));
}

/// Times have picoseconds; TSL reads a clock of nanoseconds.
fn picoseconds_are_kept(space: &mut XSpace) {
    for event in space.planes[0].lines.iter_mut().flat_map(|line| &mut line.events) {
        let Some(Data::OffsetPs(start)) = event.data else { panic!("an event without a time") };
        let whole = |ps: i64| ps - ps % 1000;
        event.duration_ps = whole(start + event.duration_ps) - whole(start);
        event.data = Some(Data::OffsetPs(whole(start)));
    }
}

/// Both spaces are the same by name.
fn same<T>(recorded: &Recorded<T>) {
    let read = |space: XSpace| {
        let mut read = canonical(&space.encode_to_vec());
        // Whole nanoseconds make ties, which neither sort puts into an order.
        read.sort_ties("/host:CPU");
        read
    };
    if let Some(difference) = read(as_ours(recorded)).difference(&read(as_tsl(recorded))) {
        panic!("ours is left, TSL's is right: {difference}");
    }
}

#[test]
fn names_and_their_display_names() {
    let recorded = recorded(|| {
        zprof::scope!("simple", {});
        zprof::scope!("trail ", {});
        zprof::scope!("  lead", {});
        zprof::scope!("Op:Type", {});
        zprof::scope!("A/B_2:MatMul", {});
        zprof::scope!("Iterator::Batch::Map", {});
        zprof::scope!("jit(f)/add:add", {});
        zprof::scope!("foo:", {});
        zprof::scope!("x/transpose_3:transpose[perm=(0,1)]", {});
        zprof::scope!("Xx>Yy:Zz", {});
        zprof::scope!(".x:Tt", {});
        zprof::scope!("MEMCPYHtoD:x", {});
        zprof::scope!("MemcpyHToD", {});
        zprof::scope!("a:b:c", {});
        zprof::scope!("MEMCPYHtoD_1", {});
        zprof::scope!("memcpyDToD xx ", {});
        zprof::scope!("x_1:", {});
        zprof::scope!("a/b_c_12:", {});
        zprof::scope!("5:", {});
        zprof::scope!("Iterator:foo", {});
        zprof::scope!("a b:c", {});
        zprof::scope!("A:op_type[x]", {});
        zprof::scope!("_A:b", {});
        zprof::scope!("é:Op", {});
        zprof::scope!("ThreadpoolListener::Record", {});
        zprof::scope!("with,comma=and \"quotes\"", {});
        zprof::scope!("Op:Type", k = "v", {});
    });
    assert_eq!(recorded.profile.scopes, 27);
    same(&recorded);
}

#[test]
fn metadata_of_every_type_that_has_one_text() {
    let recorded = recorded(|| {
        // Case C7, and the values of 11.2 that are the same text before and after.
        zprof::scope!("n", k = "v", k2 = 7, k3 = "v");
        zprof::scope!("n", a = 1);
        zprof::scope!("n2", a = 1, b = 2.5, c = "abc");
        zprof::scope!("n3", k3 = "=v3", k4 = "v4=");
        let quoted = "\"v41,v42\"";
        zprof::scope!("n5", k1 = "(v11,v12)", k2 = "[v21,v22,v23]", k3 = "{v31,v32}", k4 = quoted, k5 = "'v51,v52'");
        zprof::scope!("n6", k1 = "v1", k2 = "(v2,k3=v3");
        zprof::scope!("n9", l = 2, k = "it's");
        zprof::scope!("n12", k = "(])", l = 1);
        zprof::scope!("n13", k = "\"a'b\"");
        zprof::scope!("n15", k = "a\tb", l = "a b");
        zprof::scope!("n", k = "1)2", l = 2);
        zprof::scope!("ints", a = i64::MIN, b = i64::MAX, c = u64::MAX, d = 1_u64 << 63, e = 0, f = -0, g = u8::MAX);
        zprof::scope!("bools", yes = true, no = false);
        zprof::scope!("doubles", a = 2.5, b = -0.125, c = 1234.5);
        zprof::scope!("chars", a = 'x', b = 'ü');
        zprof::scope!("train", root = true, step_num = 5);
        zprof::scope!("test.span", root = false, count = 42, label = "batch", optional = None::<u8>);
        zprof::scope!("words", a = "1_000", b = "1f", c = "true", d = "None", e = "1.5e3x", f = "--1");
    });
    same(&recorded);
}

#[test]
fn threads_and_nesting() {
    let recorded = recorded(|| {
        thread::scope(|scope| {
            for (index, name) in
                ["worker b", "worker a", "worker with a name of more than fifteen bytes"].iter().enumerate()
            {
                let work = move || {
                    zprof::scope!("outer", index);
                    for i in 0..20 {
                        zprof::scope!("middle", i);
                        zprof::scope!("inner", {
                            zprof::scope!("innermost", i, text = "some text");
                        });
                    }
                };
                thread::Builder::new().name((*name).to_owned()).spawn_scoped(scope, work).expect("a thread can be had");
            }
        });
        zprof::scope!("of the caller", {});
    });
    assert_eq!((recorded.lines.len(), recorded.profile.scopes), (4, 3 * 61 + 1));
    same(&recorded);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 8, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_integers_bools_and_words(
        rows in prop::collection::vec((any::<i64>(), any::<u64>(), any::<bool>(), "[g-hj-mo-z][a-zé🦀_ :/.-]{0,20}[a-z]"), 1..60),
    ) {
        let recorded = recorded(|| {
            for (signed, unsigned, flag, word) in &rows {
                zprof::scope!("row", signed, unsigned, flag, word);
                zprof::scope!("part", root = *flag, low = *unsigned as u32, { zprof::scope!("leaf", word); });
            }
        });
        same(&recorded);
    }
}

/// Our stat and TSL's for one value under the key `v`.
fn both(recorded: &Recorded<()>) -> (Vec<(String, Stat)>, Vec<String>) {
    let ours = recorded.own_line().event("difference").stats.clone();
    let tsl = canonical(&as_tsl(recorded).encode_to_vec());
    let line = tsl.plane("/host:CPU").lines.first().expect("one line");
    let text = &line.events[0].text;
    let (_, stats) = text.split_once(" ps ").unwrap_or_else(|| panic!("no stats in `{text}`"));
    let (_, stats) = stats.split_once(" ps").unwrap_or(("", stats));
    let stats = stats.split(" of ").next().unwrap_or_default().trim();
    (ours, stats.split_inclusive(' ').map(|stat| stat.trim().to_owned()).filter(|stat| !stat.is_empty()).collect())
}

/// A value that both show, but not alike: `ours` is typed as in Rust, `tsl` is what its parser makes of the text.
macro_rules! differs {
    ($value:expr, $ours:expr, [$($tsl:expr),*]) => {{
        let recorded = recorded(|| {
            zprof::scope!("difference", v = $value, end = 1);
        });
        let expected = vec![("v".to_owned(), Stat::from($ours)), ("end".to_owned(), Stat::Int(1))];
        let tsl: &[&str] = &[$($tsl),*];
        assert_eq!(both(&recorded), (expected, tsl.iter().map(|stat| (*stat).to_owned()).collect()));
    }};
}

#[test]
fn a_string_stays_a_string_where_tsl_makes_a_number_of_it() {
    let end = "end=i64:1";
    differs!("007", "007", ["v=i64:7", end]);
    differs!("1e3", "1e3", ["v=f64:1000.0", end]);
    differs!("0x10", "0x10", ["v=f64:16.0", end]);
    differs!("inf", "inf", ["v=f64:inf", end]);
    differs!("-5", "-5", ["v=i64:-5", end]);
    differs!("18446744073709551615", "18446744073709551615", ["v=u64:18446744073709551615", end]);
    differs!('7', "7", ["v=i64:7", end]);
}

#[test]
fn a_string_stays_whole_where_tsls_syntax_cuts_it() {
    let end = "end=i64:1";
    differs!("a,b=c", "a,b=c", ["v=ref:\"a\"", "b=ref:\"c\"", end]);
    differs!(" padded ", " padded ", ["v=ref:\"padded\"", end]);
    differs!("", "", [end]);
    differs!("it's", "it's", ["v=ref:\"it's,end=1\""]);
    differs!(String::from("ha#sh"), "ha#sh", ["v=ref:\"ha\""]);
}

#[test]
fn doubles_are_exact_where_tsl_prints_six_digits() {
    let recorded = recorded(|| {
        zprof::scope!("difference", third = 1.0 / 3.0, whole = 2.0);
    });
    let stats = &recorded.own_line().event("difference").stats;
    assert_eq!(*stats, [("third".to_owned(), Stat::Double(1.0 / 3.0)), ("whole".to_owned(), Stat::Double(2.0))]);
    // `%g` of both, as spec and printf have it.
    let text = "difference#third=0.333333,whole=2#".to_owned();
    let (start_ns, _) = times(&recorded);
    let at = i64::try_from(start_ns).expect("before the year 2262");
    let record = TraceMe { thread_id: 1, thread_name: "t".to_owned(), start_ns: at, end_ns: at, text };
    let plane = host_events(&[(vec![record], start_ns)]).remove(0);
    let event = canonical(&plane).plane("/host:CPU").lines[0].events[0].text.clone();
    assert_eq!(event, "at 0 ps for 0 ps third=f64:0.333333 whole=i64:2 of \"difference\"");
}

#[test]
fn a_name_keeps_its_spaces_beside_metadata() {
    let recorded = recorded(|| {
        zprof::scope!(" spaced ", n = 1);
    });
    assert_eq!(recorded.own_line().names(), [" spaced "]);
    let tsl = canonical(&as_tsl(&recorded).encode_to_vec());
    assert_eq!(tsl.plane("/host:CPU").event_metadata, ["\"spaced\""]);
}

#[test]
fn early_and_unfinished_scopes_are_kept_where_tsl_loses_them() {
    use zprof_tests::profile::Session;

    let mut session = Session::new(zprof::ProfilerOptions::default());
    let early = zprof::span!("early");
    session.start();
    drop(early);
    let unfinished = zprof::span!("unfinished");
    let recorded = session.stop();
    drop(unfinished);
    assert_eq!(recorded.own_line().names(), ["early", "unfinished"]);

    // TSL has the first as a record from before its start, and the second not at all.
    let (start_ns, _) = times(&recorded);
    let at = i64::try_from(start_ns).expect("before the year 2262");
    let record = TraceMe {
        thread_id: 1,
        thread_name: "t".to_owned(),
        start_ns: at - 1,
        end_ns: at + 1,
        text: "early".to_owned(),
    };
    let plane = host_events(&[(vec![record], start_ns)]).remove(0);
    assert_eq!(canonical(&plane).plane("/host:CPU").lines[0].events, []);
}
