//! Walks the fields of a protobuf message that lies in memory.

use super::wire::{BYTES, FIXED32, FIXED64, VARINT, get_varint};

/// A field of a message: its number, its value, and all bytes it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
    pub(crate) raw: &'a [u8],
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    /// A word of 64 or 32 bits, which nothing here looks into.
    Fixed,
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// The bytes of field `number`.
    pub(crate) fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        match self.value {
            Value::Bytes(bytes) if self.number == number => Some(bytes),
            _ => None,
        }
    }

    /// The number in field `number`.
    pub(crate) fn varint(&self, number: u64) -> Option<u64> {
        match self.value {
            Value::Varint(value) if self.number == number => Some(value),
            _ => None,
        }
    }
}

/// The fields of a message, in order. What is no field ends the walk with the bytes from there on as an error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }
}

/// Splits the first field off.
#[inline]
fn split(bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
    let (key, key_len) = get_varint(bytes)?;
    let body = bytes.get(key_len..)?;
    let number = key >> 3;
    let (value, len) = match u32::try_from(key & 7).ok()? {
        VARINT => get_varint(body).map(|(value, len)| (Value::Varint(value), len))?,
        FIXED64 => (Value::Fixed, 8),
        FIXED32 => (Value::Fixed, 4),
        BYTES => {
            let (len, len_bytes) = get_varint(body)?;
            let end = usize::try_from(len).ok()?.checked_add(len_bytes)?;
            (Value::Bytes(body.get(len_bytes..end)?), end)
        }
        _ => return None,
    };
    let (raw, rest) = bytes.split_at_checked(key_len + len)?;
    (number != 0).then_some((Field { number, value, raw }, rest))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, &'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match split(self.rest) {
            Some((field, rest)) => {
                self.rest = rest;
                Some(Ok(field))
            }
            None => Some(Err(std::mem::take(&mut self.rest))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_with_their_bytes() {
        let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4];
        let fields: Vec<_> = Fields::new(&message).map(|field| field.expect("a field")).collect();
        let values: Vec<_> = fields.iter().map(|field| (field.number, field.value)).collect();
        let expected = [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed), (4, Value::Fixed)];
        assert_eq!(values, expected);
        assert_eq!(fields.iter().flat_map(|field| field.raw).copied().collect::<Vec<_>>(), message);
    }

    #[test]
    fn what_is_no_field_is_handed_back_from_where_it_begins() {
        let broken: [&[u8]; 5] = [&[0x12, 5, b'x'], &[0x0b], &[0x00, 0x00], &[0x08], &[0xff; 12]];
        for tail in broken {
            let message = [&[0x08, 1], tail].concat();
            let results: Vec<_> = Fields::new(&message).collect();
            assert_eq!(results[0].map(|field| field.number), Ok(1));
            assert_eq!(results[1..], [Err(tail)]);
        }
    }
}
