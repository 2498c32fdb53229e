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
    zprof::scope!(dyn);
    zprof::scope!(dyn, key = 1);
    zprof::scope!(dyn "literal");
    zprof::scope!(dyn name.len());
    zprof::scope!(dyn name.parse()?, key = 1);
    zprof::counter!(dyn name, 1);
    let _ = zprof::task!(dyn);
}

#[zprof::trace(dyn _name)]
fn given(_name: &str) {}


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
