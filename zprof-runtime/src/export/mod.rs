//! Exports: XSpace bytes in, another format out.

mod about;
mod axis;
mod file;
mod filter;
mod host;
mod json;
mod limit;
mod order;
mod perfetto;
mod text;

// What happened, in numbers: events in the order of time, and how they nest.
mod check;
mod folded;
mod nest;
mod scopes;
mod summary;
mod timeline;

pub use about::Process;
pub use axis::{HostStarts, host_starts};
pub use check::{CheckOptions, Checked, Finding, FindingKind, Severity, check};
pub use filter::Filter;
pub use folded::{FoldedOptions, StackTree, write_folded};
pub use host::Host;
pub use json::{JsonOptions, JsonSummary, export_json_file, write_json, write_json_hosts};
pub use perfetto::{PerfettoOptions, PerfettoSummary, write_perfetto, write_perfetto_hosts};
pub use summary::{
    AsyncSummary, CounterSummary, LineSummary, PlaneSummary, Polls, Runs, ScopeSummary, Step, StepSeries, Summary,
    SummaryOptions, summarise,
};
