//! What the tests of this repository reach beneath the face of zprof. Not public API.

use std::ffi::OsString;
use std::time::Duration;

use crate::error::Result;
use crate::pjrt::{Capture, Finished};
pub use crate::pjrt::{Plugin, PluginSession};
use crate::session::{Platform, ProfilerOptions, env};
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

/// Reads the variables that ask for a session, as [`init_from_env`](crate::init_from_env) does, from `variables` and not from
/// the environment. `None` where they ask for none.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for a value that its variable may not have.
pub fn requested(variables: &[(OsString, OsString)]) -> Result<Option<ProfilerOptions>> {
    let get = |name: &str| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    Ok(env::request(get)?.map(|request| request.options))
}

/// The warnings for variables whose names begin as zprof's do and are none of them.
#[must_use]
pub fn unknown_variables(variables: &[(OsString, OsString)]) -> Vec<String> {
    env::unknown(variables.iter().cloned())
}

/// Whether a live tool is attached.
#[must_use]
pub fn has_tools() -> bool {
    crate::record::has_tools()
}

/// The id that the recorder gives the line of the calling thread.
#[must_use]
pub fn thread_id() -> u64 {
    crate::os::thread_id()
}
