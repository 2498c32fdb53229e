//! What compiles elsewhere and does not do what it says.

#[zprof::trace]
fn bindings() {
    let _ = zprof::span!("ends at once");
    let guard = zprof::scope!("no expression");
}

#[zprof::trace]
async fn futures() {
    zprof::scope!("block", { std::future::ready(1).await });
    let mut span = zprof::span!("span");
    span.record("n", 1);
    std::future::ready(1).await;
}

#[zprof::trace("f{n}", n)]
fn format_in_a_name(n: u32) {
    zprof::scope!("x{n}");
    zprof::instant!("y{}", n);
    zprof::counter!("z{n:?}", n);
    let task = zprof::task!("{0}", n);
}

fn main() {}
