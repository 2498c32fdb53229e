//! Which planes and events of a profile an export shows.

use super::axis::MAX_APART_PS;

/// What of a profile to show; all of it by default. Times count from the start of the session; in a trace of several hosts, from
/// the first start of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Shortest duration of an event, in picoseconds.
    pub min_duration_ps: u64,
    /// Shows only events that last into the time from here on, in picoseconds.
    pub from_ps: Option<u64>,
    /// Shows only events that begin before here, in picoseconds.
    pub until_ps: Option<u64>,
    /// Shows only planes whose names match one of these; all planes, if there are none. A pattern with `*` (any text) or
    /// `?` (one character) is held against the whole name; one without may stand anywhere in it.
    pub planes: Vec<String>,
}

impl Filter {
    /// Whether a plane of this name is shown.
    pub(crate) fn keeps_plane(&self, name: &[u8]) -> bool {
        matches_any(&self.planes, &String::from_utf8_lossy(name))
    }

    /// Whether every event of the planes that are shown is shown.
    pub(crate) fn keeps_all_events(&self) -> bool {
        self.min_duration_ps == 0 && self.from_ps.is_none() && self.until_ps.is_none()
    }

    /// Whether an event with these times is shown. Both are modulo 2^64, so that a start in the last day of that time is before 0.
    #[inline]
    pub(crate) fn keeps_event(&self, start_ps: u64, duration_ps: u64) -> bool {
        let is_early = i128::from(start_ps) >= (1 << 64) - MAX_APART_PS;
        let start_ps = i128::from(start_ps) - if is_early { 1 << 64 } else { 0 };
        self.keeps_interval(start_ps, duration_ps)
    }

    /// Whether an event with these times is shown, whose start may be before 0.
    pub(crate) fn keeps_interval(&self, start_ps: i128, duration_ps: u64) -> bool {
        // An event lasts at least a picosecond, as the trace shows it: so an instant at `from_ps` lasts into it.
        let end_ps = start_ps + i128::from(duration_ps.max(1));
        duration_ps >= self.min_duration_ps
            && self.from_ps.is_none_or(|from| end_ps > i128::from(from))
            && self.until_ps.is_none_or(|until| start_ps < i128::from(until))
    }
}

/// Whether a plane of this name is chosen by any of these patterns, or because there are none.
pub(super) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return name.contains(pattern);
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut name_at) = (0, 0);
    // The last star, and where the text begins that it is tried to stand before.
    let mut star = None;
    while name_at < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, name_at));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[name_at] => {
                at += 1;
                name_at += 1;
            }
            _ => {
                let Some((star_at, text_at)) = star else { return false };
                star = Some((star_at, text_at + 1));
                (at, name_at) = (star_at + 1, text_at + 1);
            }
        }
    }
    pattern[at..].iter().all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_and_other_texts_parts_of_them() {
        let rows = [
            ("GPU", "/device:GPU:0", true),
            ("gpu", "/device:GPU:0", false),
            ("", "anything", true),
            ("/device:*", "/device:GPU:0", true),
            ("device:*", "/device:GPU:0", false),
            ("*:0", "/device:GPU:0", true),
            ("*:0", "/device:GPU:01", false),
            ("*0*0", "0x0y0", true),
            ("*:?", "/device:GPU:é", true),
            ("*:?", "/device:GPU:10", false),
            ("/host:???", "/host:CPU", true),
            ("**", "", true),
            ("?", "", false),
            ("*a*b*c", "abab", false),
            ("**a*b", "xaab", true),
            ("é?", "éa", true),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(matches(pattern, name), expected, "{pattern} against {name}");
        }
        let filter = Filter { planes: vec!["CPU".into(), "*:1".into()], ..Filter::default() };
        let kept = [&b"/host:CPU"[..], b"/device:GPU:0", b"/device:GPU:1"].map(|name| filter.keeps_plane(name));
        assert_eq!(kept, [true, false, true]);
        assert!(Filter::default().keeps_plane(b"\xff"));
    }

    #[test]
    fn what_reaches_into_the_range_is_kept() {
        let kept = |filter: &Filter| {
            [(0, 10), (5, 5), (10, 0), (10, 10), (19, 1), (20, 0), (0, 50)]
                .map(|(start, duration)| filter.keeps_event(start, duration))
        };
        let all = Filter::default();
        assert!(all.keeps_all_events());
        assert_eq!(kept(&all), [true; 7]);
        let range = Filter { from_ps: Some(10), until_ps: Some(20), ..Filter::default() };
        assert!(!range.keeps_all_events());
        assert_eq!(kept(&range), [false, false, true, true, true, false, true]);
        let long = Filter { min_duration_ps: 6, ..Filter::default() };
        assert_eq!(kept(&long), [true, false, false, true, false, false, true]);
        assert!(range.keeps_event(0, u64::MAX));
    }
}
