//! Gathers the samples of counters of all threads on the line `_counters_`, which viewers show as curves.
//!
//! What has one name is one counter, wherever in the program its samples come from. The name of the stat is its unit. Where
//! the record begins later than the session, each curve begins there too, with the last value from before.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::clock::Cursor;
use crate::record::Sampled;
use crate::record::decode::{Decoded, value};
use crate::room::{self, Result, Room as _};
use crate::xspace::writer::{EventKind, Line, Plane, StatValue};

/// Name of the line.
const NAME: &str = "_counters_";
/// Its id, which no thread has.
pub(super) const ID: u64 = i64::MAX.unsigned_abs();

/// The samples of a session.
#[derive(Debug, Default)]
pub(super) struct Counters {
    samples: Vec<Sample>,
    /// The last sample of each counter from before the record, and when it was.
    before: HashMap<(u64, u64), (u64, StatValue<'static>), FixedState>,
    /// Kind and unit of each shape, by its address.
    known: HashMap<usize, (u64, u64), FixedState>,
}

#[derive(Debug)]
struct Sample {
    ps: u64,
    kind: u64,
    unit: u64,
    /// Which of all samples it is.
    number: usize,
    value: StatValue<'static>,
}

impl Counters {
    /// Takes those of one thread, whose cursor this is.
    pub(super) fn take(&mut self, counts: &[Sampled], mut cursor: Cursor<'_>, plane: &mut Plane) -> Result<()> {
        self.samples.room(counts.len())?;
        for sampled in counts {
            if let Some((kind, unit, value)) = self.read(sampled, plane)? {
                self.push(cursor.ps(sampled.tick), kind, unit, value)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, ps: u64, kind: u64, unit: u64, value: StatValue<'static>) -> Result<()> {
        let number = self.samples.len();
        room::push(&mut self.samples, Sample { ps, kind, unit, number, value })
    }

    /// Takes the last samples of one thread from before its record. The last of all threads counts where they are older than
    /// `since`, where the record begins; the others are samples as any.
    pub(super) fn take_before(
        &mut self,
        last: &[Sampled],
        since: u64,
        cursor: &mut Cursor<'_>,
        plane: &mut Plane,
    ) -> Result<()> {
        for sampled in last {
            let Some((kind, unit, value)) = self.read(sampled, plane)? else { continue };
            if sampled.tick >= since {
                self.push(cursor.ps(sampled.tick), kind, unit, value)?;
                continue;
            }
            self.before.room(1)?;
            let before = self.before.entry((kind, unit)).or_insert((sampled.tick, value));
            if before.0 < sampled.tick {
                *before = (sampled.tick, value);
            }
        }
        Ok(())
    }

    /// The kind, the unit and the value of a sample.
    fn read(&mut self, sampled: &Sampled, plane: &mut Plane) -> Result<Option<(u64, u64, StatValue<'static>)>> {
        let Sampled { shape, value: bits, .. } = sampled;
        self.known.room(1)?;
        let (kind, unit) = *self.known.entry(std::ptr::from_ref(*shape).addr()).or_insert_with(|| {
            let site = shape.site.site();
            let kind = EventKind { name: site.name, module_path: "", file: "", line: 0 };
            (plane.event_kind(kind), plane.names.id(site.keys.first().unwrap_or(&"value")))
        });
        let value = match shape.kinds.first().and_then(|kind| value(kind, std::slice::from_ref(bits))?.0) {
            Some(Decoded::Signed(value)) => StatValue::Int(value),
            Some(Decoded::Unsigned(value)) => i64::try_from(value).map_or(StatValue::Uint(value), StatValue::Int),
            Some(Decoded::Float(value)) => StatValue::Double(value),
            Some(Decoded::Single(value)) => StatValue::Double(value.into()),
            // Counters have no other kinds.
            _ => return Ok(None),
        };
        Ok(Some((kind, unit, value)))
    }

    /// Writes the line, where there is anything for it, and returns how many samples it has. `cursor` is one of the record.
    pub(super) fn write(mut self, mut cursor: Cursor<'_>, plane: &mut Plane) -> Result<u64> {
        for ((kind, unit), (tick, value)) in std::mem::take(&mut self.before) {
            self.push(cursor.ps(tick), kind, unit, value)?;
        }
        if self.samples.is_empty() {
            return Ok(0);
        }
        // Samples of one moment stay in their order: sorting that keeps it would allocate.
        self.samples.sort_unstable_by_key(|sample| (sample.ps, sample.kind, sample.unit, sample.number));
        let mut line = Line::new(ID, NAME.to_owned(), self.samples.len() * 20);
        for Sample { ps, kind, unit, value, .. } in self.samples {
            let mut event = line.event(kind, ps, 0);
            event.stat(unit, value, &mut plane.names);
            event.end();
        }
        let count = line.count();
        plane.push(line);
        Ok(count)
    }
}
