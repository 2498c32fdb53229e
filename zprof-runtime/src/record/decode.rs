//! Reads records back out of the words of a chunk; `ring.rs` has the layout.

use std::ops::Range;

use super::chunk::Slot;
use super::ring::{
    BEGIN, CLOSE, COUNT, COUNT_WORDS, EARLY, END, MADE_EARLY, MADE_TASK, MOVED, NOTE_WORDS, TASK, TASK_WORDS, head,
};
use crate::room;
use crate::site::{Origin, Site};
use crate::value::{Kind, Shape, TAGGED};

/// The published words of one chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    words: &'a [u64],
    /// Position of the first word, in bytes.
    base: u64,
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record<'a> {
    Begin {
        tick: u64,
        position: u64,
        shape: &'static Shape,
        values: &'a [u64],
    },
    End {
        tick: u64,
    },
    Close {
        tick: u64,
        position: u64,
    },
    Early {
        tick: u64,
        site: Origin,
    },
    Note {
        position: u64,
        note: Note<'a>,
    },
    /// `task` is its number and what became of it.
    Task {
        tick: u64,
        task: u64,
        site: Origin,
    },
    /// A sample of a counter.
    Count {
        tick: u64,
        shape: &'static Shape,
        value: u64,
    },
}

/// Metadata that was added to an open scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note<'a> {
    /// Which of the metadata of its thread that was added to scopes: set by who gathers it.
    pub(crate) number: usize,
    pub(crate) key: &'static str,
    pub(crate) kind: &'static Kind,
    pub(crate) words: &'a [u64],
}

/// A metadata value, read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decoded<'a> {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Single(f32),
    Char(char),
    Text(&'a str),
    /// Number of a flow that begins here.
    Sends(u64),
    /// Number of a flow that ends here.
    Receives(u64),
}

impl<'a> Words<'a> {
    /// # Safety
    ///
    /// `words` must be a whole number of records that one writer has published in a chunk with this base.
    pub(crate) unsafe fn new(words: &'a [u64], base: u64) -> Self {
        Self { words, base }
    }

    /// Records that a test has written down: whole ones, and of static shapes.
    #[cfg(test)]
    pub(crate) fn written(words: &'a [u64]) -> Self {
        // SAFETY: as the test says.
        unsafe { Self::new(words, 0) }
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Position of the word with this index.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(crate) fn position(self, index: usize) -> u64 {
        self.base + (index * size_of::<Slot>()) as u64
    }

    /// The records, in order.
    pub(crate) fn records(self) -> Records<'a> {
        self.records_from(0)
    }

    /// The records from the one that begins at this word.
    pub(crate) fn records_from(self, at: usize) -> Records<'a> {
        Records { words: self, at }
    }

    /// The ticks of all records but metadata that was added later, in order. A stream has the metadata of scopes that are
    /// pinned behind all their begins, so its ticks are in no order, and nothing is shown at them.
    pub(crate) fn ticks(self) -> impl Iterator<Item = u64> {
        let mut records = self.records();
        std::iter::from_fn(move || {
            loop {
                let at = records.offset();
                if !matches!(records.next()?, Record::Note { .. }) {
                    return self.words.get(at).map(|head| head >> 2);
                }
            }
        })
    }

    /// Some of the words.
    pub(crate) fn raw(self, range: Range<usize>) -> &'a [u64] {
        self.words.get(range).unwrap_or_default()
    }
}

/// A copy of the words of one chunk, with other ticks.
#[derive(Debug)]
pub(crate) struct Retimed {
    words: Vec<u64>,
    base: u64,
}

impl Retimed {
    /// A copy in which `tick` says each record's tick, from the one that it has. `None` where there is no memory for it.
    pub(crate) fn of(words: Words<'_>, mut tick: impl FnMut(u64) -> u64) -> Option<Self> {
        let mut copy = room::with_room(words.words.len()).ok()?;
        copy.extend_from_slice(words.words);
        let mut records = words.records();
        let mut at = records.offset();
        while records.next().is_some() {
            if let Some(word) = copy.get_mut(at) {
                *word = head(tick(*word >> 2), *word & 3);
            }
            at = records.offset();
        }
        Some(Self { words: copy, base: words.base })
    }

