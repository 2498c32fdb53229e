//! Shapes with `ret` and `err`: the body is looked at from outside, and stays what it was.

use std::error::Error;
use std::future::Future;
use std::num::ParseIntError;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[zprof::trace(ret)]
fn value(n: u32) -> u32 {
    if n == 0 {
        return 7;
    }
    n + 1
}

#[zprof::trace(text, ret, err)]
fn question_mark(text: &str) -> Result<u32, ParseIntError> {
    let number: u32 = text.parse()?;
    Ok(number + 1)
}

#[zprof::trace(err)]
fn boxed_error(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    if text.is_empty() {
        return Err("empty".into());
    }
    Ok(vec![text.parse::<u8>()?])
}

#[zprof::trace(ret)]
fn borrowed<'a>(text: &'a str, _other: &str) -> &'a str {
    text.trim()
}

#[zprof::trace(ret)]
fn optional(items: &[u32]) -> Option<&u32> {
    items.first()
}

#[zprof::trace(ret)]
fn moved(text: String) -> String {
    let rest = text;
    rest + "!"
}

#[zprof::trace(err)]
fn opaque(end: u32) -> Result<impl Iterator<Item = u32>, ParseIntError> {
    let start: u32 = "1".parse()?;
    Ok(start..end)
}

struct Model {
    names: Vec<String>,
}

impl Model {
    #[zprof::trace(ret)]
    fn unique(&mut self) -> &mut String {
        self.names.push(String::new());
        let last = self.names.len() - 1;
        &mut self.names[last]
    }

    #[zprof::trace(err)]
    fn first(&mut self) -> Result<&mut String, String> {
        self.names.first_mut().ok_or_else(|| String::from("no name"))
    }

    #[zprof::trace(ret)]
    fn into_first(self) -> Option<String> {
        self.names.into_iter().next()
    }

    #[zprof::trace(ret, err)]
    async fn later(&self, n: usize) -> Result<&str, String> {
        let name = self.names.get(n).ok_or("no such name")?;
        Ok(name)
    }
}

#[zprof::trace(ret)]
#[allow(unsafe_code, reason = "an unsafe function must stay one")]
unsafe fn stays_unsafe(pointer: *const u32) -> u32 {
    // SAFETY: the caller gives a pointer to a u32 that lives, as the one test here does.
    unsafe { *pointer }
}

#[deny(warnings)]
mod denied {
    #[zprof::trace(ret)]
    pub(super) fn one_line() -> u32 {
        7
    }

    #[zprof::trace(ret)]
    pub(super) fn items_first(n: u32) -> u32 {
        const ADDEND: u32 = 1;
        let mut n = n;
        n += ADDEND;
        n
    }
}

#[test]
fn what_is_looked_at_is_the_same() {
    let shape: fn(u32) -> u32 = value;
    assert_eq!((shape(0), shape(1)), (7, 2));
    assert_eq!(question_mark("1"), Ok(2));
    assert_eq!(question_mark("x"), "x".parse::<u32>());
    let told = |text| boxed_error(text).map_err(|error| error.to_string());
    assert_eq!((told("5"), told("")), (Ok(vec![5]), Err(String::from("empty"))));
    let shape: for<'a> fn(&'a str, &str) -> &'a str = borrowed;
    assert_eq!(shape(" a ", ""), "a");
    assert_eq!((optional(&[3]), optional(&[])), (Some(&3), None));
    let text = String::from("moved");
    let text_len = 5;
    assert_eq!(moved(text), "moved!");
    assert_eq!(opaque(3).map(Iterator::collect::<Vec<_>>), Ok(vec![1, 2]));
    let mut model = Model { names: Vec::new() };
    assert_eq!(model.first(), Err(String::from("no name")));
    model.unique().push('a');
    model.first().expect("there is one").push('b');
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(model.later(0)).poll(&mut context), Poll::Ready(Ok("ab")));
    assert_eq!(pin!(model.later(1)).poll(&mut context), Poll::Ready(Err(String::from("no such name"))));
    assert_eq!(model.into_first().as_deref(), Some("ab"));
    // SAFETY: the pointer is to a local.
    #[allow(unsafe_code, reason = "an unsafe function must stay one")]
    let read = unsafe { stays_unsafe(&raw const text_len) };
    assert_eq!(read, text_len);
    assert_eq!((denied::one_line(), denied::items_first(1)), (7, 2));
}
