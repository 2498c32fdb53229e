//! A growing buffer of protobuf bytes that is cheap to write small fields to: room is made once an event, and a varint
//! goes out as one word.

use super::wire::put_varint;
use crate::room::{self, OutOfMemory, Result, Room as _};

/// Bytes that any fixed part of an event or stat takes at most: five keys and lengths, and three varints of up to ten
/// bytes each, rounded up.
const SLACK: usize = 64;

/// The varint of a value below 2^56 as one word, lowest byte first, and its length. Without a branch on the length.
#[inline(always)]
pub(crate) fn short_varint(value: u64) -> Option<(u64, usize)> {
    if value >= 1 << 56 {
        return None;
    }
    // Seven bits to a byte, in three steps that each halve the groups.
    let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    let groups = quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1;
    // The highest byte that counts; all before it go on.
    let last = 7 - (groups | 1).leading_zeros() / 8;
    let word = groups | 0x8080_8080_8080_8080 & ((1 << (8 * last)) - 1);
    Some((word, last as usize + 1))
}

/// Room for the fixed part of an event or stat.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    bytes: &'a mut [u8; SLACK],
    len: usize,
}

impl Window<'_> {
    /// How many bytes are written.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        // The mask changes nothing, since windows are never filled; it spares the check.
        self.bytes[self.len % SLACK] = byte;
        self.len += 1;
    }

    /// Writes the `bytes` lowest bytes of a word, the lowest first.
    #[inline(always)]
    pub(crate) fn word(&mut self, word: u64, bytes: usize) {
        // As above: at most 35 bytes come before the last word.
        let at = self.len.min(SLACK - 8);
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        self.len += bytes;
    }

    /// Writes eight bytes, the lowest first.
    #[inline(always)]
    pub(crate) fn fixed64(&mut self, word: u64) {
        self.word(word, 8);
    }

    /// Writes a varint.
    #[inline(always)]
    pub(crate) fn varint(&mut self, value: u64) {
        match short_varint(value) {
            Some((word, len)) => self.word(word, len),
            None => self.long_varint(value),
        }
    }

    /// Writes a varint that is most often one byte.
    #[inline(always)]
    pub(crate) fn small_varint(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(byte) if byte < 0x80 => self.byte(byte),
            _ => self.varint(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn long_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            #[allow(clippy::cast_possible_truncation)] // the low seven bits are what a varint byte holds
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        #[allow(clippy::cast_possible_truncation)] // below 0x80 here
        self.byte(value as u8);
    }
}

/// The buffer. `bytes` is longer than what is written, by at least what [`Out::make_room`] was asked for.
#[derive(Debug, Default)]
pub(crate) struct Out {
    bytes: Vec<u8>,
    len: usize,
    /// There was no memory for something: what is written has gaps, and is of no use.
    is_broken: bool,
}

impl Out {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        // Where that does not fit, what is written may.
        Self { bytes: room::with_room(bytes).unwrap_or_default(), len: 0, is_broken: false }
    }

    /// How many bytes are written.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What is written.
    pub(crate) fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Forgets what was written from byte `len` on, and keeps the room.
    #[inline(always)]
    pub(crate) fn cut(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// What is written, without the room behind it; an error if there was no memory for a part.
    pub(crate) fn into_bytes(mut self) -> Result<Vec<u8>> {
        self.whole()?;
        self.bytes.truncate(self.len);
        Ok(self.bytes)
    }

    /// An error if there was no memory for a part of what is written.
    pub(crate) fn whole(&self) -> Result<()> {
        if self.is_broken { Err(OutOfMemory) } else { Ok(()) }
    }

    /// Makes room for the fixed part of an event or stat and `more` bytes. Where there is no memory, what is written from then
    /// on is left out, and [`whole`](Self::whole) says so at the end: so each event need not.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, more: usize) {
        if self.bytes.len() - self.len < SLACK + more {
            self.grow(SLACK + more);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        // In steps that are small beside the whole, so that clearing them costs little, and large beside an event.
        let step = self.len.clamp(512, 64 << 10);
        let len = self.len + more + step;
        if self.is_broken || self.bytes.room(len - self.bytes.len()).is_err() {
            self.is_broken = true;
            return;
        }
        self.bytes.resize(len, 0);
    }

    /// Writes what `fill` puts into a window of fixed size: its length is checked once, not for each byte.
    #[inline(always)]
    pub(crate) fn fields(&mut self, fill: impl FnOnce(&mut Window<'_>)) {
        if let Some(bytes) = self.bytes[self.len..].first_chunk_mut() {
            let mut window = Window { bytes, len: 0 };
            fill(&mut window);
            self.len += window.len;
        }
    }

    /// Writes bytes. There must be room for them.
    #[inline(always)]
    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Writes a field that is a message of these bytes; the field's number is below 16.
    pub(crate) fn message(&mut self, field: u8, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.fields(|out| {
            out.byte(field << 3 | 2);
            out.varint(bytes.len() as u64);
        });
        self.slice(bytes);
    }

    /// Puts the length of all since the placeholder byte at `start` in its place.
    #[inline(always)]
    pub(crate) fn set_length(&mut self, start: usize) {
        // Less where there was no memory for the placeholder.
        let len = self.len.saturating_sub(start + 1);
        if len < 0x80 {
            #[allow(clippy::cast_possible_truncation)] // below 0x80
            let byte = len as u8;
            if let Some(place) = self.bytes.get_mut(start) {
                *place = byte;
            }
        } else {
            self.set_long_length(start, len);
        }
    }

    #[cold]
    fn set_long_length(&mut self, start: usize, len: usize) {
        let mut prefix = Vec::with_capacity(10);
        put_varint(&mut prefix, len as u64);
        let shift = prefix.len() - 1;
        self.make_room(shift);
        if self.is_broken {
            return;
        }
        self.bytes.copy_within(start + 1..self.len, start + 1 + shift);
        self.bytes[start..start + prefix.len()].copy_from_slice(&prefix);
        self.len += shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_those_of_protobuf() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in edges.chain([u64::MAX, 0x0123_4567_89ab_cdef]) {
            let mut out = Out::default();
            out.make_room(0);
            out.fields(|window| window.varint(value));
            let mut expected = Vec::new();
            put_varint(&mut expected, value);
            assert_eq!(out.written(), expected, "{value:#x}");
        }
    }

    #[test]
    fn a_length_finds_its_place_whatever_it_takes() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
            let body: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let mut out = Out::default();
            out.make_room(len);
            out.slice(b"head");
            let start = out.len();
            out.fields(|window| window.byte(0));
            out.slice(&body);
            out.set_length(start);
            let mut expected = b"head".to_vec();
            put_varint(&mut expected, len as u64);
            expected.extend_from_slice(&body);
            assert_eq!(out.into_bytes(), Ok(expected), "{len}");
        }
    }
}
