//! The one public error of zprof, and the kinds a program can tell apart.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use crate::display::write_printable;

/// What went wrong, coarsely: what a program may want to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another profiler of this process is running; there is one session at a time.
    AlreadyActive,
    /// The call does not fit the state of the profiler, such as a start while a stopped session is not written yet.
    WrongState,
    /// An option or argument has a value that cannot work.
    InvalidInput,
    /// Bytes that should be an XSpace are not one.
    InvalidData,
    /// A file or folder could not be read or written.
    Io,
    /// An accelerator's plugin cannot be used, or refused a call.
    Plugin,
    /// The platform or the build cannot do this.
    Unsupported,
    /// There was too little memory for it; the message says what that means for the profile.
    OutOfMemory,
}

/// A failed call: what failed, on what, and what was expected. A foreign cause is in [`source`](StdError::source).
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The result of a fallible call of zprof.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What went wrong, coarsely.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { inner: Box::new(Inner { kind, message: message.into(), source: None }) }
    }

    #[cold]
    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { inner: Box::new(Inner { kind, message: message.into(), source: Some(source.into()) }) }
    }

    /// The same error, told within what it happened: `what: message`.
    #[cold]
    pub(crate) fn context(mut self, what: impl fmt::Display) -> Self {
        self.inner.message = Cow::Owned(format!("{what}: {}", self.inner.message));
        self
    }

    /// An error of the same kind that says something else.
    #[cold]
    pub(crate) fn said(&self, what: impl fmt::Display) -> Self {
        Self::new(self.kind(), what.to_string())
    }

    /// The message with its cause: `message: cause`, for places that take one line.
    #[cold]
    pub(crate) fn told(&self) -> String {
        self.source().map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }

    /// The same error with its cause in the message, and no more behind it.
    #[cold]
    pub(crate) fn in_one(self) -> Self {
        Self::new(self.kind(), self.told())
    }

    /// An [`ErrorKind::Io`] error; `what` says what failed on which path.
    #[cold]
    pub(crate) fn io(what: impl Into<Cow<'static, str>>, source: std::io::Error) -> Self {
        Self::with_source(ErrorKind::Io, what, source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Messages quote names that others chose, and programs print them.
        write_printable(f, &self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.inner.kind).field("message", &self.inner.message);
        if let Some(source) = &self.inner.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word_and_can_cross_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn a_message_is_one_line_that_a_terminal_can_show() {
        let error = Error::new(ErrorKind::Io, "no folder `a\nb\u{1b}[31m\u{202e}`".to_owned());
        assert_eq!(error.to_string(), "no folder `a b [31m\u{fffd}`");
        assert_eq!(error.in_one().to_string(), "no folder `a b [31m\u{fffd}`");
    }

    #[test]
    fn the_cause_is_the_source_and_not_part_of_the_message() {
        let cause = std::io::Error::other("disk on fire");
        let error = Error::io("failed to write `/x`", cause);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.to_string(), "failed to write `/x`");
        assert_eq!(error.source().expect("has a source").to_string(), "disk on fire");
        assert_eq!(error.told(), "failed to write `/x`: disk on fire");
        let error = error.in_one();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.to_string(), "failed to write `/x`: disk on fire");
        assert!(error.source().is_none());
        assert_eq!(Error::new(ErrorKind::Io, "failed").told(), "failed");
    }
}
