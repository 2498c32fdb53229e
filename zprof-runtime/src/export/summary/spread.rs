//! How durations are spread, in little memory: exact up to a number of runs, then in classes narrower than 1 %.

/// Durations that are kept as they are.
const EXACT: usize = 512;
/// Durations below are a class each.
const FINE: u64 = 256;
/// Classes of an octave.
const CLASSES: u64 = 128;
/// Exponent of the first octave, which begins at [`FINE`].
const FIRST_OCTAVE: u32 = 8;

/// Durations, in picoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    /// All of them, until there are too many.
    exact: Vec<u64>,
    /// How many are in each class, from the class `first` on; empty as long as `exact` holds them.
    classes: Vec<u64>,
    first: usize,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    /// Mean and sum of squared distances from it, kept up with each duration.
    mean: f64,
    squares: f64,
}

impl Spread {
    pub(super) fn add(&mut self, duration_ps: u64) {
        self.min = if self.count == 0 { duration_ps } else { self.min.min(duration_ps) };
        self.max = self.max.max(duration_ps);
        self.count += 1;
        self.sum += u128::from(duration_ps);
        #[allow(clippy::cast_precision_loss)] // a mean needs no more than 53 bits
        let (value, count) = (duration_ps as f64, self.count as f64);
        let before = value - self.mean;
        self.mean += before / count;
        self.squares += before * (value - self.mean);
        if !self.classes.is_empty() {
            self.classify(duration_ps);
        } else if self.exact.len() < EXACT {
            self.exact.push(duration_ps);
        } else {
            for known in std::mem::take(&mut self.exact) {
                self.classify(known);
            }
            self.classify(duration_ps);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum(&self) -> u128 {
        self.sum
    }

    pub(super) fn min(&self) -> u64 {
        self.min
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// The standard deviation of what these are a sample of; `None` for fewer than two.
    pub(super) fn deviation(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)] // as above
        let freedom = self.count.checked_sub(1)? as f64;
        (self.count > 1).then(|| (self.squares / freedom).sqrt())
    }

    /// The smallest duration that at least `percent` of 100 of all are not above. With many it may be off by 1/256.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        if self.classes.is_empty() {
            let mut sorted = self.exact.clone();
            sorted.sort_unstable();
            let place = usize::try_from(rank - 1).unwrap_or(usize::MAX);
            return sorted.get(place).copied().unwrap_or(self.max);
        }
        let mut seen = 0;
        for (class, count) in (self.first..).zip(&self.classes) {
            seen += u128::from(*count);
            if seen >= rank {
                return middle(class).clamp(self.min, self.max);
            }
        }
        self.max
    }

    fn classify(&mut self, duration_ps: u64) {
        let class = class(duration_ps);
        if self.classes.is_empty() {
            self.first = class;
        } else if class < self.first {
            let missing = self.first - class;
            self.classes.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = class;
        }
        let place = class - self.first;
        if place >= self.classes.len() {
            self.classes.resize(place + 1, 0);
        }
        self.classes[place] += 1;
    }
}

/// The class of a duration.
#[allow(clippy::cast_possible_truncation)] // a few thousand classes
fn class(duration: u64) -> usize {
    if duration < FINE {
        return duration as usize;
    }
    let octave = duration.ilog2();
    let within = duration >> (octave - 7) & (CLASSES - 1);
    (FINE + u64::from(octave - FIRST_OCTAVE) * CLASSES + within) as usize
}

/// The middle of a class.
fn middle(class: usize) -> u64 {
    let class = crate::xspace::wire::wide(class);
    let Some(above) = class.checked_sub(FINE) else { return class };
    let width = 1 << (above / CLASSES + 1);
    (CLASSES + above % CLASSES) * width + width / 2
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn spread(durations: &[u64]) -> Spread {
        let mut spread = Spread::default();
        durations.iter().for_each(|duration| spread.add(*duration));
        spread
    }

    fn ranked(durations: &[u64], percent: usize) -> u64 {
        let mut sorted = durations.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
    }

    #[test]
    fn classes_are_in_order_and_hold_their_middle() {
        let mut last = None;
        for shift in 0..64 {
            for duration in [1_u64 << shift, (1 << shift) + (1 << shift) / 3, u64::MAX >> (63 - shift)] {
                let found = class(duration);
                assert!(last <= Some(found), "{duration}");
                last = Some(found);
                assert_eq!(class(middle(found)), found, "{duration}");
            }
        }
    }

    #[test]
    fn few_are_exact() {
        let spread = spread(&[10, 20, 30, 40]);
        assert_eq!(
            [1, 50, 51, 75, 76, 99, 100].map(|percent| spread.percentile(percent)),
            [10, 20, 30, 30, 40, 40, 40]
        );
        assert_eq!((spread.count(), spread.sum(), spread.min(), spread.max()), (4, 100, 10, 40));
        assert!((spread.deviation().expect("has two") - 12.909_944_487_358_056).abs() < 1e-9);
        assert_eq!(Spread::default().deviation(), None);
    }

    proptest! {
        #[test]
        fn many_are_off_by_less_than_said(
            durations in vec(prop_oneof![0_u64..2_000, 1_000_000_u64..50_000_000_000, any::<u64>()], 1..1_500),
        ) {
            let spread = spread(&durations);
            for percent in [1_u8, 50, 99, 100] {
                let (found, exact) = (spread.percentile(percent.into()), ranked(&durations, percent.into()));
                let allowed = if durations.len() <= EXACT { 0 } else { exact / 256 };
                prop_assert!(found.abs_diff(exact) <= allowed, "{percent} %: {found} for {exact}");
            }
        }
    }
}
