//! Values of types that cannot be recorded: the message stands at the value.

struct Batch {
    items: Vec<u32>,
}


#[zprof::trace(rows = 1, items = batch.items, columns = 2)]
fn vector(batch: Batch) {}

fn main() {
    let batch = Batch { items: Vec::new() };
    zprof::scope!("a", batch, step = 1);
    zprof::scope!("b", step = 1, unit = (), { 1 });
    let mut span = zprof::span!("c", pair = (1, 2));
    span.record("vector", vec![1]);
}
