//! Values whose kinds are known only while the program runs.

use crate::annotate::Line;
use crate::record::chunk::Slot;
use crate::record::decode::Decoded;
use crate::record::task::show;
use crate::value::{Kind, NumberWord, One, Raw, RawArgs, UnsignedWord, Value as _, sealed};

/// A value of a scope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RawValue<'a> {
    /// The key is left out.
    Absent,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A float.
    Float(f64),
    /// Text, which is copied.
    Text(&'a str),
    /// Number of a flow that begins at the event; its key is `_p`.
    Sends(u64),
    /// Number of a flow that ends there; its key is `_c`.
    Receives(u64),
}

impl RawValue<'_> {
    /// Its place in [`TAGGED`](crate::value::TAGGED).
    #[inline]
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Bool(_) => 1,
            Self::Signed(_) => 2,
            Self::Unsigned(_) => 3,
            Self::Float(_) => 4,
            Self::Text(_) => 5,
            Self::Sends(_) => 6,
            Self::Receives(_) => 7,
        }
    }

    /// The word of a value that has one.
    #[inline]
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Absent | Self::Text(_) => 0,
            Self::Bool(value) => u64::from(value),
            Self::Signed(value) => u64::from_ne_bytes(value.to_ne_bytes()),
            Self::Unsigned(value) | Self::Sends(value) | Self::Receives(value) => value,
            Self::Float(value) => value.to_bits(),
        }
    }

    /// How many words it takes, without its kind.
    #[inline]
    pub(super) fn words(self) -> usize {
        match self {
            Self::Text(text) => text.raw().words(),
            _ => 1,
        }
    }

    fn decoded(&self) -> Option<Decoded<'_>> {
        Some(match *self {
            Self::Absent => return None,
            Self::Bool(value) => Decoded::Bool(value),
            Self::Signed(value) => Decoded::Signed(value),
            Self::Unsigned(value) => Decoded::Unsigned(value),
            Self::Float(value) => Decoded::Float(value),
            Self::Text(text) => Decoded::Text(text),
            Self::Sends(value) => Decoded::Sends(value),
            Self::Receives(value) => Decoded::Receives(value),
        })
    }
}

/// Values of a scope, by the places of their keys. Sealed: how much room a scope takes is found out in one walk over its values,
/// and another walk writes them, so the two must see the same.
pub trait Values: sealed::Sealed {
    /// The value of the key at `place`, the same at each call; [`RawValue::Absent`] where there is none.
    fn at(&self, place: usize) -> RawValue<'_>;
}

impl sealed::Sealed for [RawValue<'_>] {}

impl Values for [RawValue<'_>] {
    #[inline]
    fn at(&self, place: usize) -> RawValue<'_> {
        self.get(place).copied().unwrap_or(RawValue::Absent)
    }
}

impl<V: Values + ?Sized> sealed::Sealed for &V {}

impl<V: Values + ?Sized> Values for &V {
    fn at(&self, place: usize) -> RawValue<'_> {
        (**self).at(place)
    }
}

impl<const N: usize> sealed::Sealed for [RawValue<'_>; N] {}

impl<const N: usize> Values for [RawValue<'_>; N] {
    fn at(&self, place: usize) -> RawValue<'_> {
        self.as_slice().at(place)
    }
}

/// What a scope is of a span that may have several slices, on several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    /// It belongs to no span.
    Alone,
    /// All slices of the span so far are on the thread of this one.
    Own { number: u64 },
    /// The first slice on another thread. It says when the span was made.
    Told { number: u64, since: u64 },
    /// Any slice after that, without values.
    Next { number: u64 },
    /// A sample of a counter: one value, however many keys the site has.
    Sample,
}

impl Slice {
    /// Bits of a shape's code.
    pub(super) fn code(self) -> u128 {
        match self {
            Self::Alone => 0,
            Self::Told { .. } => 1 << 96,
            Self::Next { .. } => 2 << 96,
            Self::Sample => 3 << 96,
            Self::Own { .. } => 4 << 96,
        }
    }
}

/// Values as a record takes them.
pub(super) struct Args<'v, V: ?Sized> {
    pub(super) values: &'v V,
    pub(super) count: usize,
    /// How many words the values take, without their kinds.
    pub(super) words: usize,
    pub(super) with_kinds: bool,
    pub(super) slice: Slice,
}

impl<V: ?Sized> Clone for Args<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized> Copy for Args<'_, V> {}

impl<V: ?Sized> sealed::Sealed for Args<'_, V> {}

impl<V: Values + ?Sized> RawArgs for Args<'_, V> {
    /// The shape that goes with the values says it.
    const KINDS: &'static [Kind] = &[];

    #[inline]
    fn words(self) -> usize {
        let kinds = if self.with_kinds { self.count } else { 0 };
        let slice = match self.slice {
            Slice::Alone | Slice::Sample => 0,
            Slice::Told { .. } => 2,
            Slice::Own { .. } | Slice::Next { .. } => 1,
        };
        self.words + kinds + slice
    }

    #[inline]
    unsafe fn write(self, mut at: *const Slot) -> *const Slot {
        for place in 0..self.count {
            let value = self.values.at(place);
            if self.with_kinds {
                // SAFETY: `words` asks for a slot more for each value then.
                at = unsafe { One::<UnsignedWord>::new(value.code().into()).write(at) };
            }
            at = match value {
                // SAFETY: `words` asks for the slots of the text.
                RawValue::Text(text) => unsafe { text.raw().write(at) },
                // SAFETY: `words` asks for a slot.
                _ => unsafe { One::<UnsignedWord>::new(value.bits()).write(at) },
            };
        }
        let (since, number) = match self.slice {
            Slice::Alone | Slice::Sample => return at,
            // SAFETY: `words` asks for a slot more.
            Slice::Own { number } => return unsafe { One::<NumberWord>::new(number).write(at) },
            Slice::Told { number, since } => (Some(since), number << 1 | u64::from(since != 0)),
            Slice::Next { number } => (None, number << 1),
        };
        if let Some(since) = since {
            // SAFETY: `words` asks for two slots more.
            at = unsafe { One::<UnsignedWord>::new(since).write(at) };
        }
        // SAFETY: `words` asks for a slot more.
        unsafe { One::<NumberWord>::new(number).write(at) }
    }

    fn show(self, place: usize, line: &mut Line) -> bool {
        place < self.count && self.values.at(place).decoded().map(|value| show(value, line)).is_some()
    }
}
