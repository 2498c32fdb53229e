//! Metadata values: which types a scope may carry, and how they become words in a record.
//!
//! | kind | words |
//! |---|---|
//! | bool, integers, floats, char, enum variant | one: the value, two's complement or bit pattern |
//! | string | length in bytes, then the bytes, zero-padded to a whole word |
//! | optional | 0, or 1 followed by the value's words |

mod standard;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use crate::annotate::Line;
use crate::record::chunk::Slot;
use crate::site::{Callsite, Origin};

/// A type that may stand as metadata of a scope.
///
/// | type | recorded as |
/// |---|---|
/// | `bool`, `i8` to `i64`, `u8` to `u64`, `isize`, `usize`, `f32`, `f64`, and `NonZero` of these | the number |
/// | [`Duration`](std::time::Duration) | its seconds, an `f64`. Tools show no unit, so the key should say it: `timeout_s = d` |
/// | `char`, `str`, `String` | the text |
/// | `u128`, `i128`, and `NonZero` of these | the decimal digits as text, since the file's numbers have 64 bits |
/// | `IpAddr`, `SocketAddr`, and their V4 and V6 | the text that they display |
/// | `Path`, `PathBuf`, `OsStr`, `OsString` | the text as `to_string_lossy` gives it |
/// | an enum without fields, with `#[derive(zprof::Value)]` | the name of the variant |
/// | `Option` of a value | the value; `None` is left out |
/// | `&`, `&mut`, `Box`, `Rc`, `Arc`, `Cow` of a value | the value |
///
/// Any other type that implements `Display` or `Debug` is recorded as text by `key = %value` or `key = ?value`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be metadata of a scope",
    label = "no metadata value",
    note = "to record its text, write `key = %value` if it implements `Display`, or `key = ?value` if it implements `Debug`",
    note = "a `Flow` follows `sends = …` or `receives = …`",
    note = "allowed: bool, integers, f32, f64, char, str, String, Duration, Path, IpAddr, SocketAddr, NonZero, references, Box/Rc/Arc/Cow and Option of these, and fieldless enums with #[derive(zprof::Value)]"
)]
pub trait Value {
    #[doc(hidden)]
    type Raw<'a>: Raw
    where
        Self: 'a;

    #[doc(hidden)]
    fn raw(&self) -> Self::Raw<'_>;
}

/// What a value's words mean.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// 0 or 1.
    Bool,
    /// 1, or 0 for "leave this key out".
    Flag,
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// The bits of an `f64`.
    Float,
    /// The same of what was an `f32`.
    Single,
    /// A Unicode scalar value.
    Char,
    /// Length and bytes of UTF-8.
    Text,
    /// The same, and the name of the scope. It is the first value, and its key is empty.
    Name,
    /// Index into the variants' names.
    Variant(&'static [&'static str]),
    /// A presence word before the value.
    Optional(&'static Kind),
    /// A word before the value that says which of the kinds that made sites have it is.
    Tagged,
    /// Tick at which a span was made whose slices are on several threads, or 0 for a span of an earlier session. It has no key.
    Since,
    /// Number of the span that a slice belongs to, where only one thread has entered it so far. It comes last, without a key.
    Slice,
    /// Number of a task, shifted by one, with a bit for its first poll. It is the last value of a poll, and has no key.
    Number,
    /// Number of a flow that begins at the event, or 0 for "leave this key out".
    Sends,
    /// The same of one that ends there.
    Receives,
}

/// The kinds of values that come with their kind, by the word that says it.
pub(crate) const TAGGED: [Kind; 8] =
    [Kind::Flag, Kind::Bool, Kind::Signed, Kind::Unsigned, Kind::Float, Kind::Text, Kind::Sends, Kind::Receives];

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The recorded form of a value. Sealed: what it writes is what [`Kind`] makes a reader expect.
pub trait Raw: Copy + sealed::Sealed {
    /// Meaning of the words.
    const KIND: Kind;
    /// How many words [`Raw::write`] writes.
    fn words(self) -> usize;
    /// Writes the value and returns the slot after it.
    ///
    /// # Safety
    ///
    /// `at` must point at [`Raw::words`] slots that the caller alone may write.
    unsafe fn write(self, at: *const Slot) -> *const Slot;
    /// Adds the value's text to a label; `false` if there is no value, so that the key must go too.
    fn show(self, line: &mut Line) -> bool;
}

/// Writes one word.
///
/// # Safety
///
/// `at` must point at a slot that the caller alone may write, and the slot after it must be in its chunk or just past it.
#[inline(always)]
unsafe fn put(at: *const Slot, word: u64) -> *const Slot {
    // SAFETY: the caller owns the slot.
    unsafe { Slot::write(at, word) };
    // SAFETY: the caller says that the next address is in the chunk or just past it.
    unsafe { at.add(1) }
}

