//! Shapes of what makes a future: `async fn` in every place, functions that return one, boxed ones.

#![allow(clippy::future_not_send, reason = "many are not meant to be, attribute or not")]

use std::cell::RefCell;
use std::error::Error;
use std::fmt::Display;
use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Runs a future that is ready after a few polls.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Ready at the second poll.
async fn later() {
    let mut polled = false;
    poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

const fn must_be_send<T: Send>(value: T) -> T {
    value
}

#[zprof::trace]
async fn plain() {}

#[zprof::trace(a, sum = a + b)]
async fn two(a: u32, b: u32) -> u32 {
    later().await;
    a + b
}

#[zprof::trace(first = *a)]
async fn references(a: &u32, b: &mut u32) -> u32 {
    later().await;
    *b += a;
    *b
}

#[zprof::trace]
async fn elided(text: &str) -> &str {
    later().await;
    text.trim()
}

#[zprof::trace]
async fn named<'a>(text: &'a str, _other: &str) -> &'a str {
    text
}

#[zprof::trace]
async fn generic_and_send<T>(value: T) -> String
where
    T: Clone + Display + Send,
{
    later().await;
    value.clone().to_string()
}

#[zprof::trace]
async fn boxed_error(text: &str) -> Result<u32, Box<dyn Error + Send + Sync>> {
    later().await;
    if text.is_empty() {
        return Err("empty".into());
    }
    let number: u32 = text.parse()?;
    Ok(number)
}

struct Key<'a>(&'a str);

impl<'a> From<&'a str> for Key<'a> {
    fn from(text: &'a str) -> Self {
        Self(text)
    }
}

#[zprof::trace]
async fn anonymous(values: impl IntoIterator<Item = &u32>, key: impl Into<Key<'_>>) -> usize {
    later().await;
    let sum: u32 = values.into_iter().sum();
    usize::try_from(sum).unwrap_or(0) + key.into().0.len()
}

#[zprof::trace]
#[must_use]
async fn must_use(#[expect(unused_variables)] n: u32, #[cfg_attr(all(), allow(unused_variables))] m: u32) -> u32 {
    later().await;
    5
}

#[zprof::trace]
async fn iterator(end: u32) -> impl Iterator<Item = u32> {
    later().await;
    0..end
}

#[zprof::trace]
async fn failing_iterator(end: u32) -> Result<impl Iterator<Item = u32>, std::num::ParseIntError> {
    let start: u32 = "1".parse()?;
    Ok(start..end)
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[zprof::trace]
async fn coerces() -> Result<Boxed<'static, u32>, String> {
    Ok(Box::pin(async { 7 }))
}

#[zprof::trace(n)]
async fn recursive(n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    Box::pin(recursive(n - 1)).await + Box::pin(recursive(n - 2)).await
}

#[zprof::trace]
async fn never(code: i32) -> ! {
    later().await;
    panic!("left by panic with {code}");
}

#[zprof::trace]
#[allow(clippy::many_single_char_names, reason = "the patterns are the point")]
async fn patterns((a, b): (u32, u32), [c, .., d]: [u32; 3], mut e: u32, _: Rc<u32>, Pair { x, y: z }: Pair) -> u32 {
    e += 1;
    a + b + c + d + e + x + z
}

struct Pair {
    x: u32,
    y: u32,
}

#[zprof::trace]
async fn configured(a: u32, #[cfg(any())] b: NoSuchType, #[cfg(not(any()))] c: u32) -> u32 {
    a + c
}

#[zprof::trace(args, ctx)]
#[allow(clippy::used_underscore_binding, reason = "the name is the point")]
async fn taken_names(args: u32, ctx: u32, result: u32, _guard: u32, r#type: u32) -> u32 {
    args + ctx + result + _guard + r#type
}

#[zprof::trace]
#[allow(unsafe_code, clippy::unused_async, reason = "the shape has nothing to await")]
async unsafe fn stays_unsafe(pointer: &u32) -> u32 {
    *pointer
}

#[zprof::trace]
async fn not_send(shared: Rc<u32>) -> u32 {
    later().await;
    *shared
}

mod denied {
    #![deny(warnings)]

    #[zprof::trace]
    pub(super) async fn one_line() -> u32 {
        7
    }

