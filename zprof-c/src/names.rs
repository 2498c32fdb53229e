//! Texts that are known only at run time and kept for good: names of scopes without a site, and keys of what is added later.
//!
//! The tables only ever grow, up to a bound, and take no lock: a fork finds them whole.

use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::abi::Site;

/// Most texts of a table.
pub(crate) const MOST: usize = 4096;
const BUCKETS: usize = 1024;

/// What sites without a place in the source call their module, as the header's do.
const MODULE: &CStr = c"c";

/// A text that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    /// As C gave it.
    given: CString,
    /// With what is no UTF-8 repaired.
    pub(crate) text: String,
    /// The site of scopes that are called so.
    pub(crate) site: Site,
    next: *mut Kept,
}

/// A table of texts.
#[derive(Debug)]
pub(crate) struct Table {
    /// Newest first.
    buckets: [AtomicPtr<Kept>; BUCKETS],
    len: AtomicUsize,
}

/// Names of scopes.
pub(crate) static NAMES: Table = Table::new();
/// Keys of what is added to open scopes.
pub(crate) static KEYS: Table = Table::new();

/// What scopes are called whose names found no room.
pub(crate) static MORE_NAMES: Site = site_of(c"(more names)");

const fn site_of(name: &'static CStr) -> Site {
    Site {
        name: name.as_ptr(),
        module: MODULE.as_ptr(),
        file: ptr::null(),
        cache: AtomicPtr::new(ptr::null_mut()),
        filter: 0,
        line: 0,
        level: 1,
    }
}

impl Table {
    const fn new() -> Self {
        Self { buckets: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS], len: AtomicUsize::new(0) }
    }

    /// The text, where it is kept already.
    pub(crate) fn known(&'static self, text: &CStr) -> Option<&'static Kept> {
        // Acquire pairs with the Release in `add`.
        find(self.bucket(text).load(Ordering::Acquire), ptr::null(), text)
    }

    /// The text as it is kept; `None` where the table is full and has it not.
    pub(crate) fn keep(&'static self, text: &CStr) -> Option<&'static Kept> {
        let bucket = self.bucket(text);
        // Acquire pairs with the Release in `add`.
        let first = bucket.load(Ordering::Acquire);
        find(first, ptr::null(), text).or_else(|| self.add(bucket, first, text))
    }

    fn bucket(&self, text: &CStr) -> &AtomicPtr<Kept> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        #[allow(clippy::cast_possible_truncation)] // the low bits are as good
        &self.buckets[hasher.finish() as usize % BUCKETS]
    }

    #[cold]
    fn add(&'static self, bucket: &AtomicPtr<Kept>, mut first: *mut Kept, text: &CStr) -> Option<&'static Kept> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.len.store(MOST, Ordering::Relaxed);
            return None;
        }
        let (given, site) = (text.to_owned(), site_of(MODULE));
        let text = text.to_string_lossy().into_owned();
        let mut kept = Box::new(Kept { given, text, site, next: first });
        // Only now, when the string stays where it is: a box that is moved may not be pointed into from before.
        kept.site.name = kept.given.as_ptr();
        let new = Box::into_raw(kept);
        loop {
            // Release makes the text whole for those who Acquire it.
            let Err(now) = bucket.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) else {
                // SAFETY: what is in a table is never freed, and not changed any more.
                return Some(unsafe { &*new });
            };
            // SAFETY: nobody else has it yet.
            let kept = unsafe { &mut *new };
            if let Some(other) = find(now, first, &kept.given) {
                self.len.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: it came from a box, and nobody else was given it.
                drop(unsafe { Box::from_raw(new) });
                return Some(other);
            }
            (kept.next, first) = (now, now);
        }
    }
}

/// Looks for a text from `from` up to `until`.
fn find(from: *const Kept, until: *const Kept, text: &CStr) -> Option<&'static Kept> {
    let mut at = from;
    while at != until {
        // SAFETY: what is in a table is never freed, and not changed any more.
        let kept = unsafe { at.as_ref() }?;
        if *kept.given == *text {
            return Some(kept);
        }
        at = kept.next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_by_however_many_threads_and_up_to_the_bound() {
        static TABLE: Table = Table::new();
        let name = |number: usize| CString::new(format!("name {number}")).expect("no NUL in it");
        let addresses = || -> Vec<Option<usize>> {
            (0..5000).map(|number| TABLE.keep(&name(number)).map(|kept| ptr::from_ref(kept).addr())).collect()
        };
        let all: Vec<Vec<Option<usize>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(addresses)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        let now = addresses();
        // Threads that add one text at once count it twice for a moment, so that some may find the table full too early.
        let kept = now.iter().flatten().count();
        assert!((MOST - 4..=MOST).contains(&kept), "{kept}");
        for seen in all {
            assert!(seen.iter().zip(&now).all(|(seen, now)| seen == now || seen.is_none()));
        }
        let bad = c"no \xff UTF-8";
        assert_eq!(KEYS.keep(bad).map(|kept| kept.text.as_str()), Some("no \u{fffd} UTF-8"));
    }
}