/// A value of one word.
#[derive(Clone, Copy, Debug)]
pub struct One<K>(u64, std::marker::PhantomData<K>);

impl<K> One<K> {
    pub(crate) const fn new(word: u64) -> Self {
        Self(word, std::marker::PhantomData)
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        self.0
    }
}

macro_rules! one_word {
    ($($marker:ident $kind:expr, |$line:ident, $word:ident| $show:expr;)*) => {$(
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug)]
        pub struct $marker;
        impl sealed::Sealed for One<$marker> {}
        impl Raw for One<$marker> {
            const KIND: Kind = $kind;
            #[inline(always)]
            fn words(self) -> usize {
                1
            }
            #[inline(always)]
            unsafe fn write(self, at: *const Slot) -> *const Slot {
                // SAFETY: the caller gives the one slot that `words` asks for.
                unsafe { put(at, self.0) }
            }
            fn show(self, $line: &mut Line) -> bool {
                let $word = self.0;
                $show;
                true
            }
        }
    )*};
}

one_word! {
    BoolWord Kind::Bool, |line, word| line.push_uint(word);
    FlagWord Kind::Flag, |line, word| if word == 0 { return false } else { line.push_uint(word) };
    SignedWord Kind::Signed, |line, word| line.push_int(i64::from_ne_bytes(word.to_ne_bytes()));
    UnsignedWord Kind::Unsigned, |line, word| line.push_uint(word);
    FloatWord Kind::Float, |line, word| line.push_display(f64::from_bits(word));
    // The number is one of 32 bits, so narrowing loses nothing.
    SingleWord Kind::Single, |line, word| line.push_display(f64::from_bits(word) as f32);
    CharWord Kind::Char, |line, word| line.push_char(word);
    // No label shows it.
    NumberWord Kind::Number, |line, word| if word < u64::MAX { return false } else { line.push_uint(word) };
    SendsWord Kind::Sends, |line, word| if word == 0 { return false } else { line.push_uint(word) };
    ReceivesWord Kind::Receives, |line, word| if word == 0 { return false } else { line.push_uint(word) };
}

macro_rules! scalar {
    ($($type:ty => $marker:ident, |$value:ident| $word:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Value for $type {
            type Raw<'a> = One<$marker>;
            #[inline(always)]
            fn raw(&self) -> One<$marker> {
                let $value = *self;
                One::new($word)
            }
        }
    )*};
}

// Widening keeps the value; a signed value goes out as its two's complement bits; usize has at most 64 bits.
scalar! {
    bool => BoolWord, |v| u64::from(v);
    i8 => SignedWord, |v| bits(i64::from(v));
    i16 => SignedWord, |v| bits(i64::from(v));
    i32 => SignedWord, |v| bits(i64::from(v));
    i64 => SignedWord, |v| bits(v);
    isize => SignedWord, |v| bits(v as i64);
    u8 => UnsignedWord, |v| u64::from(v);
    u16 => UnsignedWord, |v| u64::from(v);
    u32 => UnsignedWord, |v| u64::from(v);
    u64 => UnsignedWord, |v| v;
    usize => UnsignedWord, |v| v as u64;
    f32 => SingleWord, |v| f64::from(v).to_bits();
    f64 => FloatWord, |v| v.to_bits();
    char => CharWord, |v| u64::from(u32::from(v));
}

/// The bits of a signed number as a word.
#[inline(always)]
fn bits(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

/// The root marker of a scope: `_r = 1`, or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Root(pub bool);

#[diagnostic::do_not_recommend]
#[doc(hidden)]
impl Value for Root {
    type Raw<'a> = One<FlagWord>;
    #[inline(always)]
    fn raw(&self) -> One<FlagWord> {
        One::new(u64::from(self.0))
    }
}

/// Text of any length.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a str);

impl sealed::Sealed for Text<'_> {}

impl Raw for Text<'_> {
    const KIND: Kind = Kind::Text;

    #[inline(always)]
    fn words(self) -> usize {
        1 + self.0.len().div_ceil(8)
    }

    #[inline(always)]
    unsafe fn write(self, at: *const Slot) -> *const Slot {
        let bytes = self.0.as_bytes();
        // SAFETY: the caller gives one slot for the length and one for every eight bytes begun.
        let mut at = unsafe { put(at, bytes.len() as u64) };
        let mut rest = bytes;
        while let Some((word, tail)) = rest.split_first_chunk::<8>() {
            // SAFETY: as above; a whole word of text is left.
            at = unsafe { put(at, u64::from_ne_bytes(*word)) };
            rest = tail;
        }
        if rest.is_empty() {
            return at;
        }
        // SAFETY: as above; one to seven bytes are left, and they have the last slot.
        unsafe { put(at, tail_word(rest).to_le()) }
    }

    fn show(self, line: &mut Line) -> bool {
        line.push_text(self.0);
        true
    }
}

