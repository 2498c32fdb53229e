//! Text from outside, such as names of scopes, threads and files, made fit for one line of a terminal, a log or a picture.
//!
//! A name is data: whoever recorded a profile or made a folder chose it. Control characters in it could clear the screen, set
//! the title of a terminal or begin a line that looks like another program's. Characters that have no shape, such as those
//! that change the direction of writing, could make one name look like another. The runtime and the command show such text
//! through this module; files that programs read keep every byte.

use std::borrow::Cow;
use std::fmt;

/// Whether the character shows as itself and leaves its surroundings alone: no control character, and none without a shape.
#[must_use]
pub fn is_printable(character: char) -> bool {
    !character.is_control() && !is_invisible(character)
}

/// Whether the character has no shape of its own: Unicode's format characters (`Cf`) and others that renderers ignore. Variation
/// selectors of emoji are not among them, nor are the signs of Arabic that count as format characters and have a shape.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The character that is shown in place of another: a space for a control character, U+FFFD for one without a shape, else the character.
#[must_use]
pub fn shown(character: char) -> char {
    if character.is_control() {
        ' '
    } else if is_invisible(character) {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    }
}

/// The text with each character replaced by what [`shown`] gives for it, so that it is one line.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        Cow::Borrowed(text)
    } else {
        text.chars().map(shown).collect::<String>().into()
    }
}

/// Writes what [`printable`] gives, without an allocation.
pub(crate) fn write_printable(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(|character| !is_printable(character)) {
        f.write_str(&rest[..at])?;
        let mut characters = rest[at..].chars();
        if let Some(character) = characters.next() {
            fmt::Write::write_char(f, shown(character))?;
        }
        rest = characters.as_str();
    }
    f.write_str(rest)
}

/// One line for standard error: what [`printable`] gives, and a line break.
#[must_use]
pub fn line(text: &str) -> String {
    printable(text.strip_suffix('\n').unwrap_or(text)).into_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_on_a_terminal_or_hide_are_replaced() {
        for (text, expected) in [
            ("llm.step é 日本 🦀\u{fe0f}", "llm.step é 日本 🦀\u{fe0f}"),
            ("\u{1b}]0;title\u{7}\u{1b}[2J", " ]0;title  [2J"),
            ("a\nb\r\tc\0d\u{7f}e\u{85}f\u{9b}g", "a b  c d e f g"),
            (
                "abc\u{202e}fed\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
                "abc\u{fffd}fed\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("zero\u{200b}width\u{feff}\u{2028}\u{e0041}", "zero\u{fffd}width\u{fffd}\u{fffd}\u{fffd}"),
            ("", ""),
        ] {
            assert_eq!(printable(text), expected);
            assert!(printable(text).chars().all(is_printable));
            struct Shown<'a>(&'a str);
            impl fmt::Display for Shown<'_> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write_printable(f, self.0)
                }
            }
            assert_eq!(Shown(text).to_string(), expected);
        }
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn a_line_has_one_line_break_at_its_end() {
        assert_eq!(line("zprof: a\nb\n"), "zprof: a b\n");
        assert_eq!(line("a"), "a\n");
    }
}
