//! Behaviour of zprof through its face, one module a subject.

mod actor;
mod annotation_tools;
mod annotations;
mod budget;
mod callgrind;
mod global_clock;
mod global_edges;
mod global_edges_hard;
mod global_files;
mod global_memory;
mod global_parity;
mod global_process;
mod global_session;
mod global_threads;
mod global_values;
mod json;
mod perfetto;
mod pjrt;
mod pjrt_example;
mod post_process;
mod shapes;
mod tidy;
mod xprof;