/// One to seven bytes as a zero-padded word, without a call to `memcpy`: two overlapping reads cover each length.
#[inline(always)]
fn tail_word(bytes: &[u8]) -> u64 {
    let shift = |bytes: usize| u32::try_from(bytes * 8).unwrap_or(0);
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high_at = shift(bytes.len() - 4);
        return u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << high_at;
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        let high_at = shift(bytes.len() - 2);
        return u64::from(u16::from_le_bytes(*low)) | u64::from(u16::from_le_bytes(*high)) << high_at;
    }
    bytes.first().copied().map_or(0, u64::from)
}

/// The name of a scope that is known only when it opens.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(Text<'a>);

impl sealed::Sealed for Name<'_> {}

impl Raw for Name<'_> {
    const KIND: Kind = Kind::Name;

    #[inline(always)]
    fn words(self) -> usize {
        self.0.words()
    }

    #[inline(always)]
    unsafe fn write(self, at: *const Slot) -> *const Slot {
        // SAFETY: the caller gives what `words` asks for, which is what the text asks for.
        unsafe { self.0.write(at) }
    }

    fn show(self, line: &mut Line) -> bool {
        self.0.show(line)
    }
}

/// A type that may stand behind `dyn`, as the name of a scope: a string.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the name of a scope",
    label = "no string",
    note = "allowed: str, String, Cow/Box/Rc/Arc<str>, and references to these"
)]
pub trait Named {
    #[doc(hidden)]
    fn named(&self) -> Name<'_>;
}

#[diagnostic::do_not_recommend]
impl<T: Named + ?Sized> Named for &T {
    #[inline(always)]
    fn named(&self) -> Name<'_> {
        (**self).named()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Named + ?Sized> Named for &mut T {
    #[inline(always)]
    fn named(&self) -> Name<'_> {
        (**self).named()
    }
}

#[diagnostic::do_not_recommend]
impl Named for Cow<'_, str> {
    #[inline(always)]
    fn named(&self) -> Name<'_> {
        Name(Text(self))
    }
}

macro_rules! text {
    ($($type:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Named for $type {
            #[inline(always)]
            fn named(&self) -> Name<'_> {
                Name(Text(self))
            }
        }
    )*};
}

text!(str, String, Box<str>, Rc<str>, Arc<str>);

macro_rules! text_value {
    ($($type:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Value for $type {
            type Raw<'a> = Text<'a>;
            #[inline(always)]
            fn raw(&self) -> Text<'_> {
                Text(self)
            }
        }
    )*};
}

text_value!(str, String);

#[diagnostic::do_not_recommend]
impl<T: Value + ?Sized> Value for &T {
    type Raw<'a>
        = T::Raw<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn raw(&self) -> Self::Raw<'_> {
        (**self).raw()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Value + ?Sized> Value for &mut T {
    type Raw<'a>
        = T::Raw<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn raw(&self) -> Self::Raw<'_> {
        (**self).raw()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Value> Value for Option<T> {
    type Raw<'a>
        = Option<T::Raw<'a>>
    where
        Self: 'a;
    #[inline(always)]
    fn raw(&self) -> Self::Raw<'_> {
        self.as_ref().map(|value| value.raw())
    }
}

impl<R: Raw> sealed::Sealed for Option<R> {}

impl<R: Raw> Raw for Option<R> {
    const KIND: Kind = Kind::Optional(&R::KIND);

    #[inline(always)]
    fn words(self) -> usize {
        1 + self.map_or(0, Raw::words)
    }

    #[inline(always)]
    unsafe fn write(self, at: *const Slot) -> *const Slot {
        // SAFETY: the caller gives one slot for the presence word.
        let at = unsafe { put(at, u64::from(self.is_some())) };
        match self {
            // SAFETY: the caller gives the value's slots after the presence word's.
            Some(raw) => unsafe { raw.write(at) },
            None => at,
        }
    }

    fn show(self, line: &mut Line) -> bool {
        self.is_some_and(|raw| raw.show(line))
    }
}

/// The variants of a fieldless enum; `#[derive(zprof::Value)]` writes this.
pub trait Variants {
    /// Names, in the order of [`Variants::index`].
    const NAMES: &'static [&'static str];
    /// Place of this variant in [`Variants::NAMES`].
    fn index(&self) -> usize;
}

/// A variant of the enum `E`.
#[derive(Debug)]
pub struct Variant<E>(u64, std::marker::PhantomData<fn() -> E>);

impl<E: Variants> Variant<E> {
    /// The recorded form of `value`.
    #[inline(always)]
    pub fn of(value: &E) -> Self {
        Self(value.index() as u64, std::marker::PhantomData)
    }
}

