//! Gathers the samples of counters of all threads on the line `_counters_`, which viewers show as curves.
//!
//! What has one name is one counter, wherever in the program its samples come from. The name of the stat is its unit.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::clock::Cursor;
use crate::record::decode::{Decoded, value};
use crate::record::drain::Count;
use crate::xspace::writer::{EventKind, Line, Plane, StatValue};

/// Name of the line.
const NAME: &str = "_counters_";
/// Its id, which no thread has.
pub(super) const ID: u64 = i64::MAX.unsigned_abs();

/// The samples of a session.
#[derive(Debug, Default)]
pub(super) struct Counters {
    samples: Vec<Sample>,
    /// Kind and unit of each shape, by its address.
    known: HashMap<usize, (u64, u64), FixedState>,
}

#[derive(Debug)]
struct Sample {
    ps: u64,
    kind: u64,
    unit: u64,
    value: StatValue<'static>,
}

impl Counters {
    /// Takes those of one thread, whose cursor this is.
    pub(super) fn take(&mut self, counts: &[Count], mut cursor: Cursor<'_>, plane: &mut Plane) {
        self.samples.reserve(counts.len());
        for Count { tick, shape, value: bits } in counts {
            let (kind, unit) = *self.known.entry(std::ptr::from_ref(*shape).addr()).or_insert_with(|| {
                let site = shape.site.site();
                let kind = EventKind { name: site.name, module_path: "", file: "", line: 0 };
                (plane.event_kind(kind), plane.names.id(site.keys.first().unwrap_or(&"value")))
            });
            let decoded = shape.kinds.first().and_then(|kind| value(kind, std::slice::from_ref(bits))?.0);
            let value = match decoded {
                Some(Decoded::Signed(value)) => StatValue::Int(value),
                Some(Decoded::Unsigned(value)) => i64::try_from(value).map_or(StatValue::Uint(value), StatValue::Int),
                Some(Decoded::Float(value)) => StatValue::Double(value),
                Some(Decoded::Single(value)) => StatValue::Double(value.into()),
                // Counters have no other kinds.
                _ => continue,
            };
            self.samples.push(Sample { ps: cursor.ps(*tick), kind, unit, value });
        }
    }

    /// Writes the line, where there is anything for it, and returns how many samples it has.
    pub(super) fn write(mut self, plane: &mut Plane) -> u64 {
        if self.samples.is_empty() {
            return 0;
        }
        self.samples.sort_by_key(|sample| sample.ps);
        let mut line = Line::new(ID, NAME.to_owned(), self.samples.len() * 20);
        for Sample { ps, kind, unit, value } in self.samples {
            let mut event = line.event(kind, ps, 0);
            event.stat(unit, value, &mut plane.names);
            event.end();
        }
        let count = line.count();
        plane.push(line);
        count
    }
}
