//! The locks of the bridges, which a fork must not find taken: nobody in its child would give them back.

#[cfg(feature = "log")]
use super::log;
#[cfg(feature = "tracing")]
use super::tracing;

/// The locks, one bridge after the other.
#[derive(Debug)]
pub(crate) struct Held {
    #[cfg(feature = "tracing")]
    _tracing: tracing::Held,
    #[cfg(feature = "log")]
    _log: log::Held,
}

/// Takes them. The recorder's are taken after these: a span of a bridge is locked while its slice is opened.
pub(crate) fn hold() -> Held {
    Held {
        #[cfg(feature = "tracing")]
        _tracing: tracing::hold_all(),
        #[cfg(feature = "log")]
        _log: log::hold_all(),
    }
}
