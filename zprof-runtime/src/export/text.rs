//! Text of numbers and strings as trace-viewer JSON has them.

use std::io::Write;

use crate::decimal::{LONGEST, PAIRS, decimal};

/// Marks the bytes that JSON wants escaped within a string.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped
};

/// Appends the inside of a JSON string: quotes, backslashes and control characters escaped, all else as it is. What is
/// not UTF-8 becomes U+FFFD, one for each broken sequence.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(_) => put_escaped(out, bytes),
        Err(_) => {
            for chunk in bytes.utf8_chunks() {
                put_escaped(out, chunk.valid().as_bytes());
                if !chunk.invalid().is_empty() {
                    out.extend_from_slice("\u{fffd}".as_bytes());
                }
            }
        }
    }
}

/// Appends the inside of a JSON string as TSL does: up to the first NUL, and in ASCII. Returns whether there is a NUL.
pub(super) fn put_ascii_string(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == 0);
    for chunk in bytes[..end.unwrap_or(bytes.len())].utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(place) = rest.find(|character: char| !character.is_ascii()) {
            put_escaped(out, &rest.as_bytes()[..place]);
            let mut after = rest[place..].chars();
            for unit in after.next().unwrap_or_default().encode_utf16(&mut [0; 2]) {
                put_unit(out, *unit);
            }
            rest = after.as_str();
        }
        put_escaped(out, rest.as_bytes());
        if !chunk.invalid().is_empty() {
            put_unit(out, 0xfffd);
        }
    }
    end.is_some()
}

/// Appends the escape of a UTF-16 code unit.
fn put_unit(out: &mut Vec<u8>, unit: u16) {
    let digit = |shift: u16| b"0123456789abcdef"[usize::from(unit >> shift & 0xf)];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

fn put_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|byte| ESCAPED[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..plain]);
        match rest[plain] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => {
                let digit = b"0123456789abcdef"[usize::from(control & 0xf)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (control >> 4), digit]);
            }
        }
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
}

/// How many bytes at the end of `bytes` begin a character that may go on behind them: 0 to 3.
pub(super) fn open_character(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    (1..=tail.len())
        .find(|back| {
            let start = &tail[tail.len() - back..];
            start[0] >= 0xc0 && std::str::from_utf8(start).is_err_and(|error| error.error_len().is_none())
        })
        .unwrap_or(0)
}

/// Appends a decimal integer.
#[inline]
pub(super) fn put_uint(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(decimal(value, &mut [0; LONGEST]));
}

/// Appends a decimal integer.
pub(super) fn put_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    put_uint(out, value.unsigned_abs());
}

/// Appends picoseconds as microseconds: the exact decimal, without zeros at the end.
#[inline]
pub(super) fn put_micros(out: &mut Vec<u8>, ps: u64) {
    put_uint(out, ps / 1_000_000);
    let fraction = ps % 1_000_000;
    if fraction == 0 {
        return;
    }
    let mut text = [b'.'; 7];
    for (place, pair) in [(1, fraction / 10_000), (3, fraction / 100 % 100), (5, fraction % 100)] {
        text[place..place + 2].copy_from_slice(&PAIRS[pair as usize]); // below 100
    }
    let len = text.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    out.extend_from_slice(&text[..len]);
}

/// Appends a double the way C's `%g` does: six significant digits, zeros at the end cut. A NaN has no sign.
pub(super) fn put_double(out: &mut Vec<u8>, value: f64) {
    put_general::<6>(out, value);
}

/// Appends picoseconds as TSL does: as microseconds in a double, with the 17 digits that tell it from all others.
pub(super) fn put_rounded_micros(out: &mut Vec<u8>, ps: u64) {
    put_general::<17>(out, ps as f64 / 1e6); // rounded on purpose
}

