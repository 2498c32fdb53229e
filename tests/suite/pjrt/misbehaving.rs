//! Each thing that the fake plugin does wrong, beside what becomes of it: an error that says so, and nothing left over.

use super::{
    Counts, Duration, ErrorKind, Fake, LONG, ONE_SESSION, Platform, Plugin, capture, collected, library, load, plane,
    space, space_bytes, told,
};
use zprof_runtime::__test::PluginSession;

const NAME: &str = "libzprof_fake_plugin";

/// The kind, message and cause of what a session of the fake fails with, and what it leaves.
fn failure(words: &str) -> ((ErrorKind, String, Option<String>), Counts) {
    let fake = Fake::new(words);
    let outcome = told(collected(&load(&fake)));
    (outcome, fake.counts())
}

fn refused(what: &str, cause: &str) -> (ErrorKind, String, Option<String>) {
    let message = format!("failed to {what} the profiler of PJRT plugin `{NAME}`");
    (ErrorKind::Plugin, message, Some(cause.to_owned()))
}

fn broken(what: &str, why: &str) -> (ErrorKind, String, Option<String>) {
    (ErrorKind::Plugin, format!("failed to {what} the profiler of PJRT plugin `{NAME}`: {why}"), None)
}

#[test]
fn refusals_are_told_and_freed() {
    let nothing = Counts::default();
    let started = Counts { created: 1, started: 1, ..nothing };
    let stopped = Counts { stopped: 1, ..started };
    assert_eq!(failure("fail=create"), (refused("create", "INTERNAL (13): the fake's create fails"), nothing));
    assert_eq!(
        failure("fail=start,code=12"),
        (refused("start", "UNIMPLEMENTED (12): the fake's start fails"), started)
    );
    assert_eq!(failure("fail=stop,code=10"), (refused("stop", "ABORTED (10): the fake's stop fails"), stopped));
    assert_eq!(failure("fail=collect,code=99").0, refused("collect", "an unknown code (99): the fake's collect fails"));
    assert_eq!(failure("fail=collect,code=-1").1, ONE_SESSION);
    assert_eq!(failure("no-handle"), (broken("create", "it gave neither a session nor an error"), nothing));
}

#[test]
fn errors_are_read_whatever_is_odd_about_them() {
    for (words, cause) in [
        ("fail=create,message=none", "INTERNAL (13)"),
        ("fail=create,message=empty", "INTERNAL (13)"),
        ("fail=create,message=nul", "INTERNAL (13): ends here"),
        ("fail=create,message=bytes", "INTERNAL (13): broken \u{fffd}\u{fffd} text"),
        ("fail=create,error-in-error", "UNKNOWN (2): the fake's create fails"),
        ("fail=create,null=error_get_code", "UNKNOWN (2): the fake's create fails"),
        ("fail=create,null=error_message", "INTERNAL (13)"),
    ] {
        assert_eq!(failure(words), (refused("create", cause), Counts::default()), "{words}");
    }
    // Nobody can free it then.
    assert_eq!(failure("fail=create,null=error_destroy").1, Counts { errors: 1, ..Counts::default() });
}

#[test]
fn a_session_that_does_not_stop_is_collected_all_the_same() {
    let fake = Fake::new("fail=stop,space=gpu");
    let (stopped, collected) = capture(&load(&fake), &[], LONG, || ()).expect("it starts");
    assert_eq!(told(stopped), refused("stop", "INTERNAL (13): the fake's stop fails"));
    assert_eq!(space(&collected.expect("it collects")).planes.len(), 2);
    assert_eq!(fake.counts(), ONE_SESSION);
}

#[test]
fn a_session_that_does_not_die_well_is_not_our_loss() {
    let fake = Fake::new("fail=destroy");
    assert_eq!(space(&collected(&load(&fake)).expect("all but destroy works")).planes.len(), 3);
    assert_eq!(fake.counts(), ONE_SESSION);
}

/// Why the fake cannot profile.
fn lacks(words: &str) -> String {
    let fake = Fake::new(words);
    let plugin = load(&fake);
    let why = plugin.lacks_profiler().unwrap_or_else(|| panic!("{words}: it can profile")).to_owned();
    let (kind, message, cause) = told(collected(&plugin));
    assert_eq!(kind, ErrorKind::Unsupported);
    assert_eq!(message, format!("PJRT plugin `{NAME}` cannot profile: {why}; the host alone can be profiled"));
    assert_eq!((cause, fake.counts()), (None, Counts::default()));
    why
}

