//! Metadata tables of a plane, found and extended by name.

use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use zprof_proto::{XEventMetadata, XPlane, XStatMetadata};

/// A hash map that hashes short names and ids quickly, and each map differently, so files cannot aim at collisions.
pub(super) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// An entry of a metadata table.
pub(super) trait Entry {
    /// What it is found by.
    fn name(&self) -> &str;
    /// An entry of nothing but its id and name.
    fn new(id: i64, name: String) -> Self;
}

impl Entry for XEventMetadata {
    fn name(&self) -> &str {
        &self.name
    }

    fn new(id: i64, name: String) -> Self {
        Self { id, name, ..Self::default() }
    }
}

impl Entry for XStatMetadata {
    fn name(&self) -> &str {
        &self.name
    }

    fn new(id: i64, name: String) -> Self {
        Self { id, name, description: String::new() }
    }
}

/// The ids of a table by name. Of entries with one name, the first has it; an empty name is known only from its first
/// use until [`forget_unnamed`](Self::forget_unnamed).
pub(super) struct Ids {
    by_name: FastMap<String, i64>,
    last: i64,
}

impl Ids {
    /// Indexes `table`.
    pub(super) fn of<T: Entry>(table: &BTreeMap<i64, T>) -> Self {
        let mut by_name = FastMap::default();
        for (&id, entry) in table.iter().filter(|(_, entry)| !entry.name().is_empty()) {
            by_name.entry(entry.name().to_owned()).or_insert(id);
        }
        Self { by_name, last: last_id(table) }
    }

    /// The id of the entry of this name in `table`, which is the one that was indexed; makes one where there is none.
    pub(super) fn get_or_create<T: Entry>(&mut self, table: &mut BTreeMap<i64, T>, name: &str) -> i64 {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = create(table, self.last, name);
        self.last = id;
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Makes the next empty name ask for an entry of its own.
    pub(super) fn forget_unnamed(&mut self) {
        self.by_name.remove("");
    }
}

/// The id of the stat metadata of this name in `plane`, made where there is none; for single look-ups.
pub(super) fn stat_id(plane: &mut XPlane, name: &str) -> i64 {
    let table = &mut plane.stat_metadata;
    let known = table.iter().find(|(_, entry)| entry.name == name).map(|(&id, _)| id);
    known.unwrap_or_else(|| create(table, last_id(table), name))
}

/// The largest id in use, or 0.
fn last_id<T>(table: &BTreeMap<i64, T>) -> i64 {
    table.last_key_value().map_or(0, |(&id, _)| id.max(0))
}

/// Adds an entry under the next free id after `last`, which is never 0.
fn create<T: Entry>(table: &mut BTreeMap<i64, T>, last: i64, name: &str) -> i64 {
    let mut id = last.wrapping_add(1);
    while id == 0 || table.contains_key(&id) {
        id = id.wrapping_add(1);
    }
    table.insert(id, T::new(id, name.to_owned()));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_on_from_the_largest_and_wrap_past_those_in_use() {
        let mut plane = XPlane::default();
        assert_eq!(stat_id(&mut plane, "a"), 1);
        assert_eq!(stat_id(&mut plane, "b"), 2);
        assert_eq!(stat_id(&mut plane, "a"), 1);
        for id in [i64::MAX, i64::MIN] {
            plane.stat_metadata.insert(id, XStatMetadata { id, ..Default::default() });
        }
        let mut ids = Ids::of(&plane.stat_metadata);
        assert_eq!(ids.get_or_create(&mut plane.stat_metadata, "c"), i64::MIN + 1);
        assert_eq!(ids.get_or_create(&mut plane.stat_metadata, "d"), i64::MIN + 2);
        assert_eq!(ids.get_or_create(&mut plane.stat_metadata, "b"), 2);
    }

    #[test]
    fn an_empty_name_is_never_found_in_the_table() {
        let mut table = BTreeMap::from([(7, XStatMetadata { id: 7, ..Default::default() })]);
        let mut ids = Ids::of(&table);
        assert_eq!(ids.get_or_create(&mut table, ""), 8);
        assert_eq!(ids.get_or_create(&mut table, ""), 8);
        ids.forget_unnamed();
        assert_eq!(ids.get_or_create(&mut table, ""), 9);
    }
}