    #[zprof::trace]
    pub(super) async fn items_first() -> u32 {
        #![allow(clippy::unused_async, reason = "an inner attribute stays first")]
        const ADDEND: u32 = 1;
        const fn inner() -> u32 {
            2
        }
        ADDEND + inner()
    }

    #[zprof::trace]
    pub(super) async fn unit(flag: bool) {
        if flag {
            return;
        }
        std::future::ready(()).await;
    }
}

mod shadowed {
    //! The prelude's names mean something else here.
    pub(super) struct Option;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Future;

    #[zprof::trace(n)]
    pub(super) async fn function(n: u32) -> (u32, Option, Some, None, Future) {
        (n, Option, Some, None, Future)
    }
}

struct Model {
    seqlen: usize,
    dropped: Dropped,
}

impl Model {
    #[zprof::trace(self.seqlen)]
    async fn by_reference(&self) -> usize {
        later().await;
        self.seqlen
    }

    #[zprof::trace]
    async fn by_mut(&mut self) -> &mut usize {
        later().await;
        &mut self.seqlen
    }

    #[zprof::trace]
    async fn by_value(self) -> usize {
        later().await;
        self.seqlen
    }

    #[zprof::trace]
    async fn by_rc(self: Rc<Self>) -> usize {
        self.seqlen
    }

    #[zprof::trace]
    async fn mutable(mut self) -> Self {
        self.seqlen += 1;
        self
    }
}

/// Asynchronous functions of a trait, without help.
trait Layer {
    async fn width(&self) -> usize;

    #[zprof::trace(width = 1)]
    async fn twice(&self) -> usize {
        self.width().await * 2
    }
}

impl Layer for Model {
    #[zprof::trace]
    async fn width(&self) -> usize {
        later().await;
        self.seqlen
    }
}

#[zprof::trace(n)]
fn returns_future(n: u32) -> impl Future<Output = u32> + Send {
    let twice = n * 2;
    async move {
        later().await;
        twice
    }
}

#[zprof::trace(length = text.len())]
#[allow(clippy::elidable_lifetime_names, reason = "the shape names it")]
fn returns_boxed<'a>(text: &'a str) -> Boxed<'a, usize> {
    Box::pin(async move {
        later().await;
        text.len()
    })
}

#[zprof::trace]
fn returns_ready(n: u32) -> impl Future<Output = u32> {
    ready(n)
}

/// Says when it is dropped.
#[derive(Clone)]
struct Dropped(&'static str, Rc<RefCell<Vec<&'static str>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// Shape of an argument list with all that can go wrong: unused ones, moved ones, ignored ones.
macro_rules! drops {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[allow(unused_variables, reason = "the arguments are the point")]
        async fn $name(a: Dropped, (b, _): (Dropped, Dropped), _: Dropped, moved: Dropped, e: Dropped) {
            let local = Dropped("local", Rc::clone(&moved.1));
            later().await;
            drop(moved);
        }
    };
}

