//! XSpace: names, wire format, reading, writing and the post-processing of a session.

pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod window;
pub(crate) mod wire;

pub use source::Source;
