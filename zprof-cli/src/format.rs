//! The formats of traces: their names, the endings of their files, and who writes them.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;
use zprof_runtime::export::{
    Host, JsonOptions, JsonSummary, PerfettoOptions, PerfettoSummary, write_json_hosts, write_perfetto_hosts,
};

use crate::input::Profile;
use crate::packed;
use crate::progress::Progress;

/// Level of compression: 6, the usual one, takes half as long again and saves a fifth of the size.
const LEVEL: u32 = 3;

/// A format that traces are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Trace-viewer JSON, for Perfetto and TensorBoard.
    Json,
    /// The same, compressed with gzip.
    #[value(name = "json.gz")]
    JsonGz,
    /// Perfetto's own format: smaller, with typed values, flows and counters, and with planes that JSON has no place for.
    Pftrace,
}

impl Format {
    /// The format that a file of this name has; `None` if the name does not tell.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        [
            (".json", Self::Json),
            (".json.gz", Self::JsonGz),
            (".pftrace", Self::Pftrace),
            (".perfetto-trace", Self::Pftrace),
        ]
        .into_iter()
        .find_map(|(ending, format)| name.ends_with(ending).then_some(format))
    }

    /// End of the name of a file whose name is ours to choose.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Json => ".trace.json",
            Self::JsonGz => ".trace.json.gz",
            Self::Pftrace => ".pftrace",
        }
    }

    /// Whether a terminal cannot show it.
    pub(crate) fn is_binary(self) -> bool {
        match self {
            Self::Json => false,
            Self::JsonGz | Self::Pftrace => true,
        }
    }

    /// Whether TSL's converter has it.
    pub(crate) fn is_tsl(self) -> bool {
        match self {
            Self::Json | Self::JsonGz => true,
            Self::Pftrace => false,
        }
    }

    /// Writes the trace of a profile, with a bar on the terminal. What is written when this fails is no trace, and does
    /// not pass for one.
    pub(crate) fn convert(self, profile: &Profile, out: &mut dyn Write, options: &JsonOptions) -> Result<JsonSummary> {
        let progress =
            Progress::new(format!("converting {}", profile.name), self.passes(options).saturating_mul(profile.size()?));
        let sources: Vec<_> = profile.spaces.iter().map(|space| progress.watch(space.bytes())).collect();
        let hosts = profile.spaces.iter().zip(&sources).map(|(space, source)| Host { name: &space.host, source });
        self.write(&hosts.collect::<Vec<_>>(), out, options)
    }

    /// How often the profile is read, about.
    fn passes(self, options: &JsonOptions) -> u64 {
        // Once for the metadata and once for the events; a limit counts, and then looks for its place.
        let passes = 2 + if options.max_events.is_some() { 1 } else { 0 };
        match self {
            Self::Json | Self::JsonGz if options.validate_first => passes + 2,
            Self::Pftrace if options.validate_first => 2 * passes,
            Self::Json | Self::JsonGz | Self::Pftrace => passes,
        }
    }

    /// Writes the trace of the hosts.
    fn write(self, hosts: &[Host<'_>], out: &mut dyn Write, options: &JsonOptions) -> Result<JsonSummary> {
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
            Self::Pftrace => write_perfetto(hosts, out, options),
        }
    }
}

/// Writes Perfetto's format, packed, by the options that it shares with JSON.
fn write_perfetto(hosts: &[Host<'_>], out: &mut dyn Write, options: &JsonOptions) -> Result<JsonSummary> {
    let mut own = PerfettoOptions::default();
    own.filter.clone_from(&options.filter);
    own.max_events = options.max_events;
    let write = |out: &mut dyn Write| -> Result<PerfettoSummary> {
        let written = write_perfetto_hosts(hosts, out, &own)?;
        if written.planes == 0 && !own.filter.planes.is_empty() {
            bail!("no plane matches `{}`", own.filter.planes.join("`, `"));
        }
        Ok(written)
    };
    if options.validate_first {
        write(&mut io::sink())?;
    }
    let written = packed::pack(out, write)?;
    let mut summary = JsonSummary::default();
    summary.planes = written.planes;
    summary.lines = written.lines;
    summary.events = written.events;
    summary.events_hidden = written.events_hidden;
    summary.planes_filtered = written.planes_filtered;
    summary.events_filtered = written.events_filtered;
    summary.events_over_limit = written.events_over_limit;
    summary.notes = written.notes;
    Ok(summary)
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
            ("a.pftrace", Some(Format::Pftrace)),
            ("a.perfetto-trace", Some(Format::Pftrace)),
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
