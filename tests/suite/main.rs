//! Behaviour of zprof through its face, one module a subject.

mod global_edges;
mod global_edges_hard;
mod global_threads;
mod global_values;
mod json;
mod post_process;
mod shapes;
mod tidy;
mod xprof;
