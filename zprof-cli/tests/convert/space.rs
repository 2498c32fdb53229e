//! XSpace bytes by hand, small ones and one of 300 MB.

use std::io::Write;

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
    out
}

pub(crate) fn key(number: u64, wire_type: u64) -> Vec<u8> {
    varint(number << 3 | wire_type)
}

/// A varint field.
pub(crate) fn int(number: u64, value: i64) -> Vec<u8> {
    [key(number, 0), varint(u64::from_le_bytes(value.to_le_bytes()))].concat()
}

/// A field of bytes.
pub(crate) fn bytes(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [key(number, 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A field that holds a message of these fields.
pub(crate) fn message(number: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(number, fields.concat())
}

/// An entry of a plane's event metadata (`fields` of XEventMetadata beside its id).
pub(crate) fn event_metadata(id: i64, fields: &[Vec<u8>]) -> Vec<u8> {
    message(4, &[int(1, id), message(2, &[int(1, id), fields.concat()])])
}

/// An entry of a plane's stat metadata.
pub(crate) fn stat_metadata(id: i64, name: &str) -> Vec<u8> {
    message(5, &[int(1, id), message(2, &[int(1, id), bytes(2, name)])])
}

/// Writes a host plane of one line whose content is `block`, `blocks` times.
pub(crate) fn write_blocks(out: &mut impl Write, block: &[u8], blocks: u64) {
    let head = [int(1, 7), bytes(2, "line")].concat();
    let line_len = head.len() as u64 + block.len() as u64 * blocks;
    let line = [key(3, 2), varint(line_len), head].concat();
    let names = [event_metadata(1, &[bytes(2, "e")]), stat_metadata(1, "n"), stat_metadata(2, "text")].concat();
    let name = bytes(2, "/host:CPU");
    let plane_len = (name.len() + line.len() + names.len()) as u64 + block.len() as u64 * blocks;
    let mut put = |bytes: &[u8]| out.write_all(bytes).expect("is written");
    put(&[key(1, 2), varint(plane_len), name, line].concat());
    for _ in 0..blocks {
        put(block);
    }
    put(&names);
}
