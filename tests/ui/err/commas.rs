//! Commas and blocks in the wrong place.

fn main() {
    let step = 1;
    zprof::scope!("a" step = 1);
    zprof::scope!("a", step = 1 more = 2);
    zprof::scope!("a" { 1 });
    zprof::scope!("a", step { 1 });
    zprof::scope!("a", step = step { work(); });
    zprof::scope!("a", step = 1 { 1 });
    zprof::scope!("a", { 1 }, step = 1);
    zprof::scope!("a", unsafe { 1 });
    let _ = zprof::span!("a", { 1 });
}

#[zprof::trace("a" step = 1)]
fn missing(_: u32) {}

#[zprof::trace("a", { 1 })]
fn block() {}
