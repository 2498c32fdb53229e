//! A program on rayon's and tokio's threads: lines and tasks have the names that it gives them.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde_json::Value;
use zprof::TraceFuture as _;

fn main() -> Result<(), Box<dyn Error>> {
    // Rayon gives its threads numbers and no names.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).start_handler(zprof::name_worker("rayon")).build()?;
    // Tokio gives all of its threads one name.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            zprof::name_thread(format!("tokio {}", NEXT.fetch_add(1, Ordering::Relaxed)));
        })
        .build()?;

    let folder = std::env::temp_dir().join("zprof-runtimes");
    let mut profiler = zprof::Platform::host().profiler(zprof::ProfilerOptions::default().repository_path(&folder))?;
    profiler.start()?;
    let sum: u64 = pool.install(|| (0..64_u64).into_par_iter().map(|n| zprof::scope!("square", n, { n * n })).sum());
    assert_eq!(sum, 85_344);
    // A task has the name and the metadata of its future, on whatever thread it is polled.
    let shard = |shard: u64| async move {
        tokio::task::yield_now().await;
        shard * 2
    };
    let tasks: Vec<_> = (0..4).map(|n| runtime.spawn(shard(n).traced(zprof::task!("shard", n)))).collect();
    let found: u64 = tasks.into_iter().map(|task| runtime.block_on(task)).sum::<Result<u64, _>>()?;
    assert_eq!(found, 12);
    drop(runtime);
    let profile = profiler.stop()?.ok_or("a session was running")?;

    let trace: Value = serde_json::from_slice(&fs::read(profile.perfetto_path.ok_or("the profile has no JSON")?)?)?;
    let events = trace["traceEvents"].as_array().ok_or("a list of events")?;
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let names: BTreeSet<&str> = names.filter_map(|event| event["args"]["name"].as_str()).collect();
    let others: Vec<&&str> = names
        .iter()
        .filter(|name| !["rayon ", "tokio ", "async"].iter().any(|start| name.starts_with(start)))
        .collect();
    assert!(names.contains("async") && others.is_empty(), "{names:?}");
    println!("{} scopes on {names:?} in {}", profile.scopes, profile.protobuf_path.display());
    Ok(())
}
