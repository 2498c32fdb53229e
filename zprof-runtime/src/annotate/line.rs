//! The one-line label of a scope, `name#key=value,key=value#`, put together in a buffer that its thread keeps.

use std::ffi::c_char;
use std::fmt::{self, Display, Write};

use crate::decimal::{LONGEST, decimal};
use crate::site::{LABEL_SIZE, Site};
use crate::value::RawArgs;

/// What is longer is cut, and ends in `…#`.
const SIZE: usize = LABEL_SIZE;
/// End of a label that was cut.
const CUT: &str = "…#";

/// A label being written. It is always valid UTF-8 and never too long; it has no NUL and no line break.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; SIZE],
    len: usize,
    /// Something did not fit.
    full: bool,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; SIZE], len: 0, full: false }
    }

    /// Writes the label of `site` with `values`, for a site whose own label is not the whole.
    pub(super) fn write<R: RawArgs>(&mut self, site: &Site, values: R) {
        self.len = 0;
        self.full = false;
        let mut first = site.given;
        let named = site.keys.first().is_some_and(|key| key.is_empty());
        if named {
            // The site's label stands for a name that only this scope knows.
            first = 1;
            if !values.show(0, self) {
                // Nor does this one.
                self.push_clean(site.label().as_bytes());
            }
        } else {
            self.push_clean(site.label().as_bytes());
        }
        let name = if named { self.len } else { site.name.len() };
        for (place, key) in site.keys.iter().enumerate().skip(first) {
            let mut before = self.len;
            if place == site.given && !named {
                // This key stands in the site's label already, behind one byte and before one.
                before = before.saturating_sub(key.len() + 2);
            } else {
                self.push_byte(if self.len > name { b',' } else { b'#' });
                self.push_clean(key.as_bytes());
                self.push_byte(b'=');
            }
            let shown = values.show(place, self);
            if self.full {
                break;
            }
            if !shown {
                self.len = before;
            }
        }
        if self.len > name {
            self.push_byte(b'#');
        }
        self.end();
    }

    /// Cuts what is too long and puts the NUL.
    fn end(&mut self) {
        if self.full {
            let room = SIZE - 1 - CUT.len();
            let mut end = self.len.min(room);
            // Back to where a character begins.
            while end > 0 && self.bytes[end] & 0xc0 == 0x80 {
                end -= 1;
            }
            self.bytes[end..end + CUT.len()].copy_from_slice(CUT.as_bytes());
            self.len = end + CUT.len();
        }
        self.bytes[self.len] = 0;
    }

    /// The label, for C: `end` has put a NUL behind it.
    #[inline]
    pub(super) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    #[inline]
    fn push_byte(&mut self, byte: u8) {
        if self.len < SIZE - 1 && !self.full {
            self.bytes[self.len] = byte;
            self.len += 1;
        } else {
            self.full = true;
        }
    }

    /// Adds text that is fit for a label; gives the bytes that it became. Nothing is added after what did not fit.
    #[inline]
    fn push_clean(&mut self, text: &[u8]) -> &mut [u8] {
        let room = if self.full { 0 } else { SIZE - 1 - self.len };
        let taken = text.len().min(room);
        self.full |= taken < text.len();
        let start = self.len;
        self.len += taken;
        let place = &mut self.bytes[start..start + taken];
        copy(place, &text[..taken]);
        place
    }

    /// Adds text: `#` becomes `_`, NUL and line breaks become spaces.
    pub(crate) fn push_text(&mut self, text: &str) {
        for byte in self.push_clean(text.as_bytes()) {
            *byte = match *byte {
                b'#' => b'_',
                0 | b'\n' | b'\r' => b' ',
                other => other,
            };
        }
    }

    /// Adds a character, given as its scalar value.
    pub(crate) fn push_char(&mut self, scalar: u64) {
        let character = u32::try_from(scalar).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.push_text(character.encode_utf8(&mut [0; 4]));
    }

    /// Adds a decimal integer.
    pub(crate) fn push_uint(&mut self, value: u64) {
        self.push_clean(decimal(value, &mut [0; LONGEST]));
    }

    /// Adds a decimal integer.
    pub(crate) fn push_int(&mut self, value: i64) {
        if value < 0 {
            self.push_byte(b'-');
        }
        self.push_uint(value.unsigned_abs());
    }

    /// Adds what prints itself without `#` and line breaks, as numbers do.
    pub(crate) fn push_display(&mut self, value: impl Display) {
        // Writing to a line cannot fail.
        let _ = write!(self, "{value}");
    }
}

