//! Every way to write metadata, for `scope!`, `span!` and the attribute.

#![deny(warnings)]

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone, Copy, zprof::Value)]
enum Mode {
    Greedy,
    #[allow(dead_code)]
    Sampled = 7,
    r#Loop,
}

#[derive(zprof::Value)]
enum Never {}

#[derive(zprof::Value)]
#[repr(u8)]
enum Odd {
    #[deprecated]
    #[allow(dead_code)]
    Old,
    Braces {},
    #[allow(dead_code)]
    Parentheses(),
}

#[derive(zprof::Value)]
enum Sized<const N: usize> {
    One,
}

#[derive(Clone, Copy)]
struct Pair<A, B> {
    a: A,
    b: B,
}

impl<A, B> Pair<A, B> {
    fn new(a: A, b: B) -> Self {
        Self { a, b }
    }
}

struct Model {
    seqlen: usize,
    inner: Pair<u32, [u8; 3]>,
}

impl Model {
    #[zprof::trace(self.seqlen, last = self.inner.b[2], a = self.inner.a as u64)]
    fn run(&mut self) -> usize {
        zprof::scope!("run", self.seqlen, twice = self.seqlen * 2);
        self.seqlen += 1;
        self.seqlen
    }
}

fn doubled(double: impl Fn(i32) -> i32, n: i32) -> i32 {
    double(n)
}

fn never() -> Option<Never> {
    None
}

fn count(calls: &std::cell::Cell<u32>) -> u32 {
    calls.set(calls.get() + 1);
    calls.get()
}

fn main() {
    let (c, x, i) = (true, 2_i32, 3_usize);
    let path = String::from("weights.bin");
    let pointer = &x;
    zprof::scope!("arithmetic", sum = 1 + 2, negative = -x, cast = i as u64, not = !c, range = (1..4).len());
    zprof::scope!(
        "control",
        chosen = if c { 1 } else { 2 },
        matched = match x {
            0 => "zero",
            _ => "more",
        },
        block = { x + 1 },
        called = doubled(|n| n * 2, x),
        mapped = Some(x).map(|n| n + 1).unwrap_or(0),
    );
    zprof::scope!(
        "paths",
        generic = Pair::<u8, u16>::new(1, 2).b,
        literal = Pair { a: 1, b: 2 }.a,
        constant = u32::MAX,
        size = size_of::<Pair<u8, Option<u16>>>(),
        compared = x < 3 && i > 2,
        shifted = x << 1,
        reference = &x,
        double = &&i,
        dereferenced = *pointer,
    );
    zprof::scope!("scalars", a = 1_u8, b = -1_i64, c = 1.5, d = 2.5_f32, e = 'x', f = true, g = b'b', h = 0xff_u64);
    let (cow, boxed, arc): (Cow<'_, str>, Box<str>, Arc<str>) = ("cow".into(), "box".into(), "arc".into());
    zprof::scope!("strings", path, literal = "text", raw = r"C:\x", cow, boxed, arc, slice = &path[..3]);
    zprof::scope!("options", some = Some(1), none = None::<&str>, by_reference = path.chars().next());
    zprof::scope!("enums", mode = Mode::Greedy, raw = Mode::r#Loop, odd = Odd::Braces {}, one = Sized::<3>::One);
    zprof::scope!("no value can be made", never = never());
    zprof::scope!("reserved", level = verbose, filter = 0, root = c, r#level = 1, r#filter = 2, r#root = 3);
    zprof::scope!("words", r#type = 1, struct = 2.0, name = "a key here", step, r#match = 1);
    let mut span = zprof::span!("held", level = info, root = true, path = &path, i,);
    span.record("bytes", 7);
    span.end();
    let rc = Rc::new(1_u32);
    zprof::scope!("temporary", text = format!("{rc}-{i}"), borrowed = format!("{i}").as_str());
    let calls = std::cell::Cell::new(0);
    zprof::scope!(
        "nested",
        value = zprof::scope!("in a value", i, { i + 1 }),
        closure = (|| Some(i)?.checked_add(1))()
    );
    zprof::scope!("once", calls = count(&calls));
    assert!(calls.get() <= 1, "a value is evaluated once");
    let moved = path;
    assert_eq!(moved, "weights.bin");
    let (path, time) = (std::path::Path::new("weights.bin"), std::time::Duration::from_millis(1500));
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
    zprof::scope!("standard", path, time, address, big = u128::MAX, some = std::num::NonZero::new(3_u8), rc);
    zprof::scope!("text", %address, ?time, path = %path.display(), all = ?(1, "a"), r#level = %step);
    zprof::scope!("{{braces}}", %address);
    let mut model = Model { seqlen: 3, inner: Pair::new(1, [1, 2, 3]) };
    assert_eq!(model.run(), 4);
}

#[allow(non_upper_case_globals)]
const step: u64 = 4;
