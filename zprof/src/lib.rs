//! zprof shows where time goes in programs that drive accelerators.
#![doc = include_str!("../README.md")]

mod macros;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// Makes an enum without fields a metadata value: it is recorded by the name of its variant.
///
/// ```
/// #[derive(Clone, Copy, zprof::Value)]
/// enum Mode {
///     Greedy,
///     Sampled,
/// }
///
/// let mode = Mode::Greedy;
/// zprof::scope!("decode", mode, next = Mode::Sampled); // mode=Greedy next=Sampled
/// ```
///
/// Where zprof has another name, say so: `#[zprof(crate = path)]`. An enum with fields is refused; record its fields
/// under keys of their own.
pub use zprof_macros::Value;
/// Records every call of a function as a scope.
///
/// It goes on functions, methods, default bodies and implementations of trait functions. Nothing that a caller sees
/// changes, and nothing is recorded but what is written: arguments are no metadata unless they are named.
///
/// ```
/// struct Model {
///     seqlen: usize,
/// }
///
/// impl Model {
///     #[zprof::trace] // its name: `load`
///     fn load() -> Self {
///         Self { seqlen: 8 }
///     }
///
///     #[zprof::trace("model.decode", self.seqlen, step, batch = tokens.len(), level = info)]
///     fn decode(&self, tokens: &[u32], step: u64) -> usize {
///         self.seqlen + tokens.len()
///     }
/// }
/// # assert_eq!(Model::load().decode(&[1], 0), 9);
/// ```
///
/// | argument | |
/// |---|---|
/// | `"name"` or `name = "name"` | what the scope is called, instead of the function's identifier |
/// | `key = expression`, `key`, `self.key` | metadata, read at entry, by reference, and only when something listens; see [`scope!`] |
/// | `level = critical \| info \| verbose` | how much detail it is; critical where it is not said |
/// | `filter = N` | the bit, 0 to 31, that a session's filter must hold |
/// | `root = <bool>` | the call is a step of its own |
/// | `crate = path` | where zprof is found, if not at `::zprof` |
///
/// `skip`, `ret` and `err` are reserved too; `r#level = value` records a key of a reserved name.
///
/// The function's body stays as it is, with a guard in front: no closure, so `?`, `return`, panics and borrows work as
/// before, and the scope closes on each way out. A `const fn` cannot be recorded, and a trait function without a body
/// has nothing to record; `async fn` and whole `impl` blocks are not available in this version.
///
/// A function that returns a future, without being `async`, is recorded while it makes the future, not while that runs.
pub use zprof_macros::trace;
pub use zprof_runtime::{
    AdvancedValue, DeviceType, ENABLED, Error, ErrorKind, Level, Linkage, Platform, Profile, Profiler, ProfilerOptions,
    Result, SessionId, Span, Value,
};
