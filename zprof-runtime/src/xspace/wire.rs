//! The protobuf wire format: varints, keys and lengths.

/// Wire type of a varint.
pub(crate) const VARINT: u32 = 0;
/// Wire type of a little-endian 64-bit word.
pub(crate) const FIXED64: u32 = 1;
/// Wire type of a length and that many bytes.
pub(crate) const BYTES: u32 = 2;

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
