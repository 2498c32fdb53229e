//! The site of each callsite.

use std::cell::Cell;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use tracing_core::Metadata;

use super::level_of;
use crate::raw::{Description, NO_FILTER, RawSite};
use crate::record::primitive::{Mutex, MutexGuard};

/// What is known of a callsite, by the address of its metadata, which is static: `None` where no more sites can be made.
type Known = (usize, Option<&'static RawSite>);

/// Callsites that a thread finds at once.
const RECENT: usize = 64;

thread_local! {
    static SEEN: [Cell<Known>; RECENT] = const { [const { Cell::new((0, None)) }; RECENT] };
}

type All = HashMap<usize, Option<&'static RawSite>, FixedState>;

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
    let address = std::ptr::from_ref(metadata).addr();
    // Metadata takes more than a hundred bytes.
    let slot = (address / 64) % RECENT;
    let seen = SEEN.try_with(|seen| seen[slot].get()).ok().filter(|seen| seen.0 == address);
    match seen {
        Some((_, site)) => site,
        None => find(address, slot, metadata),
    }
}

#[cold]
fn find(address: usize, slot: usize, metadata: &'static Metadata<'static>) -> Option<&'static RawSite> {
    let known = ALL.lock().get_or_insert_default().get(&address).copied();
    // Not under the lock: the last one that can be made is told to the program's logger. Of two threads, one's is never used.
    let site = known.unwrap_or_else(|| {
        let made = make(metadata);
        *ALL.lock().get_or_insert_default().entry(address).or_insert(made)
    });
    let _ = SEEN.try_with(|seen| seen[slot].set((address, site)));
    site
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
