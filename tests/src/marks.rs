//! A small pipeline with marks of every kind, which several viewers are shown: what is recorded here is known to the last event.

use std::sync::mpsc::channel;
use std::thread;

use zprof::Flow;

/// The module that all of it stands in.
pub const MODULE: &str = module_path!();

/// Two steps, each of which hands a batch on to a thread that hands it on in turn; and an instant and counters.
///
/// # Panics
///
/// Panics if a thread does.
pub fn pipeline() {
    let (to_worker, batches) = channel::<(u64, Flow)>();
    let (to_writer, results) = channel::<(u64, Flow)>();
    let worker = named("worker", move || {
        for (batch, flow) in batches {
            zprof::scope!("compute", batch, receives = flow);
            zprof::scope!("inside", { zprof::counter!("queue", batch) });
            let flow = zprof::flow();
            zprof::instant!("hand on", sends = Some(flow));
            to_writer.send((batch, flow)).expect("the writer waits");
        }
    });
    let writer = named("writer", move || {
        for (batch, flow) in results {
            zprof::instant!("written", batch, receives = &flow);
            zprof::counter!("level", dB = if batch == 0 { 0.0 } else { -0.5 });
        }
    });
    for step in 0..2_u64 {
        zprof::step!("train", step, half = step > 0);
        let flow = zprof::flow();
        zprof::scope!("submit", sends = flow, {
            zprof::counter!("queue", step + 10);
            to_worker.send((step, flow)).expect("the worker waits");
        });
    }
    drop(to_worker);
    worker.join().expect("it does not panic");
    writer.join().expect("it does not panic");
    zprof::instant!("both ends", sends = None::<Flow>, receives = None);
}

fn named(name: &str, body: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread starts")
}
