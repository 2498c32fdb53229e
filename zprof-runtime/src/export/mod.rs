//! Exports: XSpace bytes in, another format out.

mod file;
mod json;
mod text;

pub use json::{JsonOptions, JsonSummary, export_json_file, write_json};
