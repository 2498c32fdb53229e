//! The text of values that print themselves: `%value` and `?value` in metadata.
//!
//! An expansion makes the text only after it knows that something listens, and lends it to the recorder, which copies it
//! like every other text. The memory belongs to the thread and is used again, so that a thread allocates nothing after its
//! first such values.

use std::cell::Cell;
use std::fmt::{self, Debug, Display};

use super::outcome::write_cut;
use crate::value::{Text, Value};

/// Bytes that are kept of such a text. Of a longer one an ellipsis is the end.
const LONGEST: usize = 1024;
/// How many texts of one thread are kept for later: as many such values as one scope usually has.
const KEPT: usize = 4;

thread_local! {
    /// Memory for texts; an empty string is a free place.
    static TEXTS: [Cell<String>; KEPT] = const { [const { Cell::new(String::new()) }; KEPT] };
}

/// The text of a value, until the record has it.
#[derive(Debug)]
pub struct Shown(String);

/// The text that `value` displays.
#[inline]
pub fn display<T: Display + ?Sized>(value: &T) -> Shown {
    Shown::of(format_args!("{value}"))
}

/// The text by which `value` is debugged.
#[inline]
pub fn debug<T: Debug + ?Sized>(value: &T) -> Shown {
    Shown::of(format_args!("{value:?}"))
}

impl Shown {
    #[cold]
    #[inline(never)]
    fn of(value: fmt::Arguments<'_>) -> Self {
        // A value that records scopes while it prints itself takes another memory, since this one is taken out.
        let taken = TEXTS.try_with(|texts| texts.iter().map(Cell::take).find(|text| text.capacity() != 0));
        let mut text = taken.ok().flatten().unwrap_or_default();
        write_cut(&mut text, LONGEST, value);
        Self(text)
    }
}

impl Drop for Shown {
    #[inline(never)]
    fn drop(&mut self) {
        let mut text = std::mem::take(&mut self.0);
        text.clear();
        // While the thread ends there may be no place for it any more.
        let _ = TEXTS.try_with(|texts| {
            for place in texts {
                let other = place.replace(std::mem::take(&mut text));
                if other.capacity() == 0 {
                    break;
                }
                text = other;
            }
        });
    }
}

#[diagnostic::do_not_recommend]
#[doc(hidden)]
impl Value for Shown {
    type Raw<'a> = Text<'a>;
    #[inline]
    fn raw(&self) -> Text<'_> {
        self.0.as_str().raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_and_its_memory_is_used_again() {
        let long = "ü".repeat(LONGEST);
        let first = display(&long);
        assert_eq!(first.0, format!("{}…", "ü".repeat(LONGEST / 2)));
        let second = debug("a");
        assert_eq!(second.0, "\"a\"");
        let places = [first.0.as_ptr(), second.0.as_ptr()];
        drop((first, second));
        let again = [display(&1), display(&2)];
        let mut found: Vec<_> = again.iter().map(|shown| shown.0.as_ptr()).collect();
        found.sort_unstable_by_key(|place| *place != places[0]);
        assert_eq!(found, places);
        assert_eq!(again.map(|shown| shown.0.clone()), ["1", "2"]);
    }

    #[test]
    fn a_value_that_fails_to_print_itself_keeps_what_it_printed() {
        struct Fails;
        impl Display for Fails {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("so far")?;
                Err(fmt::Error)
            }
        }
        assert_eq!(display(&Fails).0, "so far");
    }
}
