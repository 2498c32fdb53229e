//! XSpace and profiler option messages, wire-compatible with TensorFlow's.
//!
//! The messages stand in `proto/*.proto`; the code made from them is committed under `src/generated/`, and a test
//! fails when the two differ. Maps are [`BTreeMap`](std::collections::BTreeMap)s, so equal messages encode to equal
//! bytes.
//!
//! ```
//! use zprof_proto::prost::Message as _;
//! use zprof_proto::{XPlane, XSpace};
//!
//! let space = XSpace { planes: vec![XPlane { name: "/host:CPU".into(), ..Default::default() }], ..Default::default() };
//! let bytes = space.encode_to_vec();
//! assert_eq!(XSpace::decode(bytes.as_slice()), Ok(space));
//! ```

/// The code of the README is tested with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The encoding library whose `Message` trait these types have.
pub use prost;

/// Options of a profiling session (protobuf package `tensorflow`).
pub mod options {
    include!("generated/tensorflow.rs");
}

/// A profile: planes of lines of events (protobuf package `tensorflow.profiler`).
pub mod xplane {
    include!("generated/tensorflow.profiler.rs");
}

pub use options::ProfileOptions;
pub use options::profile_options::{AdvancedConfigValue, DeviceType, TraceOptions, advanced_config_value};
pub use xplane::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata, x_event, x_stat};
