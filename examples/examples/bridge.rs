//! A program whose libraries speak to `tracing` and `log`: what they tell stands in the profile beside the program's scopes.

use std::error::Error;
use std::fs;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use serde_json::Value;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// Stands for libraries that know nothing of zprof.
mod library {
    #[tracing::instrument]
    pub(super) fn load(table: &str, rows: u32) -> u32 {
        tracing::info!(bytes = rows * 8, "loaded");
        (0..rows).map(|row| row % 7).sum()
    }

    pub(super) async fn query(shard: u32) -> u32 {
        super::pause().await;
        log::warn!("shard {shard} is slow");
        shard * 2
    }
}

/// Pending once, as what waits for a network is.
async fn pause() {
    let mut is_over = false;
    poll_fn(|_| if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(zprof::tracing::layer()))?;
    // Around the program's own logger; this program has none, which is what `log::logger()` gives then.
    log::set_boxed_logger(Box::new(zprof::log::Recorder::around(log::logger())))?;
    log::set_max_level(log::LevelFilter::Info);

    let folder = std::env::temp_dir().join("zprof-bridge");
    let mut profiler = zprof::Platform::host().profiler(zprof::ProfilerOptions::default().repository_path(&folder))?;
    profiler.start()?;
    zprof::scope!("answer", {
        let sum = library::load("users", 100);
        let mut query = Box::pin(library::query(3).instrument(tracing::info_span!("query", shard = 3)));
        // A worker goes on with it, as in a runtime of several threads.
        assert!(query.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let found = thread::spawn(|| block_on(query)).join().expect("it does not panic");
        assert_eq!((sum, found), (295, 6));
    });
    let profile = profiler.stop()?.ok_or("a session was running")?;

    // Each name, and what viewers show of it.
    let trace: Value = serde_json::from_slice(&fs::read(profile.perfetto_path.ok_or("the profile has no JSON")?)?)?;
    let events = trace["traceEvents"].as_array().ok_or("a list of events")?;
    let shown = |name: &str, key: &str| -> Vec<&str> {
        events.iter().filter(|event| event["name"] == name).filter_map(|event| event["args"][key].as_str()).collect()
    };
    assert_eq!(shown("load", "table"), ["users"]);
    assert_eq!(shown("INFO bridge::library", "message"), ["loaded"]);
    assert_eq!(shown("WARN bridge::library", "message"), ["shard 3 is slow"]);
    // Twice polled and once dropped, by two threads; and the whole, which says so.
    assert_eq!(shown("query", "polls"), ["3"]);
    println!("{} scopes in {}", profile.scopes, profile.protobuf_path.display());
    Ok(())
}
