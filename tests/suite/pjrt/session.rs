//! Whole sessions with the fake plugin: what it brings joins the host's scopes, and whatever it does, they are kept.

use std::fs;
use std::path::Path;

use prost::Message as _;
use tempfile::TempDir;
use zprof::{ErrorKind, Platform, Profile, Profiler, ProfilerOptions};
use zprof_proto::x_event::Data;
use zprof_proto::{XPlane, XSpace};
use zprof_tests::fake::{Counts, Fake, library};
use zprof_tests::profile::exclusive;

use super::{ONE_SESSION, plane};

/// A profiler of the fake, which writes to a folder of its own.
fn profiler(folder: &TempDir, raise: bool) -> Profiler {
    let options = ProfilerOptions::default().repository_path(folder.path()).raise_error_on_start_failure(raise);
    Platform::load(library()).expect("the fake is a plugin").profiler(options).expect("good options")
}

/// A session with one scope, and what else happens in it.
fn session<T>(between: impl FnOnce() -> T) -> (TempDir, Profile, XSpace, T) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut profiler = profiler(&folder, false);
    profiler.start().expect("nothing else runs");
    let value = zprof::scope!("step", root = true, step_num = 7, { between() });
    let profile = profiler.stop().expect("the files can be written").expect("it was running");
    let space = read(&profile.protobuf_path);
    (folder, profile, space, value)
}

fn read(path: &Path) -> XSpace {
    let bytes = fs::read(path).expect("the profile is there");
    XSpace::decode(bytes.as_slice()).expect("it is a space")
}

fn names(space: &XSpace) -> Vec<&str> {
    space.planes.iter().map(|plane| plane.name.as_str()).collect()
}

/// Begin and end in ps since the session's start, of the only event of this name.
fn span(plane: &XPlane, name: &str) -> (i64, i64) {
    let is_named = |id: &i64| plane.event_metadata.get(id).is_some_and(|metadata| metadata.name == name);
    let events = plane.lines.iter().flat_map(|line| line.events.iter().map(move |event| (line, event)));
    let found: Vec<_> = events.filter(|(_, event)| is_named(&event.metadata_id)).collect();
    let [(line, event)] = found[..] else { panic!("{} events are called `{name}`", found.len()) };
    let Some(Data::OffsetPs(offset)) = event.data else { panic!("`{name}` has no time") };
    let begin = line.timestamp_ns * 1000 + offset;
    (begin, begin + event.duration_ps)
}

/// The host's part is as it would be without a plugin, and the reason why there is no more stands in all three places.
fn only_the_host((_folder, profile, space, ()): &(TempDir, Profile, XSpace, ()), warning: &str) {
    assert_eq!(names(space), ["/host:CPU", "Task Environment"]);
    let (begin, end) = span(plane(space, "/host:CPU"), "step");
    assert!(0 < begin && begin < end, "{begin} to {end}");
    assert_eq!(profile.warnings, [warning]);
    assert_eq!(space.warnings, [warning]);
    assert_eq!(profile.scopes, 1);
}

#[test]
fn device_events_stand_beside_the_scopes_that_launched_them() {
    let _alone = exclusive();
    let fake = Fake::new("space=gpu+metadata");
    let (_folder, profile, space, (_, launched_ns)) = session(|| fake.launch(1_500));
    assert_eq!(fake.counts(), ONE_SESSION);
    assert_eq!(profile.warnings, Vec::<String>::new());
    let environment = names(&space);
    assert_eq!(environment.last(), Some(&"Task Environment"), "{environment:?}");
    assert!(environment.contains(&"/device:GPU:0") && environment.contains(&"/host:metadata"), "{environment:?}");

    let (begin, end) = span(plane(&space, "/host:CPU"), "step");
    let device = plane(&space, "/device:GPU:0");
    let starts: Vec<i64> = device
        .lines
        .iter()
        .flat_map(|line| {
            line.events.iter().map(|event| {
                let Some(Data::OffsetPs(offset)) = event.data else { panic!("an event without a time") };
                line.timestamp_ns * 1000 + offset
            })
        })
        .collect();
    let start_ns = zprof_tests::profile::start_ns(&space);
    let launched = (i64::try_from(launched_ns).expect("this century") - start_ns) * 1000;
    assert!(starts.contains(&launched), "{starts:?} has no {launched}");
    const MICROSECOND: i64 = 1_000_000;
    assert!((begin - MICROSECOND..end + MICROSECOND).contains(&launched), "{launched} is not in {begin}..{end}");
}

