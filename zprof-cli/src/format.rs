//! The formats of traces: their names, the endings of their files, and who writes them.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;
use zprof_runtime::export::{Host, JsonOptions, JsonSummary, write_json_hosts};

/// Level of compression: those above take twice the time and more, for a tenth of the size.
const LEVEL: u32 = 3;

/// A format that traces are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Trace-viewer JSON, for Perfetto and TensorBoard.
    Json,
    /// The same, compressed with gzip.
    #[value(name = "json.gz")]
    JsonGz,
}

impl Format {
    /// The format that a file of this name has; `None` if the name does not tell.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        [(".json", Self::Json), (".json.gz", Self::JsonGz)]
            .into_iter()
            .find_map(|(ending, format)| name.ends_with(ending).then_some(format))
    }

    /// End of the name of a file whose name is ours to choose.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Json => ".trace.json",
            Self::JsonGz => ".trace.json.gz",
        }
    }

    /// Whether a terminal cannot show it.
    pub(crate) fn is_binary(self) -> bool {
        match self {
            Self::Json => false,
            Self::JsonGz => true,
        }
    }

    /// Writes the trace of the hosts. What is written when this fails is no trace, and does not pass for one.
    pub(crate) fn write(self, hosts: &[Host<'_>], out: &mut dyn Write, options: &JsonOptions) -> Result<JsonSummary> {
        match self {
            Self::Json => Ok(write_json_hosts(hosts, out, options)?),
            Self::JsonGz => {
                let mut out = GzEncoder::new(Gate { out, open: true }, Compression::new(LEVEL));
                let written = write_json_hosts(hosts, &mut out, options);
                // Dropping the encoder ends the stream, which would look whole.
                out.get_mut().open = written.is_ok();
                let summary = written?;
                out.finish().context("failed to write the compressed JSON")?;
                Ok(summary)
            }
        }
    }
}

/// A writer that can be closed, and then swallows what it is given.
struct Gate<'w> {
    out: &'w mut dyn Write,
    open: bool,
}

impl Write for Gate<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open { self.out.write(bytes) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.open { self.out.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats() {
        for (name, format) in [
            ("a.trace.json", Some(Format::Json)),
            ("A.JSON", Some(Format::Json)),
            ("/x/a.json.gz", Some(Format::JsonGz)),
            ("a.trace.json.gz", Some(Format::JsonGz)),
            ("a.gz", None),
            ("json", None),
            ("a.json/b", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
        for format in Format::value_variants() {
            assert_eq!(Format::of(Path::new(&format!("x{}", format.ending()))), Some(*format));
        }
    }

    #[test]
    fn a_failed_stream_is_not_ended() {
        let source: &[u8] = b"\x0a\x05no";
        let mut out = Vec::new();
        let hosts = [Host { name: "", source: &source }];
        Format::JsonGz.write(&hosts, &mut out, &JsonOptions::default()).expect_err("is no XSpace");
        assert_eq!(out, b"");
    }
}
