//! The protobuf wire format: varints, keys and lengths.

/// Wire type of a varint.
pub(crate) const VARINT: u32 = 0;
/// Wire type of a little-endian 64-bit word.
pub(crate) const FIXED64: u32 = 1;
/// Wire type of a length and that many bytes.
pub(crate) const BYTES: u32 = 2;
/// Wire type that opens a group; no message of ours has one.
pub(crate) const GROUP_START: u32 = 3;
/// Wire type that closes a group.
pub(crate) const GROUP_END: u32 = 4;
/// Wire type of a little-endian 32-bit word.
pub(crate) const FIXED32: u32 = 5;

/// Bytes of the longest varint.
pub(crate) const MAX_VARINT: usize = 10;

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[allow(clippy::cast_possible_truncation)] // the low seven bits are what a varint byte holds
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[allow(clippy::cast_possible_truncation)] // below 0x80 here
    out.push(value as u8);
}

/// Appends the key of a field.
#[inline]
pub(crate) fn put_key(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    put_varint(out, u64::from(field << 3 | wire_type));
}

/// Appends a varint field, also when it is zero.
#[inline]
pub(crate) fn put_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    put_key(out, field, VARINT);
    put_varint(out, value);
}

/// Appends a field of bytes, also when it is empty.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_key(out, field, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The same number as 64 bits.
#[inline]
pub(crate) const fn wide(count: usize) -> u64 {
    count as u64 // no target of Rust has addresses beyond 64 bits
}

/// Reads the varint at the head of `bytes`: its value and its length in bytes. `None` if it has no end within `bytes`
/// or within [`MAX_VARINT`] bytes. Longer spellings than needed are read, and bits beyond the 64th dropped, as C++ does.
#[inline]
pub(crate) fn get_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes {
        [low, ..] if *low < 0x80 => Some((u64::from(*low), 1)),
        [low, high, ..] if *high < 0x80 => Some((u64::from(low & 0x7f) | u64::from(*high) << 7, 2)),
        _ => get_long_varint(bytes),
    }
}

#[inline]
fn get_long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    // Up to eight bytes at once: those before the first without its high bit, seven bits of each pushed together.
    if let Some(word) = bytes.first_chunk() {
        let word = u64::from_le_bytes(*word);
        let stops = !word & 0x8080_8080_8080_8080;
        if stops != 0 {
            let bits = stops.trailing_zeros(); // 7, 15, … 63
            let sevens = word & (u64::MAX >> (63 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
            let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
            let quads = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
            let value = quads & 0x0fff_ffff | (quads & 0x0fff_ffff_0000_0000) >> 4;
            return Some((value, (bits as usize + 1) / 8)); // at most 8
        }
    }
    get_any_varint(bytes)
}

#[cold]
fn get_any_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(MAX_VARINT).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_read_back_and_stop_at_their_end() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), 1 << 63, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let len = bytes.len();
            assert_eq!(get_varint(&bytes[..len - 1]), None, "{value} cut short");
            bytes.push(0xff);
            assert_eq!(get_varint(&bytes), Some((value, len)), "{value}");
        }
    }

    #[test]
    fn varints_of_every_length_read_back_within_more_bytes() {
        for bits in 0..64 {
            let value = 0xa5c3_96f0_1e87_d2b4_u64 >> bits;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let len = bytes.len();
            assert_eq!(get_varint(&bytes), Some((value, len)), "{value} alone");
            bytes.extend([0xff; MAX_VARINT]);
            assert_eq!(get_varint(&bytes), Some((value, len)), "{value} with more");
        }
    }

    #[test]
    fn overlong_varints_are_read_up_to_ten_bytes() {
        assert_eq!(get_varint(&[0x81, 0x80, 0x00]), Some((1, 3)));
        assert_eq!(get_varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f]), Some((1 << 63, 10)));
        assert_eq!(get_varint(&[0x80; 11]), None);
    }
}
