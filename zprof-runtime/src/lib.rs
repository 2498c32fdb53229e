//! The runtime of zprof: sites, recorder, session, XSpace and export, in reading order.
//!
//! Programs use it through the `zprof` crate, which re-exports what is public here.

pub mod error;
pub mod site;

pub mod export;
pub mod xspace;

pub use error::{Error, ErrorKind, Result};
pub use site::Level;

/// Whether the recorder is compiled in (feature `enable`).
pub const ENABLED: bool = cfg!(feature = "enable");
