//! The chapters of the documentation. They exist in the documentation only.

/// Where profiles go, the environment's variables, and the vendors' profilers.
///
#[doc = include_str!("../docs/profiling.md")]
pub mod profiling {}

/// Choosing what a session records, module by module.
///
/// [benches/README.md]: benches
#[doc = include_str!("../docs/filtering.md")]
pub mod filtering {}

/// Threads and tasks of tokio, rayon and other runtimes.
///
#[doc = include_str!("../docs/runtimes.md")]
pub mod runtimes {}

/// Tests of what a program records.
///
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}

/// Scopes of C, C++ and Zig on the same timeline.
///
#[doc = include_str!("../docs/c.md")]
pub mod c {}

/// The promises of zprof and the tests that prove them.
///
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

/// The parts of zprof, for people who change it.
///
#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}

/// Measurements: zprof beside its peers and beside the physical limit.
///
#[doc = include_str!("../docs/benches.md")]
pub mod benches {}

/// The changes of each version.
///
#[doc = include_str!("../docs/changelog.md")]
pub mod changelog {}

/// How to change zprof.
///
/// [CHANGELOG.md]: changelog
/// [docs/architecture.md]: architecture
#[doc = include_str!("../docs/contributing.md")]
pub mod contributing {}

/// How to report a vulnerability.
///
/// [docs/guarantees.md]: guarantees
#[doc = include_str!("../docs/security.md")]
pub mod security {}