impl<E> Clone for Variant<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Variant<E> {}

impl<E: Variants> sealed::Sealed for Variant<E> {}

impl<E: Variants> Raw for Variant<E> {
    const KIND: Kind = Kind::Variant(E::NAMES);

    #[inline(always)]
    fn words(self) -> usize {
        1
    }

    #[inline(always)]
    unsafe fn write(self, at: *const Slot) -> *const Slot {
        // SAFETY: the caller gives the one slot that `words` asks for.
        unsafe { put(at, self.0) }
    }

    fn show(self, line: &mut Line) -> bool {
        // `of` took the index from this same enum, but what `index` gives is the user's.
        let name = usize::try_from(self.0).ok().and_then(|index| E::NAMES.get(index)).copied();
        line.push_text(name.unwrap_or_default());
        true
    }
}

/// The recorded form of a scope's metadata. Sealed, as [`Raw`] is.
pub trait RawArgs: Copy + sealed::Sealed {
    /// Meaning of each value's words, in order.
    const KINDS: &'static [Kind];
    /// How many words [`RawArgs::write`] writes.
    fn words(self) -> usize;
    /// Writes all values and returns the slot after them.
    ///
    /// # Safety
    ///
    /// `at` must point at [`RawArgs::words`] slots that the caller alone may write.
    unsafe fn write(self, at: *const Slot) -> *const Slot;
    /// Adds the text of the value at `place`; `false` if there is none.
    fn show(self, place: usize, line: &mut Line) -> bool;
}

macro_rules! tuples {
    ($($raw:ident $index:tt),*) => {
        tuples!(@step [] $($raw $index),*);
    };
    (@step [$($done:tt)*]) => { tuples!(@one $($done)*); };
    (@step [$($done:tt)*] $raw:ident $index:tt $(, $($rest:tt)*)?) => {
        tuples!(@one $($done)*);
        tuples!(@step [$($done)* $raw $index] $($($rest)*)?);
    };
    (@one $($raw:ident $index:tt)*) => {
        impl<$($raw: Raw),*> sealed::Sealed for ($($raw,)*) {}

        impl<$($raw: Raw),*> RawArgs for ($($raw,)*) {
            const KINDS: &'static [Kind] = &[$($raw::KIND),*];
            #[inline(always)]
            fn words(self) -> usize {
                0 $(+ self.$index.words())*
            }
            #[inline(always)]
            #[allow(clippy::unused_unit)] // the empty tuple writes nothing
            unsafe fn write(self, at: *const Slot) -> *const Slot {
                $(
                    // SAFETY: the caller gives the slots of all values; the ones before have used up theirs.
                    let at = unsafe { self.$index.write(at) };
                )*
                at
            }
            #[allow(unused_variables)] // the empty tuple shows nothing
            fn show(self, place: usize, line: &mut Line) -> bool {
                $(
                    if place == $index {
                        return self.$index.show(line);
                    }
                )*
                false
            }
        }
    };
}

tuples! {
    R0 0, R1 1, R2 2, R3 3, R4 4, R5 5, R6 6, R7 7, R8 8, R9 9, R10 10, R11 11, R12 12, R13 13, R14 14, R15 15,
    R16 16
}

/// A site with the types of its arguments: what a begin record points at. A generic function has one per instance.
/// It is aligned so that the low bits of its address can tell records apart.
#[derive(Debug)]
#[repr(align(8))]
pub struct Shape {
    /// Gives the site.
    pub site: Origin,
    /// Meaning of the words after the shape, value by value.
    pub kinds: Cow<'static, [Kind]>,
    /// Whether each value takes one word.
    pub plain: bool,
}

/// Whether each value takes one word.
pub(crate) const fn is_plain(kinds: &[Kind]) -> bool {
    let mut index = 0;
    while index < kinds.len() {
        if matches!(kinds[index], Kind::Text | Kind::Name | Kind::Optional(_) | Kind::Tagged) {
            return false;
        }
        index += 1;
    }
    true
}

/// Names the shape of site `S` with metadata `R`.
#[derive(Debug)]
pub struct ShapeOf<S, R>(std::marker::PhantomData<fn() -> (S, R)>);

impl<S: Callsite, R: RawArgs> ShapeOf<S, R> {
    /// The shape, one constant per site and argument types.
    pub const SHAPE: &'static Shape =
        &Shape { site: Origin::Coded(S::site), kinds: Cow::Borrowed(R::KINDS), plain: is_plain(R::KINDS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_word_holds_the_bytes_zero_padded() {
        let text = b"abcdefg";
        for len in 1..=7 {
            let mut word = [0; 8];
            word[..len].copy_from_slice(&text[..len]);
            assert_eq!(tail_word(&text[..len]), u64::from_le_bytes(word), "{len} bytes");
        }
    }
}
