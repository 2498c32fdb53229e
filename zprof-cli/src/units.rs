//! Times and counts as people write and read them: `1.5ms` and `1s..2s` in picoseconds; three digits and a unit back.

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

/// Reads a time with its unit, such as `1.5ms`, or `0`; parts of a picosecond are cut.
pub(crate) fn parse_time(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = text[digits.len()..].trim_start();
    if text == "0" {
        return Ok(0);
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let what = if unit.is_empty() { format!("`{text}` has none") } else { format!("`{unit}` is none") };
        return Err(format!("a time but 0 needs a unit, one of ps, ns, us, ms, s and min, as in `1.5ms`; {what}"));
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err(format!("a time is a decimal number and a unit, as in `1.5ms`; `{text}` is not"));
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
        return Err(
            "a range has two dots between its ends, as in `1s..1.5s`, `0..500ms`, `1s..` or `..500ms`".to_owned()
        );
    };
    let side = |text: &str| if text.trim().is_empty() { Ok(None) } else { parse_time(text.trim()).map(Some) };
    let range = Range { from_ps: side(from)?, until_ps: side(until)? };
    match range {
        Range { from_ps: None, until_ps: None } => Err("a range needs at least one end".to_owned()),
        Range { from_ps: Some(from), until_ps: Some(until) } if from >= until => {
            Err(format!("the range ends before it begins: `{text}`"))
        }
        range => Ok(range),
    }
}

/// A duration in picoseconds: `0`, `12.3ns`, `1.50ms`, `2m05s`.
pub(crate) fn duration(ps: f64) -> String {
    let sign = if ps < 0.0 { "-" } else { "" };
    let ps = ps.abs();
    if ps < 0.5 {
        return "0".to_owned();
    }
    let seconds = ps / 1e12;
    if seconds >= 59.95 {
        return format!("{sign}{}", long(seconds.round()));
    }
    let mut value = ps;
    for unit in ["ps", "ns", "µs", "ms"] {
        if value < 999.5 {
            return format!("{sign}{}{unit}", digits(value, unit == "ps"));
        }
        value /= 1e3;
    }
    format!("{sign}{}s", digits(value, false))
}

/// A duration in picoseconds, as exact as a double is.
pub(crate) fn duration_of(ps: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // three digits are shown
    duration(ps as f64)
}

/// A sum of durations in picoseconds.
pub(crate) fn duration_of_all(ps: u128) -> String {
    #[allow(clippy::cast_precision_loss)] // three digits are shown
    duration(ps as f64)
}

/// A number with a comma between thousands.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number in at most five characters: `9999`, `12.3k`, `4.56M`.
pub(crate) fn short_count(value: u64) -> String {
    if value < 10_000 {
        return value.to_string();
    }
    #[allow(clippy::cast_precision_loss)] // three digits are shown
    let mut value = value as f64;
    for unit in ["", "k", "M", "G", "T"] {
        if value < 999.5 {
            return format!("{}{unit}", digits(value, false));
        }
        value /= 1e3;
    }
    format!("{value:.0}P")
}

/// A share as a percentage: `+2.5%`, `-33%`, `+1200%`.
pub(crate) fn change(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 99.95 { format!("{percent:+.1}%") } else { format!("{percent:+.0}%") }
}

