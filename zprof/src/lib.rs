//! zprof shows where time goes in programs that drive accelerators.
//!
//! Annotate with [`macro@trace`], [`scope!`] and [`span!`], record a session, open the two files that it leaves.

mod macros;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use zprof_macros::{Value, trace};
pub use zprof_runtime::{
    AdvancedValue, DeviceType, ENABLED, Error, ErrorKind, Level, Platform, Profile, Profiler, ProfilerOptions, Result,
    SessionId, Span, Value,
};
