//! Directives: up to which level each module of the program is recorded, read from a text such as
//! `my_crate::io=verbose,other=off`.

use crate::error::{Error, ErrorKind, Result};
use crate::site::Level;

/// Levels of modules, and one for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directives {
    default: Option<u8>,
    /// The longest path first.
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    path: String,
    level: u8,
    /// A site has gone by it.
    has_decided: bool,
}

const LEVELS: [(&str, u8); 4] =
    [("off", 0), ("critical", Level::Critical as u8), ("info", Level::Info as u8), ("verbose", Level::Verbose as u8)];

const ALLOWED: &str = "`off`, `critical`, `info` or `verbose`";

impl Directives {
    /// None: all modules are recorded alike.
    pub(crate) const fn none() -> Self {
        Self { default: None, rules: Vec::new() }
    }

    /// Reads directives with commas between: `module::path=level`, and once at most `level` alone, for all others. Blanks
    /// around and empty directives are no matter.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut directives = Self::none();
        // The number of the directive that each rule comes from.
        let mut numbers = Vec::new();
        let wrong = |number: usize, wrong: String| {
            Error::new(ErrorKind::InvalidInput, format!("failed to read directive {number} of `{text}`: {wrong}"))
        };
        for (index, directive) in text.split(',').enumerate() {
            let directive = directive.trim();
            if !directive.is_empty() {
                directives.add(directive).map_err(|reason| wrong(index + 1, reason))?;
                numbers.resize(directives.rules.len(), index + 1);
            }
        }
        if let Some((number, path)) = directives.first_repeated(&numbers) {
            return Err(wrong(number, format!("`{path}` is given twice; remove one")));
        }
        directives.rules.sort_by_key(|rule| std::cmp::Reverse(rule.path.len()));
        Ok(directives)
    }

    /// The first directive whose path an earlier one has too, and that path. `numbers` has the number of each rule's
    /// directive. Sorted once: comparing each path with all others would take minutes for a text of a megabyte.
    fn first_repeated(&self, numbers: &[usize]) -> Option<(usize, &str)> {
        let mut paths: Vec<(&str, usize)> =
            self.rules.iter().zip(numbers).map(|(rule, number)| (rule.path.as_str(), *number)).collect();
        paths.sort_unstable();
        let repeated = paths.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        repeated.map(|pair| (pair[1].1, pair[1].0)).min()
    }

    fn add(&mut self, directive: &str) -> Result<(), String> {
        let Some((path, level)) = directive.split_once('=') else {
            let level = level(directive).ok_or_else(|| {
                format!(
                    "`{directive}` is no level; write {ALLOWED} for all modules that are not named, or a module and its \
                     level, `my_crate::io=info`"
                )
            })?;
            if self.default.replace(level).is_some() {
                return Err(format!(
                    "`{directive}` is the second level for all modules that are not named; remove one"
                ));
            }
            return Ok(());
        };
        let (path, given) = (path.trim(), level.trim());
        let level =
            self::level(given).ok_or_else(|| format!("`{given}` in `{directive}` is no level; write {ALLOWED}"))?;
        // A crate's name in paths, where the package's was given.
        let path = path.replace('-', "_");
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '#');
        if !path.split("::").all(is_name) {
            return Err(format!("`{path}` in `{directive}` is no path of a module; write names with `::` between"));
        }
        self.rules.push(Rule { path, level, has_decided: false });
        Ok(())
    }

    /// The same, with `level` for all modules that no directive names, unless one is for all others.
    pub(crate) fn with_default(mut self, level: u8) -> Self {
        self.default.get_or_insert(level);
        self
    }

    /// Whether modules differ.
    pub(crate) fn distinguish(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The most detailed level of any module.
    pub(crate) fn most(&self) -> u8 {
        self.rules.iter().map(|rule| rule.level).chain(self.default).max().unwrap_or(0)
    }

    /// Level of a module: that of the longest path which is the module's or that of one around it.
    pub(crate) fn level(&mut self, module: &str) -> u8 {
        let holds =
            |path: &str| module.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let rule = self.rules.iter_mut().find(|rule| holds(&rule.path));
        let level = rule.map(|rule| {
            rule.has_decided = true;
            rule.level
        });
        level.or(self.default).unwrap_or(0)
    }

    /// The directives for modules of which no site has asked, as they are written, in the order of their paths.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let unmet = self.rules.iter().filter(|rule| !rule.has_decided);
        let name = |level: u8| LEVELS.iter().find(|(_, number)| *number == level).map_or("", |(name, _)| *name);
        let mut unmet: Vec<String> = unmet.map(|rule| format!("{}={}", rule.path, name(rule.level))).collect();
        unmet.sort();
        unmet
    }
}

