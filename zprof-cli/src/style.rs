//! Colours of text for people. Text is always written with them; [`print_text`](crate::output::print_text) takes them out where
//! standard output is no terminal, or where `NO_COLOR` or its kin say so.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Headings of tables.
pub(crate) const HEAD: Style = Style::new().bold();
/// Names of planes, and of groups of checks.
pub(crate) const TITLE: Style = AnsiColor::Cyan.on_default().bold();
/// Text of less weight, such as a place in a table where a number has no meaning.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Something went wrong, or is slower.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something to look at: a warning, or a large share of the time.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default().bold();
/// Something is well, or faster.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();

/// The codes that the styles above consist of, each between `ESC [` and `m`. A terminal gets these and no others.
pub(crate) const CODES: [&str; 7] = ["0", "1", "2", "31", "32", "33", "36"];

/// The text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::styled;

    #[test]
    fn every_style_passes_the_screen() {
        for style in [HEAD, TITLE, FAINT, BAD, NOTE, GOOD] {
            let painted = paint(style, "text");
            assert!(painted.starts_with('\u{1b}') && painted.ends_with("text\u{1b}[0m"), "{painted:?}");
            assert_eq!(styled(&painted), painted);
        }
    }
}
