//! Platforms: what a profiler profiles besides the host.

use std::fmt;

use super::Profiler;
use super::options::ProfilerOptions;
use crate::error::Result;

/// What a profiler looks at: the host, and on some platforms an accelerator.
#[derive(Clone)]
pub struct Platform(());

impl Platform {
    /// The host alone: the program's own scopes.
    #[must_use]
    pub fn host() -> Self {
        Self(())
    }

    /// A profiler of this platform; it records nothing before [`Profiler::start`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) where an option cannot work.
    pub fn profiler(&self, options: ProfilerOptions) -> Result<Profiler> {
        Profiler::new(options)
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform").field("name", &"host").finish()
    }
}
