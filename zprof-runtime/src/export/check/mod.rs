//! Whether an XSpace is sound: what is wrong in it, and what its readers would trip over.
//!
//! | kind | severity | what |
//! |---|---|---|
//! | `malformed` | error | the bytes are not a protobuf message where one must be, or hold no field of an XSpace |
//! | `wrong-type` | error | a known field has another wire type: readers lose it or refuse the file |
//! | `not-utf8` | error | a string is not UTF-8: most protobuf readers refuse the whole file |
//! | `too-large` | error | the file has 2 GiB or more, which no protobuf library reads |
//! | `unknown-event`, `unknown-stat`, `unknown-text` | error | an id has no metadata: the event, stat or value has no name |
//! | `metadata-id` | error | metadata says another id than its key |
//! | `negative-duration` | error | an event ends before it starts |
//! | `before-start` | error | an event starts before 0, the start of the session: viewers show it ages away |
//! | `time-overflow` | error | a start or end does not fit 64 bits of picoseconds: readers wrap it around |
//! | `far-off` | error | a line is at the time of day, while the session begins at 0: it shows decades away |
//! | `unknown-field` | warning | a field that the format does not have |
//! | `repeated-metadata` | warning | an id has two metadata: the last one counts |
//! | `repeated-plane` | warning | two planes of one name: readers take the first, or merge them |
//! | `repeated-device` | warning | two devices of one id: they share a process in trace viewers |
//! | `repeated-line` | warning | two lines of a plane show one id: they share a track |
//! | `thread-id` | warning | ids of two lines of a plane differ only above 32 bits, which trace-viewer JSON cuts |
//! | `overlap` | warning | an event starts in another and ends after it: Perfetto drops or moves one of them |
//! | `unsorted` | warning | events of a line are not in the order of time, which XProf expects |
//! | `too-deep` | warning | events nest deeper than 512, where Perfetto stops |
//! | `too-many-events` | warning | more than 1,000,000 events: TSL's trace-viewer JSON stops there |
//! | `after-stop` | warning | an event ends after the session's end |
//! | `nul` | warning | a NUL in a string: TSL's JSON ends the string there |
//! | `nameless` | warning | events have metadata without a name |
//! | `dangling-flow` | warning | a consumer names a producer that is not there: its arrow begins nowhere |
//! | `reported` | warning | the profiler wrote an error or a warning into the space |
//! | `empty` | warning | there is no event |

mod report;
mod structure;
mod time;

use self::report::Report;
use super::timeline::plane_groups;
use crate::xspace::Source;
use crate::xspace::window::Window;
use crate::{ErrorKind, Result};

/// How to check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Findings of one kind that are told one by one; all are counted. 5 by default.
    pub max_per_kind: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { max_per_kind: 5 }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The space can be read, but not all readers show it as meant.
    Warning,
    /// The space is not sound.
    Error,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // the table above says what they are
pub enum FindingKind {
    Malformed,
    WrongType,
    NotUtf8,
    TooLarge,
    UnknownEvent,
    UnknownStat,
    UnknownText,
    MetadataId,
    NegativeDuration,
    BeforeStart,
    TimeOverflow,
    FarOff,
    UnknownField,
    RepeatedMetadata,
    RepeatedPlane,
    RepeatedDevice,
    RepeatedLine,
    ThreadId,
    Overlap,
    Unsorted,
    TooDeep,
    TooManyEvents,
    AfterStop,
    Nul,
    Nameless,
    DanglingFlow,
    Reported,
    Empty,
}

impl FindingKind {
    /// Its name, as in `negative-duration`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::WrongType => "wrong-type",
            Self::NotUtf8 => "not-utf8",
            Self::TooLarge => "too-large",
            Self::UnknownEvent => "unknown-event",
            Self::UnknownStat => "unknown-stat",
            Self::UnknownText => "unknown-text",
            Self::MetadataId => "metadata-id",
            Self::NegativeDuration => "negative-duration",
            Self::BeforeStart => "before-start",
            Self::TimeOverflow => "time-overflow",
            Self::FarOff => "far-off",
            Self::UnknownField => "unknown-field",
            Self::RepeatedMetadata => "repeated-metadata",
            Self::RepeatedPlane => "repeated-plane",
            Self::RepeatedDevice => "repeated-device",
            Self::RepeatedLine => "repeated-line",
            Self::ThreadId => "thread-id",
            Self::Overlap => "overlap",
            Self::Unsorted => "unsorted",
            Self::TooDeep => "too-deep",
            Self::TooManyEvents => "too-many-events",
            Self::AfterStop => "after-stop",
            Self::Nul => "nul",
            Self::Nameless => "nameless",
            Self::DanglingFlow => "dangling-flow",
            Self::Reported => "reported",
            Self::Empty => "empty",
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(self) -> Severity {
        if self < Self::UnknownField { Severity::Error } else { Severity::Warning }
    }
}

/// Something that is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The same in words, with the numbers of this case.
    pub message: String,
    /// The name of the plane it is in.
    pub plane: Option<String>,
    /// The name of the line it is in, or its id where it has none.
    pub line: Option<String>,
    /// The event, counted from 0 within its line.
    pub event: Option<u64>,
    /// The byte of the file where it is.
    pub at: Option<u64>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Planes looked at.
    pub planes: u64,
    /// Lines looked at.
    pub lines: u64,
    /// Events looked at.
    pub events: u64,
    /// Findings, at most as many of a kind as the options say; the worst kinds first.
    pub findings: Vec<Finding>,
    /// How many findings there are of each kind.
    pub counts: Vec<(FindingKind, u64)>,
    /// Whether there were too many producers and consumers to look for those that are alone.
    pub flows_unchecked: bool,
}

impl Checked {
    /// How many findings are of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|(kind, _)| kind.severity() == severity).map(|(_, count)| count).sum()
    }
}

/// Checks the XSpace in `source`. What is wrong with it is a finding, not an error; where it is malformed, times and
/// nesting are not looked at.
///
/// Memory is bounded by the names and lines of the largest plane, by the events open at once on a line, by 64 MiB for
/// lines whose events are not in the order of time, and by about 64 MiB for producers and consumers.
///
/// # Errors
/// [`ErrorKind::Io`] if reading fails.
pub fn check(source: &dyn Source, options: &CheckOptions) -> Result<Checked> {
    let mut window = Window::new(source)?;
    let mut report = Report::new(options.max_per_kind);
    let session = structure::check(&mut window, &mut report)?;
    if !report.has(FindingKind::Malformed) {
        for group in plane_groups(&mut window)? {
            time::check(&mut window, &group, session, &mut report)?;
        }
    }
    Ok(report.finish())
}

/// Turns bytes that are not a message into a finding.
fn survive<T>(result: Result<T>, report: &mut Report) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            let message = error.to_string();
            let reason = message.strip_prefix("not an XSpace: ").unwrap_or(&message);
            report.add(FindingKind::Malformed, None, format_args!("{reason}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
