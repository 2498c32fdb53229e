//! Events without length: instants, and samples of counters.

use super::guard::{is_recorded, word};
use super::registry::Word;
use super::thread::with_local;
use crate::annotate;
use crate::site::{Callsite, Origin};
use crate::value::{FloatWord, One, Raw, RawArgs, ShapeOf, SignedWord, SingleWord, UnsignedWord, Value};

/// Records an instant that [`hears`](super::hears) has said yes to.
#[inline(never)]
pub fn mark_at<S: Callsite, R: RawArgs>(_: S, word: Word, raws: R) {
    let word = heard(word);
    let seen = word.seen();
    if seen != 0 {
        annotate::mark(seen, Origin::Coded(S::site), raws);
    }
    if is_taken::<S>(word) {
        with_local(|local| local.instant(word.bare(), ShapeOf::<S, R>::SHAPE, raws));
    }
}

/// Records a sample of a counter that [`hears`](super::hears) has said yes to. Tools have no use for it.
#[inline(never)]
pub fn count_at<S: Callsite, R: OneWord>(_: S, word: Word, raw: R) {
    let word = heard(word);
    if is_taken::<S>(word) {
        with_local(|local| local.count(word.bare(), ShapeOf::<S, (R,)>::SHAPE, raw.bits()));
    }
}

/// The state word as it is after the probe that let this in.
#[inline]
pub(super) fn heard(word: Word) -> Word {
    if word.is_unprobed() { self::word() } else { word }
}

/// Whether the session takes it. With a tool, nobody has asked yet.
#[inline]
fn is_taken<S: Callsite>(word: Word) -> bool {
    let bare = word.bare();
    !bare.is_off() && (word.seen() == 0 || is_recorded(bare, S::site()))
}

/// The recorded form of a number.
pub trait OneWord: Raw {
    #[doc(hidden)]
    fn bits(self) -> u64;
}

impl<K> OneWord for One<K>
where
    Self: Raw,
{
    #[inline(always)]
    fn bits(self) -> u64 {
        self.word()
    }
}

/// A type that a counter may have: integers and floats.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of a counter",
    label = "neither integer nor float",
    note = "allowed: integers to 64 bits, f32, f64, and references to these"
)]
pub trait Sample {
    #[doc(hidden)]
    type Bits: OneWord;

    #[doc(hidden)]
    fn sample(&self) -> Self::Bits;
}

/// A type that the number of a step may have: integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the number of a step",
    label = "no integer",
    note = "allowed: integers to 64 bits, and references to these"
)]
pub trait StepNumber {
    #[doc(hidden)]
    type Bits: Raw;

    #[doc(hidden)]
    fn step_number(&self) -> Self::Bits;
}

macro_rules! numbers {
    ($($type:ty => $marker:ident $(, $step:ident)?;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Sample for $type {
            type Bits = One<$marker>;
            #[inline(always)]
            fn sample(&self) -> One<$marker> {
                self.raw()
            }
        }

        $(
            #[diagnostic::do_not_recommend]
            impl $step for $type {
                type Bits = One<$marker>;
                #[inline(always)]
                fn step_number(&self) -> One<$marker> {
                    self.raw()
                }
            }
        )?
    )*};
}

numbers! {
    i8 => SignedWord, StepNumber;
    i16 => SignedWord, StepNumber;
    i32 => SignedWord, StepNumber;
    i64 => SignedWord, StepNumber;
    isize => SignedWord, StepNumber;
    u8 => UnsignedWord, StepNumber;
    u16 => UnsignedWord, StepNumber;
    u32 => UnsignedWord, StepNumber;
    u64 => UnsignedWord, StepNumber;
    usize => UnsignedWord, StepNumber;
    f32 => SingleWord;
    f64 => FloatWord;
}

#[diagnostic::do_not_recommend]
impl<T: Sample + ?Sized> Sample for &T {
    type Bits = T::Bits;
    #[inline(always)]
    fn sample(&self) -> T::Bits {
        (**self).sample()
    }
}

#[diagnostic::do_not_recommend]
impl<T: StepNumber + ?Sized> StepNumber for &T {
    type Bits = T::Bits;
    #[inline(always)]
    fn step_number(&self) -> T::Bits {
        (**self).step_number()
    }
}
