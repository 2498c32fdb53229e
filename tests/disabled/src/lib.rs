//! What a program sees of zprof when the `enable` feature is off.
