//! One build shows every mistake, and the function is there all the same.

#[zprof::trace("a#b", level = low, filter = 99, n, n, _m = 1)]
fn many(n: u32) -> u32 {
    n
}

fn main() {
    assert_eq!(many(1), 1);
}
