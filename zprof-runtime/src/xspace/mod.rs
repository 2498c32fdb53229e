//! XSpace: names, wire format, reading, writing and the post-processing of a session.

pub(crate) mod wire;
pub(crate) mod writer;
