//! Profiles made for a question.

use std::path::Path;

use prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace};

/// A profile of one thread with these runs of scopes, one after another; durations in nanoseconds.
pub(super) fn of_runs(runs: &[(&str, i64)]) -> Vec<u8> {
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
    XSpace { planes: vec![plane], ..Default::default() }.encode_to_vec()
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
