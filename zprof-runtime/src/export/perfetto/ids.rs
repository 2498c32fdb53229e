//! A map by metadata ids, which programs count from 1: a list, and a hash table for ids that are far out.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Places that the list has at least.
const LEAST: usize = 256;

/// Values by id. The last one of an id counts.
pub(super) struct Ids<V> {
    /// By id. What stands here hides what is `far`.
    near: Vec<Option<V>>,
    far: HashMap<i64, V, FixedState>,
    inserted: usize,
}

impl<V> Default for Ids<V> {
    fn default() -> Self {
        Self { near: Vec::new(), far: HashMap::default(), inserted: 0 }
    }
}

impl<V> Ids<V> {
    pub(super) fn insert(&mut self, id: i64, value: V) {
        self.inserted += 1;
        // At most four places for each value, so that memory is bounded by what the file holds.
        let most = 4 * self.inserted + LEAST;
        match usize::try_from(id).ok().filter(|place| *place < self.near.len().max(most)) {
            Some(place) => {
                if place >= self.near.len() {
                    self.near.resize_with(place + 1, || None);
                }
                self.near[place] = Some(value);
            }
            None => _ = self.far.insert(id, value),
        }
    }

    #[inline]
    pub(super) fn get(&self, id: i64) -> Option<&V> {
        match usize::try_from(id).ok().and_then(|place| self.near.get(place)) {
            Some(Some(value)) => Some(value),
            _ => self.get_far(id),
        }
    }

    #[cold]
    fn get_far(&self, id: i64) -> Option<&V> {
        self.far.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_an_id_counts_wherever_it_is() {
        let mut ids = Ids::default();
        let edge = 1_000;
        for id in [0, edge, -1, i64::MIN, i64::MAX] {
            assert_eq!(ids.get(id), None);
            ids.insert(id, id);
            assert_eq!(ids.get(id), Some(&id));
        }
        // The list grows over an id that was far out.
        (1..edge).for_each(|id| ids.insert(id, -id));
        assert_eq!(ids.get(edge), Some(&edge));
        ids.insert(edge, 7);
        assert_eq!([edge, edge - 1, 0, -1].map(|id| ids.get(id).copied()), [7, 1 - edge, 0, -1].map(Some));
        assert!(ids.near.len() <= 4 * ids.inserted + LEAST);
    }
}
