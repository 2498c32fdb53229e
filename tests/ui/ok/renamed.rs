//! The crate under another name, and behind a re-export.

#![deny(warnings)]

extern crate zprof as other;

mod vendor {
    pub(crate) mod profiling {
        pub(crate) use ::other as inner;
    }
}

/// A decoy: nothing may be found by the crate's plain name.
mod zprof {}

#[other::trace(n, crate = ::other)]
fn by_path(n: u32) -> u32 {
    other::scope!("renamed", n);
    other::scope!("block", { n })
}

#[vendor::profiling::inner::trace("name", crate = vendor::profiling::inner)]
fn by_reexport() {
    vendor::profiling::inner::scope!("renamed", mode = Mode::A);
    vendor::profiling::inner::span!("span").end();
}

#[derive(other::Value)]
#[zprof(crate = crate::vendor::profiling::inner)]
enum Mode {
    A,
}

macro_rules! traced {
    ($name:ident) => {
        #[$crate::vendor::profiling::inner::trace(crate = $crate::vendor::profiling::inner)]
        fn $name() {}
    };
}

traced!(by_dollar_crate);

#[other::trace(crate = ::other)]
fn main() {
    assert_eq!(by_path(2), 2);
    by_reexport();
    by_dollar_crate();
}
