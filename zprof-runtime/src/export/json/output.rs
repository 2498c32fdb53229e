//! The buffered end of the export: pieces of JSON in, large writes out.

use std::io::Write;

use crate::export::text::{open_character, put_ascii_string, put_micros, put_rounded_micros, put_string};
use crate::room::{self, OutOfMemory};
use crate::xspace::window::{Extent, PIECE, Window};
use crate::xspace::wire::wide;
use crate::{Error, Result};

/// Bytes that one byte takes at most in a JSON string.
pub(super) const LONGEST_ESCAPE: usize = 6;

/// Bytes gathered before a write.
const BATCH: usize = 64 << 10;

/// A text that goes into the document: rendered already, or still in the source because it is long.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    /// Rendered as JSON in an arena, from one byte to before another.
    Rendered(usize, usize),
    /// As it is in the source.
    Source(Extent),
}

/// How texts and times are written, and how the list ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As they are, but for times, which are in whole nanoseconds.
    Exact,
    /// To the byte as TSL does it.
    Tsl,
}

impl Style {
    /// Appends a JSON string.
    pub(super) fn put_quoted(self, out: &mut Vec<u8>, text: &[u8]) {
        out.push(b'"');
        self.put_inside(out, text);
        out.push(b'"');
    }

    /// Appends the inside of a JSON string; returns whether what follows is cut.
    fn put_inside(self, out: &mut Vec<u8>, text: &[u8]) -> bool {
        match self {
            Self::Exact => {
                put_string(out, text);
                false
            }
            Self::Tsl => put_ascii_string(out, text),
        }
    }
}

/// 2^42 µs, which are 51 days. Below, each nanosecond in microseconds is told from the next one in a double.
const READABLE_PS: u64 = (1 << 42) * 1_000_000;

/// Start and duration of an event as readers can tell them, from its two ends.
///
/// Readers take `ts` and `dur` as doubles, and round each by itself to nanoseconds. So that what nests in picoseconds nests for them
/// too, both ends are rounded down to nanoseconds. An event that reaches beyond the times in which a double tells nanoseconds apart
/// ends there, and one that begins beyond has ends in whole microseconds, which doubles hold exactly.
#[inline]
fn readable(start_ps: u64, end_ps: u64) -> (u64, u64) {
    let (unit, end_ps) = if start_ps < READABLE_PS { (1_000, end_ps.min(READABLE_PS)) } else { (1_000_000, end_ps) };
    let start_ps = start_ps - start_ps % unit;
    (start_ps, end_ps - end_ps % unit - start_ps)
}

/// Gathers JSON and writes it in batches.
pub(super) struct Output<'w> {
    out: &'w mut dyn Write,
    style: Style,
    /// What is not written yet. Whoever puts without bound calls [`flush_batch`](Self::flush_batch) between.
    pub(super) buffer: Vec<u8>,
    first: bool,
}

impl<'w> Output<'w> {
    pub(super) fn new(out: &'w mut dyn Write, style: Style) -> Result<Self> {
        // A batch, and behind it a piece whose every byte is escaped.
        #[allow(clippy::cast_possible_truncation)] // 64 KiB
        const ROOM: usize = 2 * BATCH + LONGEST_ESCAPE * PIECE as usize;
        Ok(Self { out, style, buffer: room::with_room(ROOM).map_err(OutOfMemory::error)?, first: true })
    }

    #[inline]
    pub(super) fn put(&mut self, json: &[u8]) {
        self.buffer.extend_from_slice(json);
    }