#[test]
fn a_space_that_cannot_be_read_is_kept_beside_the_profile() {
    let _alone = exclusive();
    let fake = Fake::new("garbage");
    let done = session(|| ());
    assert_eq!(fake.counts(), ONE_SESSION);
    let warning = done.1.warnings.first().cloned().unwrap_or_default();
    assert!(
        warning.starts_with(
            "only the host's part of the profile is kept: the plugin's profile is not an XSpace: at byte "
        ),
        "{warning}"
    );
    only_the_host(&done, &warning);
    let broken = done.1.protobuf_path.with_file_name("profiling.device.pb.broken");
    assert!(fs::metadata(broken).expect("it is kept").len() > 0);
}

#[test]
fn an_empty_profile_is_said_to_be_one() {
    let _alone = exclusive();
    for words in ["space=empty", "space=empty,trailing-nul"] {
        let _fake = Fake::new(words);
        only_the_host(&session(|| ()), "PJRT plugin `libzprof_fake_plugin` has returned an empty profile");
    }
}

#[test]
fn a_zero_byte_behind_the_space_costs_nothing() {
    let _alone = exclusive();
    for words in ["space=gpu,trailing-nul", "space=ends-in-zero", "space=gpu,two-calls"] {
        let _fake = Fake::new(words);
        let (_folder, profile, space, ()) = session(|| ());
        assert_eq!(profile.warnings, Vec::<String>::new(), "{words}");
        assert!(names(&space).len() > 2, "{words}: {:?}", names(&space));
    }
}

#[test]
fn a_plugin_that_cannot_start_costs_a_warning_or_the_session_as_asked() {
    let _alone = exclusive();
    for (words, kind) in [("fail=start", ErrorKind::Plugin), ("no-profiler", ErrorKind::Unsupported)] {
        let fake = Fake::new(words);
        let done = session(|| ());
        let warning = done.1.warnings.first().cloned().unwrap_or_default();
        assert!(warning.starts_with("only the host is profiled: "), "{words}: {warning}");
        only_the_host(&done, &warning);

        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut raising = profiler(&folder, true);
        let error = raising.start().expect_err(words);
        assert_eq!(error.kind(), kind, "{words}: {error}");
        assert!(!raising.is_running());
        assert!(raising.stop().expect("nothing to do").is_none());
        let Counts { sessions, errors, misused, .. } = fake.counts();
        assert_eq!((sessions, errors, misused), (0, 0, 0), "{words}");
    }
}

#[test]
fn a_plugin_that_fails_at_the_end_costs_its_part_alone() {
    let _alone = exclusive();
    for words in ["fail=collect", "drained", "huge"] {
        let fake = Fake::new(words);
        let done = session(|| ());
        assert_eq!(names(&done.2), ["/host:CPU", "Task Environment"], "{words}");
        assert!(!done.1.warnings.is_empty(), "{words}");
        assert_eq!(done.1.warnings, done.2.warnings, "{words}");
        let Counts { sessions, errors, .. } = fake.counts();
        assert_eq!((sessions, errors), (0, 0), "{words}");
    }
}

#[test]
fn a_plugin_line_of_one_of_our_threads_joins_it_where_it_nests() {
    let _alone = exclusive();
    let _fake = Fake::new("space=host");
    let (_folder, profile, space, ()) = session(|| ());
    assert_eq!(profile.warnings, Vec::<String>::new());
    let host = plane(&space, "/host:CPU");
    let mut ids: Vec<i64> = host.lines.iter().map(|line| line.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), host.lines.len(), "each line has an id of its own: {:?}", host.lines);
    for line in &host.lines {
        let times: Vec<_> = line.events.iter().map(|event| event.data).collect();
        assert!(times.is_sorted_by_key(|time| match time {
            Some(Data::OffsetPs(offset)) => *offset,
            _ => 0,
        }));
    }
}
