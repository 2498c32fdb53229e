//! Reserved arguments: wrong, doubled, with a value where they take none.

fn main() {
    let on = true;
    zprof::scope!("a", level = debug);
    zprof::scope!("a", level = 2);
    zprof::scope!("a", level = info, level = verbose);
    zprof::scope!("a", filter = 32);
    zprof::scope!("a", filter = -1);
    zprof::scope!("a", filter = "3", filter);
    zprof::scope!("a", root = 1, root);
    zprof::scope!("a", root = on, root = on);
    zprof::scope!("a", filter = 1, filter = 2);
    zprof::scope!("a", crate = zprof);
}

#[zprof::trace(skip = all)]
fn skip() {}

#[zprof::trace(ret = true, err = "e")]
fn outcomes() -> Result<u32, String> {
    Ok(1)
}

#[zprof::trace(name)]
fn bare_name(_: &str) {}

#[zprof::trace(crate = "zprof")]
fn path() {}

#[zprof::trace(crate = zprof, crate = zprof)]
fn two_paths() {}
