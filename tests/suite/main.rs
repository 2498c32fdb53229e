//! Behaviour of zprof through its face, one module a subject.

mod json;
