//! A traced `unsafe fn` is as unsafe as before.

#[zprof::trace]
unsafe fn raw() {}

fn main() {
    raw();
}
