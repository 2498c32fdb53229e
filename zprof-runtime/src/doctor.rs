//! What `zprof doctor` asks the runtime: where ticks come from, and which plugins would be tried. Not public API.

use std::path::PathBuf;

use crate::clock::Source;
use crate::pjrt::candidates;

/// A library that [`Platform::auto`](crate::Platform::auto) would try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCandidate {
    /// The library.
    pub path: PathBuf,
    /// Where it was found, in words that follow "found".
    pub place: String,
    /// Whether a variable of the environment names it.
    pub is_named: bool,
}

/// Name of the clock that scopes are timed by: the processor's counter (`tsc`, `cntvct`) or `monotonic`.
#[must_use]
pub fn clock_source() -> &'static str {
    Source::detect().name()
}

/// Every library that would be tried, in that order; none is loaded. None without the feature `pjrt`.
#[must_use]
pub fn plugin_candidates() -> Vec<PluginCandidate> {
    let all = candidates().into_iter();
    all.map(|(path, place, is_named)| PluginCandidate { path, place, is_named }).collect()
}
