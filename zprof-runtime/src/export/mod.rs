//! Exports: XSpace bytes in, another format out.

mod file;
mod json;
mod text;

pub(crate) use file::write_whole;
pub use json::{JsonOptions, JsonSummary, export_json_file, write_json};
