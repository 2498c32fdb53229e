//! Values of the standard library that are neither scalars nor strings: a length of time, numbers that are not zero or
//! take more than 64 bits, addresses and paths, and what points at a value.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{FloatWord, Kind, One, Raw, Text, Value, put, sealed};
use crate::annotate::Line;
use crate::record::chunk::Slot;

/// Seconds, which tools show without a unit: the key should say it (`timeout_s = d`).
#[diagnostic::do_not_recommend]
impl Value for Duration {
    type Raw<'a> = One<FloatWord>;
    #[inline(always)]
    fn raw(&self) -> One<FloatWord> {
        One::new(self.as_secs_f64().to_bits())
    }
}

macro_rules! not_zero {
    ($($type:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Value for NonZero<$type> {
            type Raw<'a> = <$type as Value>::Raw<'static>;
            #[inline(always)]
            fn raw(&self) -> Self::Raw<'_> {
                self.get().raw()
            }
        }
    )*};
}

not_zero!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

macro_rules! pointer {
    ($($type:ident),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Value + ?Sized> Value for $type<T> {
            type Raw<'a>
                = T::Raw<'a>
            where
                Self: 'a;
            #[inline(always)]
            fn raw(&self) -> Self::Raw<'_> {
                (**self).raw()
            }
        }
    )*};
}

pointer!(Box, Rc, Arc);

#[diagnostic::do_not_recommend]
impl<T: Value + ToOwned + ?Sized> Value for Cow<'_, T> {
    type Raw<'a>
        = T::Raw<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn raw(&self) -> Self::Raw<'_> {
        (**self).raw()
    }
}

/// Bytes of the longest text that a [`Short`] holds. The longest of its types is an IPv6 socket address with a scope, of
/// 58 bytes.
const LONGEST: usize = 63;

/// The text of a value that prints itself in a few bytes, held by value.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    len: u8,
    bytes: [u8; LONGEST],
}

impl Short {
    #[inline(never)]
    fn of(value: &dyn Display) -> Self {
        let mut text = Self { len: 0, bytes: [0; LONGEST] };
        // The types of this file do not fail to print themselves, and all of it fits.
        let _ = write!(text, "{value}");
        text
    }

