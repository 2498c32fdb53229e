//! Edges that programs meet by accident: values that outlive their session, forks of many threads, folders that go away,
//! guards by the thousand, and memory limits.

use std::collections::VecDeque;
#[cfg(unix)]
use std::fs;
use std::sync::mpsc;
use std::thread;

use zprof::{ProfilerOptions, SessionId};
use zprof_tests::profile::{Recorded, Session, record, recorded, stats};

fn session() -> Session {
    Session::new(ProfilerOptions::default())
}

#[test]
fn a_value_that_outlives_its_session_leaves_the_next_one_whole() {
    let mut session = session();
    session.start();
    {
        zprof::scope!("first");
    }
    {
        zprof::scope!(
            "outer",
            n = {
                let first = session.stop();
                assert_eq!(first.own_line().names(), ["first"]);
                session.start();
                zprof::scope!("inner", {});
                1
            }
        );
        zprof::scope!("after", {});
    }
    let told = session.stop();
    let early = stats([("started_before", 1.into())]);
    assert_eq!(told.own_line().told(), [("outer", &early), ("inner", &stats([])), ("after", &stats([]))]);
    assert_eq!(told.profile.dropped_scopes, 0);
}

#[test]
fn a_value_that_outlives_two_sessions_takes_nothing_from_the_drain() {
    let mut session = session();
    session.start();
    let (ready, is_ready) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let text = "y".repeat(20_000_000);
    let worker = thread::spawn({
        let text = text.clone();
        move || {
            zprof::scope!("first", {});
            zprof::scope!(
                "outer",
                n = {
                    ready.send(()).expect("the test waits");
                    may_go.recv().expect("the second session runs");
                    zprof::scope!("inner", text, {});
                    ready.send(()).expect("the test waits");
                    1
                }
            );
        }
    });
    is_ready.recv().expect("the worker runs");
    session.stop();
    session.start();
    go.send(()).expect("the worker waits");
    is_ready.recv().expect("the worker runs");
    let told = session.stop();
    worker.join().expect("the worker ends well");
    let inner = told.lines.iter().flat_map(|line| &line.events).find(|event| event.name == "inner");
    let stats = &inner.expect("the second session has it").stats;
    assert!(*stats == zprof_tests::profile::stats([("text", text.as_str().into())]), "the text is damaged");
}

#[test]
#[cfg(unix)] // Windows removes no folder that holds a locked file
fn a_folder_that_is_removed_during_the_session_comes_back() {
    let mut session = session();
    session.start();
    zprof::scope!("kept", {});
    fs::remove_dir_all(session.folder().join("plugins")).expect("the folder is there");
    assert_eq!(session.stop().own_line().names(), ["kept"]);
}

#[test]
fn unique_sessions_of_one_second_are_runs_of_their_own() {
    let mut session = Session::new(ProfilerOptions::default().session_id(SessionId::Unique));
    let mut paths = Vec::new();
    for _ in 0..3 {
        session.start();
        paths.push(session.stop().profile.protobuf_path);
    }
    paths.dedup();
    assert_eq!(paths.len(), 3, "{paths:?}");
    assert!(paths.iter().all(|path| path.exists()), "{paths:?}");
}

#[cfg(unix)]
#[test]
fn a_link_in_the_runs_folder_is_replaced_and_not_followed() {
    let mut session = session();
    let run = session.folder().join("plugins/profile/profiling");
    fs::create_dir_all(&run).expect("the folder can be made");
    let other = session.folder().join("precious");
    fs::write(&other, "precious").expect("is written");
    for name in [
        format!(".profiling.probe.{}.tmp", std::process::id()),
        format!(".zprof-{}.probe", std::process::id()),
        format!(".profiling.xplane.pb.{}.tmp", std::process::id()),
        format!(".zprof-{}-0.tmp", std::process::id()),
        "profiling.xplane.pb".to_owned(),
    ] {
        std::os::unix::fs::symlink(&other, run.join(name)).expect("a link can be made");
    }
    session.start();
    session.stop();
    assert_eq!(fs::read_to_string(&other).expect("is there"), "precious");
}

#[test]
fn thousands_of_spans_that_end_first_in_first_out() {
    const LIVE: usize = 2_000;
    const SPANS: usize = 100_000;
    let Recorded { profile, lines, .. } = recorded(|| {
        let mut open = VecDeque::new();
        for n in 0..SPANS {
            open.push_back(zprof::span!("request", n));
            if open.len() > LIVE {
                open.pop_front();
            }
        }
        while open.pop_front().is_some() {}
    });
    assert_eq!(profile.scopes, u64::try_from(SPANS).expect("fits"));
    // One more is open while the next one opens. The line of the thread has one at a time as well.
    assert_eq!(lines.len(), LIVE + 1, "each that is open at once has a lane");
}

fn descend(depth: u32, leaf: &dyn Fn()) {
    zprof::scope!("deep");
    if depth == 0 { leaf() } else { descend(depth - 1, leaf) }
}

#[test]
fn scopes_deep_inside_others_take_no_chunk_each() {
    const LEAVES: u64 = 20_000;
    // As deep as a chunk of 64 KiB has room for ends.
    let deep = || {
        descend(2_700, &|| {
            for n in 0..LEAVES {
                zprof::scope!("leaf", n);
            }
        });
    };
    let recorded = record(ProfilerOptions::default().max_buffer_bytes(8 << 20).prefault_bytes(0), || {
        let worker = thread::Builder::new().stack_size(64 << 20).spawn(deep).expect("a thread can be had");
        worker.join().expect("the worker ends well");
    });
    assert_eq!((recorded.profile.scopes, recorded.profile.dropped_scopes), (LEAVES + 2_701, 0));
}

#[test]
fn a_large_record_fits_where_all_memory_was_made_ready_in_small_pieces() {
    let options = ProfilerOptions::default().max_buffer_bytes(4 << 20).prefault_bytes(4 << 20);
    let text = "z".repeat(1_000_000);
    let recorded = record(options, || {
        zprof::scope!("large", text = text.as_str(), {});
    });
    assert_eq!(recorded.own_line().told(), [("large", &stats([("text", text.as_str().into())]))]);
}
