//! A window of fixed size that slides over a [`Source`], and a cursor that reads one protobuf message through it.
//!
//! Nothing is ever loaded whole: a field of bytes is an [`Extent`] of the source, and whoever wants its content reads
//! it in pieces. Lengths are checked against the enclosing message before they are believed.

use super::source::Source;
use super::wire::{BYTES, FIXED32, FIXED64, GROUP_END, GROUP_START, MAX_VARINT, VARINT, get_varint, wide};
use crate::room::{self, OutOfMemory, Room as _};
use crate::{Error, ErrorKind, Result};

/// Bytes of the window: large enough that a read's cost vanishes, small enough to stay in the cache.
const WINDOW: usize = 256 << 10;
/// Bytes of a window that is moved for each message: a few of an ordinary size.
const SMALL_WINDOW: usize = 1 << 10;
/// Bytes of the longest piece that [`Window::piece`] returns.
pub(crate) const PIECE: u64 = 64 << 10;
/// Bytes of a key and the varint after it, at most.
const HEAD: usize = 2 * MAX_VARINT;
/// How deep groups may nest, which only unknown fields can be; the limit of other protobuf readers.
const MAX_GROUPS: usize = 100;

/// A run of bytes of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// The place within a message of which fields are read.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// What the message is, for errors.
    what: &'static str,
    /// Where the next field begins.
    at: u64,
    /// Where the message ends; `at` is never beyond.
    end: u64,
}

impl Cursor {
    pub(crate) fn new(what: &'static str, body: Extent) -> Self {
        Self { what, at: body.at, end: body.at + body.len }
    }
}

/// The value of a field, as far as its wire type tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wire {
    Varint(u64),
    Fixed64(u64),
    Bytes(Extent),
    /// A group or a 32-bit word: no field of an XSpace has these, so they are skipped.
    Other,
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) wire: Wire,
}

/// A window over a source.
pub(crate) struct Window<'s> {
    source: &'s dyn Source,
    size: u64,
    buffer: Box<[u8]>,
    /// Where the buffer's first byte lies in the source.
    start: u64,
    /// How many bytes of the buffer are filled; after them come at least HEAD zeros.
    filled: usize,
    /// At how many of them, from the first, a key and its value can be read without a look at what follows.
    ready: u64,
    /// Holds a piece of text from outside the window.
    aside: Vec<u8>,
}

impl<'s> Window<'s> {
    pub(crate) fn new(source: &'s dyn Source) -> Result<Self> {
        Self::with_size(source, WINDOW)
    }

    /// A window for single messages far from each other.
    pub(crate) fn small(source: &'s dyn Source) -> Result<Self> {
        Self::with_size(source, SMALL_WINDOW)
    }

    fn with_size(source: &'s dyn Source, window: usize) -> Result<Self> {
        let size = source.size().map_err(|error| Error::io("failed to read the size of the XSpace", error))?;
        let capacity = usize::try_from(size).unwrap_or(window).min(window);
        let mut buffer = room::with_room(capacity + HEAD).map_err(OutOfMemory::error)?;
        buffer.resize(capacity + HEAD, 0);
        let buffer = buffer.into_boxed_slice();
        Ok(Self { source, size, buffer, start: 0, filled: 0, ready: 0, aside: Vec::new() })
    }

    /// The whole source.
    pub(crate) fn whole(&self) -> Extent {
        Extent { at: 0, len: self.size }
    }

