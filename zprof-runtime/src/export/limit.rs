//! A limit of events: which are the earliest.

use crate::Result;

/// The events that a limit keeps: those that start before `before_ps`, and the first `at_limit` that start then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    before_ps: u64,
    at_limit: u64,
}

impl Limit {
    /// Finds the limit that keeps `max_events` of the starts that `walk` calls back with; `None` if it is all of them.
    /// The walk is taken up to five times, so that memory does not grow with events.
    pub(super) fn find(
        max_events: u64,
        mut walk: impl FnMut(&mut dyn FnMut(u64)) -> Result<()>,
    ) -> Result<Option<Self>> {
        let mut count = 0_u64;
        walk(&mut |_| count += 1)?;
        if count <= max_events {
            return Ok(None);
        }
        // The start of the first event beyond, found 16 bits at a time from the top.
        let mut wanted = max_events;
        let mut known = 0_u64;
        for shift in [48, 32, 16, 0] {
            let mut counts = vec![0_u64; 1 << 16];
            walk(&mut |start_ps| {
                // All higher digits are as found; there are none at the first.
                if shift == 48 || start_ps >> (shift + 16) == known >> (shift + 16) {
                    counts[(start_ps >> shift & 0xffff) as usize] += 1; // 16 bits
                }
            })?;
            for (digit, count) in (0_u64..).zip(counts) {
                if wanted < count {
                    known |= digit << shift;
                    break;
                }
                wanted -= count;
            }
        }
        Ok(Some(Self { before_ps: known, at_limit: wanted }))
    }

    pub(super) fn keeps(&mut self, start_ps: u64) -> bool {
        if start_ps == self.before_ps && self.at_limit > 0 {
            self.at_limit -= 1;
            return true;
        }
        start_ps < self.before_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_are_kept() {
        let starts = [5, 1 << 40, 3, 5, u64::MAX, 5, 0];
        let find = |max_events| {
            Limit::find(max_events, |each| {
                starts.iter().copied().for_each(each);
                Ok(())
            })
            .expect("the walk succeeds")
        };
        let kept = |max_events| {
            let mut limit = find(max_events).expect("there are more");
            starts.iter().copied().filter(|start| limit.keeps(*start)).collect::<Vec<_>>()
        };
        assert_eq!(find(7), None);
        assert_eq!(kept(0), []);
        assert_eq!(kept(1), [0]);
        assert_eq!(kept(4), [5, 3, 5, 0]);
        assert_eq!(kept(6), [5, 1 << 40, 3, 5, 5, 0]);
    }
}
