//! Tables for people: a column of names, which is cut in the middle to fit the width, and columns of numbers to the right.

use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use zprof_runtime::display::printable;
use zprof_runtime::environment::variable;

use crate::style::{self, paint};

/// Width where no terminal says it.
const WIDTH: usize = 120;
/// Narrowest column of names.
const MIN_NAME: usize = 16;
/// Space between columns.
const GAP: usize = 2;

/// What stands where a number has no meaning.
pub(crate) const NONE: &str = "-";
/// Room for names that is worth a column of numbers, if that may be left out.
const GOOD_NAME: usize = 28;

/// A table in the making.
pub(crate) struct Table {
    /// The names' heading first.
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// Whether the last column is text too, which stands to the left.
    is_last_text: bool,
    /// Headings of columns that are left out for longer names, the first one first.
    may_go: &'static [&'static str],
}

/// A text in a table, with its style.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        let style = if text == NONE { style::FAINT } else { Style::new() };
        Self { text, style }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(text: Option<T>) -> Self {
        text.map_or_else(|| NONE.into(), Into::into)
    }
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new(), is_last_text: false, may_go: &[] }
    }

    /// Has the last column begin at its left.
    pub(crate) fn with_text_last(mut self) -> Self {
        self.is_last_text = true;
        self
    }

    /// Lets these columns go where names are longer than the room that is left, the first one first. They are columns of numbers.
    pub(crate) fn may_go(mut self, heads: &'static [&'static str]) -> Self {
        self.may_go = heads;
        self
    }

    /// Adds a row: as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows
            .push(cells.into_iter().map(|cell| Cell { text: printable(&cell.text).into_owned(), ..cell }).collect());
    }

    /// Writes the table, as wide as `width` at most unless the numbers alone are wider.
    pub(crate) fn write(&self, out: &mut dyn Write, width: usize) -> io::Result<()> {
        let column = |place: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(place));
            cells.map(|cell| cell.text.width()).max().unwrap_or(0).max(self.heads[place].width())
        };
        let all: Vec<usize> = (0..self.heads.len()).map(column).collect();
        let mut columns: Vec<usize> = (0..self.heads.len()).collect();
        let mut widths = self.fit(&all, &columns, width);
        for head in self.may_go {
            if widths[0] >= all[0].min(GOOD_NAME) {
                break;
            }
            columns.retain(|place| self.heads[*place] != *head);
            widths = self.fit(&all, &columns, width);
        }
        let heads: Vec<Cell> = self.heads.iter().map(|head| Cell::styled(*head, style::HEAD)).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (number, (place, width)) in columns.iter().zip(&widths).enumerate() {
                let Cell { text, style } = &row[*place];
                let is_text = number == 0 || self.is_last_text && number + 1 == columns.len();
                let text = if is_text { cut(text, *width) } else { text.clone() };
                let blank = " ".repeat(width.saturating_sub(text.width()));
                let text = if text.is_empty() { text } else { paint(*style, text) };
                if number > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                line.push_str(&if is_text { text + &blank } else { blank + &text });
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// The widths of these columns within `width`, where `all` are the widths that all columns would have.
    fn fit(&self, all: &[usize], columns: &[usize], width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = columns.iter().map(|place| all[*place]).collect();
        let last = widths.len() - 1;
        let has_two_texts = self.is_last_text && last > 0;
        let numbers: usize =
            widths[1..].iter().sum::<usize>() + GAP * last - if has_two_texts { widths[last] } else { 0 };
        let least = MIN_NAME + if has_two_texts { widths[last].min(MIN_NAME) } else { 0 };
        let spare = width.saturating_sub(numbers).max(least);
        if has_two_texts {
            // Both texts give way, the longer one first.
            widths[0] = widths[0].min((spare / 2).max(spare.saturating_sub(widths[last])));
            widths[last] = widths[last].min(spare - widths[0]);
        } else {
            widths[0] = widths[0].min(spare);
        }
        widths
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

/// Breaks a text at blanks so that no line is wider than `width`, as far as its words allow. Its first line begins at the column
/// `indent`, and so do the others.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> String {
    let room = width.saturating_sub(indent);
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let needed = word.width();
        if used > 0 && used + 1 + needed > room {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += needed;
    }
    out
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
        let text = String::from_utf8(out).expect("is UTF-8");
        anstream::adapter::strip_str(&text).to_string()
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
        table.row(vec!["s".repeat(40).into(), "1ms".into(), "l".repeat(40).into()]);
        for line in text(&table, 60).lines() {
            assert!(line.width() <= 60, "{line}");
        }
        let mut table = Table::new(&["step", "time", "largest"]).with_text_last();
        table.row(vec!["#1".into(), "1ms".into(), "l".repeat(60).into()]);
        assert!(text(&table, 40).lines().all(|line| line.width() <= 40), "{}", text(&table, 40));
    }

    #[test]
    fn columns_go_where_names_are_long_and_stay_where_there_is_room() {
        let table = |name: &str| {
            let mut table = Table::new(&["scope", "total", "p50", "p99"]).may_go(&["p50", "p99"]);
            table.row(vec![name.into(), "1.00µs".into(), "2.00µs".into(), Option::<String>::None.into()]);
            table
        };
        let long = "a scope with a long name, as operations have";
        let without_one = "\
scope                               total  p99
a scope with a l… operations have  1.00µs    -
";
        let without_two = "\
scope                    total
a scope wit…tions have  1.00µs
";
        assert_eq!(text(&table(long), 46), without_one);
        assert_eq!(text(&table(long), 30), without_two);
    }

    #[test]
    fn a_number_without_a_meaning_and_a_style_take_no_room() {
        let mut table = Table::new(&["scope", "share"]);
        table.row(vec!["a".into(), Cell::styled("99.0%", style::NOTE)]);
        table.row(vec!["b".into(), NONE.into()]);
        let mut out = Vec::new();
        table.write(&mut out, 80).expect("memory takes everything");
        let expected = "\u{1b}[1mscope\u{1b}[0m  \u{1b}[1mshare\u{1b}[0m\na      \u{1b}[1m\u{1b}[33m99.0%\u{1b}[0m\nb          \
                        \u{1b}[2m-\u{1b}[0m\n";
        assert_eq!(String::from_utf8(out).expect("is UTF-8"), expected);
    }
}
