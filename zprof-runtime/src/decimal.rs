//! Decimal text of integers, without the machinery of `core::fmt`.

/// The decimal digits of 0 to 99, two a number.
pub(crate) const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// The most digits that 64 bits have.
pub(crate) const LONGEST: usize = 20;

/// The digits of `value`, at the end of `digits`.
#[inline]
pub(crate) fn decimal(value: u64, digits: &mut [u8; LONGEST]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = value;
    while rest >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]); // below 100
        rest /= 100;
    }
    let pair = PAIRS[rest as usize]; // below 100
    if rest >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&pair);
    } else {
        at -= 1;
        digits[at] = pair[1];
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let mut values = vec![0, 9, 10, 99, 100, 101, 999, 1_000, u64::MAX];
        values.extend((0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for value in values {
            assert_eq!(decimal(value, &mut [0; LONGEST]), value.to_string().as_bytes());
        }
    }
}
