//! The attribute on what it cannot trace; the item stays.

#[zprof::trace]
const fn constant() -> u32 {
    1
}

trait Layer {
    #[zprof::trace]
    fn forward(&self) -> u32;
}

struct Model;

#[zprof::trace]
pub(crate) struct Plain;

#[zprof::trace]
enum Kind {}

#[zprof::trace]
static ONE: u32 = 1;

#[zprof::trace]
const TWO: u32 = constant();

#[zprof::trace]
use std::fmt;

impl Layer for Model {
    fn forward(&self) -> u32 {
        TWO + ONE
    }
}

fn main() {
    let _: (Plain, Option<Kind>, fmt::Result) = (Plain, None, Ok(()));
}
