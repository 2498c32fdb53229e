//! XSpace: names, wire format, reading, writing and the post-processing of a session.

mod adopt;
mod display;
mod fields;
pub(crate) mod join;
mod lean;
pub(crate) mod names;
pub(crate) mod out;
pub(crate) mod wire;
pub(crate) mod writer;

pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod window;

pub(crate) mod collected;
mod merge;
mod metadata;
pub(crate) mod normalise;
pub(crate) mod post_process;

#[doc(hidden)]
pub use join::join_bytes;
#[doc(hidden)]
pub use post_process::{finish_bytes, post_process_bytes};
pub use source::Source;
