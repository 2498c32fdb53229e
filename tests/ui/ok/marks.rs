//! Steps, instants, counters and flows in every place where they may stand.

#![deny(warnings)]
#![forbid(unsafe_code)]

#[derive(Clone, Copy, zprof::Value)]
enum Cause {
    Full,
}

macro_rules! counted {
    ($name:literal, $value:expr) => {
        zprof::counter!($name, $value)
    };
}

fn early(n: Option<u32>) -> Option<u32> {
    let n = zprof::step!("block", 1_usize, cause = Cause::Full, { n? });
    Some(n + 1)
}

#[zprof::trace(receives = flow, n)]
fn traced(flow: Option<zprof::Flow>, n: u32) {}

async fn inside() {
    zprof::instant!("arrived", receives = zprof::flow());
    std::future::ready(()).await;
}

fn main() {
    let (queue, n) = (vec![1, 2], 3_u64);
    zprof::counter!("queue", queue.len());
    zprof::counter!("braced", { queue.len() * 8 });
    zprof::counter!("bytes", bytes = queue.len() * 8, level = info, filter = 2,);
    let unit = counted!("expression", if n > 2 { 1.5 } else { 2.5 });
    assert_eq!(unit, ());
    match n {
        0 => zprof::instant!("none"),
        _ => zprof::instant!("some", n, cause = Cause::Full, r#root = 1),
    }
    let record = |n: i8| zprof::counter!("closure", n);
    record(1);
    for n in 0..2_u8 {
        zprof::step!("loop", n);
        zprof::step!("inner", n + 1, level = verbose, text = "x");
        zprof::instant!("tail")
    }
    let flow = zprof::flow();
    let copy = flow;
    std::thread::spawn(move || zprof::scope!("other", receives = copy, {})).join().expect("no panic");
    zprof::span!("span", n, sends = Some(&flow).copied()).end();
    traced(Some(flow), 1);
    traced(None, 1);
    assert_eq!(early(Some(1)), Some(2));
    assert_eq!(early(None), None);
    drop(inside());
}
