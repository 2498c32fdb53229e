//! What a traced function gives back, as metadata of its scope.

use std::fmt::{self, Write as _};

use super::Guard;
use crate::value::{Raw, Value};

/// Bytes of an error's text that are kept.
const LONGEST_ERROR: usize = 256;

/// Calls `body`, which is what is left of a function whose value is looked at. That it is `FnOnce` lets it give back
/// what it borrows uniquely.
#[inline(always)]
pub fn call<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// True, in a way that makes what stands behind it reachable to the compiler's checks.
#[inline(always)]
#[must_use]
pub const fn always() -> bool {
    true
}

/// Names a type where nothing of it is made; never called.
#[cold]
pub fn never<R>() -> R {
    std::process::abort()
}

/// Gives a name to what a function pointer returns: the only name that the never type has.
pub trait Returns {
    /// The return type.
    type Value;
}

impl<R> Returns for fn() -> R {
    type Value = R;
}

/// A type that `ret` records: every [`Value`].
#[diagnostic::on_unimplemented(
    message = "`ret` cannot record `{Self}`, which is no metadata value",
    label = "no metadata value",
    note = "of a `Result`, `#[zprof::trace(ret, err)]` records the value of `Ok`, and the text of the error",
    note = "of another type, record a part of it inside the function: `zprof::instant!(\"returns\", key = …)`, with `%value` or `?value` for text"
)]
pub trait Returned {
    #[doc(hidden)]
    type Raw<'a>: Raw
    where
        Self: 'a;

    #[doc(hidden)]
    fn returned(&self) -> Self::Raw<'_>;
}

#[diagnostic::do_not_recommend]
impl<T: Value + ?Sized> Returned for T {
    type Raw<'a>
        = T::Raw<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn returned(&self) -> Self::Raw<'_> {
        self.raw()
    }
}

/// Records the returned value.
#[inline]
pub fn returned<R: Raw>(guard: &Guard, value: R) {
    guard.note("return", value);
}

/// What a function returns that may fail.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot fail, so `err` has nothing to record",
    label = "not a `Result` whose error implements `Display`",
    note = "`err` is for functions that return `Result<T, E>` with `E: Display`"
)]
pub trait Fallible {
    /// What it holds where it has not failed.
    type Value;
    /// That.
    fn value(&self) -> Option<&Self::Value>;
    /// Records the error, where there is one.
    fn fail(&self, guard: &Guard);
}

impl<T, E: fmt::Display> Fallible for Result<T, E> {
    type Value = T;

    #[inline]
    fn value(&self) -> Option<&T> {
        self.as_ref().ok()
    }

    #[inline]
    fn fail(&self, guard: &Guard) {
        if let Err(error) = self {
            failed(error, guard);
        }
    }
}

/// An error is formatted only where something listens, and only as far as it is kept.
#[cold]
fn failed(error: &dyn fmt::Display, guard: &Guard) {
    if guard.is_recorded() {
        guard.note("error", cut(error).raw());
    }
}

/// The text, as far as an error's is kept.
pub(crate) fn cut(value: &dyn fmt::Display) -> String {
    let mut text = String::new();
    write_cut(&mut text, LONGEST_ERROR, format_args!("{value}"));
    text
}

/// Adds what prints itself to `text`, `most` bytes of it. Where more would follow, an ellipsis is its end.
pub(crate) fn write_cut(text: &mut String, most: usize, value: fmt::Arguments<'_>) {
    let end = text.len().saturating_add(most);
    // A text that is cut, and one that fails, end early.
    let _ = Cut { text, end }.write_fmt(value);
}

struct Cut<'a> {
    text: &'a mut String,
    /// Longest that the text may become, but for the ellipsis.
    end: usize,
}

impl fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = self.end.saturating_sub(self.text.len());
        if text.len() <= left {
            self.text.push_str(text);
            return Ok(());
        }
        let fits = (0..=left).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.text.push_str(&text[..fits]);
        self.text.push('…');
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(parts: &[&str]) -> String {
        let mut text = String::new();
        let mut cut = Cut { text: &mut text, end: LONGEST_ERROR };
        let _ = parts.iter().try_for_each(|part| cut.write_str(part));
        text
    }

    #[test]
    fn a_long_text_ends_in_an_ellipsis() {
        assert_eq!(kept(&["a", "", "b"]), "ab");
        let whole = "x".repeat(LONGEST_ERROR);
        assert_eq!(kept(&[&whole]), whole);
        assert_eq!(kept(&[&whole, "y"]), format!("{whole}…"));
        // An umlaut takes two bytes, and is kept whole or not at all.
        assert_eq!(kept(&["x", &"ü".repeat(LONGEST_ERROR)]), format!("x{}…", "ü".repeat((LONGEST_ERROR - 1) / 2)));
    }
}