/// Appends a double the way C does for `%.*g` with this many digits, but for the sign of a NaN.
fn put_general<const DIGITS: usize>(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    if value.is_infinite() {
        out.extend_from_slice(b"inf");
        return;
    }
    // d.ddddde±x, rounded once, from which both forms of %g are cut.
    let mut scratch = [0; 32];
    let mut rest = &mut scratch[..];
    if write!(rest, "{value:.*e}", DIGITS - 1).is_err() {
        return; // cannot be: the longest is 1.2345678901234567e-308
    }
    let len = 32 - rest.len();
    let text = &scratch[..len];
    let mut digits = [text[0]; DIGITS];
    digits[1..].copy_from_slice(&text[2..=DIGITS]);
    let (below_one, exponent) = match &text[DIGITS + 2..] {
        [b'-', exponent @ ..] => (true, exponent),
        exponent => (false, exponent),
    };
    let exponent = exponent.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    let significant = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    if below_one && exponent <= 4 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + exponent - 1, b'0');
        out.extend_from_slice(&digits[..significant]);
    } else if !below_one && exponent < DIGITS {
        out.extend_from_slice(&digits[..=exponent]);
        if significant > exponent + 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[exponent + 1..significant]);
        }
    } else {
        out.push(digits[0]);
        if significant > 1 {
            digits[0] = b'.';
            out.extend_from_slice(&digits[..significant]);
        }
        out.extend_from_slice(if below_one { b"e-" } else { b"e+" });
        if exponent < 10 {
            out.push(b'0');
        }
        put_uint(out, super::super::xspace::wire::wide(exponent));
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)] // where C's own function is the model
    use proptest::prelude::*;

    use super::*;

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).expect("is UTF-8")
    }

    /// What C prints for a double, but for the sign of a NaN.
    #[cfg(unix)]
    fn c_text(value: f64) -> String {
        c_text_as(c"%g", value)
    }

    #[cfg(unix)]
    fn c_text_as(format: &std::ffi::CStr, value: f64) -> String {
        if value.is_nan() {
            return "nan".to_owned();
        }
        let mut buffer = [0_u8; 64];
        #[allow(unsafe_code)]
        // SAFETY: the buffer is as long as said, the format ends in NUL and, as both callers give it, takes one double.
        let len = unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), value) };
        let len = usize::try_from(len).expect("snprintf succeeds");
        String::from_utf8(buffer[..len].to_vec()).expect("is ASCII")
    }

    #[test]
    fn doubles_have_six_significant_digits() {
        let rows = [
            (0.1, "0.1"),
            (1e6, "1e+06"),
            (1e20, "1e+20"),
            (123_456_789.0, "1.23457e+08"),
            (1.0 / 3.0, "0.333333"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
            (0.0, "0"),
            (-0.0, "-0"),
            (100_000.0, "100000"),
            (1_234_567.0, "1.23457e+06"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (0.000_099_999_95, "0.0001"),
            (999_999.5, "1e+06"),
            (-1.5, "-1.5"),
            (f64::MAX, "1.79769e+308"),
            (f64::MIN_POSITIVE, "2.22507e-308"),
            (5e-324, "4.94066e-324"),
        ];
        for (value, expected) in rows {
            assert_eq!(text(|out| put_double(out, value)), expected);
        }
    }

    #[cfg(unix)]
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn any_double_reads_as_c_prints_it(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assert_eq!(text(|out| put_double(out, value)), c_text(value));
        }

        #[test]
        fn any_double_reads_as_c_prints_it_with_all_digits(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assert_eq!(text(|out| put_general::<17>(out, value)), c_text_as(c"%.17g", value));
        }

        #[test]
        fn any_time_reads_as_c_prints_it(ps: u64, shift in 0_u32..64) {
            let ps = ps >> shift;
            prop_assert_eq!(text(|out| put_rounded_micros(out, ps)), c_text_as(c"%.17g", ps as f64 / 1e6));
        }

        #[test]
        fn any_short_decimal_reads_as_c_prints_it(digits in -20_000_000_i64..20_000_000, scale in -12_i32..12) {
            let value = digits as f64 * 10_f64.powi(scale); // exact: below 2^53
            prop_assert_eq!(text(|out| put_double(out, value)), c_text(value));
        }

        // Exact ties, which C rounds to even: seven digits that end in 5, and halves of powers of two.
        #[test]
        fn any_tie_reads_as_c_prints_it(six in 100_000_u32..1_000_000, halvings in 0_i32..10) {
            let seven = f64::from(six) * 10.0 + 5.0;
            prop_assert_eq!(text(|out| put_double(out, seven)), c_text(seven));
            let halved = f64::from(six) / 2_f64.powi(halvings);
            prop_assert_eq!(text(|out| put_double(out, halved)), c_text(halved));
        }
    }

    #[test]
    fn integers_and_microseconds_are_exact() {
        for value in [0, 9, 10, 99, 100, 101, 12_345, 999_999, 10_u64.pow(19), u64::MAX] {
            assert_eq!(text(|out| put_uint(out, value)), value.to_string());
        }
        for value in [0, -1, -5, i64::MIN, i64::MAX] {
            assert_eq!(text(|out| put_int(out, value)), value.to_string());
        }
        let rows = [
            (0, "0"),
            (1, "0.000001"),
            (666, "0.000666"),
            (1_000_001, "1.000001"),
            (1_001_000, "1.001"),
            (1_500_000, "1.5"),
            (124_456_789, "124.456789"),
            (u64::MAX, "18446744073709.551615"),
            (10_000_000, "10"),
        ];
        for (ps, expected) in rows {
            assert_eq!(text(|out| put_micros(out, ps)), expected);
        }
    }

    #[test]
    fn strings_are_escaped_where_json_asks_for_it_and_nowhere_else() {
        let rows: [(&[u8], &str); 8] = [
            (b"plain </> &", "plain </> &"),
            (b"q\"uote\\back", "q\\\"uote\\\\back"),
            (b"nl\n\t\r\x08\x0c", "nl\\n\\t\\r\\b\\f"),
            (b"ctl\x01\x1f\x7f", "ctl\\u0001\\u001f\x7f"),
            (b"a\0b", "a\\u0000b"),
            ("é 日本 😀 \u{2028}".as_bytes(), "é 日本 😀 \u{2028}"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            (b"\xe6\x97\"\xe6\x97\xa5\xf0\x9f", "\u{fffd}\\\"日\u{fffd}"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(text(|out| put_string(out, bytes)), expected);
        }
    }

    #[test]
    fn tsl_s_strings_are_ascii_and_end_at_a_nul() {
        let rows: [(&[u8], &str, bool); 6] = [
            (b"plain </> &\x7f", "plain </> &\x7f", false),
            (b"q\"\n\x01", "q\\\"\\n\\u0001", false),
            ("é 日x😀".as_bytes(), "\\u00e9 \\u65e5x\\ud83d\\ude00", false),
            (b"a\0b", "a", true),
            (b"\0", "", true),
            (b"\xffz", "\\ufffdz", false),
        ];
        for (bytes, expected, cut) in rows {
            let mut found = false;
            assert_eq!(text(|out| found = put_ascii_string(out, bytes)), expected);
            assert_eq!(found, cut, "{expected}");
        }
    }

    #[test]
    fn a_character_that_may_go_on_is_told_from_a_broken_one() {
        let smile = "x😀".as_bytes();
        assert_eq!([2, 3, 4, 5].map(|end| open_character(&smile[..end])), [1, 2, 3, 0]);
        assert_eq!(open_character(b"\xff"), 0);
        assert_eq!(open_character(b"\x80\x80\x80"), 0);
        assert_eq!(open_character("é".as_bytes()), 0);
        assert_eq!(open_character(b""), 0);
    }
}
