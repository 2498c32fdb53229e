//! Rows of comma-separated values, as RFC 4180 has them but with a bare line feed.

use std::io::{self, Write};

/// Writes one row; what has a comma, a quote or a line break in it is quoted.
pub(crate) fn write_row(out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
    for (place, cell) in cells.iter().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        if cell.contains([',', '"', '\n', '\r']) {
            write!(out, "\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            out.write_all(cell.as_bytes())?;
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut out = Vec::new();
        let cells = ["plain", "", "a,b", "say \"so\"", "two\nlines", "é"].map(str::to_owned);
        write_row(&mut out, &cells).expect("memory takes everything");
        assert_eq!(out, "plain,,\"a,b\",\"say \"\"so\"\"\",\"two\nlines\",é\n".as_bytes());
    }
}
