//! A server that runs on and on, keeps its last half second, and writes that down when a request was slow.

use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const REQUESTS: u32 = 2_000;
/// The one that takes long.
const SLOW: u32 = 1_700;

/// A request that takes longer is slow.
const LIMIT: Duration = Duration::from_millis(30);

#[zprof::trace(request)]
fn handle(request: u32) -> u64 {
    const ROUNDS: u64 = 20_000;
    let start = Instant::now();
    let mut sum = 1;
    loop {
        sum =
            zprof::scope!("compute", rounds = ROUNDS, { (0..ROUNDS).fold(sum, |sum: u64, n| sum.rotate_left(5) ^ n) });
        // The slow request is slow on the fastest processor, too.
        if request != SLOW || start.elapsed() > LIMIT {
            return sum;
        }
    }
}

/// Answers requests until there are none; gives the profile of what came before a slow one.
fn serve(requests: &mpsc::Receiver<u32>) -> zprof::Result<Option<zprof::Profile>> {
    // Open as long as the server: however long ago it began, it is in each snapshot, name and metadata.
    zprof::scope!("serve", port = 8080);
    let mut snapshot = None;
    while let Ok(request) = requests.recv() {
        let start = Instant::now();
        std::hint::black_box(handle(request));
        if start.elapsed() > LIMIT && request == SLOW {
            snapshot = zprof::snapshot()?;
        }
    }
    Ok(snapshot)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = zprof::ProfilerOptions::default()
        .session_id(zprof::SessionId::Unique)
        .keep_last(Duration::from_millis(500))
        .keep_last_bytes(1 << 20)
        .snapshot_on_panic(true);
    let mut profiler = zprof::Platform::host().profiler(options)?;
    profiler.start()?;
    let (sender, receiver) = mpsc::channel();
    let server = thread::Builder::new().name("server".to_owned()).spawn(move || serve(&receiver))?;
    for request in 0..REQUESTS {
        sender.send(request)?;
    }
    drop(sender);
    let snapshot = server.join().map_err(|_| "the server panicked")??;
    profiler.stop()?;

    let snapshot = snapshot.ok_or("no snapshot of the slow request")?;
    let path = snapshot.perfetto_path.as_deref().ok_or("the snapshot has no JSON")?;
    let trace = std::fs::read_to_string(path)?;
    let slow = format!("\"request\":\"{SLOW}\"");
    assert!(trace.contains("\"serve\"") && (trace.contains(&slow) || trace.contains(&slow.replace(":\"", ":"))));
    println!("request {SLOW} was slow; the {:?} before are in {}", snapshot.duration, path.display());
    Ok(())
}
