//! Under every lint group that a strict crate may deny, and with unsafe code forbidden.

#![forbid(unsafe_code)]
#![deny(warnings, future_incompatible, let_underscore, nonstandard_style, rust_2018_idioms, rust_2021_compatibility)]
#![deny(
    unused,
    absolute_paths_not_starting_with_crate,
    explicit_outlives_requirements,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    non_local_definitions,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unreachable_pub,
    unsafe_code,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]

/// A mode.
#[derive(Clone, Copy, Debug, zprof::Value)]
pub enum Mode {
    /// The only one.
    Greedy,
}

/// A trait.
pub trait Run {
    /// A default body.
    #[zprof::trace(n, root = n == 1)]
    fn run(&self, n: u64) -> u64 {
        zprof::scope!("run", n, mode = Mode::Greedy, level = info);
        zprof::scope!("parentheses", root = (n == 1), half = (n / 2), block = { n });
        zprof::scope!("braces", root = { n == 1 }, negated = (!n));
        zprof::scope!("half", n, { n / 2 })
    }
}

impl Run for Mode {}

/// Never is a type, too.
#[zprof::trace]
fn leave(code: u8) -> ! {
    zprof::scope!("leave", code);
    std::process::exit(code.into())
}

fn main() {
    let mut span = zprof::span!("main");
    span.record("mode", Mode::Greedy);
    span.end();
    leave(u8::from(Mode::Greedy.run(4) != 2))
}
