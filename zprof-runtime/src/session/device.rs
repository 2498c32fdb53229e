//! The plugin's part of a session: started after the host's, ended after it, and joined with it.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use super::options::ProfilerOptions;
use crate::environment;
use crate::error::{Error, ErrorKind, Result};
use crate::pjrt::{Capture, Plugin};
use crate::xspace::join::{Joined, Session, join};
use crate::xspace::writer::Plane;

/// How long a plugin may take to start before the session goes on without it.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A plugin's session under way, or the reason why there is none.
#[derive(Debug, Default)]
pub(super) struct Device {
    capture: Option<Capture>,
    name: String,
    warnings: Vec<String>,
}

/// What a plugin has collected, as it gave it.
#[derive(Debug)]
pub(super) struct Collected {
    name: String,
    /// `None` where it had no session.
    bytes: Option<Vec<u8>>,
    pub(super) warnings: Vec<String>,
}

/// What a plugin has brought, joined.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// All that it collected; the pieces point into this.
    pub(super) bytes: Vec<u8>,
    /// Its planes, in order.
    pub(super) pieces: Vec<Piece>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Whether the bytes are no XSpace, and are kept as they are.
    pub(super) broken: bool,
}

/// A part of the profile's bytes.
#[derive(Debug)]
pub(super) enum Piece {
    Own(Vec<u8>),
    /// Bytes of the plugin's.
    Device(Range<usize>),
}

impl Device {
    /// Starts the plugin's session, if there is a plugin that can have one.
    ///
    /// # Errors
    ///
    /// Only with `raise_error_on_start_failure`: what is a warning otherwise.
    pub(super) fn start(plugin: Option<&Plugin>, options: &ProfilerOptions, session: &str) -> Result<Self> {
        let Some(plugin) = plugin else { return Ok(Self::default()) };
        let name = plugin.name().to_owned();
        if environment::variable("SKIP_PJRT_PROFILER").is_some_and(|value| value == "true") {
            log::info!("PJRT plugin `{name}` is left alone, since SKIP_PJRT_PROFILER is `true`");
            return Ok(Self::default());
        }
        let capture = match plugin.lacks_profiler() {
            Some(why) => Err(Error::new(ErrorKind::Unsupported, format!("PJRT plugin `{name}` cannot profile: {why}"))),
            None => Capture::start(plugin, options.to_proto(session), START_LIMIT),
        };
        match capture {
            Ok(capture) => Ok(Self { capture: Some(capture), name, warnings: Vec::new() }),
            Err(error) if options.raise_error_on_start_failure => Err(error),
            Err(error) => {
                let warnings = vec![format!("only the host is profiled: {}", error.told())];
                Ok(Self { capture: None, name, warnings })
            }
        }
    }

    /// Name of the plugin that has a session.
    pub(super) fn name(&self) -> Option<&str> {
        self.capture.is_some().then_some(&self.name)
    }

    /// Ends the plugin's session and takes what it has collected, waiting for that no longer than `limit`.
    pub(super) fn collect(self, limit: Option<Duration>) -> Collected {
        let Self { capture, name, mut warnings } = self;
        let Some(capture) = capture else { return Collected { name, bytes: None, warnings } };
        let finished = capture.finish(limit, <[u8]>::to_vec);
        if let Err(error) = finished.stopped {
            warnings.push(error.told());
        }
        let bytes = match finished.collected {
            Ok(bytes) => bytes,
            Err(error) => {
                warnings.push(error.told());
                Vec::new()
            }
        };
        Collected { name, bytes: Some(bytes), warnings }
    }
}

impl Collected {
    /// Of a plugin that was not asked, with what is to be said besides.
    pub(super) fn none(warnings: Vec<String>) -> Self {
        Self { name: String::new(), bytes: None, warnings }
    }

    /// Joins what the plugin brought with the host's plane. `next_id` and up are line ids that no thread has.
    pub(super) fn join(self, host: &mut Plane, environment: &mut Plane, session: Session, next_id: u64) -> Taken {
        let Self { name, bytes, warnings } = self;
        let mut taken = Taken { warnings, ..Taken::default() };
        let Some(bytes) = bytes else { return taken };
        taken.bytes = bytes;
        let mut ids = next_id..;
        match join_tolerantly(host, &taken.bytes, session, || ids.next().unwrap_or(u64::MAX)) {
            Ok(joined) => {
                if joined.is_empty() && taken.warnings.is_empty() {
                    taken.warnings.push(format!("PJRT plugin `{name}` has returned an empty profile"));
                }
                if let Some(plane) = joined.environment {
                    environment.adopt(plane, || u64::MAX);
                }
                let start = taken.bytes.as_ptr().addr();
                let piece = |piece: Cow<'_, [u8]>| match piece {
                    Cow::Owned(bytes) => Piece::Own(bytes),
                    Cow::Borrowed(bytes) => {
                        let at = bytes.as_ptr().addr() - start;
                        Piece::Device(at..at + bytes.len())
                    }
                };
                taken.pieces = joined.pieces.into_iter().map(piece).collect();
                taken.errors = joined.errors;
                taken.warnings.extend(joined.warnings);
            }
            Err(error) => {
                taken.warnings.push(format!("only the host's part of the profile is kept: {}", error.told()));
                taken.broken = true;
            }
        }
        taken
    }
}

/// [`join`], also where a zero byte stands behind the space: plugins of 2025 count the end of a C string in.
fn join_tolerantly<'a>(
    host: &mut Plane,
    bytes: &'a [u8],
    session: Session,
    mut own_id: impl FnMut() -> u64,
) -> Result<Joined<'a>> {
    match (join(host, bytes, session, &mut own_id), bytes) {
        (Err(_), [space @ .., 0]) => join(host, space, session, &mut own_id),
        (result, _) => result,
    }
}
