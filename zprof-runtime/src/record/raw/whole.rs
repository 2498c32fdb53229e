//! Spans that are entered several times: their slices on threads, and the asynchronous span of those on several threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::value::Slice;
use super::{RawGuard, RawSite, Values, open_slice};
use crate::atomic::AtomicU64;
use crate::record::guard::{is_recorded, word};
use crate::record::registry::Word;
use crate::record::task::{Outcome, new_number};
use crate::record::thread::with_local;
use crate::site::Origin;

/// A span that is entered several times, perhaps on several threads.
///
/// Each time is a slice of the thread that enters it, with the span's values. As long as one thread enters it, that is all: a
/// span that a struct stores and that its methods enter is no asynchronous work, however long it lives. From the first slice on
/// another thread on, the span is shown as an asynchronous span as well, from when it was made to its end, as a task is.
///
/// Every slice has the span's number on record, since a later slice may turn out to be on another thread. Who reads the
/// records finds out first which numbers those are, and joins all slices of such a span.
#[derive(Debug)]
pub struct Whole {
    since: u64,
    /// Session of `since`.
    session: u32,
    /// Session in which `thread` and `has_crossed` hold.
    entered_in: u32,
    /// The thread that entered it first in that session.
    thread: u64,
    /// It was entered on several threads in that session.
    has_crossed: bool,
    /// 0 before the first slice.
    number: u64,
}

/// Some span was entered on several threads.
static ANY_CROSSED: AtomicBool = AtomicBool::new(false);

/// Whether any session may have a span that was entered on several threads.
pub(crate) fn any_crossed() -> bool {
    ANY_CROSSED.load(Ordering::Relaxed)
}

/// The number of the calling thread, which no other thread of the process has or had.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl Whole {
    /// It begins now.
    #[must_use]
    pub fn begin() -> Self {
        let word = word().bare();
        let (since, session) = if word.is_off() { (0, 0) } else { (word.now(), word.epoch()) };
        Self { since, session, entered_in: 0, thread: 0, has_crossed: false, number: 0 }
    }

    /// Opens its next slice.
    #[inline]
    pub fn open<V: Values + ?Sized>(&mut self, site: &'static RawSite, values: &V) -> RawGuard {
        open_slice(site, values, |word| self.next(word))
    }

    #[inline]
    fn next(&mut self, word: Word) -> Slice {
        let (session, thread) = (word.epoch(), thread());
        if self.number == 0 {
            self.number = new_number();
        }
        let number = self.number;
        if self.entered_in != session {
            (self.entered_in, self.thread, self.has_crossed) = (session, thread, false);
        }
        if self.has_crossed {
            Slice::Next { number }
        } else if self.thread == thread {
            Slice::Own { number }
        } else {
            self.cross(session)
        }
    }

    #[cold]
    fn cross(&mut self, session: u32) -> Slice {
        self.has_crossed = true;
        ANY_CROSSED.store(true, Ordering::Relaxed);
        Slice::Told { number: self.number, since: if self.session == session { self.since } else { 0 } }
    }

    /// It ends now.
    #[inline]
    pub fn end(&self, site: &'static RawSite) {
        if self.has_crossed {
            self.end_crossed(site);
        }
    }

    #[cold]
    fn end_crossed(&self, site: &'static RawSite) {
        let word = word().bare();
        if !word.is_off() && word.epoch() == self.entered_in && is_recorded(word, &site.site) {
            let task = self.number << Outcome::BITS | Outcome::Completed as u64;
            with_local(|local| local.end_task(word, task, Origin::Made(&site.site)));
        }
    }
}
