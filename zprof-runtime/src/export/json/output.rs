//! The buffered end of the export: pieces of JSON in, large writes out.

use std::io::Write;

use crate::export::text::{open_character, put_string};
use crate::xspace::window::{Extent, PIECE, Window};
use crate::xspace::wire::wide;
use crate::{Error, Result};

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

/// Gathers JSON and writes it in batches.
pub(super) struct Output<'w> {
    out: &'w mut dyn Write,
    /// What is not written yet. Whoever puts without bound calls [`flush_batch`](Self::flush_batch) between.
    pub(super) buffer: Vec<u8>,
    first: bool,
}

impl<'w> Output<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: Vec::with_capacity(2 * BATCH), first: true }
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
        self.put(b"\"");
        let Extent { mut at, mut len } = extent;
        while len > 0 {
            let piece = window.piece(Extent { at, len })?;
            let mut done = piece.len();
            if len > PIECE {
                done -= open_character(piece);
            }
            put_string(&mut self.buffer, &piece[..done]);
            at += wide(done);
            len -= wide(done);
            self.flush_batch()?;
        }
        self.put(b"\"");
        Ok(())
    }

    /// Writes what is gathered if it is worth it.
    #[inline]
    pub(super) fn flush_batch(&mut self) -> Result<()> {
        if self.buffer.len() < BATCH { Ok(()) } else { self.write() }
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<()> {
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
