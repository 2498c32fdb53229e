//! What the tests of this repository reach beneath the face of zprof. Not public API.

use std::time::Duration;

use crate::error::Result;
use crate::pjrt::{Capture, Finished};
pub use crate::pjrt::{Plugin, PluginSession};
use crate::session::Platform;
use crate::xspace::collected::decode_space;
use zprof_proto::prost::Message as _;

/// The plugin of a platform.
#[must_use]
pub fn plugin(platform: &Platform) -> Option<&Plugin> {
    platform.plugin()
}

/// A session on a thread of its own, as the profiler has it: started within `limit`, ended after `between`. Gives how
/// it stopped, and what it collected.
///
/// # Errors
///
/// Those of create and start.
pub fn capture(
    plugin: &Plugin,
    options: &[u8],
    limit: Duration,
    between: impl FnOnce(),
) -> Result<(Result<()>, Result<Vec<u8>>)> {
    let capture = Capture::start(plugin, options.to_vec(), limit)?;
    between();
    let Finished { stopped, collected } = capture.finish(None, <[u8]>::to_vec);
    Ok((stopped, collected))
}

/// The space that a plugin collected, without a stray byte at its end.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`](crate::ErrorKind::InvalidData) if the bytes are no space.
pub fn space_bytes(collected: &[u8]) -> Result<Vec<u8>> {
    decode_space(collected).map(|space| space.encode_to_vec())
}

/// Bytes of all chunks of the recorder, used or not.
#[must_use]
pub fn recorder_bytes() -> usize {
    crate::record::recording::allocated()
}

/// The id that the recorder gives the line of the calling thread.
#[must_use]
pub fn thread_id() -> u64 {
    crate::os::thread_id()
}
