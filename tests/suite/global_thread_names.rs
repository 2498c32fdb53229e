//! Names that the program gives its threads: when they hold, and what the threads of rayon and tokio are called.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::Value;
use tokio::runtime::Builder;
use zprof::{ProfilerOptions, TraceFuture as _, name_thread, name_worker, scope, task};
use zprof_tests::profile::{Recorded, Session, read_file, recorded, stats};
use zprof_tests::viewers::{Shown, perfetto};

/// Runs `body` on a thread of its own.
fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    thread::Builder::new().name("of std".to_owned()).spawn(body).expect("a thread").join().expect("it does not panic")
}

/// Names of the lines, sorted, and what is on them.
fn lines(recorded: &Recorded) -> Vec<(&str, Vec<&str>)> {
    let mut lines: Vec<_> = recorded.lines.iter().map(|line| (line.name.as_str(), line.names())).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_name_holds_from_when_it_is_given_and_the_last_is_shown() {
    const LONG: &str = "a name of far more than the fifteen bytes that the kernel keeps, Grüße\0inside";
    let recorded = recorded(|| {
        on_thread(|| {
            name_thread("before the first scope");
            scope!("a");
        });
        on_thread(|| {
            scope!("b");
            name_thread(String::from("one of two"));
            scope!("c");
            name_thread(LONG);
        });
        on_thread(|| {
            name_thread("for a while");
            scope!("d");
            name_thread("");
        });
        on_thread(|| name_thread("without a scope"));
    });
    let expected = [(LONG, vec!["b", "c"]), ("before the first scope", vec!["a"]), ("of std", vec!["d"])];
    let told: Vec<_> = recorded.lines.iter().map(|line| (line.name.as_str(), line.names())).collect();
    let sorted = |mut lines: Vec<_>| {
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(told), sorted(expected.to_vec()));
}

#[test]
fn a_name_outlives_sessions_and_a_snapshot_has_that_of_its_moment() {
    let barrier = Arc::new(Barrier::new(2));
    let mut session = Session::new(ProfilerOptions::default());
    let other = Arc::clone(&barrier);
    let thread = thread::spawn(move || {
        name_thread("given before");
        other.wait();
        other.wait();
        scope!("first", {});
        other.wait();
        other.wait();
        name_thread("given within");
        other.wait();
        other.wait();
        scope!("second", {});
        other.wait();
    });
    let step = || {
        barrier.wait();
    };
    step();
    session.start();
    step();
    step();
    let snapshot = session.profiler.snapshot().expect("it is written").expect("a session runs");
    let (told, ..) = read_file(&snapshot.protobuf_path);
    assert_eq!(told.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["given before"]);
    step();
    step();
    assert_eq!(lines(&session.stop()), [("given within", vec!["first"])]);
    session.start();
    step();
    step();
    assert_eq!(lines(&session.stop()), [("given within", vec!["second"])]);
    thread.join().expect("it does not panic");
}

/// Has each of three threads do something.
fn all_work(pool: &ThreadPool) {
    pool.broadcast(|context| scope!("work", index = context.index(), {}));
}

fn pool(builder: ThreadPoolBuilder) -> ThreadPool {
    builder.num_threads(3).build().expect("a pool")
}

#[test]
fn threads_of_rayon_are_named_by_their_numbers() {
    let recorded = recorded(|| {
        all_work(&pool(ThreadPoolBuilder::new().start_handler(name_worker("rayon"))));
        all_work(&pool(ThreadPoolBuilder::new().start_handler(name_worker(String::from("other pool")))));
        // Rayon's own way works as well, and loses against ours.
        let named = || ThreadPoolBuilder::new().thread_name(|index| format!("a thread that rayon has named {index}"));
        all_work(&pool(named()));
        all_work(&pool(named().start_handler(name_worker("ours"))));
    });
    let names = ["a thread that rayon has named", "other pool", "ours", "rayon"];
    let expected: Vec<(String, Vec<&str>)> =
        names.iter().flat_map(|name| (0..3).map(move |index| (format!("{name} {index}"), vec!["work"]))).collect();
    let told = lines(&recorded);
    assert_eq!(told.iter().map(|(name, events)| ((*name).to_owned(), events.clone())).collect::<Vec<_>>(), expected);
    for index in 0..3 {
        let line = recorded.line(&format!("rayon {index}"));
        assert_eq!(line.event("work").stats, stats([("index", i64::from(index).into())]));
    }
}

/// Two tasks, one of which awaits another, on a runtime with named threads.
fn tokio(builder: &mut Builder) {
    let runtime = builder.worker_threads(2).build().expect("a runtime");
    let fetch = |shard: u32| {
        let waits = async { tokio::task::yield_now().await };
        tokio::spawn(waits.traced(task!("fetch", shard)))
    };
    runtime.block_on(async {
        let both = [fetch(0), fetch(1)];
        for task in both {
            task.await.expect("it ends well");
        }
        tokio::task::spawn_blocking(|| scope!("blocking", {})).await.expect("it ends well");
    });
}

#[test]
fn threads_and_tasks_of_tokio_have_the_names_that_they_are_given() {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let recorded = recorded(|| {
        let builder = &mut Builder::new_multi_thread();
        tokio(builder.on_thread_start(|| name_thread(format!("io {}", THREADS.fetch_add(1, Ordering::Relaxed)))));
        tokio(Builder::new_multi_thread().thread_name_fn(|| "a thread that tokio has named".to_owned()));
    });
    let threads = |name: &str| -> Vec<&str> {
        let lines = recorded.lines.iter().filter(|line| line.name.starts_with(name));
        let mut names: Vec<&str> = lines.flat_map(|line| line.names()).collect();
        names.sort_unstable();
        names
    };
    // Twice polled each, on whichever thread.
    let each = ["blocking", "fetch", "fetch", "fetch", "fetch"];
    assert_eq!((threads("io "), threads("a thread that tokio has named")), (each.to_vec(), each.to_vec()));
    let numbers = recorded.lines.iter().filter_map(|line| line.name.strip_prefix("io ")?.parse::<u32>().ok());
    assert!(numbers.collect::<BTreeSet<_>>().is_subset(&(0..3).collect()));
    let mut tasks: Vec<_> = recorded
        .lines
        .iter()
        .filter(|line| line.name.starts_with("async"))
        .flat_map(|line| &line.events)
        .map(|event| (event.name.as_str(), event.stats[..1].to_vec()))
        .collect();
    tasks.sort_by_key(|task| format!("{task:?}"));
    let fetch = |shard: i64| ("fetch", stats([("shard", shard.into())]));
    assert_eq!(tasks, [fetch(0), fetch(0), fetch(1), fetch(1)]);
}

#[test]
fn xprof_shows_the_names_of_threads() {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    all_work(&pool(ThreadPoolBuilder::new().start_handler(name_worker("rayon"))));
    session.stop();
    let shown = Shown::of(session.folder());
    assert_eq!(shown.findings, []);
    assert_eq!(shown.threads(), BTreeSet::from(["rayon 0", "rayon 1", "rayon 2"]));
}

#[test]
fn perfetto_shows_the_names_of_threads() {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    all_work(&pool(ThreadPoolBuilder::new().start_handler(name_worker("rayon"))));
    let recorded = session.stop();
    let report = perfetto(&recorded.space, recorded.profile.perfetto_path.as_deref());
    let threads = report["threads"].as_array().expect("a list").iter();
    let mut names: Vec<&str> = threads.filter_map(|thread: &Value| thread["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["rayon 0", "rayon 1", "rayon 2"]);
}

/// Has the system call the calling thread so, as C code does by `prctl`; nothing that Rust or zprof knows of.
#[cfg(target_os = "linux")]
fn rename(name: &str) {
    std::fs::write("/proc/thread-self/comm", name).expect("the system takes a name");
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_the_system_renames_has_its_last_name() {
    let barrier = Arc::new(Barrier::new(2));
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    let other = Arc::clone(&barrier);
    let living = thread::Builder::new().name("of std, and longer than the system keeps".to_owned()).spawn(move || {
        scope!("a", {});
        other.wait();
        other.wait();
        rename("while it lives");
        scope!("b", {});
        other.wait();
        other.wait();
    });
    barrier.wait();
    let first = session.profiler.snapshot().expect("it is written").expect("a session runs");
    let names = |recorded: &zprof::Profile| -> Vec<String> {
        read_file(&recorded.protobuf_path).0.iter().map(|line| line.name.clone()).collect()
    };
    assert_eq!(names(&first), ["of std, and longer than the system keeps"]);
    barrier.wait();
    barrier.wait();
    let second = session.profiler.snapshot().expect("it is written").expect("a session runs");
    assert_eq!(names(&second), ["while it lives"]);
    on_thread(|| {
        scope!("c", {});
        rename("until its end");
    });
    on_thread(|| {
        // As many bytes as the system keeps, where Rust has another name.
        rename("fifteen letters");
        scope!("d", {});
    });
    on_thread(|| {
        scope!("e", {});
        rename("for a while");
        rename("of std");
    });
    on_thread(|| {
        name_thread("given");
        scope!("f", {});
        rename("not shown");
    });
    on_thread(|| {
        scope!("g", {});
        rename("of the system");
        name_thread("for a while");
        name_thread("");
    });
    let recorded = session.stop();
    let expected = [
        ("fifteen letters", vec!["d"]),
        ("given", vec!["f"]),
        ("of std", vec!["e"]),
        ("of the system", vec!["g"]),
        ("until its end", vec!["c"]),
        ("while it lives", vec!["a", "b"]),
    ];
    assert_eq!(lines(&recorded), expected);
    barrier.wait();
    living.expect("a thread").join().expect("it does not panic");
}

#[cfg(target_os = "linux")]
#[test]
fn the_main_thread_is_called_main_until_it_is_renamed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::actor::play("rename-main", folder.path());
    let names = ["own", "renamed"].map(|run| {
        let profile = folder.path().join("plugins/profile").join(run).join("profiling.xplane.pb");
        read_file(&profile).0.iter().map(|line| line.name.clone()).collect::<Vec<_>>()
    });
    assert_eq!(names, [["main"], ["a main thread"]]);
}
