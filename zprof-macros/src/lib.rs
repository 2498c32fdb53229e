//! The procedural macros of zprof: parse, check, expand. Use them through the `zprof` crate.
