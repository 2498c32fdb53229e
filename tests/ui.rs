//! Programs that must compile and run, and programs that must be refused in our own words.

/// Every file of `ui/ok` runs; `tests/edition-2021` runs the same files as crates of edition 2021.
#[test]
fn usages_compile_and_run() {
    trybuild::TestCases::new().pass("ui/ok/*.rs");
}

/// The words are ours; where rustc adds its own, they are those of the toolchain that CI has.
#[test]
fn mistakes_are_told_with_their_cure() {
    trybuild::TestCases::new().compile_fail("ui/err/*.rs");
}
