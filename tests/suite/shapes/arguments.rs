//! Shapes of arguments: patterns, borrows, moves, names that an expansion might use too.

use std::fmt::Write;

struct Plain(u32);

struct Point {
    x: i32,
    y: i32,
}

#[zprof::trace]
fn empty() {}

#[zprof::trace]
fn two(a: u32, b: u32) -> u32 {
    a + b
}

#[zprof::trace]
#[allow(clippy::needless_pass_by_value, reason = "the shape takes it by value")]
fn not_debug(value: Plain) -> u32 {
    let Plain(inner) = value;
    inner
}

#[zprof::trace]
fn explicit_lifetime<'a>(text: &'a str, _other: &str) -> &'a str {
    text
}

#[zprof::trace]
fn elided_lifetime(text: &str) -> &str {
    text.trim()
}

#[zprof::trace]
fn impl_argument(items: impl IntoIterator<Item = u32>) -> u32 {
    items.into_iter().sum()
}

#[zprof::trace(a, first)]
fn patterns((a, b): (u32, u32), [first, .., last]: [u32; 4]) -> u32 {
    a + b + first + last
}

#[zprof::trace(x, height = y)]
fn struct_pattern(Point { x, y }: Point) -> i32 {
    x * y
}

#[zprof::trace(n)]
fn mutable(mut n: u32) -> u32 {
    n += 1;
    n
}

#[zprof::trace]
fn ignored(_: u32, kept: u32) -> u32 {
    kept
}

#[zprof::trace]
fn configured(a: u32, #[cfg(any())] b: NoSuchType, #[cfg(not(any()))] c: u32) -> u32 {
    a + c
}

#[zprof::trace(args, ctx, result, word)]
#[allow(clippy::used_underscore_binding, reason = "the name is the point")]
fn taken_names(args: u32, ctx: u32, result: u32, _guard: u32, word: u32) -> u32 {
    let guard = 1;
    args + ctx + result + _guard + word + guard
}

#[zprof::trace(text)]
fn moved(text: String) -> Vec<u8> {
    text.into_bytes()
}

#[zprof::trace(length = items.len())]
fn reborrowed(items: &mut Vec<u32>) -> usize {
    let again = &mut *items;
    again.push(1);
    items.push(2);
    items.len()
}

#[zprof::trace]
fn borrow_from_mut(items: &mut [u32]) -> &mut u32 {
    let (first, _) = items.split_first_mut().expect("the caller gives one");
    first
}

#[zprof::trace]
fn dyn_argument(out: &mut dyn Write, shown: &dyn std::fmt::Display) -> std::fmt::Result {
    write!(out, "{shown}")
}

#[zprof::trace]
fn function_argument(apply: fn(u32) -> u32, with: impl FnOnce(u32) -> u32) -> u32 {
    with(apply(1))
}

#[zprof::trace("literal.name", seqlen = seqlen * 2, seqlen_was = seqlen)]
fn key_named_like_argument(seqlen: u64) -> u64 {
    seqlen
}

#[test]
fn arguments_arrive_as_before() {
    let shape: fn() = empty;
    shape();
    let shape: fn(u32, u32) -> u32 = two;
    assert_eq!(shape(1, 2), 3);
    assert_eq!(not_debug(Plain(4)), 4);
    let shape: for<'a, 'b> fn(&'a str, &'b str) -> &'a str = explicit_lifetime;
    assert_eq!(shape("a", "b"), "a");
    assert_eq!(elided_lifetime(" a "), "a");
    assert_eq!(impl_argument([1, 2, 3]), 6);
    let shape: fn((u32, u32), [u32; 4]) -> u32 = patterns;
    assert_eq!(shape((1, 2), [10, 0, 0, 20]), 33);
    assert_eq!(struct_pattern(Point { x: 2, y: 3 }), 6);
    assert_eq!(mutable(1), 2);
    assert_eq!(ignored(1, 2), 2);
    let shape: fn(u32, u32) -> u32 = configured;
    assert_eq!(shape(1, 2), 3);
    assert_eq!(taken_names(1, 2, 3, 4, 5), 16);
    let text = String::from("moved, not copied");
    let address = text.as_ptr();
    let moved = moved(text);
    assert_eq!((moved.as_ptr(), moved.as_slice()), (address, b"moved, not copied".as_slice()));
    let mut items = vec![7];
    assert_eq!(reborrowed(&mut items), 3);
    let shape: fn(&mut [u32]) -> &mut u32 = borrow_from_mut;
    *shape(&mut items) = 8;
    assert_eq!(items, [8, 1, 2]);
    let mut out = String::new();
    dyn_argument(&mut out, &5).expect("a String takes everything");
    assert_eq!(out, "5");
    let addend = 10;
    assert_eq!(function_argument(|n| n + 1, |n| n + addend), 12);
    assert_eq!(key_named_like_argument(3), 3);
}
