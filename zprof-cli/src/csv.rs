//! Rows of comma-separated values, as RFC 4180 has them but with a bare line feed.

use std::borrow::Cow;
use std::io::{self, Write};

use zprof_runtime::display::is_printable;

/// Writes one row; what has a comma, a quote or a line break in it is quoted. A text that a spreadsheet would take for a formula
/// begins with `'`, which makes it text there.
pub(crate) fn write_row(out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
    for (place, cell) in cells.iter().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        let cell = harmless(cell);
        if cell.contains([',', '"', '\n', '\r']) {
            write!(out, "\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            out.write_all(cell.as_bytes())?;
        }
    }
    writeln!(out)
}

/// The cell with a `'` before it if a spreadsheet would take it for a formula, which may run programs or send data away.
/// Numbers are no formulas, whatever their sign.
fn harmless(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['\t', '\r', '\n']) || begins_formula(cell);
    let is_number = || cell.parse::<f64>().is_ok_and(f64::is_finite);
    let cell = if is_formula && !is_number() { format!("'{cell}").into() } else { Cow::Borrowed(cell) };
    // Where a comma stands in numbers, spreadsheets take these for what separates cells, and quotes within a line for letters.
    const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];
    if !cell.match_indices(SEPARATORS).any(|(at, _)| begins_formula(&cell[at + 1..])) {
        return cell;
    }
    let mut text = String::with_capacity(cell.len() + 1);
    let mut rest = &*cell;
    while let Some(at) = rest.find(SEPARATORS) {
        let (before, behind) = rest.split_at(at + 1);
        text.push_str(before);
        if begins_formula(behind) {
            text.push('\'');
        }
        rest = behind;
    }
    (text + rest).into()
}

/// Whether a spreadsheet would take the text for a formula if it were a cell.
fn begins_formula(text: &str) -> bool {
    // Spreadsheets in East Asian languages also take the wide forms of these characters.
    const BEGINS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    // Characters that are not shown may be left out by a spreadsheet.
    text.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '"' || !is_printable(letter))
        .starts_with(BEGINS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text_and_numbers_stay() {
        for text in [
            "=1+1",
            "@SUM(1)",
            "+1\"",
            "-2+3",
            "\rx",
            "\nx",
            "  =1",
            "＝1",
            "-",
            "-inf",
            "+nan",
            "=\u{202e}1",
            "\u{feff}=1",
            "\0=1",
            "\u{a0}@x",
            "\"=1",
        ] {
            assert_eq!(harmless(text), format!("'{text}"), "{text:?}");
        }
        for text in
            ["-1", "-1.5", "+3", "-1e-3", "-123456789012345678901234567890", "a=1", "a-b", "", "1", "'=1", "#=1"]
        {
            assert_eq!(harmless(text), text, "{text:?}");
        }
        for (text, expected) in [
            ("\t=1", "'\t'=1"),
            ("a;=1+1", "a;'=1+1"),
            ("a\t@x;b\n \"=1", "a\t'@x;b\n' \"=1"),
            ("a;b;c=1", "a;b;c=1"),
            ("-1;-2", "'-1;'-2"),
        ] {
            assert_eq!(harmless(text), expected);
        }
        let mut out = Vec::new();
        write_row(&mut out, &["=HYPERLINK(\"http://x\",\"y\")", "-5"].map(str::to_owned))
            .expect("memory takes everything");
        assert_eq!(out, b"\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\",-5\n");
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut out = Vec::new();
        let cells = ["plain", "", "a,b", "say \"so\"", "two\nlines", "é"].map(str::to_owned);
        write_row(&mut out, &cells).expect("memory takes everything");
        assert_eq!(out, "plain,,\"a,b\",\"say \"\"so\"\"\",\"two\nlines\",é\n".as_bytes());
    }
}
