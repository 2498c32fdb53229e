//! A growing buffer of protobuf bytes that is cheap to write small fields to: room is made once an event, and a varint
//! goes out as one word.

/// Bytes that any fixed part of an event or stat takes at most: a few keys and varints of up to ten bytes each.
const SLACK: usize = 64;

/// The buffer. `bytes` is longer than what is written, by at least what [`Out::make_room`] was asked for.
#[derive(Debug, Default)]
pub(crate) struct Out {
    bytes: Vec<u8>,
    len: usize,
}

impl Out {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), len: 0 }
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

    /// What is written, without the room behind it.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.len);
        self.bytes
    }

    /// Makes room for the fixed part of an event or stat and `more` bytes.
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
        const STEP: usize = 64 << 10;
        self.bytes.resize(self.len + more + STEP, 0);
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Writes a varint without a branch on its length, below 2^56.
    #[inline(always)]
    pub(crate) fn varint(&mut self, value: u64) {
        if value < 0x80 {
            #[allow(clippy::cast_possible_truncation)] // below 0x80
            self.byte(value as u8);
        } else if value < 1 << 56 {
            // Seven bits to a byte, in three steps that each halve the groups.
            let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
            let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
            let groups = quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1;
            // The value is not 0, so there is a highest byte; all before it go on.
            let bytes = 8 - groups.leading_zeros() / 8;
            let word = groups | 0x8080_8080_8080_8080 & ((1 << (8 * (bytes - 1))) - 1);
            self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_le_bytes());
            self.len += bytes as usize;
        } else {
            self.long_varint(value);
        }
    }

    fn long_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            #[allow(clippy::cast_possible_truncation)] // the low seven bits are what a varint byte holds
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        #[allow(clippy::cast_possible_truncation)] // below 0x80 here
        self.byte(value as u8);
    }

    /// Writes bytes. There must be room for them.
    #[inline(always)]
    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Puts the length of all since the placeholder byte at `start` in its place.
    #[inline(always)]
    pub(crate) fn set_length(&mut self, start: usize) {
        let len = self.len - start - 1;
        if len < 0x80 {
            #[allow(clippy::cast_possible_truncation)] // below 0x80
            let byte = len as u8;
            self.bytes[start] = byte;
        } else {
            self.set_long_length(start, len);
        }
    }

    #[cold]
    fn set_long_length(&mut self, start: usize, len: usize) {
        self.make_room(0);
        let end = self.len;
        self.len = start;
        let mut prefix = Self::default();
        prefix.make_room(0);
        prefix.varint(len as u64);
        let shift = prefix.len - 1;
        self.bytes.copy_within(start + 1..end, start + 1 + shift);
        self.slice(prefix.written());
        self.len = end + shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xspace::wire::put_varint;

    #[test]
    fn varints_are_those_of_protobuf() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in edges.chain([u64::MAX, 0x0123_4567_89ab_cdef]) {
            let mut out = Out::default();
            out.make_room(0);
            out.varint(value);
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
            out.byte(0);
            out.slice(&body);
            out.set_length(start);
            let mut expected = b"head".to_vec();
            put_varint(&mut expected, len as u64);
            expected.extend_from_slice(&body);
            assert_eq!(out.into_bytes(), expected, "{len}");
        }
    }
}
