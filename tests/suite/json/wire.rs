//! Protobuf bytes made by hand, and remade in another order: an encoder that shares nothing with the one under test.

/// One field: number, and value with its wire type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) value: Wire,
}

#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
}

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
    [key(number, 0), varint(value.cast_unsigned())].concat()
}

/// A field of 64 bits.
pub(crate) fn double(number: u64, value: f64) -> Vec<u8> {
    [key(number, 1), value.to_le_bytes().to_vec()].concat()
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
pub(crate) fn stat_metadata(id: i64, name: impl AsRef<[u8]>) -> Vec<u8> {
    message(5, &[int(1, id), message(2, &[int(1, id), bytes(2, name)])])
}

/// The fields of a message, which must be whole.
pub(crate) fn fields(mut rest: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    while !rest.is_empty() {
        let key = take_varint(&mut rest);
        let value = match key & 7 {
            0 => Wire::Varint(take_varint(&mut rest)),
            1 => Wire::Fixed64(take(&mut rest, 8).try_into().expect("eight bytes")),
            2 => {
                let len = take_varint(&mut rest);
                Wire::Bytes(take(&mut rest, usize::try_from(len).expect("fits")).to_vec())
            }
            other => panic!("wire type {other} in a fixture"),
        };
        out.push(Field { number: key >> 3, value });
    }
    out
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(count);
    *rest = tail;
    head
}

fn take_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(rest, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// The messages of an XSpace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Space,
    Plane,
    Line,
    Event,
    Stat,
    EventEntry,
    StatEntry,
    EventMetadata,
    StatMetadata,
}

impl Kind {
    fn child(self, number: u64) -> Option<Self> {
        Some(match (self, number) {
            (Self::Space, 1) => Self::Plane,
            (Self::Plane, 3) => Self::Line,
            (Self::Plane, 4) => Self::EventEntry,
            (Self::Plane, 5) => Self::StatEntry,
            (Self::Line, 4) => Self::Event,
            (Self::Event, 4) | (Self::EventMetadata, 5) | (Self::Plane, 6) => Self::Stat,
            (Self::EventEntry, 2) => Self::EventMetadata,
            (Self::StatEntry, 2) => Self::StatMetadata,
            _ => return None,
        })
    }

    /// Fields of one class keep their order: a repeated field's, a oneof's members.
    fn class(self, number: u64) -> u64 {
        match (self, number) {
            (Self::Event, 5) => 2,
            (Self::Stat, 2..=7) => 2,
            _ => number,
        }
    }
}

/// Repeatable random numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((value ^ value >> 31) % end as u64).expect("below end")
    }
}

/// The same message in another spelling: fields in any order, unknown fields between, numbers longer than needed,
/// scalars that are overruled later, values of map entries in two parts.
pub(crate) fn respell(kind: Kind, content: &[u8], random: &mut Random) -> Vec<u8> {
    let all = fields(content);
    let mut order: Vec<u64> = all.iter().map(|field| kind.class(field.number)).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index + 1));
    }
    let mut left = all;
    let mut out = Vec::new();
    for class in order {
        if random.below(8) == 0 {
            out.extend(unknown(random));
        }
        let place = left.iter().position(|field| kind.class(field.number) == class).expect("one for each label");
        let field = left.remove(place);
        put(kind, &field, random, &mut out);
    }
    if random.below(4) == 0 {
        out.extend(unknown(random));
    }
    out
}

fn put(kind: Kind, field: &Field, random: &mut Random, out: &mut Vec<u8>) {
    match &field.value {
        Wire::Varint(value) => {
            if random.below(8) == 0 {
                // Overruled by the one that follows.
                out.extend(int(field.number, 77));
            }
            out.extend(long(key(field.number, 0), random));
            out.extend(long(varint(*value), random));
        }
        Wire::Fixed64(word) => out.extend([key(field.number, 1), word.to_vec()].concat()),
        Wire::Bytes(content) => {
            let child = kind.child(field.number);
            let named = child.is_some() && fields(content).iter().any(|field| field.number == 2);
            let content = child.map_or_else(|| content.clone(), |child| respell(child, content, random));
            if matches!(kind, Kind::EventEntry | Kind::StatEntry) && field.number == 2 && random.below(4) == 0 {
                // Parts of a value are merged; the name in this one is overruled, if there is one, by the other's.
                out.extend(message(2, &[if named { bytes(2, "overruled") } else { Vec::new() }]));
            }
            out.extend(long(key(field.number, 2), random));
            out.extend(long(varint(content.len() as u64), random));
            out.extend(content);
        }
    }
}

/// The same varint, now and then with bytes that it does not need.
fn long(mut varint: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if random.below(6) == 0 && varint.len() < 4 {
        *varint.last_mut().expect("is not empty") |= 0x80;
        varint.push(0);
    }
    varint
}

/// A field that no message of an XSpace has, or has with another wire type.
fn unknown(random: &mut Random) -> Vec<u8> {
    let number = 100 + random.below(1_000) as u64;
    match random.below(6) {
        0 => int(number, -1),
        1 => double(number, 1.5),
        2 => bytes(number, "\u{8}\u{0}unknown"),
        3 => [key(number, 5), vec![1, 2, 3, 4]].concat(),
        4 => [key(number, 3), int(1, 5), key(2, 3), bytes(3, "x"), key(2, 4), double(1, 0.5), key(number, 4)].concat(),
        // Fields that are known in some message, but as something else.
        _ => [key(1, 5), vec![0; 4], key(2, 5), vec![9; 4]].concat(),
    }
}
