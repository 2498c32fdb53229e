//! Spans that a bridge met when they were entered, and that it does not know, since they were made while nothing recorded.

use std::sync::atomic::Ordering;

use super::RawSite;
use crate::atomic::AtomicU64;
use crate::record::guard::{is_recorded, word};
use crate::record::primitive::Mutex;
use crate::record::thread::SHARED;
use crate::site::Site;

/// How often such a span was entered in a session: the session's number in the high half, the count in the low half. The
/// first count of the next session begins anew.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The site of one of those spans, with its session. The lock is only tried, so that a fork may find it taken.
static EXAMPLE: Mutex<(u32, Option<&'static Site>)> = Mutex::new((0, None));

/// Entered spans that are not in the profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown {
    /// How often any of them was entered.
    pub(crate) entered: u32,
    /// Where one of them was made.
    pub(crate) example: Option<&'static Site>,
}

/// Counts a span that was entered now, if the session would have recorded it.
pub fn count_unknown(site: &'static RawSite) {
    let word = word().bare();
    if word.is_off() || !is_recorded(word, &site.site) {
        return;
    }
    let session = word.epoch();
    // Relaxed: the count alone counts, and nothing else is read by way of it.
    let _ = COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(one_more(count, session)));
    if let Some(mut example) = EXAMPLE.try_lock() {
        if example.0 != session {
            *example = (session, Some(&site.site));
        }
    }
}

fn one_more(count: u64, session: u32) -> u64 {
    let first = u64::from(session) << 32;
    match count.checked_sub(first).and_then(|count| u32::try_from(count).ok()) {
        Some(count) => first + u64::from(count.saturating_add(1)),
        None => first + 1,
    }
}

/// The spans that were entered in the present session, or in the last one where there is none, and are not in its profile.
pub(crate) fn unknown() -> Option<Unknown> {
    let session = SHARED.word().epoch();
    let count = COUNT.load(Ordering::Relaxed).checked_sub(u64::from(session) << 32);
    let entered = count.and_then(|count| u32::try_from(count).ok()).filter(|entered| *entered > 0)?;
    let example = EXAMPLE.try_lock().filter(|example| example.0 == session).and_then(|example| example.1);
    Some(Unknown { entered, example })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_counts_from_one() {
        let mut count = 0;
        for (session, expected) in [(1, 1), (1, 2), (2, 1), (2, 2), (1, 1), (u32::MAX, 1)] {
            count = one_more(count, session);
            assert_eq!(count, u64::from(session) << 32 | expected, "{session}");
        }
        assert_eq!(one_more(u64::MAX, u32::MAX), u64::MAX);
    }
}
