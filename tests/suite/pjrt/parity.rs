//! The file of a session with a plugin beside what TSL's own post-processing makes of the same planes.

use std::fs;
use std::thread;

use prost::Message as _;
use zprof::{Platform, ProfilerOptions};
use zprof_proto::x_stat::Value;
use zprof_proto::{XLine, XPlane, XSpace, XStat, XStatMetadata};
use zprof_runtime::__test::{PluginSession, plugin, space_bytes};
use zprof_tests::fake::{Fake, library, spin};
use zprof_tests::profile::{exclusive, start_ns};
use zprof_tests::{canonical, oracle};

/// Events that only the fake has.
const PLUGINS: [&str; 2] = ["cuLaunchKernel", "PJRT_LoadedExecutable_Execute"];

/// Two threads with scopes of ours around launches and calls, and one that does nothing but launch.
fn work(fake: &Fake) {
    for step in 0..3 {
        zprof::scope!("step", root = true, step_num = step);
        zprof::scope!("outer", {
            zprof::scope!("inner", text = "t", {
                let _ = fake.launch(1_500);
                spin();
            });
            let _ = fake.launch(700);
            spin();
        });
    }
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    thread::scope(|scope| {
        let caller = || {
            zprof::scope!("caller", {
                assert_eq!(fake.execute(None), -1);
                let _ = fake.launch(300);
                spin();
            });
        };
        named("caller").spawn_scoped(scope, caller).expect("a thread can be made");
    });
    thread::scope(|scope| {
        let launcher = || {
            let _ = fake.launch(100);
            let _ = fake.execute(None);
            let _ = fake.launch(100);
        };
        named("launcher").spawn_scoped(scope, launcher).expect("a thread can be made");
    });
}

fn take(space: &mut XSpace, name: &str) -> XPlane {
    let at = space.planes.iter().position(|plane| plane.name == name).unwrap_or_else(|| panic!("no plane `{name}`"));
    space.planes.remove(at)
}

fn name_of<'a>(plane: &'a XPlane, stat: &XStat) -> &'a str {
    &plane.stat_metadata[&stat.metadata_id].name
}

/// Our host plane as it was before the plugin's joined it: without the plugin's events, and with absolute times.
fn our_part(mut host: XPlane, start_ns: i64) -> XPlane {
    let names = &host.event_metadata;
    let is_ours = |line: &mut XLine| {
        line.events.retain(|event| !PLUGINS.contains(&names[&event.metadata_id].name.as_str()));
        line.timestamp_ns += start_ns;
        !line.events.is_empty()
    };
    let mut lines = std::mem::take(&mut host.lines);
    lines.retain_mut(is_ours);
    host.event_metadata.retain(|_, metadata| !PLUGINS.contains(&metadata.name.as_str()));
    XPlane { lines, ..host }
}

/// A session gives each plane of its own process that process's id; the oracle's library is older than that rule.
fn with_process_id(mut plane: XPlane, process_id: &XStat) -> XPlane {
    let id = plane.stat_metadata.keys().max().map_or(1, |last| last + 1);
    let metadata = XStatMetadata { id, name: "process_id".to_owned(), ..XStatMetadata::default() };
    plane.stat_metadata.insert(id, metadata);
    plane.stats.push(XStat { metadata_id: id, ..process_id.clone() });
    plane
}

#[test]
fn a_session_joins_as_tsl_joins() {
    let _alone = exclusive();
    let fake = Fake::new("space=gpu+metadata+host");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let platform = Platform::load(library()).expect("the fake is a plugin");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let mut profiler = platform.profiler(options).expect("good options");
    profiler.start().expect("nothing else runs");
    work(&fake);
    let profile = profiler.stop().expect("the files can be written").expect("it was running");
    assert_eq!(profile.warnings, Vec::<String>::new());
    let written = fs::read(&profile.protobuf_path).expect("the profile is there");

    // The raw planes: ours, then what the plugin collects, which it does again where it is asked with the same options.
    let mut ours = XSpace::decode(written.as_slice()).expect("it is a space");
    let start = start_ns(&ours);
    let environment = take(&mut ours, "Task Environment");
    let host = our_part(take(&mut ours, "/host:CPU"), start);
    let process_id =
        host.stats.iter().find(|stat| name_of(&host, stat) == "process_id").expect("a session says it").clone();
    let stat = |name: &str| {
        let stat = environment.stats.iter().find(|stat| name_of(&environment, stat) == name);
        stat.and_then(|stat| stat.value.clone())
    };
    let (Some(Value::Uint64Value(start_time)), Some(Value::Uint64Value(stop_time)), Some(Value::BytesValue(session))) =
        (stat("profile_start_time"), stat("profile_stop_time"), stat("profile_options"))
    else {
        panic!("the session is not described: {environment:?}")
    };
    let plugin = plugin(&platform).expect("there is one");
    let mut again = PluginSession::create(plugin, &session).expect("a session");
    again.start().expect("it starts");
    again.stop().expect("it stops");
    let collected = space_bytes(&again.collect().expect("it collects")).expect("a space");
    drop(again);
    let collected = XSpace::decode(collected.as_slice()).expect("it is a space");
    let names: Vec<&str> = collected.planes.iter().map(|plane| plane.name.as_str()).collect();
    assert_eq!(names, ["/host:CUPTI", "/device:GPU:0", "/host:metadata", "/host:CPU"]);
    let theirs = collected.planes.into_iter().map(|plane| with_process_id(plane, &process_id));
    let planes = [host].into_iter().chain(theirs).collect();
    let raw = XSpace { planes, hostnames: ours.hostnames, ..XSpace::default() };

    let joined = oracle::post_process(&[(raw.encode_to_vec(), start_time, stop_time)]).remove(0);
    let (mut expected, mut found) = (canonical(&joined), canonical(&written));
    for space in [&mut expected, &mut found] {
        space.sort_ties("/host:CPU");
    }
    // What a session says of itself goes beyond what post-processing does.
    let environment = found.planes.last_mut().expect("there are planes");
    let is_times = |text: &String| text.contains("profile_start_time") || text.contains("profile_stop_time");
    environment.stats.retain(is_times);
    environment.stat_metadata.retain(is_times);
    if let Some(difference) = expected.difference(&found) {
        panic!("TSL's is left, ours is right: {difference}");
    }
}
