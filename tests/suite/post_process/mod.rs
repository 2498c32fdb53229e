//! Post-processing of a space: merged, relative to the session, in order; as TSL does it.

mod hostile;
mod join;
mod parity;
mod rows;
mod spaces;

use prost::Message as _;
use zprof_proto::XSpace;
use zprof_tests::{Canonical, canonical};

/// The space after post-processing.
fn processed(space: &XSpace, start_ns: u64, stop_ns: u64) -> XSpace {
    let bytes = zprof_runtime::xspace::post_process_bytes(&space.encode_to_vec(), start_ns, stop_ns);
    XSpace::decode(bytes.expect("bytes of a space").as_slice()).expect("bytes of a space")
}

/// The space after post-processing, by name.
fn by_name(space: &XSpace, start_ns: u64, stop_ns: u64) -> Canonical {
    canonical(&processed(space, start_ns, stop_ns).encode_to_vec())
}
