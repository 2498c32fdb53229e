//! Behaviour of zprof through its face, one module a subject.

mod global_edges;
mod global_threads;
mod global_values;
mod json;
mod pjrt;
mod post_process;
mod shapes;
mod tidy;
mod xprof;
