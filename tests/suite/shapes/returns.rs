//! Shapes of what a function gives back, and of the ways out of it.

use std::error::Error;
use std::future::Future;
use std::num::ParseIntError;
use std::panic;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[zprof::trace]
fn iterator(end: u32) -> impl Iterator<Item = u32> {
    (0..end).filter(|n| n % 2 == 0)
}

#[zprof::trace(length = items.len())]
#[allow(clippy::elidable_lifetime_names, reason = "the shape names it")]
fn borrowing_iterator<'a>(items: &'a [u32]) -> impl Iterator<Item = &'a u32> + 'a {
    items.iter().rev()
}

#[zprof::trace]
fn future(n: u32) -> impl Future<Output = u32> + Send {
    async move { n + 1 }
}

#[zprof::trace(text)]
fn question_mark(text: &str) -> Result<u32, ParseIntError> {
    let number: u32 = text.parse()?;
    Ok(number + 1)
}

#[zprof::trace]
fn boxed_error(text: &str) -> Result<u32, Box<dyn Error>> {
    if text.is_empty() {
        return Err("empty".into());
    }
    Ok(text.parse::<u32>()?)
}

#[zprof::trace]
fn early(limit: u32) -> Option<u32> {
    if limit == 0 {
        return None;
    }
    let mut n = 1;
    loop {
        if n * n > limit {
            return Some(n);
        }
        n += 1;
    }
}

#[zprof::trace(code)]
fn never(code: i32) -> ! {
    panic!("left by panic with {code}");
}

#[zprof::trace]
fn closure(addend: u32) -> impl Fn(u32) -> u32 {
    move |n| n + addend
}

#[deny(warnings)]
mod denied {
    #[zprof::trace]
    pub(super) fn one_line() -> u32 {
        7
    }
}

#[test]
fn returns_are_the_same() {
    assert_eq!(iterator(5).collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(borrowing_iterator(&[1, 2]).copied().collect::<Vec<_>>(), [2, 1]);
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(future(1)).poll(&mut context), Poll::Ready(2));
    let shape: fn(&str) -> Result<u32, ParseIntError> = question_mark;
    assert_eq!(shape("1"), Ok(2));
    assert_eq!(shape("x"), "x".parse::<u32>());
    let told = |text| boxed_error(text).map_err(|error| error.to_string());
    assert_eq!(told("5"), Ok(5));
    assert_eq!(
        (told("").unwrap_err(), told("x").unwrap_err()),
        (String::from("empty"), String::from("invalid digit found in string"))
    );
    assert_eq!((early(0), early(10)), (None, Some(4)));
    let shape: fn(i32) -> ! = never;
    let panic = panic::catch_unwind(|| shape(3)).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("left by panic with 3"));
    assert_eq!(closure(1)(2), 3);
    assert_eq!(denied::one_line(), 7);
}
