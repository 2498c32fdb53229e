//! The spans that are not closed yet, by their ids.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::fields::Fields;
use crate::raw::{RawSite, Whole};
use crate::record::primitive::Mutex;

/// A span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) site: &'static RawSite,
    pub(super) whole: Whole,
    pub(super) fields: Fields,
    /// Number of a flow that ends at its next slice, or 0.
    pub(super) receives: u64,
}

const SHARDS: usize = 64;

/// One of several parts, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<HashMap<u64, Span, FixedState>>);

/// All spans, in parts with a lock each. Nothing that the program wrote runs under a lock.
#[derive(Debug)]
pub(super) struct Spans(Box<[Shard]>);

impl Default for Spans {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Shard(Mutex::new(HashMap::default()))).collect())
    }
}

impl Spans {
    /// Ids of a registry hold a place in their low bits, the thread that made it above, and a number that grows with each
    /// use of the place on top. Without that, a thread stays with few shards, which are its own.
    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, Span, FixedState>> {
        let mixed = (id << 13).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        // Six bits are left, and there are as many shards.
        &self.0[usize::try_from(mixed).unwrap_or(0) % SHARDS].0
    }

    /// Adds a span that is made now.
    pub(super) fn add(&self, id: u64, site: &'static RawSite, fields: Fields) {
        let span = Span { site, whole: Whole::begin(), fields, receives: 0 };
        let old = self.shard(id).lock().insert(id, span);
        // What is freed is freed without the lock.
        drop(old);
    }

    /// Calls `with` for a span that is there.
    #[inline]
    pub(super) fn with<T>(&self, id: u64, with: impl FnOnce(&mut Span) -> T) -> Option<T> {
        self.shard(id).lock().get_mut(&id).map(with)
    }

    /// Takes a span that is closed.
    pub(super) fn remove(&self, id: u64) -> Option<Span> {
        self.shard(id).lock().remove(&id)
    }
}
