//! A terminal as a place for output: text that was read from a profile cannot act on it.

use std::io::{self, Write};

use zprof_runtime::display::{is_printable, shown};

use crate::style::CODES;

/// Writes text to a terminal. Line breaks and tabs stay; every other control character, and every character without a shape,
/// is replaced as in [`zprof_runtime::display`]. Bytes that are not UTF-8 become U+FFFD.
///
/// A pipe or a file gets each byte as it is, since a program reads it: this writer is for terminals alone.
pub(crate) struct Screen<W: Write> {
    out: W,
    /// The beginning of a character whose other bytes have not come yet: three bytes at most.
    begun: Vec<u8>,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, begun: Vec::new() }
    }

    /// Writes what was begun, and all that is buffered.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.begun).is_empty() {
            self.out.write_all("\u{fffd}".as_bytes())?;
        }
        self.out.flush()
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = String::new();
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        for chunk in all.utf8_chunks() {
            let keeps = |character| matches!(character, '\n' | '\t') || is_printable(character);
            text.extend(
                chunk.valid().chars().map(|character| if keeps(character) { character } else { shown(character) }),
            );
            let invalid = chunk.invalid();
            // Only the last bytes can be the beginning of a character, and then no other byte can follow them here.
            let is_begun = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            let is_last = std::ptr::eq(invalid.as_ptr_range().end, all.as_ptr_range().end);
            if is_begun && is_last {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.out.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Text for people as a terminal gets it: with the [codes of our styles](CODES), and else without anything that acts on a terminal.
/// Names from a profile are [printable](zprof_runtime::display::printable) before they come here, and so have no codes.
pub(crate) fn styled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let code = rest.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m')).map(|(code, _)| code);
        if let Some(code) = code.filter(|code| CODES.contains(code)) {
            let (sequence, after) = rest.split_at("\u{1b}[".len() + code.len() + "m".len());
            out.push_str(sequence);
            rest = after;
            continue;
        }
        out.push(if matches!(character, '\n' | '\t') { character } else { shown(character) });
        rest = &rest[character.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(text: &[u8], step: usize) -> String {
        let mut screen = Screen::new(Vec::new());
        text.chunks(step).try_for_each(|chunk| screen.write_all(chunk)).expect("memory takes everything");
        screen.finish().expect("memory takes everything");
        String::from_utf8(screen.out).expect("is UTF-8")
    }

    #[test]
    fn text_is_harmless_however_it_is_cut_into_writes() {
        let text =
            b"a,\"\x1b[2J\x1b]0;t\x07\"\n\tb\r\xc2\x9b1m \xe2\x80\xae.\xf0\x9f\xa6\x80 \xff\xe6\x97 \xe6\x97\xa5\xe6";
        let expected = "a,\" [2J ]0;t \"\n\tb  1m \u{fffd}.🦀 \u{fffd}\u{fffd} 日\u{fffd}";
        for step in [1, 2, 3, 7, 100] {
            assert_eq!(screen(text, step), expected, "{step} bytes at a time");
        }
    }
    #[test]
    fn codes_of_our_styles_pass_and_no_others() {
        let text = "\u{1b}[1m\u{1b}[31mred\u{1b}[0m \u{1b}[8mhidden\u{1b}[0m\u{1b}[2J\u{1b}[1;31m\u{1b}]0;t\u{7}\u{9b}1m\r\n\u{1b}[\u{1b}";
        let expected = "\u{1b}[1m\u{1b}[31mred\u{1b}[0m  [8mhidden\u{1b}[0m [2J [1;31m ]0;t  1m \n [ ";
        assert_eq!(styled(text), expected);
    }
}
