//! zprof shows where time goes in programs that drive accelerators.
#![doc = include_str!("../README.md")]

mod macros;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use zprof_macros::{Value, trace};
pub use zprof_runtime::{
    AdvancedValue, DeviceType, ENABLED, Error, ErrorKind, Level, Platform, Profile, Profiler, ProfilerOptions, Result,
    SessionId, Span, Value,
};
