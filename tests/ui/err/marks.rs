//! Steps, instants, counters and flows: what is missing, of a wrong type, or out of place.

fn main() {
    let (flow, n) = (zprof::flow(), 3);
    zprof::step!("no number");
    zprof::step!("no number", { n });
    zprof::step!("assigned", n = 3);
    zprof::step!("root", n, root = true);
    zprof::step!("twice", n, step_num = 2);
    zprof::step!("block", n { n + 1 });
    zprof::step!(n);
    zprof::instant!();
    zprof::instant!("block", { n });
    zprof::instant!("root", root = true);
    zprof::counter!("no value");
    zprof::counter!("no value", level = info);
    zprof::counter!("two", n, other = n);
    zprof::counter!("short", n, n);
    zprof::counter!("flow", n, sends = flow);
    zprof::counter!("block", n, { n });
    zprof::counter!("reserved", _unit = n);
    zprof::scope!("short", sends, receives = flow, receives = flow);
    let _ = zprof::task!("task", sends = flow);
    zprof::instant!("leaves", sends = Some(flow)?);
}

#[zprof::trace(receives = flow)]
async fn future(_: zprof::Flow) {}

#[zprof::trace(sends = flow)]
impl Block {}

struct Block;
