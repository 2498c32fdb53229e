//! Call sites: what the compiler knows of a scope, fixed in the binary as one static each.

/// How much detail a scope is; a session records scopes up to its `host_tracer_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Recorded whenever a session records host scopes at all (level 1 and above).
    Critical = 1,
    /// Recorded from level 2.
    Info = 2,
    /// Recorded from level 3, the default of a session.
    Verbose = 3,
}

/// One call site of a scope, span or traced function.
#[derive(Debug)]
pub struct Site {
    /// Name of the scope, as written.
    pub name: &'static str,
    /// Static part of the one-line label: `name`, `name#key=` before the first value, or the whole `name#k=v#` where
    /// every value is a literal.
    pub label: &'static str,
    /// Metadata keys, in the order of the values.
    pub keys: &'static [&'static str],
    /// Detail level.
    pub level: Level,
    /// Filter bits; a site without a filter has all of them.
    pub filter: u64,
    /// Module that holds the site.
    pub module_path: &'static str,
    /// Source file, as the compiler was given it.
    pub file: &'static str,
    /// Line of the macro call.
    pub line: u32,
}

/// Filter bits of a site that names no filter.
pub const NO_FILTER: u64 = u64::MAX;

/// Gives a type to a call site, so that its level is a constant where it is tested and its static has a name.
pub trait Callsite {
    /// Level of the site.
    const LEVEL: Level;
    /// Filter bits of the site.
    const FILTER: u64;
    /// The site's static.
    fn site() -> &'static Site;
}