#[test]
fn profilers_that_lack_something_are_not_called() {
    for (words, why) in [
        ("no-profiler", "the plugin has no profiler extension"),
        ("circle", "the plugin has no profiler extension"),
        ("minor=30", "the plugin has no profiler extension"),
        ("no-table", "the profiler extension's table of functions is null"),
        ("node=31", "the profiler extension announces 31 bytes, fewer than its 32"),
        ("node=0", "the profiler extension announces 0 bytes, fewer than its 32"),
        ("null=create", "the profiler's table of functions, of 104 bytes, lacks `create`"),
        ("null=destroy,null=stop", "the profiler's table of functions, of 104 bytes, lacks `destroy`, `stop`"),
        ("null=start", "the profiler's table of functions, of 104 bytes, lacks `start`"),
        ("table=79", "the profiler's table of functions, of 79 bytes, lacks `collect_data`"),
        ("table=63", "the profiler's table of functions, of 63 bytes, lacks `start`, `stop`"),
        ("table=0", "the profiler's table of functions, of 0 bytes, lacks `create`, `destroy`, `start`, `stop`"),
        ("null=collect_data,null=serialize", "the profiler's table of functions, of 104 bytes, lacks `collect_data`"),
    ] {
        assert_eq!(lacks(words), why, "{words}");
    }
}

#[test]
fn a_chain_of_extensions_that_bites_its_tail_is_read_once() {
    let fake = Fake::new("circle");
    assert_eq!(load(&fake).extensions(), ["example", "extension 777"]);
}

#[test]
fn older_tables_profile_as_well() {
    for words in [
        "table=80",
        "table=87",
        "null=consume,null=consume_result_destroy,null=serialize",
        "null=serialize",
        "table=4096",
        "node=32",
        "minor=45",
        "minor=44",
        "minor=31",
        "minor=9999",
    ] {
        let fake = Fake::new(words);
        let plugin = load(&fake);
        let mut session = PluginSession::create(&plugin, &[]).expect("a session");
        let small = words.starts_with("null") || words == "table=80" || words == "table=87";
        assert_eq!(session.can_consume(), !small, "{words}");
        session.start().expect("it starts");
        if small {
            let why = "it has no function that gives events before the end";
            assert_eq!(told(session.consume()), broken("consume", why), "{words}");
        }
        session.stop().expect("it stops");
        assert_eq!(space(&session.collect().expect("it collects")).planes.len(), 3, "{words}");
        drop(session);
        assert_eq!(fake.counts(), ONE_SESSION, "{words}");
    }
}

#[test]
fn plugins_that_cannot_be_read_are_not_loaded() {
    for (words, why) in [
        ("major=1,minor=2", "it speaks PJRT 1.2; this zprof knows major version 0"),
        ("major=-1,minor=0", "it speaks PJRT -1.0; this zprof knows major version 0"),
        ("head=39", "its table of functions announces 39 bytes, too few to hold a version"),
        ("head=0", "its table of functions announces 0 bytes, too few to hold a version"),
        ("null-api", "its table of functions is null"),
    ] {
        let _fake = Fake::new(words);
        let message = format!("failed to load PJRT plugin `{}`: {why}", library().display());
        assert_eq!(told(Platform::load(library())), (ErrorKind::Plugin, message, None), "{words}");
    }
    let _fake = Fake::new("head=40");
    assert!(Platform::load(library()).expect("the head is all that is needed").has_profiler());
}

#[test]
fn files_that_are_no_plugins_are_told_apart() {
    let (kind, message, cause) = told(Platform::load("/nonexistent/pjrt.so"));
    assert_eq!((kind, message.as_str()), (ErrorKind::Plugin, "failed to load PJRT plugin `/nonexistent/pjrt.so`"));
    assert!(cause.expect("the loader's words").contains("/nonexistent/pjrt.so"));

    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").expect("the folder is ours");
    let (kind, _, cause) = told(Platform::load(&text));
    assert_eq!((kind, cause.is_some()), (ErrorKind::Plugin, true));

    // A library of the system's that is there on every Linux, and no plugin.
    let (kind, message, cause) = told(Platform::load("libm.so.6"));
    assert_eq!(kind, ErrorKind::Plugin);
    assert_eq!(message, "failed to load PJRT plugin `libm.so.6`: missing symbol `GetPjrtApi`");
    assert!(cause.expect("the loader's words").contains("GetPjrtApi"));
}

/// What a session of the fake collects.
fn bytes(words: &str) -> Vec<u8> {
    let fake = Fake::new(words);
    let bytes = collected(&load(&fake)).unwrap_or_else(|error| panic!("{words}: {error}"));
    let counts = fake.counts();
    assert_eq!(counts, Counts { collected: counts.collected, ..ONE_SESSION }, "{words}");
    bytes
}

