//! Profiles made for a question.

use std::path::Path;

use prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata};

/// A profile of one thread with these runs of scopes, one after another; durations in nanoseconds.
pub(super) fn of_runs(runs: &[(&str, i64)]) -> Vec<u8> {
    XSpace { planes: vec![plane(runs)], ..Default::default() }.encode_to_vec()
}

/// The same where those called as the first are the polls of a future that took so long.
pub(super) fn of_a_future(runs: &[(&str, i64)], whole_ns: i64) -> Vec<u8> {
    let mut plane = plane(runs);
    let stat = |metadata_id, value| XStat { metadata_id, value: Some(value) };
    for (id, name) in [(1, "flow"), (2, "_a")] {
        plane.stat_metadata.insert(id, XStatMetadata { id, name: name.into(), ..Default::default() });
    }
    let flow = stat(1, Value::Uint64Value(5 << 2 | 3));
    let polls = plane.lines[0].events.iter_mut().filter(|event| event.metadata_id == 1);
    polls.for_each(|poll| poll.stats.push(flow.clone()));
    let stats = vec![flow, stat(2, Value::Int64Value(1))];
    let whole = XEvent { metadata_id: 1, data: Some(Data::OffsetPs(0)), duration_ps: whole_ns * 1_000, stats };
    plane.lines.push(XLine { id: 2, name: "async".into(), events: vec![whole], ..Default::default() });
    XSpace { planes: vec![plane], ..Default::default() }.encode_to_vec()
}

fn plane(runs: &[(&str, i64)]) -> XPlane {
    let mut plane = XPlane { name: "/host:CPU".into(), ..Default::default() };
    let mut line = XLine { id: 1, name: "main".into(), ..Default::default() };
    let mut start = 0;
    for (name, duration_ns) in runs {
        let known = plane.event_metadata.iter().find(|(_, kind)| kind.name == *name).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| i64::try_from(plane.event_metadata.len()).expect("few") + 1);
        plane.event_metadata.insert(id, XEventMetadata { id, name: (*name).into(), ..Default::default() });
        let duration_ps = duration_ns * 1_000;
        line.events.push(XEvent { metadata_id: id, data: Some(Data::OffsetPs(start)), duration_ps, stats: vec![] });
        start += duration_ps;
    }
    plane.lines.push(line);
    plane
}

/// An event: name, start and duration in picoseconds, and a stat.
type Event<'n> = (&'n str, i64, i64, Option<(&'n str, Value)>);

/// A profile of these lines: id, name, events.
fn of_lines(lines: &[(i64, &str, &[Event<'_>])]) -> Vec<u8> {
    let mut plane = XPlane { name: "/host:CPU".into(), ..Default::default() };
    let id_of = |plane: &mut XPlane, name: &str| {
        let known = plane.event_metadata.iter().find(|(_, kind)| kind.name == name).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| i64::try_from(plane.event_metadata.len()).expect("few") + 1);
        plane.event_metadata.insert(id, XEventMetadata { id, name: name.into(), ..Default::default() });
        plane.stat_metadata.insert(id, XStatMetadata { id, name: name.into(), ..Default::default() });
        id
    };
    for (id, name, events) in lines {
        let mut line = XLine { id: *id, name: (*name).into(), ..Default::default() };
        for (name, start, duration_ps, stat) in *events {
            let metadata_id = id_of(&mut plane, name);
            let stat = stat
                .as_ref()
                .map(|(key, value)| XStat { metadata_id: id_of(&mut plane, key), value: Some(value.clone()) });
            line.events.push(XEvent {
                metadata_id,
                data: Some(Data::OffsetPs(*start)),
                duration_ps: *duration_ps,
                stats: stat.into_iter().collect(),
            });
        }
        plane.lines.push(line);
    }
    XSpace { planes: vec![plane], ..Default::default() }.encode_to_vec()
}

/// A profile with all that has no time or no thread: instants, counters, lanes, and two threads of one name.
pub(super) fn of_all_kinds() -> Vec<u8> {
    let int = |key, value| Some((key, Value::Int64Value(value)));
    let double = |key, value| Some((key, Value::DoubleValue(value)));
    of_lines(&[
        (71, "worker", &[("load", 0, 3_000_000, None), ("cache.evict", 3_000_000, 0, None)]),
        (72, "worker", &[("wait for more", 0, 9_000_000, None), ("load", 9_000_000, 500, None)]),
        (1 << 30, "lane", &[("mark", 0, 0, None)]),
        ((1 << 30) + 1, "lane", &[("mark", 0, 0, None)]),
        (
            i64::MAX,
            "_counters_",
            &[
                ("queue", 0, 0, int("value", 4)),
                ("heap", 5_000, 0, Some(("bytes", Value::Uint64Value(3 << 20)))),
                ("queue", 7_000, 0, int("value", 1)),
                ("heap", 6_000, 0, Some(("bytes", Value::Uint64Value(1 << 20)))),
                ("load", 8_000, 0, double("per second", 0.125)),
                ("load", 9_000, 0, double("per second", f64::NAN)),
            ],
        ),
    ])
}

/// `count` runs of a scope around a mean, spread by a tenth of it.
pub(super) fn spread(name: &str, mean_ns: i64, count: i64) -> Vec<(&str, i64)> {
    (0..count).map(|index| (name, mean_ns + (index % 5 - 2) * mean_ns / 20)).collect()
}

pub(super) fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("is written");
    path.to_str().expect("is UTF-8").to_owned()
}
