//! Exports: XSpace bytes in, another format out.

mod file;
mod filter;
mod host;
mod json;
mod perfetto;
mod text;

pub(crate) use file::write_whole;
pub use filter::Filter;
pub use host::Host;
pub use json::{JsonOptions, JsonSummary, export_json_file, write_json, write_json_hosts};
pub use perfetto::{PerfettoOptions, PerfettoSummary, write_perfetto, write_perfetto_hosts};