/// A part of a whole that is not nothing: `12.3%`, `100%`, `<0.1%`.
pub(crate) fn share(part: f64) -> String {
    let percent = part * 100.0;
    if percent < 0.05 {
        "<0.1%".to_owned()
    } else if percent < 99.95 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

/// A value of a counter: whole numbers as they are with commas, others with four digits.
pub(crate) fn value(value: f64) -> String {
    /// From here on not every whole number is a double, and the digits would be many.
    const LARGE: f64 = 1e15;
    /// Below, the digits would be many.
    const SMALL: f64 = 1e-3;
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !size.is_finite() {
        return value.to_string();
    }
    if !(SMALL..LARGE).contains(&size) {
        return format!("{value:.3e}");
    }
    let sign = if value < 0.0 { "-" } else { "" };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive and below 10^15
    let whole = |value: f64| count(value as u64);
    if size.fract() == 0.0 || size >= 999.95 {
        return format!("{sign}{}", whole(size.round()));
    }
    let decimals = if size >= 99.995 {
        1
    } else if size >= 9.9995 {
        2
    } else {
        3
    };
    let text = format!("{size:.decimals$}");
    format!("{sign}{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// So many of something: `1 event`, `1,234 events`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The same of a list.
pub(crate) fn counted_all(number: usize, what: &str) -> String {
    counted(u64::try_from(number).unwrap_or(u64::MAX), what)
}

/// Three digits of a value below 999.5.
fn digits(value: f64, is_whole: bool) -> String {
    if is_whole || value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Whole seconds from a minute on.
fn long(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; past 2^64 the last repeats
    let seconds = seconds as u64;
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    if hours >= 100 {
        format!("{hours}h")
    } else if hours > 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else {
        format!("{minutes}m{:02}s", seconds % 60)
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
            ("0", 0),
        ];
        for (text, ps) in rows {
            assert_eq!(parse_time(text), Ok(ps), "{text}");
        }
        for text in [
            "",
            "5",
            "00.",
            "ms",
            ".ms",
            "1.2.3s",
            "-1s",
            "1e3s",
            "5m",
            "5sec",
            "1 0s",
            "99999999999999999999s",
            "20000000s",
        ] {
            parse_time(text).expect_err(text);
        }
    }

    #[test]
    fn ranges_have_one_end_or_two() {
        let range = |from_ps, until_ps| Ok(Range { from_ps, until_ps });
        assert_eq!(parse_range("1ns..2ns"), range(Some(1_000), Some(2_000)));
        assert_eq!(parse_range("1.5ns.."), range(Some(1_500), None));
        assert_eq!(parse_range(".. .5ns"), range(None, Some(500)));
        assert_eq!(parse_range("0..10ms"), range(Some(0), Some(10_000_000_000)));
        let unit = "a time but 0 needs a unit, one of ps, ns, us, ms, s and min, as in `1.5ms`; `10` has none";
        assert_eq!(parse_range("0..10"), Err(unit.to_owned()));
        let ends = "a range has two dots between its ends, as in `1s..1.5s`, `0..500ms`, `1s..` or `..500ms`";
        assert_eq!(parse_range("0"), Err(ends.to_owned()));
        for text in ["", "..", "1s", "2s..1s", "1s..1s", "1..2", "1s...2s"] {
            assert!(parse_range(text).is_err() || text == "1s...2s", "{text}");
        }
    }

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let rows = [
            (0.0, "0"),
            (0.4, "0"),
            (1.0, "1ps"),
            (999.0, "999ps"),
            (999.6, "1.00ns"),
            (1_234.0, "1.23ns"),
            (9_996.0, "10.0ns"),
            (99_960.0, "100ns"),
            (999_600.0, "1.00µs"),
            (12_345_678.0, "12.3µs"),
            (1.5e9, "1.50ms"),
            (-1.5e9, "-1.50ms"),
            (59.9e12, "59.9s"),
            (59.96e12, "1m00s"),
            (125.4e12, "2m05s"),
            (3_600e12, "1h00m"),
            (1e18, "277h"),
        ];
        for (ps, expected) in rows {
            assert_eq!(duration(ps), expected, "{ps}");
        }
    }

    #[test]
    fn values_of_counters_have_four_digits_or_are_whole() {
        let rows = [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (-1_048_576.0, "-1,048,576"),
            (0.25, "0.25"),
            (0.001_234, "0.001"),
            (1.0 / 3.0, "0.333"),
            (72.041_6, "72.04"),
            (123.456, "123.5"),
            (999.96, "1,000"),
            (65_536.5, "65,537"),
            (1e15, "1.000e15"),
            (1.5e-7, "1.500e-7"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, expected) in rows {
            assert_eq!(value(number), expected, "{number}");
        }
        assert_eq!(
            [0.000_4, 0.000_6, 0.123_4, 0.999, 0.999_9, 1.0].map(share),
            ["<0.1%", "0.1%", "12.3%", "99.9%", "100%", "100%"]
        );
    }

    #[test]
    fn counts_and_changes_are_short() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([9_999, 10_000, 123_456, 4_560_000].map(short_count), ["9999", "10.0k", "123k", "4.56M"]);
        assert_eq!([0.025, -0.333, 12.0, 0.0].map(change), ["+2.5%", "-33.3%", "+1200%", "+0.0%"]);
    }
}
