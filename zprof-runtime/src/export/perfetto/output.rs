//! The buffered end of the export: bytes and long texts of the source in, large writes out.

use std::io::Write;

use crate::export::text::open_character;
use crate::xspace::out::Out;
use crate::xspace::window::{Extent, PIECE, Window};
use crate::xspace::wire::wide;
use crate::{Error, Result};

/// Bytes gathered before a write.
const BATCH: usize = 64 << 10;
/// What stands for each broken sequence of a text.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Gathers bytes and writes them in batches.
pub(super) struct Output<'w> {
    out: &'w mut dyn Write,
    /// What is not written yet. Whoever puts without bound calls [`flush_batch`](Self::flush_batch) between.
    pub(super) buffer: Out,
    /// A piece of text on its way.
    piece: Vec<u8>,
}

impl<'w> Output<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: Out::with_capacity(2 * BATCH), piece: Vec::new() }
    }

    /// Puts a text of the source, piece by piece: [`text_len`] bytes.
    pub(super) fn put_source(&mut self, window: &mut Window<'_>, text: Extent) -> Result<()> {
        each_piece(window, text, |piece| {
            self.piece.clear();
            put_text(&mut self.piece, piece);
            self.buffer.make_room(self.piece.len());
            self.buffer.slice(&self.piece);
            self.flush_batch()
        })
    }

    /// Puts bytes, of which there are not many.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.make_room(bytes.len());
        self.buffer.slice(bytes);
    }

    /// Writes what is gathered if it is worth it.
    #[inline]
    pub(super) fn flush_batch(&mut self) -> Result<()> {
        if self.buffer.len() < BATCH { Ok(()) } else { self.write() }
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write()?;
        self.out.flush().map_err(|error| Error::io("failed to write the trace", error))
    }

    #[cold]
    fn write(&mut self) -> Result<()> {
        self.out.write_all(self.buffer.written()).map_err(|error| Error::io("failed to write the trace", error))?;
        self.buffer.cut(0);
        Ok(())
    }
}

/// Appends a text, with U+FFFD for each sequence that is not UTF-8.
pub(super) fn put_text(out: &mut Vec<u8>, bytes: &[u8]) {
    if std::str::from_utf8(bytes).is_ok() {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(REPLACEMENT);
        }
    }
}

/// How many bytes a text of the source takes as UTF-8.
pub(super) fn text_len(window: &mut Window<'_>, text: Extent) -> Result<u64> {
    let mut len = 0;
    each_piece(window, text, |piece| {
        for chunk in piece.utf8_chunks() {
            len += wide(chunk.valid().len());
            if !chunk.invalid().is_empty() {
                len += wide(REPLACEMENT.len());
            }
        }
        Ok(())
    })?;
    Ok(len)
}

/// Walks over a text in pieces that cut no character.
fn each_piece(window: &mut Window<'_>, text: Extent, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let Extent { mut at, mut len } = text;
    while len > 0 {
        let piece = window.piece(Extent { at, len })?;
        let mut done = piece.len();
        if len > PIECE {
            done -= open_character(piece);
        }
        each(&piece[..done])?;
        at += wide(done);
        len -= wide(done);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_as_long_as_said_and_breaks_no_character() {
        let mut text = "aé日😀".repeat(20_000).into_bytes();
        text.splice(70_000..70_001, *b"\xff");
        text.push(0xf0);
        let source = text.as_slice();
        let mut window = Window::new(&source).expect("has a size");
        let whole = window.whole();
        let mut written = Vec::new();
        let mut out = Output::new(&mut written);
        out.put_source(&mut window, whole).expect("is written");
        out.finish().expect("is written");
        assert_eq!(text_len(&mut window, whole).expect("is read"), wide(written.len()));
        assert!(String::from_utf8(written).expect("is UTF-8") == String::from_utf8_lossy(&text));
    }
}
