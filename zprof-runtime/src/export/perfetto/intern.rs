//! Texts that a sequence of packets gives a number once and refers to from then on.
//!
//! A table belongs to one sequence. When it has grown large a new sequence begins with an empty one, so that neither we
//! nor a reader keep more than that.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::xspace::wire::{BYTES, VARINT, put_bytes, put_key, put_varint, wide};

/// Bytes of texts in a table from which on a new sequence begins.
const MAX_BYTES: usize = 4 << 20;
/// Texts of events' own in a table from which on a new sequence begins.
const MAX_OWN: usize = 1 << 16;

/// A kind of texts, each with numbers of its own; the value is the field of `InternedData`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    Category = 1,
    EventName = 2,
    AnnotationName = 3,
    AnnotationString = 29,
}

/// Place of a text among the names of a plane.
pub(super) type Symbol = u32;

/// The texts of one sequence.
#[derive(Default)]
pub(super) struct Table {
    /// Which use of the table this is, from 1: what an older one has noted does not count.
    round: u32,
    categories: Numbers,
    event_names: Numbers,
    annotation_names: Numbers,
    annotation_strings: Numbers,
    /// Annotation strings that are in no plane's names, as they are in the source.
    own: HashMap<Box<[u8]>, u32, FixedState>,
    bytes: usize,
    /// Fields of `InternedData` for the packet in the making.
    pub(super) news: Vec<u8>,
}

#[derive(Default)]
struct Numbers {
    /// By symbol: the round, and the number given in it.
    given: Vec<(u32, u32)>,
    last: u32,
}

impl Table {
    /// Empties the table.
    pub(super) fn begin(&mut self) {
        self.round += 1; // one a sequence, and their ids have 32 bits too
        for numbers in
            [&mut self.categories, &mut self.event_names, &mut self.annotation_names, &mut self.annotation_strings]
        {
            numbers.last = 0;
        }
        self.own.clear();
        self.bytes = 0;
        self.news.clear();
    }

    /// Whether it is time for a new sequence.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES || self.own.len() >= MAX_OWN
    }

    /// The number of a text among the names of the plane; `text` is that text.
    #[inline]
    pub(super) fn symbol(&mut self, family: Family, symbol: Symbol, text: &[u8]) -> u32 {
        let numbers = match family {
            Family::Category => &mut self.categories,
            Family::EventName => &mut self.event_names,
            Family::AnnotationName => &mut self.annotation_names,
            Family::AnnotationString => &mut self.annotation_strings,
        };
        let place = symbol as usize; // 32 bits fit
        match numbers.given.get(place) {
            Some((round, number)) if *round == self.round => *number,
            _ => {
                if numbers.given.len() <= place {
                    numbers.given.resize(place + 1, (0, 0));
                }
                numbers.last += 1;
                let number = numbers.last;
                numbers.given[place] = (self.round, number);
                self.add(family, number, text);
                number
            }
        }
    }

    /// The number of an annotation string of an event's own.
    pub(super) fn own(&mut self, raw: &[u8], put: impl FnOnce(&mut Vec<u8>, &[u8])) -> u32 {
        if let Some(number) = self.own.get(raw) {
            return *number;
        }
        self.annotation_strings.last += 1;
        let number = self.annotation_strings.last;
        let mut text = Vec::with_capacity(raw.len());
        put(&mut text, raw);
        self.add(Family::AnnotationString, number, &text);
        self.own.insert(raw.into(), number);
        number
    }

    fn add(&mut self, family: Family, number: u32, text: &[u8]) {
        self.bytes += text.len();
        let mut entry = Vec::with_capacity(text.len() + 16);
        put_key(&mut entry, 1, VARINT);
        put_varint(&mut entry, u64::from(number));
        put_bytes(&mut entry, 2, text);
        put_key(&mut self.news, family as u32, BYTES); // the field's number
        put_varint(&mut self.news, wide(entry.len()));
        self.news.extend_from_slice(&entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_once_a_sequence_and_families_count_alone() {
        let mut table = Table::default();
        for _ in 0..2 {
            table.begin();
            assert_eq!(table.symbol(Family::EventName, 7, b"x"), 1);
            assert_eq!(table.symbol(Family::AnnotationString, 7, b"x"), 1);
            assert_eq!(table.news, [18, 5, 8, 1, 18, 1, b'x', 234, 1, 5, 8, 1, 18, 1, b'x']);
            table.news.clear();
            assert_eq!(table.symbol(Family::EventName, 7, b"x"), 1);
            assert_eq!(table.own(b"own", |out, raw| out.extend(raw)), 2);
            assert_eq!(table.symbol(Family::AnnotationString, 0, b"y"), 3);
            table.news.clear();
            assert_eq!(table.own(b"own", |_, _| unreachable!()), 2);
            assert_eq!(table.news, []);
        }
    }

    #[test]
    fn a_table_is_full_before_it_is_large() {
        let mut table = Table::default();
        table.begin();
        for number in 0..=u16::MAX {
            assert!(!table.is_full());
            table.own(&number.to_le_bytes(), |out, raw| out.extend(raw));
        }
        assert!(table.is_full());
        table.begin();
        assert!(!table.is_full());
        table.symbol(Family::EventName, 0, &vec![b'x'; MAX_BYTES]);
        assert!(table.is_full());
    }
}
