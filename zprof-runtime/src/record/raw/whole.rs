//! What is entered several times: its slices on threads, and the span that it is as a whole.

use super::value::Slice;
use super::{RawGuard, RawSite, Values, open_slice};
use crate::record::guard::{is_recorded, word};
use crate::record::registry::Word;
use crate::record::task::{Outcome, new_number};
use crate::record::thread::with_local;
use crate::site::Origin;

/// What is entered several times, perhaps on several threads, and is shown as a span of its own then: from when it was made
/// to its end, as a task is.
#[derive(Debug)]
pub struct Whole {
    since: u64,
    /// Session of `since`.
    session: u32,
    /// Session that knows of it.
    told: u32,
    was_entered: bool,
    /// 0 before the second slice.
    number: u64,
}

impl Whole {
    /// It begins now.
    #[must_use]
    pub fn begin() -> Self {
        let word = word().bare();
        let (since, session) = if word.is_off() { (0, 0) } else { (word.now(), word.epoch()) };
        Self { since, session, told: 0, was_entered: false, number: 0 }
    }

    /// Opens its next slice.
    #[inline]
    pub fn open<V: Values + ?Sized>(&mut self, site: &'static RawSite, values: &V) -> RawGuard {
        open_slice(site, values, |word| self.next(word))
    }

    #[inline]
    fn next(&mut self, word: Word) -> Slice {
        if !std::mem::replace(&mut self.was_entered, true) { Slice::Alone } else { self.another(word) }
    }

    #[cold]
    fn another(&mut self, word: Word) -> Slice {
        if self.number == 0 {
            self.number = new_number();
        }
        let (number, session) = (self.number, word.epoch());
        if self.told == session {
            return Slice::Next { number };
        }
        self.told = session;
        Slice::Told { number, since: if self.session == session { self.since } else { 0 } }
    }

    /// It ends now.
    #[inline]
    pub fn end(&self, site: &'static RawSite) {
        if self.number != 0 {
            self.end_told(site);
        }
    }

    #[cold]
    fn end_told(&self, site: &'static RawSite) {
        let word = word().bare();
        if !word.is_off() && is_recorded(word, &site.site) {
            let task = self.number << Outcome::BITS | Outcome::Completed as u64;
            with_local(|local| local.end_task(word, task, Origin::Made(&site.site)));
        }
    }
}
