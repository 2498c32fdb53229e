//! Exports: XSpace bytes in, another format out.

mod file;
mod json;
mod text;

// What happened, in numbers: events in the order of time, and how they nest.
mod check;
mod folded;
mod nest;
mod planes;
mod scopes;
mod summary;
mod timeline;

pub use check::{CheckOptions, Checked, Finding, FindingKind, Severity, check};
pub(crate) use file::write_whole;
pub use folded::{FoldedOptions, write_folded};
pub use json::{JsonOptions, JsonSummary, export_json_file, write_json};
pub use summary::{
    LineSummary, PlaneSummary, Runs, ScopeSummary, Step, StepSeries, Summary, SummaryOptions, summarise,
};
