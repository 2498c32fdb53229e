//! Recorded profiles: whole, small, and the same however their bytes are spelled.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{check, convert, convert_hosts, events, json};
use crate::json::fixture_bytes;
use crate::json::wire::{Kind, Random, respell};

const FIXTURES: [(&str, u64); 5] = [
    ("jax_cpu_mid.xplane.pb", 13_491),
    ("jax_cpu_small.xplane.pb", 903),
    ("raw_host_planes.post.xplane.pb", 11),
    ("raw_host_planes.xplane.pb", 11),
    ("host_events.xplane.pb", 3),
];

#[test]
fn everything_of_the_json_is_in_the_trace() {
    let spaces = FIXTURES.map(|(name, events)| (fixture_bytes(name), events));
    let traces = spaces.map(|(space, events)| {
        let (trace, summary) = convert(&space).expect("is an XSpace");
        assert_eq!((summary.events, summary.events_hidden, summary.events_over_limit), (events, 0, 0));
        (trace, json(&space))
    });
    let reports = check(traces.iter().map(|(trace, json)| (trace.as_slice(), Some(json.as_str()))));
    for (report, (name, count)) in reports.iter().zip(FIXTURES) {
        assert_eq!(events(report).len() as u64, count, "{name}");
    }
    // Arrows of the JAX profiles: each that goes out comes in somewhere, later.
    let ends = |key: &str| {
        let ids = events(&reports[1]).iter().flat_map(|event| event[key].as_array().expect("is a list"));
        ids.map(|id| id.as_u64().expect("is an id")).collect::<Vec<_>>()
    };
    let (out, into) = (ends("out"), ends("in"));
    assert!(!into.is_empty() && into.iter().all(|id| out.contains(id)), "{out:?} {into:?}");
}

#[test]
fn a_trace_is_small_beside_the_json() {
    for name in ["jax_cpu_mid.xplane.pb", "jax_cpu_small.xplane.pb"] {
        let space = fixture_bytes(name);
        let (trace, json) = (convert(&space).expect("is an XSpace").0, json(&space));
        assert!(trace.len() * 7 < json.len() * 2, "{name}: {} against {}", trace.len(), json.len());
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&trace).expect("is memory");
        let packed = packed.finish().expect("is memory");
        assert!(packed.len() * 5 < json.len(), "{name}: {} packed against {}", packed.len(), json.len());
        // Perfetto opens it packed, too.
        assert_eq!(check([(packed.as_slice(), Some(json.as_str()))]), check([(trace.as_slice(), None)]));
    }
}

#[test]
fn every_spelling_of_a_fixture_gives_the_same_trace() {
    for (name, spellings) in [("jax_cpu_small.xplane.pb", 3), ("raw_host_planes.post.xplane.pb", 60)] {
        let bytes = fixture_bytes(name);
        let spelled = (0..spellings).map(|seed| respell(Kind::Space, &bytes, &mut Random(seed)));
        let traces: Vec<_> = std::iter::once(bytes.clone())
            .chain(spelled)
            .map(|space| convert(&space).unwrap_or_else(|error| panic!("{name}: {error}")).0)
            .collect();
        // Numbers of texts and ids of tracks may differ, what is read does not.
        let reports = check(traces.iter().map(|trace| (trace.as_slice(), None)));
        for (seed, report) in reports[1..].iter().enumerate() {
            assert_eq!(events(report), events(&reports[0]), "{name}, seed {seed}");
        }
    }
}

#[test]
fn several_hosts_stand_beside_each_other() {
    let (small, raw) = (fixture_bytes("jax_cpu_small.xplane.pb"), fixture_bytes("raw_host_planes.xplane.pb"));
    let (trace, summary) = convert_hosts(&[("red", &small), ("blue", &raw), ("red", &small)]).expect("are XSpaces");
    assert_eq!(summary.events, 903 + 11 + 903);
    let report = check([(trace.as_slice(), None)]).remove(0);
    let processes = report["processes"].as_array().expect("is a list");
    let names: Vec<_> = processes.iter().map(|process| process["name"].as_str().expect("is a text")).collect();
    let pids: Vec<_> = processes.iter().map(|process| process["pid"].as_u64().expect("is a number")).collect();
    let raw_names = ["/host:CPU", "/host:CUPTI", "/device:GPU:0", "/custom:mine"];
    assert_eq!(names.iter().filter(|name| **name == "red /host:CPU").count(), 2, "{names:?}");
    assert!(raw_names.iter().all(|name| names.contains(&format!("blue {name}").as_str())), "{names:?}");
    assert!(pids.contains(&1_701) && pids.contains(&2_701) && pids.contains(&3_701), "{pids:?}");

    // The two hosts with one profile show the same but for ids of processes and arrows.
    let of = |pid: u64| {
        let own = events(&report).iter().filter(|event| event["pid"] == pid).cloned();
        own.map(|mut event| {
            event["pid"] = 0.into();
            let ids = ["in", "out"].map(|key| event[key].take().as_array().map_or(0, Vec::len));
            (event.to_string(), ids)
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(of(1_701), of(3_701));
    let arrows = |pid: u64| {
        let own = events(&report).iter().filter(|event| event["pid"] == pid);
        own.flat_map(|event| event["out"].as_array().expect("is a list")).map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(!arrows(1_701).is_empty() && arrows(1_701).iter().all(|id| !arrows(3_701).contains(id)));
}