/// Copies text, which is most often so short that a call to `memcpy` would take longer: two overlapping moves cover each
/// length.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
        let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return false };
        if let Some(to) = to.first_chunk_mut::<N>() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut::<N>() {
            *to = *last;
        }
        true
    }
    let done = match from.len() {
        0 => true,
        1 => ends::<1>(to, from),
        2..4 => ends::<2>(to, from),
        4..8 => ends::<4>(to, from),
        8..16 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        _ => false,
    };
    if !done {
        to.copy_from_slice(from);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_clean(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::site::{Level, Memo, NO_FILTER};
    use crate::value::{Named, Root, Value};

    const fn site(label: &'static str, given: usize, keys: &'static [&'static str]) -> Site {
        Site {
            name: "name",
            label,
            given,
            keys,
            level: Level::Critical,
            filter: NO_FILTER,
            module_path: "m",
            file: "f",
            line: 1,
            memo: Memo::new(),
        }
    }

    fn label<R: RawArgs>(site: &Site, values: R) -> String {
        // What was there before must not show.
        let mut line = Line::new();
        line.write(&LONG, (Value::raw("x".repeat(2 * SIZE).as_str()),));
        line.write(site, values);
        let label = CStr::from_bytes_until_nul(&line.bytes).expect("a NUL ends it");
        assert_eq!(label.count_bytes(), line.len, "no other NUL is before it");
        label.to_str().expect("a label is UTF-8").to_owned()
    }

    static LONG: Site = site("name#k=\0", 0, &["k"]);
    static TWO: Site = site("name#a=\0", 0, &["a", "b"]);
    static THREE: Site = site("name#a=1,b=\0", 1, &["a", "b", "c"]);

    #[test]
    fn values_follow_the_static_part() {
        assert_eq!(label(&TWO, (1_u8.raw(), (-2_i64).raw())), "name#a=1,b=-2#");
        assert_eq!(label(&THREE, (1_u8.raw(), true.raw(), 'x'.raw())), "name#a=1,b=1,c=x#");
        assert_eq!(
            label(&TWO, (u64::MAX.raw(), i64::MIN.raw())),
            "name#a=18446744073709551615,b=-9223372036854775808#"
        );
        assert_eq!(label(&TWO, (0.1_f32.raw(), 0.1_f64.raw())), "name#a=0.1,b=0.1#");
        assert_eq!(label(&TWO, (f64::NAN.raw(), 1e21_f64.raw())), "name#a=NaN,b=1000000000000000000000#");
    }

    #[test]
    fn what_is_left_out_leaves_its_key_out() {
        let none = None::<u8>;
        assert_eq!(label(&TWO, (none.raw(), none.raw())), "name");
        assert_eq!(label(&TWO, (none.raw(), 1_u8.raw())), "name#b=1#");
        assert_eq!(label(&TWO, (1_u8.raw(), none.raw())), "name#a=1#");
        assert_eq!(label(&TWO, (Some(Some("x")).raw(), Root(false).raw())), "name#a=x#");
        assert_eq!(label(&THREE, (1_u8.raw(), none.raw(), Root(true).raw())), "name#a=1,c=1#");
        assert_eq!(label(&THREE, (1_u8.raw(), none.raw(), none.raw())), "name#a=1#");
    }

    #[test]
    fn a_name_of_its_own_stands_in_front() {
        static ALONE: Site = site("op.name()\0", 0, &[""]);
        static MORE: Site = site("op.name()\0", 0, &["", "a", "b"]);
        assert_eq!(label(&ALONE, ("Add#1".named(),)), "Add_1");
        assert_eq!(label(&MORE, ("Add".named(), 1_u8.raw(), "x".raw())), "Add#a=1,b=x#");
        assert_eq!(label(&MORE, ("Add".named(), None::<u8>.raw(), "x".raw())), "Add#b=x#");
        assert_eq!(label(&MORE, ("".named(), None::<u8>.raw(), None::<u8>.raw())), "");
        let long = "x".repeat(SIZE);
        assert_eq!(label(&MORE, (long.as_str().named(), 1_u8.raw(), 2_u8.raw())), format!("{}…#", &long[5..]));
    }

    #[test]
    fn text_becomes_one_line_without_the_end_mark() {
        assert_eq!(label(&TWO, ("a#b\0c".raw(), "d\r\ne,f=g".raw())), "name#a=a_b c,b=d  e,f=g#");
        assert_eq!(label(&TWO, ("".raw(), '#'.raw())), "name#a=,b=_#");
        assert_eq!(label(&TWO, ("🦀é".raw(), '🦀'.raw())), "name#a=🦀é,b=🦀#");
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        let most = SIZE - 1 - "name#k=#".len();
        let fits = "x".repeat(most);
        assert_eq!(label(&LONG, (fits.as_str().raw(),)), format!("name#k={fits}#"));
        for (text, kept) in [("x".repeat(most + 1), most - 3), ("x".repeat(64 << 10), most - 3)] {
            assert_eq!(label(&LONG, (text.as_str().raw(),)), format!("name#k={}…#", &text[..kept]));
        }
        // Wherever the cut falls within a character of four bytes, whole ones stay.
        for shift in 0..4 {
            let text = format!("{}{}", "x".repeat(shift), "🦀".repeat(2_000));
            let crabs = (most - 3 - shift) / 4;
            let expected = format!("name#k={}{}…#", "x".repeat(shift), "🦀".repeat(crabs));
            assert_eq!(label(&LONG, (text.as_str().raw(),)), expected);
        }
        // A literal too.
        static LITERAL: [u8; 2 * SIZE] = [b'y'; 2 * SIZE];
        let literal = site(std::str::from_utf8(&LITERAL).expect("is ASCII"), 0, &[]);
        assert!(!literal.is_whole());
        assert_eq!(label(&literal, ()), format!("{}…#", "y".repeat(SIZE - 1 - CUT.len())));
        // Nothing comes behind a cut.
        let text = "x".repeat(SIZE);
        let cut = label(&TWO, (text.as_str().raw(), 7_u8.raw()));
        assert!(cut.ends_with("x…#") && cut.len() == SIZE - 1, "{}", cut.len());
    }
}