    /// The words.
    pub(crate) fn words(&self) -> Words<'_> {
        // SAFETY: they are a copy of such words, in which nothing but the ticks is changed.
        unsafe { Words::new(&self.words, self.base) }
    }
}

/// Iterator over the records of one chunk.
#[derive(Clone, Debug)]
pub(crate) struct Records<'a> {
    words: Words<'a>,
    at: usize,
}

impl Records<'_> {
    /// Word at which the next record begins.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Record<'a>> {
        let rest = self.words.words.get(self.at..)?;
        let &head = rest.first()?;
        let tick = head >> 2;
        let tag = head & 3;
        if tag == END {
            self.at += 1;
            return Some(Record::End { tick });
        }
        let &second = rest.get(1)?;
        if tag == BEGIN {
            // SAFETY: the second word of a begin is the exposed address of a static shape; see `Writer::begin`.
            let shape: &'static Shape = unsafe { &*std::ptr::with_exposed_provenance(address(second)) };
            let mut len = 2 + shape.kinds.len();
            if !shape.plain {
                len = shape.kinds.iter().try_fold(2, |len, kind| Some(len + width(kind, rest.get(len..)?)?))?;
            }
            let position = self.words.base + (self.at * size_of::<Slot>()) as u64;
            self.at += len;
            return Some(Record::Begin { tick, position, shape, values: rest.get(2..len)? });
        }
        self.rare(rest)
    }
}

