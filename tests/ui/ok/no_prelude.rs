//! Without a prelude, and with items that are called like what an expansion might want to use.

#![no_implicit_prelude]
#![deny(warnings)]
#![forbid(unsafe_code)]
#![allow(dead_code, non_camel_case_types, non_upper_case_globals, clippy::upper_case_acronyms)]

struct Option;
struct Some;
struct None;
struct Result;
struct Ok;
struct Err;
struct Box;
struct String;
struct Drop;
struct Into;
struct u64;
struct usize;
struct str;
struct bool;
mod core {}
mod std {}
mod alloc {}
static word: i32 = 0;
const guard: i32 = 1;
struct args;
struct SITE;
struct Site;
struct Level;
struct Guard;
trait Callsite {}

macro_rules! module_path {
    () => {
        1
    };
}
macro_rules! file {
    () => {
        2
    };
}
macro_rules! line {
    () => {
        3
    };
}
macro_rules! compile_error {
    () => {
        4
    };
}

#[::zprof::trace(n, m = n + 1, root = n == 3, level = info, filter = 4)]
fn traced(n: i32) -> i32 {
    ::zprof::scope!("statement", n, word = word, guard, root = true);
    let mut span = ::zprof::span!("span", mode = Mode::A);
    span.record("n", n);
    ::zprof::scope!("block", n, { n + module_path!() + file!() + line!() + compile_error!() })
}

#[derive(::zprof::Value)]
enum Mode {
    A,
    None,
}

fn main() {
    ::std::assert_eq!(traced(3), 13);
}
