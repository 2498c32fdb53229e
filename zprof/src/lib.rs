//! zprof shows where time goes in programs that drive accelerators.
// The README's links lead to files; here to the chapters below, since the first definition of a link counts.
//!
//! [CHANGELOG.md]: _docs::changelog
//! [CONTRIBUTING.md]: _docs::contributing
//! [SECURITY.md]: _docs::security
//! [benches/README.md]: _docs::benches
//! [docs/architecture.md]: _docs::architecture
//! [docs/c.md]: _docs::c
//! [docs/filtering.md]: _docs::filtering
//! [docs/guarantees.md]: _docs::guarantees
//! [docs/profiling.md]: _docs::profiling
//! [docs/runtimes.md]: _docs::runtimes
//! [docs/testing.md]: _docs::testing
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod macros;

#[cfg(any(doc, doctest))]
pub mod _docs;

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
/// Records every call of a function as a scope, or of every function in a block.
///
/// It goes on functions, methods, default bodies and implementations of trait functions, `async` or not. Nothing that a
/// caller sees changes, and nothing is recorded but what is written: arguments are no metadata unless they are named.
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
/// | `key = expression`, `key`, `self.key` | metadata, read at entry, by reference, and only when something listens; `%` or `?` in front records its text; see [`scope!`] |
/// | `ret` | the returned value, which must be a [`Value`](trait@Value), as `return`; with `err`, that of `Ok` |
/// | `err` | the text of a returned error as `error`, cut to 256 bytes |
/// | `level = critical \| info \| verbose` | how much detail it is; critical where it is not said |
/// | `filter = N` | the bit, 0 to 31, that a session's filter must hold |
/// | `root = <bool>` | the call is a step of its own |
/// | `skip` | nothing is recorded: leaves a function out of a block that has the attribute |
/// | `crate = path` | where zprof is found, if not at `::zprof` |
///
/// `r#level = value` records a key of a reserved name.
///
/// The function's body stays as it is, with a guard in front: no closure, so `?`, `return`, panics and borrows work as
/// before, and the scope closes on each way out. Only `ret` and `err` look at the value from outside and make the body a
/// closure that is called at once; it moves no argument that the body does not move, and all that changes is that
/// `#[track_caller]` ends there. A `const fn` cannot be recorded, and a trait function without a body has nothing to
/// record.
///
/// # Blocks
///
/// On an `impl` or a `trait` the attribute goes to each function with a body, under the name `Type::method`; on a module
/// to each function under its plain name, and to the blocks and modules inside. A name on the block stands in place of
/// the type's, or before the plain names. `level`, `filter` and `crate` hold for all that do not say otherwise, and a
/// function's own attribute adds the rest. `const fn` are left alone, and so are functions that a macro in the block
/// makes, since they cannot be seen.
///
/// ```
/// struct Cache;
///
/// #[zprof::trace(level = info)]
/// impl Cache {
///     fn get(&self, key: &str) -> Option<u32> { // `Cache::get`
///         self.find(key).filter(|found| *found > 0)
///     }
///
///     #[zprof::trace(key, ret)] // `Cache::find`, with metadata
///     fn find(&self, key: &str) -> Option<u32> {
///         self.hash(key).checked_sub(1)
///     }
///
///     #[zprof::trace(skip)]
///     fn hash(&self, key: &str) -> u32 {
///         key.bytes().map(u32::from).sum()
///     }
/// }
/// # assert_eq!(Cache.get("a"), Some(96));
/// ```
///
/// # Futures
///
/// Of an `async fn` each poll is recorded as a slice of the thread that runs it, and the whole, from the first poll to the
/// end, as a span on a line of its own; see [`TraceFuture::traced`]. Metadata is read at the first poll.
///
/// ```
/// #[zprof::trace("llm.compile", layers, err)]
/// async fn compile(layers: usize, source: &str) -> Result<usize, std::num::ParseIntError> {
///     let width: usize = source.parse()?;
///     Ok(layers * width)
/// }
/// # let mut future = std::pin::pin!(compile(2, "3"));
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(future.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(6)));
/// ```
///
/// A function that is not `async` but ends in an `async` block, as it is or in `Box::pin(…)`, is recorded as that block,
/// with metadata read at the call; so `async_trait` works. Any other function that returns a future is recorded while it
/// makes the future, not while that runs.
pub use zprof_macros::trace;
#[cfg(feature = "log")]
pub use zprof_runtime::bridge::log;
#[cfg(feature = "tracing")]
pub use zprof_runtime::bridge::tracing;
/// ```
/// use std::time::Duration;
///
/// # fn main() -> zprof::Result<()> {
/// # if !zprof::ENABLED { return Ok(()) }
/// let recorded = zprof::testing::record(|clock| {
///     zprof::scope!("outer");
///     clock.advance(Duration::from_millis(3));
///     zprof::scope!("inner", n = 3, { clock.advance(Duration::from_millis(2)) });
/// })?;
/// assert_eq!(recorded.tree(), "outer 5ms\n  inner n=3 2ms");
/// # Ok(())
/// # }
/// ```
pub use zprof_runtime::testing;
pub use zprof_runtime::{
    AdvancedValue, DeviceType, ENABLED, Error, ErrorKind, Flow, Level, Linkage, MAX_LEVEL, Platform, Profile, Profiler,
    ProfilerOptions, Result, SessionId, Span, Task, TraceFuture, Traced, Value, finish, flow, init_from_env,
    name_thread, name_worker, snapshot,
};
