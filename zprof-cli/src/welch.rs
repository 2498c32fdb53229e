//! Whether two means differ: Welch's t-test, which lets both samples have a spread of their own.
//!
//! The difference of the means is held against its standard error `√(s₁²/n₁ + s₂²/n₂)` with Welch and Satterthwaite's
//! degrees of freedom. It takes the runs as independent; runs of a busy machine come in bad stretches, so what is barely
//! significant deserves a second measurement.

/// A sample: how many, their mean and their standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

/// How two samples compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// Half the width of the interval around the difference of the means that holds the true one in 99 of 100 cases.
    pub(crate) margin: f64,
    /// How likely a difference like this would be if there were none.
    pub(crate) p: f64,
}

/// The share of cases in which the interval misses.
const MISS: f64 = 0.01;
/// Degrees of freedom from which on Student's distribution is taken as the normal one.
const MANY: f64 = 10_000.0;

/// Compares two samples of at least two.
pub(crate) fn compare(before: Sample, after: Sample) -> Comparison {
    let part = |sample: Sample| {
        #[allow(clippy::cast_precision_loss)] // a count needs no more than 53 bits here
        let count = sample.count as f64;
        (sample.deviation * sample.deviation / count, count - 1.0)
    };
    let ((left, left_freedom), (right, right_freedom)) = (part(before), part(after));
    let variance = left + right;
    let difference = (after.mean - before.mean).abs();
    if variance <= 0.0 {
        return Comparison { margin: 0.0, p: if difference > 0.0 { 0.0 } else { 1.0 } };
    }
    let freedom = variance * variance / (left * left / left_freedom + right * right / right_freedom);
    let error = variance.sqrt();
    Comparison { margin: quantile(freedom) * error, p: two_sided(difference / error, freedom) }
}

/// The `t` beyond which, on either side, lie [`MISS`] of all cases.
fn quantile(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > MISS && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > MISS { low = middle } else { high = middle }
    }
    high
}

/// How much of Student's distribution lies beyond `t` on both sides.
fn two_sided(t: f64, freedom: f64) -> f64 {
    if freedom >= MANY {
        return libm::erfc(t / std::f64::consts::SQRT_2);
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on this side of the middle.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// The continued fraction, by Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..1_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for part in [even, odd] {
            d = 1.0 / nonzero(1.0 + part * d);
            c = nonzero(1.0 + part / c);
            change = d * c;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let rows = [(1.0, 63.657), (2.0, 9.925), (5.0, 4.032), (10.0, 3.169), (30.0, 2.750), (120.0, 2.617)];
        for (freedom, expected) in rows {
            assert!((quantile(freedom) - expected).abs() < 6e-4, "{freedom}: {}", quantile(freedom));
        }
        assert!((quantile(1e9) - 2.575_829).abs() < 1e-5);
        assert!((quantile(MANY - 1.0) - quantile(MANY)).abs() < 1e-3);
    }

    #[test]
    fn samples_compare_as_worked_out_by_hand() {
        // Means 10 and 12, variances 4 and 9, 20 and 30 of each: error² = 0.5, freedom = 0.25 / (0.04/19 + 0.09/29).
        let before = Sample { count: 20, mean: 10.0, deviation: 2.0 };
        let after = Sample { count: 30, mean: 12.0, deviation: 3.0 };
        let found = compare(before, after);
        // t = 2.828, freedom = 48.0
        assert!((found.margin - 0.5_f64.sqrt() * 2.682).abs() < 2e-3, "{found:?}");
        assert!((found.p - 0.0068).abs() < 2e-4, "{found:?}");
    }

    #[test]
    fn samples_without_spread_differ_or_not() {
        let at = |mean| Sample { count: 10, mean, deviation: 0.0 };
        assert_eq!(compare(at(1.0), at(1.0)), Comparison { margin: 0.0, p: 1.0 });
        assert_eq!(compare(at(1.0), at(2.0)), Comparison { margin: 0.0, p: 0.0 });
    }
}
