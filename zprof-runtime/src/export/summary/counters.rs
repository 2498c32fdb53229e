//! The samples of counters, summed up by counter.

use std::collections::{BTreeMap, HashMap};

use super::CounterSummary;
use crate::Result;
use crate::export::scopes::Scopes;
use crate::export::timeline::{PlaneGroup, Timeline, text};
use crate::xspace::reader::{Value, each_event_stat, each_stat_metadata};
use crate::xspace::window::Window;

/// The counters of a group of planes.
#[derive(Default)]
pub(super) struct Counters {
    /// By the scope with the counter's name, the plane of the group, and the unit's id there.
    sums: HashMap<(u32, u32, i64), Sum>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    samples: u64,
    /// `None` while all samples are NaN.
    numbers: Option<Numbers>,
}

/// The samples that are numbers.
#[derive(Clone, Copy)]
struct Numbers {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    /// The last one in time, and its time in picoseconds.
    last: (i128, f64),
}

impl Counters {
    /// Adds the samples of a line. An event is a sample of the counter that has its name and, as unit, the name of its last stat
    /// that is a number. An event without such a stat is no sample.
    pub(super) fn add(&mut self, window: &mut Window<'_>, timeline: &Timeline, scopes: &Scopes) -> Result<()> {
        timeline.each_in_file(window, |window, timed| {
            let mut sample = None;
            each_event_stat(window, timed.body, |_, stat| {
                sample = number(stat.value).map(|number| (stat.metadata_id, number)).or(sample);
                Ok(())
            })?;
            if let Some((unit, number)) = sample {
                let key = (scopes.kind(timed).scope, timed.plane, unit);
                self.sums.entry(key).or_default().add(Sum::of(timed.start_ps, number));
            }
            Ok(())
        })
    }

    /// The counters by name and unit. Units are looked up here, since a plane may have many names of stats and few units.
    pub(super) fn finish(
        self,
        window: &mut Window<'_>,
        group: &PlaneGroup,
        scopes: &Scopes,
    ) -> Result<Vec<CounterSummary>> {
        if self.sums.is_empty() {
            return Ok(Vec::new());
        }
        let mut units: HashMap<(u32, i64), String> =
            self.sums.keys().map(|key| ((key.1, key.2), String::new())).collect();
        for (plane, header) in (0..).zip(&group.planes) {
            each_stat_metadata(window, header.body, |window, id, name| {
                if let Some(unit) = units.get_mut(&(plane, id)) {
                    *unit = text(window, name)?;
                }
                Ok(())
            })?;
        }
        let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
        let mut parts: Vec<_> = self.sums.into_iter().collect();
        parts.sort_unstable_by_key(|part| part.0);
        for ((scope, plane, unit), sum) in parts {
            let unit = units.get(&(plane, unit)).map_or("", String::as_str);
            sums.entry((scopes.name(scope), unit)).or_default().add(sum);
        }
        let counters = sums.into_iter().map(|((name, unit), Sum { samples, numbers })| {
            #[allow(clippy::cast_precision_loss)] // a mean needs no more than 53 bits
            let mean = numbers.map(|numbers| numbers.sum / numbers.count as f64);
            CounterSummary {
                name: name.to_owned(),
                unit: unit.to_owned(),
                samples,
                min: numbers.map(|numbers| numbers.min),
                mean,
                max: numbers.map(|numbers| numbers.max),
                last: numbers.map(|numbers| numbers.last.1),
            }
        });
        Ok(counters.collect())
    }
}

impl Sum {
    fn of(start_ps: i128, number: f64) -> Self {
        let numbers = Numbers { count: 1, sum: number, min: number, max: number, last: (start_ps, number) };
        Self { samples: 1, numbers: (!number.is_nan()).then_some(numbers) }
    }

    /// Adds samples. Of samples of one time, those added later are the later ones.
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.numbers = match (self.numbers, other.numbers) {
            (Some(one), Some(other)) => Some(Numbers {
                count: one.count + other.count,
                sum: one.sum + other.sum,
                min: one.min.min(other.min),
                max: one.max.max(other.max),
                last: if other.last.0 >= one.last.0 { other.last } else { one.last },
            }),
            (one, other) => one.or(other),
        };
    }
}

/// The value as a number, if it is one.
fn number(value: Value) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // what is shown of a number needs no more than 53 bits
    match value {
        Value::Int(value) => Some(value as f64),
        Value::Uint(value) => Some(value as f64),
        Value::Double(value) => Some(value),
        _ => None,
    }
}
