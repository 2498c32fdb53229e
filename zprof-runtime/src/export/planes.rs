//! Patterns that choose planes by name.

/// Whether a plane of this name is chosen: if any pattern matches it, or if there are none. A pattern with `*` (any text)
/// or `?` (one character) is held against the whole name; one without may stand anywhere in it.
pub(super) fn is_chosen(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return name.contains(pattern);
    }
    // Which beginnings of the pattern match what was read of the name.
    let mut ends = vec![true];
    ends.extend(pattern.chars().scan(true, |all, wanted| {
        *all &= wanted == '*';
        Some(*all)
    }));
    for character in name.chars() {
        let before = ends.clone();
        ends[0] = false;
        for (place, wanted) in (1..).zip(pattern.chars()) {
            ends[place] = match wanted {
                '*' => before[place] || ends[place - 1],
                '?' => before[place - 1],
                wanted => before[place - 1] && wanted == character,
            };
        }
    }
    ends.last().is_some_and(|end| *end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_and_texts_parts_of_them() {
        let rows = [
            ("CPU", "/host:CPU", true),
            ("GPU", "/host:CPU", false),
            ("/host:*", "/host:CPU", true),
            ("*:*", "/host:CPU", true),
            ("host:*", "/host:CPU", false),
            ("/device:GPU:?", "/device:GPU:1", true),
            ("/device:GPU:?", "/device:GPU:12", false),
            ("*", "", true),
            ("?", "", false),
            ("**a*b", "xaab", true),
            ("é?", "éa", true),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(is_chosen(&[pattern.to_owned()], name), expected, "{pattern} against {name}");
        }
        assert!(is_chosen(&[], "anything"));
    }
}
