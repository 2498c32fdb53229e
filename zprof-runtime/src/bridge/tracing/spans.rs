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

/// Places of spans; what finds its own taken goes to the others.
const PLACES: usize = 1 << 10;

/// A place for one span, on cache lines of its own. Its id is 0 where it is free, which no span's is.
#[derive(Debug)]
#[repr(align(128))]
struct Place(Mutex<(u64, Option<Span>)>);

type Others = HashMap<u64, Span, FixedState>;

/// All spans. Nothing that the program wrote runs under a lock.
#[derive(Debug)]
pub(super) struct Spans {
    places: Box<[Place]>,
    others: Mutex<Others>,
}

impl Default for Spans {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| Place(Mutex::new((0, None)))).collect();
        Self { places, others: Mutex::new(Others::default()) }
    }
}

impl Spans {
    /// Ids of a registry hold a place in their low bits, the thread that made it above, and a number that grows with each
    /// use of the place on top. Without that, a thread stays with few of our places, which are its own.
    #[inline]
    fn place(&self, id: u64) -> &Mutex<(u64, Option<Span>)> {
        let mixed = (id << 13).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        // Ten bits are left, and there are as many places.
        &self.places[usize::try_from(mixed).unwrap_or(0) % PLACES].0
    }

    /// Adds a span that is made now.
    #[inline]
    pub(super) fn add(&self, id: u64, site: &'static RawSite, fields: Fields) {
        let span = Span { site, whole: Whole::begin(), fields, receives: 0 };
        let mut place = self.place(id).lock();
        if place.0 == 0 {
            *place = (id, Some(span));
        } else {
            drop(place);
            self.add_elsewhere(id, span);
        }
    }

    #[cold]
    fn add_elsewhere(&self, id: u64, span: Span) {
        let old = self.others.lock().insert(id, span);
        // What is freed is freed without the lock.
        drop(old);
    }

    /// Calls `with` for a span that is there.
    #[inline]
    pub(super) fn with<T>(&self, id: u64, with: impl FnOnce(&mut Span) -> T) -> Option<T> {
        let mut place = self.place(id).lock();
        if place.0 == id {
            return place.1.as_mut().map(with);
        }
        drop(place);
        self.others.lock().get_mut(&id).map(with)
    }

    /// Takes a span that is closed.
    #[inline]
    pub(super) fn remove(&self, id: u64) -> Option<Span> {
        let mut place = self.place(id).lock();
        if place.0 == id {
            place.0 = 0;
            return place.1.take();
        }
        drop(place);
        self.others.lock().remove(&id)
    }
}
