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

/// `count` runs of a scope around a mean, spread by a tenth of it.
pub(super) fn spread(name: &str, mean_ns: i64, count: i64) -> Vec<(&str, i64)> {
    (0..count).map(|index| (name, mean_ns + (index % 5 - 2) * mean_ns / 20)).collect()
}

pub(super) fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("is written");
    path.to_str().expect("is UTF-8").to_owned()
}