fn level(name: &str) -> Option<u8> {
    LEVELS.iter().find(|(level, _)| name.eq_ignore_ascii_case(level)).map(|&(_, level)| level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_of_whole_names_decides() {
        let directives = Directives::parse(" a=info, a::b::c=off ,,a::b=Verbose,d-e=critical,").expect("it is right");
        let mut directives = directives.with_default(2);
        assert_eq!(directives.unmet(), ["a::b::c=off", "a::b=verbose", "a=info", "d_e=critical"]);
        assert_eq!((directives.level("a::b::c::d"), directives.level("b")), (0, 2));
        assert_eq!(directives.unmet(), ["a::b=verbose", "a=info", "d_e=critical"]);
        let mut level = |module| directives.level(module);
        assert_eq!(["a", "a::x", "a::bc", "ab", "b"].map(&mut level), [2, 2, 2, 2, 2]);
        assert_eq!(["a::b", "a::b::x", "a::b::c", "a::b::c::d", "d_e::f"].map(&mut level), [3, 3, 0, 0, 1]);
        assert_eq!(directives.unmet(), Vec::<String>::new());
        assert_eq!((directives.most(), directives.distinguish()), (3, true));
    }

    #[test]
    fn a_level_alone_is_for_all_others() {
        let mut off = Directives::parse("off").expect("it is right").with_default(3);
        assert_eq!((off.level("a"), off.most(), off.distinguish()), (0, 0, false));
        assert_eq!(off.unmet(), Vec::<String>::new());
        let mut one = Directives::parse("a=off,info").expect("it is right").with_default(3);
        assert_eq!((one.level("a::b"), one.level("b"), one.most()), (0, 2, 2));
        assert_eq!(Directives::parse(" , ").expect("it is right"), Directives::none());
    }

    #[test]
    fn mistakes_are_told_with_place_and_cure() {
        let cases = [
            (
                "a=info,b=loud",
                "failed to read directive 2 of `a=info,b=loud`: `loud` in `b=loud` is no level; write `off`, `critical`, \
                 `info` or `verbose`",
            ),
            (
                "a=",
                "failed to read directive 1 of `a=`: `` in `a=` is no level; write `off`, `critical`, `info` or `verbose`",
            ),
            (
                "my_crate",
                "failed to read directive 1 of `my_crate`: `my_crate` is no level; write `off`, `critical`, `info` or \
                 `verbose` for all modules that are not named, or a module and its level, `my_crate::io=info`",
            ),
            (
                "info,a=off,off",
                "failed to read directive 3 of `info,a=off,off`: `off` is the second level for all modules that are not \
                 named; remove one",
            ),
            (
                "a::=off",
                "failed to read directive 1 of `a::=off`: `a::` in `a::=off` is no path of a module; write names with `::` \
                 between",
            ),
            (
                "=off",
                "failed to read directive 1 of `=off`: `` in `=off` is no path of a module; write names with `::` between",
            ),
            ("a-b=off,a_b=info", "failed to read directive 2 of `a-b=off,a_b=info`: `a_b` is given twice; remove one"),
        ];
        for (text, told) in cases {
            let error = Directives::parse(text).expect_err("it is wrong");
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, told));
        }
    }

    /// With a comparison of all pairs, this takes 20 billion of them.
    #[test]
    fn two_hundred_thousand_directives_are_read_and_the_first_repeated_one_is_named() {
        let mut text: String = (0..200_000).map(|number| format!("m{number}=info,")).collect();
        let directives = Directives::parse(&text).expect("no path is given twice");
        assert_eq!(directives.rules.len(), 200_000);
        text.push_str("a=info,m7=off,m3=off");
        let error = Directives::parse(&text).expect_err("two paths are given twice").to_string();
        assert!(error.starts_with("failed to read directive 200002 of `m0=info,"), "it names the first of the two");
        assert!(error.ends_with(": `m7` is given twice; remove one"), "it names the path");
    }
}
