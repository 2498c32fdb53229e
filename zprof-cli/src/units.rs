//! Times and counts as people read them: three digits and a unit.

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
    fn counts_and_changes_are_short() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([9_999, 10_000, 123_456, 4_560_000].map(short_count), ["9999", "10.0k", "123k", "4.56M"]);
        assert_eq!([0.025, -0.333, 12.0, 0.0].map(change), ["+2.5%", "-33.3%", "+1200%", "+0.0%"]);
    }
}
