//! Names: missing, empty, no literal, with `#`, given twice.

fn main() {
    let name = "computed";
    zprof::scope!();
    zprof::scope!("");
    zprof::scope!(name);
    zprof::scope!(concat!("a", "b"), key = 1);
    zprof::scope!(7);
    zprof::scope!(step = 1);
    zprof::scope!({ name.len() });
    zprof::scope!("a#b");
    zprof::scope!("a", "b");
    let _ = zprof::span!();
    let _ = zprof::span!(name, key = 1);
}

#[zprof::trace("a#b")]
fn sharp() {}

#[zprof::trace("")]
fn empty() {}

#[zprof::trace("a", name = "b")]
fn twice() {}

#[zprof::trace(name = concat!("a", "b"))]
fn no_literal() {}

#[zprof::trace(7)]
fn number() {}

#[zprof::trace(key = 1, "late")]
fn late() {}
