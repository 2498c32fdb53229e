//! Behaviour of zprof through its face, one module a subject.

mod actor;
mod annotation_tools;
mod annotations;
mod annotations_hard;
mod bridge;
mod budget;
mod callgrind;
mod ceiling;
mod check;
mod corpus;
mod documents;
#[cfg(unix)] // sends signals
mod from_env;
mod global_clock;
mod global_counter;
mod global_directives;
mod global_edges;
mod global_edges_hard;
mod global_exit;
mod global_files;
mod global_flight;
mod global_marks;
mod global_memory;
mod global_names;
mod global_parity;
mod global_process;
mod global_raw;
mod global_runtime;
mod global_session;
mod global_tasks;
mod global_testing;
mod global_thread_names;
mod global_threads;
mod global_values;
mod hosts;
#[cfg(unix)]
mod interrupted;
mod json;
mod lints;
#[cfg(unix)] // limits the address space, and forks
mod out_of_memory;
mod perfetto;
mod pjrt;
mod pjrt_example;
#[cfg(unix)] // owners, modes and links
mod places;
mod post_process;
#[cfg(unix)]
mod privileged;
mod shapes;
#[cfg(target_os = "linux")] // replaces functions of the C library
mod soak;
mod summary;
mod tidy;
mod writers;
mod xprof;