#[test]
fn both_ways_to_collect_work() {
    for words in
        ["", "two-calls", "null=collect_data", "fail=collect,code=12", "trailing-nul", "trailing-nul,two-calls"]
    {
        assert_eq!(space(&bytes(words)).planes.len(), 3, "{words}");
    }
    for words in ["space=empty", "space=empty,two-calls", "space=empty,null=collect_data"] {
        assert_eq!(bytes(words), b"", "{words}");
    }
    assert_eq!(bytes("space=empty,trailing-nul"), b"\0");
    assert_eq!(space_bytes(b"\0").expect("what the CUDA plugin gives for nothing"), b"");
}

#[test]
fn sizes_that_do_not_hold_are_told() {
    let twice = Counts { collected: 2, ..ONE_SESSION };
    let words = "file=/proc/self/comm,";
    let size = std::fs::read("/proc/self/comm").expect("Linux has it").len();
    assert_eq!(
        failure(&format!("{words}drained")),
        (broken("collect", &format!("it announced {size} bytes and gave none")), twice)
    );
    assert_eq!(
        failure(&format!("{words}long")),
        (broken("collect", &format!("it announced {size} bytes and gave {}", size + 1)), twice)
    );
    assert_eq!(bytes(&format!("{words}short")).len(), size - 1);
    let most = usize::MAX / 2;
    assert_eq!(
        failure("huge"),
        (broken("collect", &format!("it announced {most} bytes, for which there is no memory")), ONE_SESSION)
    );
    let (kind, message, _) = failure("nowhere").0;
    assert_eq!(kind, ErrorKind::Plugin);
    let start = format!("failed to collect the profiler of PJRT plugin `{NAME}`: it gave {} bytes at 0x", most + 1);
    assert!(message.starts_with(&start), "{message}");
    assert_eq!(
        failure("fail=serialize,null=collect_data").0,
        refused("collect", "INTERNAL (13): the fake's serialize fails")
    );
    assert_eq!(failure("fail=consume,null=collect_data").1, Counts { collected: 0, ..ONE_SESSION });
}

#[test]
fn spaces_are_what_the_plugin_meant() {
    let garbage = bytes("garbage");
    assert_eq!(garbage, b"these bytes are no space", "they can be kept as they are");
    let (kind, message, cause) = told(space_bytes(&garbage));
    assert_eq!(kind, ErrorKind::InvalidData);
    assert!(message.contains("from 24 bytes") && cause.is_some(), "{message}");
    assert!(space_bytes(&bytes("garbage,trailing-nul")).is_err());

    let zero = bytes("space=ends-in-zero");
    assert_eq!(zero.last(), Some(&0));
    assert_eq!(space_bytes(&zero).expect("a space"), zero);
    assert_eq!(space_bytes(&bytes("space=ends-in-zero,trailing-nul")).expect("a space and a zero"), zero);

    for (words, sign) in
        [("space=gpu,shift-ns=-4000000000000000000", -1), ("space=gpu,shift-ns=4000000000000000000", 1)]
    {
        let line = plane(&space(&bytes(words)), "/device:GPU:0").lines[0].clone();
        assert_eq!(line.timestamp_ns.signum(), sign, "{words}");
    }
}

/// Whether the fake has ended what it had begun, and the plugin takes a session again.
fn recovers(fake: &Fake, plugin: &Plugin, expected: Counts) {
    fake.release();
    let mut next = PluginSession::create(plugin, &[]);
    while next.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyActive) {
        std::thread::yield_now();
        next = PluginSession::create(plugin, &[]);
    }
    drop(next.expect("the plugin is free again"));
    assert_eq!(fake.counts(), Counts { created: expected.created + 1, ..expected });
}

#[test]
fn a_start_without_end_is_given_up_and_cleaned_up_later() {
    for (call, created, started) in [("start", 1, 1), ("create", 1, 1)] {
        let fake = Fake::new(&format!("block={call}"));
        let plugin = load(&fake);
        let limit = Duration::from_millis(50);
        let outcome = told(capture(&plugin, &[], limit, || panic!("it does not start")));
        let message =
            format!("failed to start PJRT plugin `{NAME}`: it did not answer within 50ms; it is left to itself");
        assert_eq!(outcome, (ErrorKind::Plugin, message, None), "{call}");
        // The thread that calls it may be put aside for longer than that.
        while !fake.blocked() {
            std::thread::yield_now();
        }

        // Until it returns, nobody else may call it.
        let again = told(capture(&plugin, &[], LONG, || panic!("it does not start")));
        assert_eq!(again.0, ErrorKind::AlreadyActive, "{call}");
        recovers(&fake, &plugin, Counts { created, started, stopped: started, ..Counts::default() });
    }
}