drops! { untraced }
drops! { #[zprof::trace] traced }

/// The same for what a method drops of its receiver.
impl Model {
    #[allow(unused_variables, reason = "the arguments are the point")]
    async fn drops_untraced(self, other: Dropped) -> usize {
        later().await;
        self.seqlen
    }

    #[zprof::trace]
    #[allow(unused_variables, reason = "the arguments are the point")]
    async fn drops_traced(self, other: Dropped) -> usize {
        later().await;
        self.seqlen
    }
}

/// What is dropped, in order, when the future is polled so often and then dropped.
fn order<F: Future>(polls: usize, make: impl FnOnce(&dyn Fn(&'static str) -> Dropped) -> F) -> Vec<&'static str> {
    let list = Rc::new(RefCell::new(Vec::new()));
    let future = make(&|name| Dropped(name, Rc::clone(&list)));
    {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        list.borrow_mut().push("end of polls");
        if polls == 1 {
            let _ = future.as_mut().poll(&mut context);
            list.borrow_mut().push("ready");
        }
    }
    list.take()
}

#[test]
fn arguments_are_dropped_in_the_same_order() {
    for polls in [0, 1] {
        let arguments = |d: &dyn Fn(&'static str) -> Dropped| (d("a"), (d("b"), d("c")), d("d"), d("moved"), d("e"));
        let expected = order(polls, |d| {
            let (a, b, c, moved, e) = arguments(d);
            untraced(a, b, c, moved, e)
        });
        let found = order(polls, |d| {
            let (a, b, c, moved, e) = arguments(d);
            traced(a, b, c, moved, e)
        });
        assert_eq!(found, expected, "after {polls} polls");
        let model = |d: &dyn Fn(&'static str) -> Dropped| Model { seqlen: 1, dropped: d("self") };
        assert_eq!(
            order(polls, |d| model(d).drops_traced(d("other"))),
            order(polls, |d| model(d).drops_untraced(d("other"))),
            "after {polls} polls"
        );
    }
}

#[test]
fn futures_do_what_they_did() {
    let list = Rc::new(RefCell::new(Vec::new()));
    let model = |seqlen| Model { seqlen, dropped: Dropped("model", Rc::clone(&list)) };
    block_on(plain());
    assert_eq!(block_on(two(1, 2)), 3);
    let mut n = 5;
    assert_eq!(block_on(references(&1, &mut n)), 6);
    assert_eq!((block_on(elided(" a ")), block_on(named("a", &String::from("b")))), ("a", "a"));
    assert_eq!(block_on(must_be_send(generic_and_send(1))), "1");
    let told = |text| block_on(must_be_send(boxed_error(text))).map_err(|error| error.to_string());
    assert_eq!(told("5"), Ok(5));
    assert_eq!((told("").is_err(), told("x").is_err()), (true, true));
    assert_eq!((block_on(anonymous(&[1, 2], "key")), block_on(must_use(1, 2))), (6, 5));
    assert_eq!(block_on(iterator(3)).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(block_on(failing_iterator(3)).map(Iterator::collect::<Vec<_>>), Ok(vec![1, 2]));
    assert_eq!(block_on(coerces()).map(block_on), Ok(7));
    assert_eq!(block_on(must_be_send(recursive(10))), 55);
    let panic = std::panic::catch_unwind(|| block_on(never(3))).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("left by panic with 3"));
    assert_eq!(block_on(patterns((1, 2), [3, 0, 4], 5, Rc::new(0), Pair { x: 6, y: 7 })), 29);
    assert_eq!(block_on(configured(1, 2)), 3);
    assert_eq!(block_on(taken_names(1, 2, 3, 4, 5)), 15);
    // SAFETY: it does nothing that could go wrong.
    #[allow(unsafe_code, reason = "an unsafe function must stay one")]
    let value = block_on(unsafe { stays_unsafe(&3) });
    assert_eq!((value, block_on(not_send(Rc::new(4)))), (3, 4));
    assert_eq!((block_on(denied::one_line()), block_on(denied::items_first())), (7, 3));
    block_on(denied::unit(true));
    assert_eq!(block_on(shadowed::function(3)).0, 3);
    assert_eq!(block_on(model(8).by_reference()), 8);
    assert_eq!(*block_on(model(8).by_mut()), 8);
    assert_eq!((block_on(model(7).by_value()), block_on(Rc::new(model(3)).by_rc())), (7, 3));
    assert_eq!(block_on(model(3).mutable()).dropped.0, "model");
    assert_eq!(block_on(model(3).twice()), 6);
    assert_eq!((block_on(must_be_send(returns_future(4))), block_on(returns_ready(5))), (8, 5));
    assert_eq!(block_on(must_be_send(returns_boxed("abc"))), 3);
}

/// A `dyn` future, and one that must be `Send`, as `async_trait` makes them.
struct Sendable {
    seqlen: usize,
}

#[async_trait::async_trait]
trait SendBoxing {
    async fn boxed(&self, n: usize) -> Option<usize>;
    async fn failing(&self, text: &str) -> Result<usize, Box<dyn Error>>;
}

#[zprof::trace]
#[async_trait::async_trait]
impl SendBoxing for Sendable {
    async fn boxed(&self, n: usize) -> Option<usize> {
        later().await;
        self.seqlen.checked_sub(n)
    }

    #[zprof::trace("model.boxed", self.seqlen, text, err)]
    async fn failing(&self, text: &str) -> Result<usize, Box<dyn Error>> {
        let number: usize = text.parse()?;
        later().await;
        Ok(self.seqlen + number)
    }
}

#[test]
fn boxed_traits_stay_boxed() {
    let layer: &dyn SendBoxing = &Sendable { seqlen: 5 };
    assert_eq!(block_on(must_be_send(layer.boxed(2))), Some(3));
    assert_eq!(block_on(must_be_send(layer.failing("1"))).map_err(|error| error.to_string()), Ok(6));
}