impl<'a> Records<'a> {
    /// The records that are neither a begin nor a plain end.
    #[cold]
    fn rare(&mut self, rest: &'a [u64]) -> Option<Record<'a>> {
        let (&head, &second) = (rest.first()?, rest.get(1)?);
        let (tick, tag) = (head >> 2, head & 3);
        let &third = rest.get(2)?;
        if tag == CLOSE {
            self.at += 3;
            return Some(Record::Close { tick, position: third });
        }
        if second == EARLY || second == MADE_EARLY {
            self.at += 3;
            // SAFETY: the third word of an early end is the address of its site, as the second says; see
            // `Writer::end_early`.
            return Some(Record::Early { tick, site: unsafe { site(third, second == MADE_EARLY) } });
        }
        if second & 7 == COUNT {
            self.at += COUNT_WORDS;
            // SAFETY: with its low bits gone, the second word of a sample is the exposed address of a static shape; see
            // `Writer::count`.
            let shape: &'static Shape = unsafe { &*std::ptr::with_exposed_provenance(address(second & !7)) };
            return Some(Record::Count { tick, shape, value: third });
        }
        let &fourth = rest.get(3)?;
        if second == TASK || second == MADE_TASK {
            self.at += TASK_WORDS;
            // SAFETY: the fourth word of a task's end is the address of its site, as the second says; see
            // `Writer::end_task`.
            return Some(Record::Task { tick, task: third, site: unsafe { site(fourth, second == MADE_TASK) } });
        }
        if second == MOVED {
            // SAFETY: the fourth word of a moved begin is the exposed address of a static shape, as the second of a begin is.
            let shape: &'static Shape = unsafe { &*std::ptr::with_exposed_provenance(address(fourth)) };
            let len = shape.kinds.iter().try_fold(4, |len, kind| Some(len + width(kind, rest.get(len..)?)?))?;
            self.at += len;
            return Some(Record::Begin { tick, position: third, shape, values: rest.get(4..len)? });
        }
        let (key_len, &kind) = (fourth, rest.get(4)?);
        let key = std::ptr::with_exposed_provenance::<u8>(address(third));
        // SAFETY: the third and fourth words of a note are a static string's address and length; see `Writer::note`.
        let key = unsafe { std::slice::from_raw_parts(key, address(key_len)) };
        // SAFETY: as above, and it was a string.
        let key = unsafe { std::str::from_utf8_unchecked(key) };
        // SAFETY: the fifth word of a note is the exposed address of a static kind.
        let kind: &'static Kind = unsafe { &*std::ptr::with_exposed_provenance(address(kind)) };
        let words = rest.get(NOTE_WORDS..)?;
        let words = words.get(..width(kind, words)?)?;
        self.at += NOTE_WORDS + words.len();
        Some(Record::Note { position: second - 1, note: Note { number: 0, key, kind, words } })
    }
}

/// # Safety
///
/// `word` must be the exposed address of a static site if that was made, else of the function of a call site.
unsafe fn site(word: u64, is_made: bool) -> Origin {
    if is_made {
        // SAFETY: as the caller says.
        return Origin::Made(unsafe { &*std::ptr::with_exposed_provenance::<Site>(address(word)) });
    }
    let function = std::ptr::with_exposed_provenance::<()>(address(word));
    // SAFETY: as the caller says.
    Origin::Coded(unsafe { std::mem::transmute::<*const (), fn() -> &'static Site>(function) })
}

/// The kind of a value that comes with it.
fn tagged(word: u64) -> &'static Kind {
    const { &TAGGED }.get(address(word)).unwrap_or(&Kind::Flag)
}

/// A word that was made from a `usize` on this machine.
#[allow(clippy::cast_possible_truncation)] // it was a usize
fn address(word: u64) -> usize {
    word as usize
}

/// How many words a value takes, or `None` where the words end early.
#[inline]
fn width(kind: &Kind, words: &[u64]) -> Option<usize> {
    Some(match kind {
        Kind::Text | Kind::Name => 1 + address(*words.first()?).div_ceil(8),
        Kind::Optional(inner) if *words.first()? != 0 => 1 + width(inner, words.get(1..)?)?,
        Kind::Tagged => 1 + width(tagged(*words.first()?), words.get(1..)?)?,
        _ => 1,
    })
}

/// Reads a value and returns the words after it. The value is `None` where it says that it is left out.
#[inline]
pub(crate) fn value<'a>(kind: &Kind, words: &'a [u64]) -> Option<(Option<Decoded<'a>>, &'a [u64])> {
    let (&word, rest) = words.split_first()?;
    let value = match kind {
        Kind::Bool => Decoded::Bool(word != 0),
        Kind::Number | Kind::Since | Kind::Slice => return Some((None, rest)),
        Kind::Flag | Kind::Sends | Kind::Receives if word == 0 => return Some((None, rest)),
        Kind::Flag => Decoded::Bool(true),
        Kind::Sends => Decoded::Sends(word),
        Kind::Receives => Decoded::Receives(word),
        Kind::Signed => Decoded::Signed(i64::from_ne_bytes(word.to_ne_bytes())),
        Kind::Unsigned => Decoded::Unsigned(word),
        Kind::Float => Decoded::Float(f64::from_bits(word)),
        #[allow(clippy::cast_possible_truncation)] // the number is one of 32 bits
        Kind::Single => Decoded::Single(f64::from_bits(word) as f32),
        Kind::Char => Decoded::Char(u32::try_from(word).ok().and_then(char::from_u32)?),
        Kind::Variant(names) => Decoded::Text(names.get(address(word)).copied().unwrap_or_default()),
        Kind::Text | Kind::Name => {
            let len = address(word);
            let (text, rest) = rest.split_at_checked(len.div_ceil(8))?;
            // SAFETY: any initialised memory may be read as bytes.
            let bytes = unsafe { std::slice::from_raw_parts(text.as_ptr().cast::<u8>(), size_of_val(text)) };
            // SAFETY: the first `len` bytes were copied from a string.
            let text = unsafe { std::str::from_utf8_unchecked(bytes.get(..len)?) };
            return Some((Some(Decoded::Text(text)), rest));
        }
        Kind::Optional(_) if word == 0 => return Some((None, rest)),
        Kind::Optional(inner) => return value(inner, rest),
        Kind::Tagged => return value(tagged(word), rest),
    };
    Some((Some(value), rest))
}
