//! The compile-time ceiling: what is more detailed compiles to nothing. Only the program that is built can set it, by
//! `--cfg zprof_max_level="info"` in its `RUSTFLAGS`: cargo unifies features, so that any dependant could silence a whole
//! program by one.

use crate::ENABLED;
use crate::site::{Level, Memo, NO_FILTER, Site};

/// The most detailed level that is compiled in, `None` where there is none: [`Verbose`](Level::Verbose) unless the program
/// is built with `RUSTFLAGS='--cfg zprof_max_level="info"'` or another of `off`, `critical`, `info` and `verbose`.
pub const MAX_LEVEL: Option<Level> = if !ENABLED || cfg!(zprof_max_level = "off") {
    None
} else if cfg!(zprof_max_level = "critical") {
    Some(Level::Critical)
} else if cfg!(zprof_max_level = "info") {
    Some(Level::Info)
} else {
    Some(Level::Verbose)
};

/// Whether there is anything that compiles to nothing.
pub(crate) const IS_LIMITED: bool = !is_compiled(Level::Verbose);

/// Stands for every site that is above the ceiling, so that nothing keeps the site itself in the program.
pub(crate) fn absent() -> &'static Site {
    static SITE: Site = Site {
        name: "",
        label: "\0",
        given: 0,
        keys: &[],
        level: Level::Verbose,
        filter: NO_FILTER,
        module_path: module_path!(),
        file: file!(),
        line: line!(),
        memo: Memo::new(),
    };
    &SITE
}

/// Whether sites of this level are compiled in.
#[inline(always)]
pub(crate) const fn is_compiled(level: Level) -> bool {
    // Neither loses anything: a level is a small number.
    matches!(MAX_LEVEL, Some(most) if level as u8 <= most as u8)
}