    fn text(&self) -> Text<'_> {
        Text(std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default())
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let end = start + text.len();
        self.bytes.get_mut(start..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl sealed::Sealed for Short {}

impl Raw for Short {
    const KIND: Kind = Kind::Text;

    #[inline]
    fn words(self) -> usize {
        self.text().words()
    }

    #[inline]
    unsafe fn write(self, at: *const Slot) -> *const Slot {
        // SAFETY: the caller gives what `words` asks for, which is what this same text asks for.
        unsafe { self.text().write(at) }
    }

    fn show(self, line: &mut Line) -> bool {
        self.text().show(line)
    }
}

macro_rules! short {
    ($($type:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Value for $type {
            type Raw<'a> = Short;
            #[inline]
            fn raw(&self) -> Short {
                Short::of(self)
            }
        }
    )*};
}

short!(i128, u128, IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6);

/// The text of the system's strings, such as paths. Bytes that are not UTF-8 become `U+FFFD`, as `to_string_lossy` has it.
#[derive(Clone, Copy, Debug)]
pub enum Lossy<'a> {
    /// UTF-8, as it usually is.
    Text(Text<'a>),
    /// Anything else, and how many bytes its text has.
    Bytes(&'a [u8], usize),
}

impl<'a> Lossy<'a> {
    #[inline]
    fn of(text: &'a OsStr) -> Self {
        let bytes = text.as_encoded_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(Text(text)),
            Err(_) => Self::Bytes(bytes, lossy(bytes).map(str::len).sum()),
        }
    }
}

/// The pieces of the text of bytes that are not all UTF-8.
fn lossy(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.utf8_chunks().flat_map(|chunk| [chunk.valid(), if chunk.invalid().is_empty() { "" } else { "\u{fffd}" }])
}

impl sealed::Sealed for Lossy<'_> {}

impl Raw for Lossy<'_> {
    const KIND: Kind = Kind::Text;

    #[inline]
    fn words(self) -> usize {
        match self {
            Self::Text(text) => text.words(),
            Self::Bytes(_, len) => 1 + len.div_ceil(8),
        }
    }

    #[inline]
    unsafe fn write(self, at: *const Slot) -> *const Slot {
        match self {
            // SAFETY: the caller gives what `words` asks for, which is what this same text asks for.
            Self::Text(text) => unsafe { text.write(at) },
            // SAFETY: likewise; `of` counted the bytes of this text.
            Self::Bytes(bytes, len) => unsafe { write_lossy(bytes, len, at) },
        }
    }

    fn show(self, line: &mut Line) -> bool {
        match self {
            Self::Text(text) => text.show(line),
            Self::Bytes(bytes, _) => {
                lossy(bytes).for_each(|piece| line.push_text(piece));
                true
            }
        }
    }
}

/// Writes the text of bytes that are not all UTF-8, and returns the slot after it.
///
/// # Safety
///
/// `len` must be the bytes of that text, and `at` must point at one slot and one more for every eight bytes begun, which
/// the caller alone may write.
#[cold]
unsafe fn write_lossy(bytes: &[u8], len: usize, at: *const Slot) -> *const Slot {
    // SAFETY: the caller gives one slot for the length.
    let mut at = unsafe { put(at, len as u64) };
    let (mut word, mut filled) = ([0_u8; 8], 0);
    for byte in lossy(bytes).flat_map(str::bytes) {
        word[filled] = byte;
        filled += 1;
        if filled == word.len() {
            // SAFETY: the text has eight bytes here, for which the caller gives a slot.
            at = unsafe { put(at, u64::from_ne_bytes(word)) };
            (word, filled) = ([0; 8], 0);
        }
    }
    if filled == 0 {
        return at;
    }
    // SAFETY: one to seven bytes are left, and they have the last slot.
    unsafe { put(at, u64::from_ne_bytes(word)) }
}

macro_rules! system_text {
    ($($type:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Value for $type {
            type Raw<'a> = Lossy<'a>;
            #[inline]
            fn raw(&self) -> Lossy<'_> {
                Lossy::of(self.as_ref())
            }
        }
    )*};
}

system_text!(OsStr, OsString, Path, PathBuf);

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a value, with as many more for what it should not write.
    fn words<V: Value + ?Sized>(value: &V) -> Vec<u64> {
        let raw = value.raw();
        let mut words = vec![u64::MAX; raw.words() + 2];
        let start = words.as_mut_ptr().cast::<Slot>().cast_const();
        // SAFETY: the words are the test's alone, as many as the value asks for, and a slot is a transparent cell of one.
        let end = unsafe { raw.write(start) };
        assert_eq!(end.addr() - start.addr(), 8 * raw.words());
        assert_eq!(words.split_off(raw.words()), [u64::MAX; 2]);
        words
    }

    #[test]
    fn a_path_has_the_words_of_its_lossy_text() {
        for text in ["", "a", "weights.bin", "/tmp/a longer path/ü"] {
            assert_eq!(words(Path::new(text)), words(text), "{text}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_path_that_is_not_utf_8_is_written_as_to_string_lossy_has_it() {
        use std::os::unix::ffi::OsStrExt as _;
        for bytes in [b"\xff".as_slice(), b"a\xffb", b"1234567\xff", b"12345\xff\xfe", b"\xf0\x9f\x98 and \xc3"] {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!(words(path), words(&*path.to_string_lossy()), "{path:?}");
        }
    }

    #[test]
    fn the_longest_short_texts_fit() {
        assert_eq!(words(&i128::MIN), words(&*i128::MIN.to_string()));
        let address = Ipv6Addr::from([0xabcd; 8]);
        let socket = SocketAddrV6::new(address, u16::MAX, 0, u32::MAX);
        assert_eq!((socket.to_string().len(), words(&socket)), (58, words(&*socket.to_string())));
    }
}
