//! Fields of a span or event, kept as values by their places.

use std::cell::Cell;
use std::error::Error;
use std::fmt;

use tracing_core::field::{Field, Visit};

use crate::raw::{MOST_KEYS, RawValue, Values};
use crate::record::outcome::write_cut;
use crate::value::sealed;

/// Bytes that are kept of what prints itself.
const LONGEST: usize = 1024;
/// Fields that take no memory of their own.
const FEW: usize = 6;

/// One field.
#[derive(Clone, Copy, Debug, Default)]
enum Kept {
    #[default]
    Absent,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// Where it stands in the text of all.
    Text {
        start: usize,
        end: usize,
    },
}

/// The fields by their places. Text stands in one piece.
#[derive(Debug, Default)]
pub(super) struct Fields {
    first: [Kept; FEW],
    rest: Vec<Kept>,
    text: String,
}

thread_local! {
    /// Memory for the text of events.
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
}

impl Fields {
    /// Empty ones with the memory of the thread's last; [`put_back`](Self::put_back) gives it back.
    pub(super) fn reused() -> Self {
        Self { text: TEXT.try_with(Cell::take).unwrap_or_default(), ..Self::default() }
    }

    /// Gives the memory back, unless it is much.
    pub(super) fn put_back(mut self) {
        if self.has_little() {
            self.text.clear();
            let _ = TEXT.try_with(|kept| kept.set(self.text));
        }
    }

    /// Whether they may be kept for what comes later.
    pub(super) fn has_little(&self) -> bool {
        self.text.capacity() <= 4 * LONGEST
    }

    /// Takes all values out, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.first = [Kept::Absent; FEW];
        self.rest.clear();
        self.text.clear();
    }

    fn set(&mut self, place: usize, value: Kept) {
        if let Some(kept) = self.first.get_mut(place) {
            *kept = value;
        } else if place < MOST_KEYS {
            let place = place - FEW;
            if self.rest.len() <= place {
                self.rest.resize(place + 1, Kept::Absent);
            }
            self.rest[place] = value;
        }
    }

    fn value(&self, kept: Kept) -> RawValue<'_> {
        match kept {
            Kept::Absent => RawValue::Absent,
            Kept::Bool(value) => RawValue::Bool(value),
            Kept::Signed(value) => RawValue::Signed(value),
            Kept::Unsigned(value) => RawValue::Unsigned(value),
            Kept::Float(value) => RawValue::Float(value),
            Kept::Text { start, end } => RawValue::Text(self.text.get(start..end).unwrap_or_default()),
        }
    }

    /// All values, by their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = RawValue<'_>> {
        self.first.iter().chain(&self.rest).map(|&kept| self.value(kept))
    }

    /// Takes what is there of `other` in the place of what was here.
    pub(super) fn take_over(&mut self, other: &Self) {
        let mut all = Self::default();
        for place in 0..FEW + self.rest.len().max(other.rest.len()) {
            let value = match other.at(place) {
                RawValue::Absent => self.at(place),
                value => value,
            };
            match value {
                RawValue::Bool(value) => all.set(place, Kept::Bool(value)),
                RawValue::Signed(value) => all.set(place, Kept::Signed(value)),
                RawValue::Unsigned(value) => all.set(place, Kept::Unsigned(value)),
                RawValue::Float(value) => all.set(place, Kept::Float(value)),
                RawValue::Text(value) => all.push_text(place, |text| text.push_str(value)),
                // No field is a flow.
                RawValue::Absent | RawValue::Sends(_) | RawValue::Receives(_) => {}
            }
        }
        *self = all;
    }

    fn push_text(&mut self, place: usize, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        self.set(place, Kept::Text { start, end });
    }
}

impl sealed::Sealed for Fields {}

impl Values for Fields {
    #[inline]
    fn at(&self, place: usize) -> RawValue<'_> {
        let kept = self.first.get(place).or_else(|| self.rest.get(place.wrapping_sub(FEW)));
        self.value(kept.copied().unwrap_or_default())
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.index(), Kept::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.index(), Kept::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.index(), Kept::Unsigned(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.index(), Kept::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_text(field.index(), |text| text.push_str(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        struct Chain<'a>(&'a (dyn Error + 'static));
        impl fmt::Display for Chain<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.0, f)?;
                let mut source = self.0.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
        }
        self.push_text(field.index(), |text| write_cut(text, LONGEST, format_args!("{}", Chain(value))));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push_text(field.index(), |text| write_cut(text, LONGEST, format_args!("{value:?}")));
    }
}
