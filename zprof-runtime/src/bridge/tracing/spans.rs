//! The spans that are not closed yet, by their ids.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Deref;

use foldhash::fast::FixedState;

use super::fields::Fields;
use crate::raw::{RawSite, Whole};
use crate::record::primitive::{Mutex, MutexGuard};

/// A span. It takes some 250 bytes, which stay where they are: each thread keeps a few that are closed for the next.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) site: &'static RawSite,
    pub(super) whole: Whole,
    pub(super) fields: Fields,
    /// Number of a flow that ends at its next slice, or 0.
    pub(super) receives: u64,
}

/// Closed spans that a thread keeps.
const MOST_SPARE: usize = 16;

/// In boxes, since a span stays where it is.
#[allow(clippy::vec_box)]
type Spares = Vec<Box<Span>>;

thread_local! {
    static SPARE: Cell<Spares> = const { Cell::new(Vec::new()) };
}

impl Span {
    /// A span that is made now, without fields. Its whole has yet to begin.
    #[inline]
    pub(super) fn make(site: &'static RawSite) -> Box<Self> {
        // Taken out meanwhile, since the program's allocator may have spans.
        let spare = SPARE.try_with(|spare| {
            let mut spares = spare.take();
            let span = spares.pop();
            spare.set(spares);
            span
        });
        match spare {
            Ok(Some(mut span)) => {
                (span.site, span.receives) = (site, 0);
                span
            }
            _ => Box::new(Self { site, whole: Whole::begin(), fields: Fields::default(), receives: 0 }),
        }
    }

    /// Keeps what is closed for the next one of the thread.
    #[inline]
    pub(super) fn put_back(mut self: Box<Self>) {
        if self.fields.has_little() {
            self.fields.clear();
            let _ = SPARE.try_with(|spare| {
                let mut spares = spare.take();
                if spares.len() < MOST_SPARE {
                    spares.push(self);
                }
                spare.set(spares);
            });
        }
    }
}

/// Places of spans; what finds its own taken goes to the others.
const PLACES: usize = 1 << 10;

/// A place for one span, on cache lines of its own. Its id is 0 where it is free, which no span's is.
#[derive(Debug)]
#[repr(align(128))]
struct Place(Mutex<Placed>);

type Placed = (u64, Option<Box<Span>>);

type Others = HashMap<u64, Box<Span>, FixedState>;

/// All spans of a layer. Nothing that the program wrote runs under a lock.
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

/// Those of all layers that there have been. They stay for the locks in them, which a fork takes, and layers that are
/// gone leave theirs to the next.
#[derive(Debug)]
struct Layers {
    all: Vec<&'static Spans>,
    free: Vec<&'static Spans>,
}

static LAYERS: Mutex<Layers> = Mutex::new(Layers { all: Vec::new(), free: Vec::new() });

/// The locks that a fork must not find taken.
#[derive(Debug)]
pub(crate) struct Held {
    _layers: MutexGuard<'static, Layers>,
    _places: Vec<MutexGuard<'static, Placed>>,
    _others: Vec<MutexGuard<'static, Others>>,
}

/// Takes them. Other threads have one of them at a time.
pub(super) fn hold() -> Held {
    let layers = LAYERS.lock();
    let _places = layers.all.iter().flat_map(|spans| spans.places.iter()).map(|place| place.0.lock()).collect();
    let _others = layers.all.iter().map(|spans| spans.others.lock()).collect();
    Held { _layers: layers, _places, _others }
}

/// The spans of a layer, for as long as it is there.
#[derive(Debug)]
pub(super) struct Lent(&'static Spans);

impl Lent {
    pub(super) fn take() -> Self {
        let mut layers = LAYERS.lock();
        let spans = layers.free.pop().unwrap_or_else(|| {
            let spans: &'static Spans = Box::leak(Box::default());
            layers.all.push(spans);
            spans
        });
        Self(spans)
    }
}

impl Deref for Lent {
    type Target = Spans;

    #[inline]
    fn deref(&self) -> &Spans {
        self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for place in &self.0.places {
            // What is freed is freed without the lock.
            let old = std::mem::take(&mut *place.0.lock());
            drop(old);
        }
        let others = std::mem::take(&mut *self.0.others.lock());
        drop(others);
        LAYERS.lock().free.push(self.0);
    }
}

impl Spans {
    /// Ids of a registry hold a place in their low bits, the thread that made it above, and a number that grows with each
    /// use of the place on top. Without that, a thread stays with few of our places, which are its own.
    #[inline]
    fn place(&self, id: u64) -> &Mutex<Placed> {
        let mixed = (id << 13).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        // Ten bits are left, and there are as many places.
        &self.places[usize::try_from(mixed).unwrap_or(0) % PLACES].0
    }

    /// Adds a span that has its fields.
    #[inline]
    pub(super) fn add(&self, id: u64, mut span: Box<Span>) {
        span.whole = Whole::begin();
        let mut place = self.place(id).lock();
        if place.0 == 0 {
            *place = (id, Some(span));
        } else {
            drop(place);
            self.add_elsewhere(id, span);
        }
    }

    #[cold]
    fn add_elsewhere(&self, id: u64, span: Box<Span>) {
        let old = self.others.lock().insert(id, span);
        // What is freed is freed without the lock.
        drop(old);
    }

    /// Calls `with` for a span that is there.
    #[inline]
    pub(super) fn with<T>(&self, id: u64, with: impl FnOnce(&mut Span) -> T) -> Option<T> {
        let mut place = self.place(id).lock();
        if place.0 == id {
            return place.1.as_deref_mut().map(with);
        }
        drop(place);
        self.others.lock().get_mut(&id).map(|span| with(span))
    }

    /// Whether a span is there.
    pub(super) fn has(&self, id: u64) -> bool {
        self.with(id, |_| ()).is_some()
    }

    /// Takes a span that is closed.
    #[inline]
    pub(super) fn remove(&self, id: u64) -> Option<Box<Span>> {
        let mut place = self.place(id).lock();
        if place.0 == id {
            place.0 = 0;
            return place.1.take();
        }
        drop(place);
        self.others.lock().remove(&id)
    }
}
