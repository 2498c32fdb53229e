//! Accelerators' plugins: what zprof does with a fake one that misbehaves, and with the real ones of PyPI.

use std::error::Error as _;
use std::time::Duration;

use zprof::{ErrorKind, Platform};
use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_proto::{XPlane, XSpace};
use zprof_runtime::__test::{Plugin, PluginSession, capture, plugin, space_bytes};
use zprof_tests::fake::{Counts, Fake, library};

mod found;
mod linkage;
mod memory;
mod misbehaving;
mod parity;
mod real;
mod session;
mod xprof;

const LONG: Duration = Duration::from_secs(60);

/// The fake plugin, loaded after it was told what to do.
fn load(fake: &Fake) -> Plugin {
    // The same library that `fake` has open: loading gives that one again.
    assert_eq!(fake.counts(), Counts::default());
    plugin(&Platform::load(library()).expect("the fake is a plugin")).expect("it was loaded").clone()
}

/// What a whole session collects.
fn collected(plugin: &Plugin) -> zprof::Result<Vec<u8>> {
    let mut session = PluginSession::create(plugin, b"\x28\x01")?;
    session.start()?;
    session.stop()?;
    session.collect()
}

fn space(bytes: &[u8]) -> XSpace {
    let bytes = space_bytes(bytes).expect("a space");
    XSpace::decode(bytes.as_slice()).expect("what was encoded can be decoded")
}

fn plane<'a>(space: &'a XSpace, name: &str) -> &'a XPlane {
    space.planes.iter().find(|plane| plane.name == name).unwrap_or_else(|| panic!("no plane `{name}`"))
}

/// What was said of an error: its kind, its message, and its cause.
fn told<T>(result: zprof::Result<T>) -> (ErrorKind, String, Option<String>) {
    let error = result.err().expect("an error");
    (error.kind(), error.to_string(), error.source().map(ToString::to_string))
}

/// What a session leaves that was created, started, stopped, collected and destroyed.
const ONE_SESSION: Counts = Counts {
    created: 1,
    started: 1,
    stopped: 1,
    collected: 1,
    sessions: 0,
    errors: 0,
    results: 0,
    misused: 0,
    missized: 0,
};

#[test]
fn a_plugin_says_what_it_is() {
    let fake = Fake::new("");
    let platform = Platform::load(library()).expect("the fake is a plugin");
    assert_eq!(platform.name(), "libzprof_fake_plugin");
    assert_eq!(platform.library(), Some(library()));
    assert_eq!(platform.api_version(), Some((0, 116)));
    assert_eq!(platform.extensions(), ["layouts", "profiler", "stream", "extension 777"]);
    assert!(platform.has_profiler());
    let at = library();
    assert_eq!(
        platform.describe(),
        format!(
            "PJRT plugin `libzprof_fake_plugin` at `{}`, PJRT 0.116, can profile; loaded as the program asked",
            at.display()
        )
    );
    assert_eq!(
        format!("{platform:?}"),
        format!(
            "Platform {{ name: \"libzprof_fake_plugin\", library: Some({at:?}), api_version: 0.116, extensions: \
             [\"layouts\", \"profiler\", \"stream\", \"extension 777\"], profiler: \"present\", reason: \"loaded as the \
             program asked\" }}"
        )
    );
    assert_eq!(fake.counts(), Counts::default(), "loading asks for no session");
}

#[test]
fn the_host_alone_says_so() {
    let platform = Platform::host();
    assert_eq!(platform.describe(), "the host alone: as the program asked");
    assert_eq!(format!("{platform:?}"), "Platform { name: \"host\", reason: \"as the program asked\" }");
    assert_eq!((platform.name(), platform.library(), platform.api_version()), ("host", None, None));
    assert_eq!((platform.extensions(), platform.has_profiler()), (vec![], false));
}

#[test]
#[allow(unsafe_code)] // hands a table over as a program would
fn a_program_hands_its_own_plugin_over() {
    let fake = Fake::new("");
    // SAFETY: the table is the fake's, which stays loaded: `Platform::load` below keeps it so.
    let platform = unsafe { Platform::from_api(fake.api()) }.expect("the fake is a plugin");
    assert!(Platform::load(library()).expect("the fake is a plugin").has_profiler());
    assert_eq!((platform.name(), platform.library()), ("the program's own", None));
    assert!(platform.has_profiler());
    let own = plugin(&platform).expect("there is one");
    assert_eq!(space(&collected(own).expect("a session")).planes.len(), 3);
    assert_eq!(fake.counts(), ONE_SESSION);

    // SAFETY: null is allowed.
    let (kind, message, _) = told(unsafe { Platform::from_api(std::ptr::null()) });
    assert_eq!(kind, ErrorKind::Plugin);
    assert_eq!(message, "failed to use the PJRT plugin of the program: its table of functions is null");
}