    /// The next field of the cursor's message, or `None` at its end.
    #[inline(always)]
    pub(crate) fn field(&mut self, cursor: &mut Cursor) -> Result<Option<Field>> {
        if cursor.at == cursor.end {
            return Ok(None);
        }
        if cursor.at.wrapping_sub(self.start) >= self.ready {
            self.fill(cursor.at)?;
        }
        // The head may reach beyond the message, so what it says is checked against what is left.
        let left = cursor.end - cursor.at;
        let head = self.head(cursor.at);
        let Some((key, key_len)) = get_varint(head) else { return Err(cut_varint(cursor, cursor.at)) };
        let value_at = cursor.at + wide(key_len);
        let rest = &head[key_len..];
        let number = key >> 3;
        if number == 0 || number > u64::from(u32::MAX >> 3) {
            return Err(bad_number(cursor));
        }
        #[allow(clippy::cast_possible_truncation)] // below 2^32
        let key = key as u32;
        let number = key >> 3;
        let wire = match key & 7 {
            VARINT => {
                let Some((value, len)) = get_varint(rest) else { return Err(cut_varint(cursor, value_at)) };
                if wide(key_len + len) > left {
                    return Err(cut_varint(cursor, value_at));
                }
                cursor.at = value_at + wide(len);
                Wire::Varint(value)
            }
            BYTES => {
                let Some((len, len_len)) = get_varint(rest) else { return Err(cut_varint(cursor, value_at)) };
                let head_len = wide(key_len + len_len);
                if head_len > left {
                    return Err(cut_varint(cursor, value_at));
                }
                if len > left - head_len {
                    return Err(overrun(cursor, number, len));
                }
                let at = cursor.at + head_len;
                cursor.at = at + len;
                Wire::Bytes(Extent { at, len })
            }
            FIXED64 => match rest.first_chunk() {
                Some(word) if wide(key_len + 8) <= left => {
                    cursor.at = value_at + 8;
                    Wire::Fixed64(u64::from_le_bytes(*word))
                }
                _ => return Err(overrun(cursor, number, 8)),
            },
            _ => {
                self.skip(cursor, key)?;
                Wire::Other
            }
        };
        Ok(Some(Field { number, wire }))
    }

    /// Up to [`PIECE`] bytes from the head of `extent`: all of them unless it is longer. The window stays where it is.
    pub(crate) fn piece(&mut self, extent: Extent) -> Result<&[u8]> {
        #[allow(clippy::cast_possible_truncation)] // at most PIECE
        let len = extent.len.min(PIECE) as usize;
        if self.peek(extent.at).len() >= len {
            return Ok(&self.peek(extent.at)[..len]);
        }
        self.aside.clear();
        self.aside.room(len).map_err(OutOfMemory::error)?;
        let mut aside = std::mem::take(&mut self.aside);
        aside.resize(len, 0);
        let done = self.read(&mut aside, extent.at);
        self.aside = aside;
        done?;
        Ok(&self.aside)
    }

    /// The `N` bytes from `at` on, if the window holds them now.
    #[inline(always)]
    pub(super) fn near<const N: usize>(&self, at: u64) -> Option<&[u8; N]> {
        let skip = usize::try_from(at.wrapping_sub(self.start)).ok()?;
        self.buffer[..self.filled].get(skip..)?.first_chunk()
    }

    /// The bytes of a key and a value at `at`, which lies in the window's ready part; zeros beyond the file.
    #[inline(always)]
    fn head(&self, at: u64) -> &[u8] {
        #[allow(clippy::cast_possible_truncation)] // less than the length of the buffer
        let skip = at.wrapping_sub(self.start) as usize;
        &self.buffer[skip..skip + HEAD]
    }

    /// The filled bytes of the window from `at` on; none if `at` lies outside.
    #[inline]
    fn peek(&self, at: u64) -> &[u8] {
        let skip = at.wrapping_sub(self.start);
        if skip >= wide(self.filled) {
            return &[];
        }
        #[allow(clippy::cast_possible_truncation)] // less than the length of the buffer
        &self.buffer[skip as usize..self.filled]
    }

    /// Moves the window so that it begins at `at`.
    #[cold]
    fn fill(&mut self, at: u64) -> Result<()> {
        let left = usize::try_from(self.size - at).unwrap_or(usize::MAX);
        let count = left.min(self.buffer.len() - HEAD);
        (self.filled, self.ready) = (0, 0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.read(&mut buffer[..count], at);
        self.buffer = buffer;
        done?;
        self.buffer[count..count + HEAD].fill(0);
        self.start = at;
        self.filled = count;
        self.ready = wide(if count == left { count } else { count + 1 - HEAD });
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let place = at + wide(done);
            match self.source.read_at(&mut buffer[done..], place) {
                Ok(0) => {
                    let what = format!("failed to read the XSpace at byte {place}");
                    return Err(Error::io(what, std::io::Error::other("it became shorter while it was read")));
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(format!("failed to read the XSpace at byte {place}"), error)),
            }
        }
        Ok(())
    }

