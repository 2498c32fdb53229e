//! Tables for people: a column of names, which is cut in the middle to fit the width, and columns of numbers to the right.

use std::io::{self, IsTerminal, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use zprof_runtime::display::printable;
use zprof_runtime::environment::variable;

/// Width where no terminal says it.
const WIDTH: usize = 120;
/// Narrowest column of names.
const MIN_NAME: usize = 16;
/// Space between columns.
const GAP: usize = 2;

/// A table in the making.
pub(crate) struct Table {
    /// The names' heading first.
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Whether the last column is text too, which stands to the left.
    is_last_text: bool,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new(), is_last_text: false }
    }

    /// Has the last column begin at its left.
    pub(crate) fn with_text_last(mut self) -> Self {
        self.is_last_text = true;
        self
    }

    /// Adds a row: as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell).into_owned()).collect());
    }

    /// Writes the table, as wide as `width` at most unless the numbers alone are wider.
    pub(crate) fn write(&self, out: &mut dyn Write, width: usize) -> io::Result<()> {
        let column = |place: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(place));
            cells.map(|cell| cell.width()).max().unwrap_or(0).max(self.heads[place].width())
        };
        let mut widths: Vec<usize> = (0..self.heads.len()).map(column).collect();
        let last = widths.len() - 1;
        let texts = if self.is_last_text && last > 0 { 2 } else { 1 };
        let numbers: usize = widths[1..].iter().sum::<usize>() + GAP * last - if texts == 2 { widths[last] } else { 0 };
        let least = MIN_NAME + if texts == 2 { widths[last].min(MIN_NAME) } else { 0 };
        let spare = width.saturating_sub(numbers).max(least);
        if texts == 2 {
            // Both texts give way, the longer one first.
            widths[0] = widths[0].min((spare / 2).max(spare.saturating_sub(widths[last])));
            widths[last] = widths[last].min(spare - widths[0]);
        } else {
            widths[0] = widths[0].min(spare);
        }
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = pad_right(&cut(&row[0], widths[0]), widths[0]);
            for place in 1..row.len() {
                line.push_str(&" ".repeat(GAP));
                if self.is_last_text && place == last {
                    line.push_str(&cut(&row[place], widths[place]));
                } else {
                    line.push_str(&" ".repeat(widths[place].saturating_sub(row[place].width())));
                    line.push_str(&row[place]);
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The width to write for: the terminal's, or what COLUMNS says, or else enough for most names.
pub(crate) fn width() -> usize {
    if io::stdout().is_terminal() {
        if let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size() {
            return width.into();
        }
    }
    let columns = variable("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok());
    columns.filter(|width| *width > 0).unwrap_or(WIDTH)
}

fn pad_right(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Cuts a text in the middle, as both its ends tell it from others.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let take = |characters: &mut dyn Iterator<Item = char>, room: usize| {
        let mut left = room;
        let mut taken = Vec::new();
        for character in characters {
            let Some(rest) = left.checked_sub(character.width().unwrap_or(0)) else { break };
            left = rest;
            taken.push(character);
        }
        taken
    };
    let head: String = take(&mut text.chars(), room.div_ceil(2)).into_iter().collect();
    let tail: String = take(&mut text.chars().rev(), room / 2).into_iter().rev().collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(table: &Table, width: usize) -> String {
        let mut out = Vec::new();
        table.write(&mut out, width).expect("memory takes everything");
        String::from_utf8(out).expect("is UTF-8")
    }

    #[test]
    fn names_are_cut_in_the_middle_by_what_they_take_on_the_screen() {
        assert_eq!(cut("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut("abcdefghijk", 10), "abcde…hijk");
        assert_eq!(cut("日本語日本語", 8), "日本…語");
        assert_eq!(cut("ab", 1), "…");
    }

    #[test]
    fn numbers_stand_to_the_right_and_lines_fit() {
        let mut table = Table::new(&["scope", "count", "total"]);
        table.row(vec!["a".into(), "1".into(), "1.00µs".into()]);
        table.row(vec!["a scope with quite a long\u{1b}[31m name".into(), "1,000".into(), "2".into()]);
        let expected = "\
scope                count   total
a                        1  1.00µs
a scope w…[31m name  1,000       2
";
        assert_eq!(text(&table, 34), expected);
    }

    #[test]
    fn two_texts_share_what_is_left() {
        let mut table = Table::new(&["step", "time", "largest"]).with_text_last();
        table.row(vec!["s".repeat(40), "1ms".into(), "l".repeat(40)]);
        for line in text(&table, 60).lines() {
            assert!(line.width() <= 60, "{line}");
        }
        let mut table = Table::new(&["step", "time", "largest"]).with_text_last();
        table.row(vec!["#1".into(), "1ms".into(), "l".repeat(60)]);
        assert!(text(&table, 40).lines().all(|line| line.width() <= 40), "{}", text(&table, 40));
    }
}