#[test]
fn options_reach_the_plugin_and_its_planes_reach_us() {
    let fake = Fake::new("space=gpu+tpu+host+metadata,tid=77");
    let plugin = load(&fake);
    let options = b"\x10\x02\x28\x01\x00"; // as they are, whatever they hold
    let mut session = PluginSession::create(&plugin, options).expect("a session");
    session.start().expect("it starts");
    let (correlation, start_ns) = fake.launch(1_500);
    session.stop().expect("it stops");
    let space = space(&session.collect().expect("it collects"));
    drop(session);

    let names: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
    assert_eq!(names, ["/host:CUPTI", "/device:GPU:0", "/device:TPU:0", "/host:CPU", "/host:metadata"]);
    let stats = &plane(&space, "/host:metadata").stats;
    assert_eq!(stats.last().and_then(|stat| stat.value.clone()), Some(Value::BytesValue(options.to_vec())));
    let line = &plane(&space, "/device:GPU:0").lines[0];
    assert_eq!((line.timestamp_ns, line.events.len()), (i64::try_from(start_ns).expect("this century"), 1));
    assert_eq!(line.events[0].duration_ps, 1_500_000);
    assert_eq!(line.events[0].stats[0].value, Some(Value::Uint64Value(correlation)));
    let host: Vec<i64> = plane(&space, "/host:CPU").lines.iter().map(|line| line.id).collect();
    assert_eq!(host, [i64::from(std::process::id()), 77]);
    assert_eq!(fake.counts(), ONE_SESSION);
}

#[test]
fn events_are_taken_before_the_end_where_the_plugin_can() {
    let fake = Fake::new("space=gpu");
    let plugin = load(&fake);
    let mut session = PluginSession::create(&plugin, &[]).expect("a session");
    assert!(session.can_consume());
    let (kind, message, _) = told(session.consume());
    assert_eq!(kind, ErrorKind::WrongState);
    assert_eq!(
        message,
        "failed to consume the profiler of PJRT plugin `libzprof_fake_plugin`: its session is not started"
    );
    session.start().expect("it starts");
    assert_eq!(space(&session.consume().expect("events")).planes.len(), 2);
    assert_eq!(session.consume().expect("no more events"), b"");
    session.stop().expect("it stops");
    assert_eq!(session.collect().expect("it collects"), b"", "what was taken is not collected again");
    drop(session);
    assert_eq!(fake.counts(), ONE_SESSION);
}

#[test]
fn calls_in_the_wrong_order_do_not_reach_the_plugin() {
    let fake = Fake::new("");
    let plugin = load(&fake);
    let mut session = PluginSession::create(&plugin, &[]).expect("a session");
    let wrong = |result: zprof::Result<()>, what: &str, stage: &str| {
        let message =
            format!("failed to {what} the profiler of PJRT plugin `libzprof_fake_plugin`: its session is {stage}");
        assert_eq!(told(result), (ErrorKind::WrongState, message, None));
    };
    wrong(session.stop(), "stop", "not started");
    wrong(session.collect().map(drop), "collect", "not started");
    session.start().expect("it starts");
    wrong(session.start(), "start", "running");
    wrong(session.collect().map(drop), "collect", "running");
    session.stop().expect("it stops");
    wrong(session.stop(), "stop", "stopped");
    session.collect().expect("it collects");
    wrong(session.collect().map(drop), "collect", "collected");
    wrong(session.start(), "start", "collected");

    let (kind, message, _) = told(PluginSession::create(&plugin, &[]));
    assert_eq!(kind, ErrorKind::AlreadyActive);
    assert_eq!(
        message,
        "failed to create a profiler of PJRT plugin `libzprof_fake_plugin`: it is busy with an earlier session"
    );
    drop(session);
    assert_eq!(fake.counts(), ONE_SESSION);
}

#[test]
fn a_dropped_session_is_stopped_and_destroyed() {
    let fake = Fake::new("");
    let plugin = load(&fake);
    let mut session = PluginSession::create(&plugin, &[]).expect("a session");
    session.start().expect("it starts");
    drop(session);
    assert_eq!(fake.counts(), Counts { collected: 0, ..ONE_SESSION });
    drop(PluginSession::create(&plugin, &[]).expect("another, which is not started"));
    assert_eq!(fake.counts(), Counts { created: 2, collected: 0, ..ONE_SESSION });
}

#[test]
fn a_capture_does_it_all_on_its_own_thread() {
    let fake = Fake::new("");
    let plugin = load(&fake);
    let (stopped, collected) = capture(&plugin, b"\x28\x01", LONG, || {
        assert_eq!(fake.counts(), Counts { sessions: 1, created: 1, started: 1, ..Counts::default() });
    })
    .expect("it starts");
    stopped.expect("it stops");
    assert_eq!(space(&collected.expect("it collects")).planes.len(), 3);
    assert_eq!(fake.counts(), ONE_SESSION, "destroyed before it returns");
}