    /// Moves the cursor behind the field with this key, of a wire type that no field of an XSpace has.
    #[cold]
    fn skip(&mut self, cursor: &mut Cursor, key: u32) -> Result<()> {
        let field_at = cursor.at;
        let mut open = [0; MAX_GROUPS];
        let mut depth = 0;
        let mut key = key;
        loop {
            let (number, key_at) = (key >> 3, cursor.at);
            if number == 0 {
                return Err(bad_number(cursor));
            }
            self.skip_varint(cursor)?;
            match key & 7 {
                VARINT => _ = self.skip_varint(cursor)?,
                FIXED64 => skip_bytes(cursor, number, key_at, 8)?,
                FIXED32 => skip_bytes(cursor, number, key_at, 4)?,
                BYTES => {
                    let len = self.skip_varint(cursor)?;
                    skip_bytes(cursor, number, key_at, len)?;
                }
                GROUP_START => {
                    let Some(slot) = open.get_mut(depth) else {
                        return Err(invalid(key_at, format_args!("groups nest deeper than {MAX_GROUPS}")));
                    };
                    *slot = number;
                    depth += 1;
                }
                GROUP_END => {
                    if depth == 0 || open[depth - 1] != number {
                        return Err(invalid(key_at, format_args!("the end of a group that was not open")));
                    }
                    depth -= 1;
                }
                wire_type => {
                    return Err(invalid(key_at, format_args!("field {number} has the unknown wire type {wire_type}")));
                }
            }
            if depth == 0 {
                return Ok(());
            }
            if cursor.at == cursor.end {
                return Err(invalid(field_at, format_args!("a group does not end within the {}", cursor.what)));
            }
            // The next round reads its key again.
            let key_at = cursor.at;
            let next = self.skip_varint(cursor)?;
            cursor.at = key_at;
            key = u32::try_from(next).map_err(|_| bad_number(cursor))?;
        }
    }

    fn skip_varint(&mut self, cursor: &mut Cursor) -> Result<u64> {
        let left = cursor.end - cursor.at;
        if left == 0 {
            return Err(cut_varint(cursor, cursor.at));
        }
        if cursor.at.wrapping_sub(self.start) >= self.ready {
            self.fill(cursor.at)?;
        }
        match get_varint(self.head(cursor.at)) {
            Some((value, len)) if wide(len) <= left => {
                cursor.at += wide(len);
                Ok(value)
            }
            _ => Err(cut_varint(cursor, cursor.at)),
        }
    }
}

fn skip_bytes(cursor: &mut Cursor, number: u32, field_at: u64, len: u64) -> Result<()> {
    if len > cursor.end - cursor.at {
        return Err(overrun(&Cursor { at: field_at, ..cursor.clone() }, number, len));
    }
    cursor.at += len;
    Ok(())
}

/// The error for bytes that are not an XSpace, at a byte of the source.
#[cold]
pub(crate) fn invalid(at: u64, reason: std::fmt::Arguments<'_>) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not an XSpace: {reason}, at byte {at}"))
}

#[cold]
fn bad_number(cursor: &Cursor) -> Error {
    let reason = "begins with no field number: it is 0 or beyond 29 bits";
    invalid(cursor.at, format_args!("what should be a field of the {} {reason}", cursor.what))
}

#[cold]
fn cut_varint(cursor: &Cursor, at: u64) -> Error {
    invalid(at, format_args!("a number does not end within {MAX_VARINT} bytes and within the {}", cursor.what))
}