    /// Begins an element of the list: a comma, unless it is the first.
    #[inline]
    pub(super) fn begin_element(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.first) {
            self.buffer.push(b',');
        }
        self.flush_batch()
    }

    /// Puts a start and a duration, in picoseconds, as the members `ts` and `dur`, in microseconds.
    #[inline]
    pub(super) fn put_times(&mut self, start_ps: u64, duration_ps: u64) {
        let (start_ps, duration_ps) = match self.style {
            Style::Exact => readable(start_ps, start_ps.saturating_add(duration_ps)),
            Style::Tsl => (start_ps, duration_ps),
        };
        self.put(br#","ts":"#);
        self.put_micros(start_ps);
        self.put(br#","dur":"#);
        self.put_micros(duration_ps.max(1));
    }

    #[inline]
    fn put_micros(&mut self, ps: u64) {
        match self.style {
            Style::Exact => put_micros(&mut self.buffer, ps),
            Style::Tsl => put_rounded_micros(&mut self.buffer, ps),
        }
    }

    /// Puts a text, with its quotes, wherever it is.
    #[inline]
    pub(super) fn put_text(&mut self, window: &mut Window<'_>, arena: &[u8], text: Text) -> Result<()> {
        match text {
            Text::Rendered(start, end) => {
                self.put(&arena[start..end]);
                self.flush_batch()
            }
            Text::Source(extent) => self.put_source(window, extent),
        }
    }

    /// Puts a text of the source, with quotes, piece by piece.
    pub(super) fn put_source(&mut self, window: &mut Window<'_>, extent: Extent) -> Result<()> {
        self.put_source_between(window, "", extent, "")
    }

    /// Puts a text of the source between two others, all in one pair of quotes.
    pub(super) fn put_source_between(
        &mut self,
        window: &mut Window<'_>,
        prefix: &str,
        extent: Extent,
        suffix: &str,
    ) -> Result<()> {
        self.put(b"\"");
        self.style.put_inside(&mut self.buffer, prefix.as_bytes());
        let Extent { mut at, mut len } = extent;
        while len > 0 {
            let piece = window.piece(Extent { at, len })?;
            let mut done = piece.len();
            if len > PIECE {
                done -= open_character(piece);
            }
            if self.style.put_inside(&mut self.buffer, &piece[..done]) {
                break;
            }
            at += wide(done);
            len -= wide(done);
            self.flush_batch()?;
        }
        self.style.put_inside(&mut self.buffer, suffix.as_bytes());
        self.put(b"\"");
        Ok(())
    }

    /// Writes what is gathered if it is worth it.
    #[inline]
    pub(super) fn flush_batch(&mut self) -> Result<()> {
        if self.buffer.len() < BATCH { Ok(()) } else { self.write() }
    }

    /// Ends the list and the document, and writes what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        match self.style {
            Style::Exact => self.put(b"]}"),
            Style::Tsl if self.first => self.put(b"{}]}"),
            Style::Tsl => self.put(b",{}]}"),
        }
        self.write()?;
        self.out.flush().map_err(|error| Error::io("failed to write the JSON", error))
    }

    #[cold]
    fn write(&mut self) -> Result<()> {
        self.out.write_all(&self.buffer).map_err(|error| Error::io("failed to write the JSON", error))?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_an_event_are_what_a_double_can_hold() {
        let rows = [
            ((400, 3_400), (0, 3_000)),
            ((1_999, 2_000), (1_000, 1_000)),
            ((1_001, 1_999), (1_000, 0)),
            ((READABLE_PS - 1, READABLE_PS), (READABLE_PS - 1_000, 1_000)),
            ((5_500, u64::MAX), (5_000, READABLE_PS - 5_000)),
            ((READABLE_PS + 1_999_999, READABLE_PS + 2_000_000), (READABLE_PS + 1_000_000, 1_000_000)),
        ];
        for ((start_ps, end_ps), expected) in rows {
            assert_eq!(readable(start_ps, end_ps), expected);
        }
        // The reader's arithmetic gives back each nanosecond, up to the last.
        for ns in [1, 999, 123_456_789, READABLE_PS / 1_000 - 1, READABLE_PS / 1_000] {
            let mut text = Vec::new();
            put_micros(&mut text, ns * 1_000);
            let micros: f64 = String::from_utf8(text).expect("is ASCII").parse().expect("is a number");
            assert_eq!((micros * 1_000.0).round() as u64, ns);
        }
    }
}
