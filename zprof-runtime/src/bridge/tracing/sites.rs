//! The site of each callsite.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::FixedState;
use tracing_core::Metadata;

use super::level_of;
use crate::raw::{Description, NO_FILTER, RawSite};
use crate::record::primitive::{Mutex, MutexGuard};

/// What is known of a callsite.
#[derive(Debug)]
pub(crate) struct Callsite {
    /// `None` where no more sites can be made.
    pub(super) site: Option<&'static RawSite>,
    /// A span of it ended that was made while nothing recorded.
    ends_idle: AtomicBool,
}

impl Callsite {
    /// Whether a span of it ended that was made while nothing recorded.
    pub(super) fn ends_idle(&self) -> bool {
        self.ends_idle.load(Ordering::Relaxed)
    }

    /// Notes that such a span ended. Whether it is the first one.
    pub(super) fn end_idle(&self) -> bool {
        // The load first, so that later ones write nothing.
        !self.ends_idle() && !self.ends_idle.swap(true, Ordering::Relaxed)
    }
}

/// A callsite by the address of its metadata, which is static.
type Known = (usize, Option<&'static Callsite>);

/// Callsites that a thread finds at once.
const RECENT: usize = 64;

thread_local! {
    static SEEN: [Cell<Known>; RECENT] = const { [const { Cell::new((0, None)) }; RECENT] };
}

type All = HashMap<usize, &'static Callsite, FixedState>;

static ALL: Mutex<Option<All>> = Mutex::new(None);

/// The lock that a fork must not find taken.
pub(super) type Held = MutexGuard<'static, Option<All>>;

/// Takes it.
pub(super) fn hold() -> Held {
    ALL.lock()
}

/// The site of a callsite.
#[inline]
pub(super) fn of(metadata: &'static Metadata<'static>) -> Option<&'static RawSite> {
    callsite(metadata).site
}

/// What is known of a callsite.
#[inline]
pub(super) fn callsite(metadata: &'static Metadata<'static>) -> &'static Callsite {
    let address = std::ptr::from_ref(metadata).addr();
    let slot = slot_of(address);
    let seen = SEEN.try_with(|seen| seen[slot].get()).ok().filter(|seen| seen.0 == address);
    match seen {
        Some((_, Some(callsite))) => callsite,
        _ => find(address, slot, metadata),
    }
}

/// Whether a span of this callsite ended that was made while nothing recorded. Nobody knows of a callsite that was never asked
/// who wants it.
pub(super) fn ends_idle(metadata: &Metadata<'_>) -> bool {
    let address = std::ptr::from_ref(metadata).addr();
    let seen = SEEN.try_with(|seen| seen[slot_of(address)].get()).ok().filter(|seen| seen.0 == address);
    let callsite = match seen {
        Some((_, callsite)) => callsite,
        None => ALL.lock().get_or_insert_default().get(&address).copied(),
    };
    callsite.is_none_or(Callsite::ends_idle)
}

/// The place of a callsite among those that a thread finds at once.
fn slot_of(address: usize) -> usize {
    // Metadata takes more than a hundred bytes.
    (address / 64) % RECENT
}

#[cold]
fn find(address: usize, slot: usize, metadata: &'static Metadata<'static>) -> &'static Callsite {
    let known = ALL.lock().get_or_insert_default().get(&address).copied();
    // Not under the lock: the last one that can be made is told to the program's logger. Of two threads, one's is never used.
    let callsite = known.unwrap_or_else(|| {
        let made = Box::new(Callsite { site: make(metadata), ends_idle: AtomicBool::new(false) });
        let mut all = ALL.lock();
        let (callsite, unused) = match all.get_or_insert_default().entry(address) {
            Entry::Occupied(other) => (*other.get(), Some(made)),
            Entry::Vacant(place) => (*place.insert(Box::leak(made)), None),
        };
        drop(all);
        drop(unused);
        callsite
    });
    let _ = SEEN.try_with(|seen| seen[slot].set((address, Some(callsite))));
    callsite
}

fn make(metadata: &'static Metadata<'static>) -> Option<&'static RawSite> {
    // What is not given a name is called after its place, which the site has anyway.
    let unnamed = metadata.is_event() && metadata.name().starts_with("event ");
    let name =
        if unnamed { format!("{} {}", metadata.level(), metadata.target()).into() } else { metadata.name().into() };
    let keys: Vec<_> = metadata.fields().iter().map(|field| field.name().into()).collect();
    RawSite::make(Description {
        name,
        keys: &keys,
        level: level_of(*metadata.level()),
        filter: NO_FILTER,
        module_path: metadata.target().into(),
        file: metadata.file().unwrap_or_default().into(),
        line: metadata.line().unwrap_or_default(),
    })
}