#[cold]
fn overrun(cursor: &Cursor, number: u32, len: u64) -> Error {
    let Cursor { what, at, end } = cursor;
    let name = match (*what, number) {
        ("file", 1) => "plane",
        ("plane", 3) => "line",
        ("plane", 4) => "event metadata",
        ("plane", 5) => "stat metadata",
        ("line", 4) => "event",
        ("event" | "event metadata", _) => "stat or name",
        _ => "field",
    };
    let message = format!("not an XSpace: {name} at byte {at} claims {len} bytes, but the {what} ends at byte {end}");
    Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use super::super::wire::{put_bytes, put_key, put_uint};
    use super::*;

    /// Gives one byte a read, and fails every other time.
    struct Slow<'b> {
        bytes: &'b [u8],
        interrupted: Cell<bool>,
        size: u64,
    }

    impl Source for Slow<'_> {
        fn size(&self) -> io::Result<u64> {
            Ok(self.size)
        }

        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            if !self.interrupted.replace(!self.interrupted.get()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.bytes.read_at(&mut buffer[..1], at)
        }
    }

    fn all(window: &mut Window<'_>) -> Result<Vec<Field>> {
        let mut cursor = Cursor::new("file", window.whole());
        let mut fields = Vec::new();
        while let Some(field) = window.field(&mut cursor)? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn fields_of_every_wire_type_are_read_or_skipped() {
        let mut bytes = Vec::new();
        put_uint(&mut bytes, 1, u64::MAX);
        put_key(&mut bytes, 2, FIXED64);
        bytes.extend(7_u64.to_le_bytes());
        put_key(&mut bytes, 3, FIXED32);
        bytes.extend([1, 2, 3, 4]);
        put_key(&mut bytes, 4, GROUP_START);
        put_bytes(&mut bytes, 1, b"in a group");
        put_key(&mut bytes, 4, GROUP_END);
        put_bytes(&mut bytes, u32::MAX >> 3, b"end");
        let expected = [
            Field { number: 1, wire: Wire::Varint(u64::MAX) },
            Field { number: 2, wire: Wire::Fixed64(7) },
            Field { number: 3, wire: Wire::Other },
            Field { number: 4, wire: Wire::Other },
            Field { number: u32::MAX >> 3, wire: Wire::Bytes(Extent { at: wide(bytes.len()) - 3, len: 3 }) },
        ];
        let quick = bytes.as_slice();
        assert_eq!(all(&mut Window::new(&quick).expect("has a size")).expect("is whole"), expected);
        let slow = Slow { bytes: &bytes, interrupted: Cell::new(false), size: wide(bytes.len()) };
        assert_eq!(all(&mut Window::new(&slow).expect("has a size")).expect("is whole"), expected);
    }

    #[test]
    fn fields_across_the_border_of_the_window_are_whole() {
        // Fields of 3 to 13 bytes, so that every offset against the border comes up.
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for round in 0..60_000_u32 {
            let value = u64::MAX >> (round * 7 % 64);
            put_uint(&mut bytes, 300, value);
            expected.push(Field { number: 300, wire: Wire::Varint(value) });
        }
        assert!(bytes.len() > WINDOW);
        let source = bytes.as_slice();
        assert!(all(&mut Window::new(&source).expect("has a size")).expect("is whole") == expected);
    }

    #[test]
    fn a_piece_is_the_same_within_the_window_and_outside() {
        let bytes: Vec<u8> = (0..2 * WINDOW).map(|index| index.to_le_bytes()[1]).collect();
        let source = bytes.as_slice();
        let mut window = Window::new(&source).expect("has a size");
        window.fill(0).expect("is read");
        for (at, len, count) in [(5, 9, 9), (WINDOW - 3, 10, 10), (WINDOW + 9, 2 * 65_536, 65_536), (0, 0, 0)] {
            let extent = Extent { at: wide(at), len: wide(len) };
            assert!(window.piece(extent).expect("is read") == &bytes[at..at + count], "{extent:?}");
        }
    }

    #[test]
    fn a_source_that_shrinks_is_an_error_with_its_place() {
        let slow = Slow { bytes: &[0x08; 6], interrupted: Cell::new(false), size: 10 };
        let error = all(&mut Window::new(&slow).expect("has a size")).expect_err("four bytes are missing");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Io, "failed to read the XSpace at byte 6"));
    }
}
