//! Tasks: futures that are recorded. Each poll is a scope of the thread that runs it, and carries the task's number; an
//! end is a record of its own, on whatever thread it comes. Who drains them joins them by the number.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::chunk::Slot;
use super::decode::{Decoded, value};
use super::guard::{Guard, hears, is_heard, is_recorded, open_as, word};
use super::registry::Word;
use super::ring::Mark;
use super::thread::{SHARED, with_local};
use crate::ENABLED;
use crate::annotate::Line;
use crate::atomic::AtomicU64;
use crate::ceiling::{IS_LIMITED, absent, is_compiled};
use crate::site::{Callsite, Level, NO_FILTER, Origin, Site};
use crate::value::{Kind, NumberWord, One, Raw, RawArgs, Shape, ShapeOf, sealed};

/// Describes a future for [`TraceFuture::traced`]: made by `zprof::task!`, owned, and `Send`.
#[must_use = "a task describes a future: `future.traced(task)`"]
pub struct Task {
    shapes: &'static Shapes,
    /// The metadata's words and one more, for the number; none where nothing listened.
    words: Box<[u64]>,
}

/// What is known of a task's records when the program is compiled.
#[derive(Debug)]
struct Shapes {
    site: fn() -> &'static Site,
    level: Level,
    filter: u64,
    /// With the metadata.
    first: &'static Shape,
    later: &'static Shape,
}

struct ShapesOf<S, R>(std::marker::PhantomData<fn() -> (S, R)>);

impl<S: Callsite, R: RawArgs> ShapesOf<S, R> {
    const SHAPES: &'static Shapes = &Shapes {
        site: S::site,
        level: S::LEVEL,
        filter: S::FILTER,
        first: ShapeOf::<S, R>::SHAPE,
        later: if is_named(R::KINDS) { Self::NAMED } else { ShapeOf::<S, (One<NumberWord>,)>::SHAPE },
    };

    /// Of the later polls of a task that brought its name along: they bring it too, since each may be on another thread.
    const NAMED: &'static Shape =
        &Shape { site: Origin::Coded(S::site), kinds: Cow::Borrowed(&[Kind::Name, Kind::Number]), plain: false };
}

/// Whether the first of the values is a name.
const fn is_named(kinds: &[Kind]) -> bool {
    matches!(kinds, [Kind::Name, ..])
}

/// Stands for the number of a task among its values; it comes last.
pub const NUMBER: One<NumberWord> = One::new(0);

/// A task with its metadata, of which [`NUMBER`] is the last: the compiler refuses others, since each poll puts its task's
/// number there.
pub fn described<S: Callsite, R: RawArgs>(_: S, raws: R) -> Task {
    const { assert!(matches!(R::KINDS, [.., Kind::Number]), "the last value of a task is its number") };
    let mut words = vec![0_u64; raws.words()].into_boxed_slice();
    // SAFETY: the words are this function's alone, as many as the values ask for, and a slot is a transparent cell of
    // one.
    unsafe { raws.write(words.as_mut_ptr().cast::<Slot>()) };
    Task { shapes: ShapesOf::<S, R>::SHAPES, words }
}

/// A task of which nobody wants to know the metadata now.
pub fn undescribed<S: Callsite>(_: S) -> Task {
    if const { !is_compiled(S::LEVEL) } {
        return Task { shapes: &ABSENT, words: Box::default() };
    }
    Task { shapes: ShapesOf::<S, (One<NumberWord>,)>::SHAPES, words: Box::default() }
}

/// What stands for all tasks above the compile-time ceiling. Its own level is above any.
static ABSENT: Shapes = Shapes {
    site: absent,
    level: Level::Verbose,
    filter: NO_FILTER,
    first: &Shape { site: Origin::Coded(absent), kinds: Cow::Borrowed(&[]), plain: true },
    later: &Shape { site: Origin::Coded(absent), kinds: Cow::Borrowed(&[]), plain: true },
};

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &(self.shapes.site)().name).finish_non_exhaustive()
    }
}

/// The site of an asynchronous function; its metadata comes from inside, by [`entered`].
#[derive(Clone, Copy, Debug)]
pub struct Here<S>(pub S);

/// What a future is recorded as. Sealed.
pub trait Describe: sealed::Sealed {
    /// Whether it can be recorded: it is not above the compile-time ceiling, as far as the type tells.
    #[doc(hidden)]
    const IS_COMPILED: bool;
    /// The same, as far as the value tells.
    #[doc(hidden)]
    fn is_compiled(&self) -> bool;
    #[doc(hidden)]
    fn site(&self) -> fn() -> &'static Site;
    #[doc(hidden)]
    fn hears(&self, word: Word) -> bool;
    /// Opens the scope of a poll; `number` is the task's, shifted, with a bit for the first poll.
    #[doc(hidden)]
    fn open(&self, word: Word, number: One<NumberWord>, is_first: bool) -> Guard;
    /// The metadata has been recorded: it is no more needed, unless that record may go before the task is over.
    #[doc(hidden)]
    fn forget(&mut self);
}

impl<S: Callsite> sealed::Sealed for Here<S> {}

impl<S: Callsite> Describe for Here<S> {
    const IS_COMPILED: bool = is_compiled(S::LEVEL);

    #[inline(always)]
    fn is_compiled(&self) -> bool {
        Self::IS_COMPILED
    }

    #[inline(always)]
    fn site(&self) -> fn() -> &'static Site {
        S::site
    }

    #[inline(always)]
    fn hears(&self, word: Word) -> bool {
        hears::<S>(word)
    }

    #[inline]
    fn open(&self, word: Word, number: One<NumberWord>, _: bool) -> Guard {
        open_as(S::site, ShapeOf::<S, (One<NumberWord>,)>::SHAPE, word, (number,))
    }

    #[inline(always)]
    fn forget(&mut self) {}
}

impl sealed::Sealed for Task {}

impl Describe for Task {
    const IS_COMPILED: bool = ENABLED;

    #[inline(always)]
    fn is_compiled(&self) -> bool {
        !IS_LIMITED || is_compiled(self.shapes.level)
    }

    fn site(&self) -> fn() -> &'static Site {
        self.shapes.site
    }

    fn hears(&self, word: Word) -> bool {
        ENABLED && !word.is_off() && is_heard(word, self.shapes.level, self.shapes.filter, (self.shapes.site)())
    }

    fn open(&self, word: Word, number: One<NumberWord>, is_first: bool) -> Guard {
        let Shapes { site, first, later, .. } = *self.shapes;
        let says_all = is_first || SHARED.bounds().is_some();
        if says_all && !self.words.is_empty() {
            open_as(site, first, word, Kept { words: &self.words, kinds: &first.kinds, number })
        } else if let Some(name) = self.name() {
            open_as(site, later, word, Kept { words: name, kinds: &later.kinds, number })
        } else {
            open_as(site, later, word, (number,))
        }
    }

    fn forget(&mut self) {
        // A name is needed to the end; what stands behind it stays with it, so that nothing is allocated here.
        if !self.words.is_empty() && !is_named(&self.shapes.first.kinds) && SHARED.bounds().is_none() {
            self.words = Box::default();
        }
    }
}

impl Task {
    /// The words of the name that it brought along, and one more.
    fn name(&self) -> Option<&[u64]> {
        if !is_named(&self.shapes.first.kinds) {
            return None;
        }
        let (_, rest) = value(&Kind::Name, &self.words)?;
        self.words.get(..=self.words.len() - rest.len())
    }
}

/// A task's metadata as words, with its number in the place of the last.
#[derive(Clone, Copy)]
struct Kept<'a> {
    words: &'a [u64],
    kinds: &'static [Kind],
    number: One<NumberWord>,
}

impl sealed::Sealed for Kept<'_> {}

impl RawArgs for Kept<'_> {
    /// The shape that goes with the words says it.
    const KINDS: &'static [Kind] = &[];

    fn words(self) -> usize {
        self.words.len()
    }

    unsafe fn write(self, mut at: *const Slot) -> *const Slot {
        for &word in &self.words[..self.words.len().saturating_sub(1)] {
            // SAFETY: the caller gives a slot for each word.
            unsafe { Slot::write(at, word) };
            // SAFETY: as above; the last one is left.
            at = unsafe { at.add(1) };
        }
        // SAFETY: as above.
        unsafe { self.number.write(at) }
    }

    fn show(self, place: usize, line: &mut Line) -> bool {
        let mut words = self.words;
        for (at, kind) in self.kinds.iter().enumerate() {
            let Some((decoded, rest)) = value(kind, words) else { return false };
            words = rest;
            if at == place {
                return decoded.map(|decoded| show(decoded, line)).is_some();
            }
        }
        false
    }
}

pub(super) fn show(value: Decoded<'_>, line: &mut Line) {
    match value {
        Decoded::Bool(value) => line.push_uint(u64::from(value)),
        Decoded::Signed(value) => line.push_int(value),
        Decoded::Unsigned(value) | Decoded::Sends(value) | Decoded::Receives(value) => line.push_uint(value),
        Decoded::Float(value) => line.push_display(value),
        Decoded::Single(value) => line.push_display(value),
        Decoded::Char(value) => line.push_char(u64::from(u32::from(value))),
        Decoded::Text(text) => line.push_text(text),
    }
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// Dropped before it was ready.
    Cancelled,
    /// A poll ended in a panic.
    Panicked,
}

impl Outcome {
    /// Bits of a record.
    pub(crate) const BITS: u32 = 2;

    pub(crate) fn of(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Completed,
            1 => Self::Cancelled,
            _ => Self::Panicked,
        }
    }
}

/// How far a task has come: [`NEW`], [`POLLED`], [`OVER`], or its number.
#[derive(Debug)]
struct Life(u64);

const NEW: u64 = 0;
/// It was polled while nothing listened.
const POLLED: u64 = 1;
/// It was ready, or has panicked.
const OVER: u64 = 2;

/// Numbers that a thread takes at a time. A block begins at a multiple of its size.
const BLOCK: u64 = 64;
/// The next number. They begin far from the ids of other recorders of the process, which count up from a small thread
/// number in the upper half, and stay below 2^53, so that no reader rounds them.
static NEXT: AtomicU64 = AtomicU64::new(0x7a71 << 32);

thread_local! {
    /// The next number of the thread's block; a multiple of [`BLOCK`] where none is left. Atomic, since a signal handler may
    /// take a number while the code that it interrupts does.
    static NUMBERS: AtomicU64 = const { AtomicU64::new(0) };
    /// The first poll of a task, until the task's own code takes it.
    static ENTERED: Cell<Option<(Mark, Word)>> = const { Cell::new(None) };
}

/// A number that no other task or flow of the process has.
pub(super) fn new_number() -> u64 {
    NUMBERS.with(|numbers| {
        let left = |next: u64| (next % BLOCK != 0).then_some(next + 1);
        numbers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).unwrap_or_else(|_| {
            // Where a handler comes in here and takes a block as well, the rest of its block is given up.
            let first = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
            numbers.store(first + 1, Ordering::Relaxed);
            first
        })
    })
}

/// A future that is recorded, made by [`TraceFuture::traced`] or by `#[zprof::trace]`. It is `Send`, `Sync` and `Unpin` if
/// the future is.
#[must_use = "futures do nothing unless they are polled or awaited"]
pub struct Traced<F, D: Describe = Task, O = ()> {
    future: F,
    description: D,
    life: Life,
    outcome: O,
}

/// Records `future`.
#[inline]
pub fn traced<F: Future, D: Describe>(description: D, future: F) -> Traced<F, D> {
    Traced { future, description, life: Life(NEW), outcome: () }
}

/// Records `future`, and lets `outcome` see what it gives.
#[inline]
pub fn traced_and<F, D, O>(description: D, future: F, outcome: O) -> Traced<F, D, O>
where
    F: Future,
    D: Describe,
    O: Fn(&Guard, &F::Output),
{
    Traced { future, description, life: Life(NEW), outcome }
}

/// A future's own `poll`.
pub(super) type Poller<F> = fn(Pin<&mut F>, &mut Context<'_>) -> Poll<<F as Future>::Output>;

/// Records `future`. The expansion of an attribute gives `poll` so that rustc finds the future's code there too; it is
/// never called.
#[inline]
pub fn polled<F: Future, D: Describe>(description: D, future: F, _poll: Poller<F>) -> Traced<F, D> {
    traced(description, future)
}

/// Records `future` like [`polled`], and lets `outcome` see what it gives.
#[inline]
pub fn polled_and<F, D, O>(description: D, future: F, _poll: Poller<F>, outcome: O) -> Traced<F, D, O>
where
    F: Future,
    D: Describe,
    O: Fn(&Guard, &F::Output),
{
    traced_and(description, future, outcome)
}

/// Records futures.
pub trait TraceFuture: Future + Sized {
    /// Records this future as `task`: each poll as a slice of the thread that runs it, and the whole, from the first poll to
    /// the end, as a span on a line of its own.
    ///
    /// Nothing is recorded before the first poll. A future that is dropped before it is ready is marked `cancelled`, one
    /// that panics `panicked`. It may move between threads at each poll.
    fn traced(self, task: Task) -> Traced<Self> {
        traced(task, self)
    }
}

impl<F: Future> TraceFuture for F {}

/// What looks at the value of a future while its last poll is open.
pub trait Outlook<T> {
    #[doc(hidden)]
    fn see(&self, guard: &Guard, value: &T);
}

impl<T> Outlook<T> for () {
    #[inline(always)]
    fn see(&self, _: &Guard, _: &T) {}
}

impl<T, F: Fn(&Guard, &T)> Outlook<T> for F {
    #[inline(always)]
    fn see(&self, guard: &Guard, value: &T) {
        self(guard, value);
    }
}

impl<F: Future, D: Describe, O: Outlook<F::Output>> Future for Traced<F, D, O> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of this reference; the other fields are never pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the future is pinned as long as what holds it, which gives it out pinned here and drops it in place.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        if !D::IS_COMPILED || !this.description.is_compiled() {
            return future.poll(context);
        }
        let word = word();
        if !this.description.hears(word) {
            if this.life.0 == NEW && !word.bare().is_off() {
                // What the future adds is not for the task around it.
                ENTERED.set(None);
            }
            let polled = future.poll(context);
            this.life.go_on_unheard(polled.is_ready());
            return polled;
        }
        let mut turn = Turn::begin(&mut this.life, &mut this.description, word);
        let polled = future.poll(context);
        turn.outcome = match &polled {
            Poll::Pending => None,
            Poll::Ready(value) => {
                if let Some(guard) = &turn.guard {
                    this.outcome.see(guard, value);
                }
                Some(Outcome::Completed)
            }
        };
        polled
    }
}

impl Life {
    fn go_on_unheard(&mut self, is_ready: bool) {
        if is_ready {
            self.0 = OVER;
        } else if self.0 == NEW {
            self.0 = POLLED;
        }
    }

    /// The number, where one was given.
    fn number(&self) -> Option<u64> {
        (self.0 > OVER).then_some(self.0)
    }

    /// Ends a task that has a number, and writes so where something listens.
    fn end(&mut self, description: &impl Describe, outcome: Outcome) {
        let number = self.number();
        self.0 = OVER;
        if let Some(number) = number {
            let (word, site) = (word().bare(), Origin::Coded(description.site()));
            if !word.is_off() && is_recorded(word, site.site()) {
                with_local(|local| local.end_task(word, number << Outcome::BITS | outcome as u64, site));
            }
        }
    }
}

/// One poll of a task. Dropped by a panic, it ends the task.
struct Turn<'a, D: Describe> {
    life: &'a mut Life,
    description: &'a D,
    guard: Option<Guard>,
    /// What has become of the task by the end of this poll.
    outcome: Option<Outcome>,
}

impl<'a, D: Describe> Turn<'a, D> {
    fn begin(life: &'a mut Life, description: &'a mut D, word: Word) -> Self {
        let is_first = life.0 == NEW;
        // Polled again when it was over, it is a task without an end: the program breaks the rules of futures.
        let number = life.number().unwrap_or_else(new_number);
        let guard = description.open(word, One::new(number << 1 | u64::from(is_first)), is_first);
        let mark = guard.mark();
        let word = word.bare();
        ENTERED.set(mark.filter(|_| is_first).map(|mark| (mark, word)));
        if mark.is_some() {
            description.forget();
            life.0 = number;
        } else if word.is_off() {
            // Only a tool has seen this poll.
            life.go_on_unheard(false);
        }
        Self { life, description, guard: Some(guard), outcome: Some(Outcome::Panicked) }
    }
}

impl<D: Describe> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        ENTERED.set(None);
        // The poll ends before the task does.
        drop(self.guard.take());
        if let Some(outcome) = self.outcome {
            self.life.end(self.description, outcome);
        }
    }
}

impl<F, D: Describe, O> Drop for Traced<F, D, O> {
    fn drop(&mut self) {
        if D::IS_COMPILED && self.life.number().is_some() {
            self.life.end(&self.description, Outcome::Cancelled);
        }
    }
}

impl<F, D: Describe, O> fmt::Debug for Traced<F, D, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("name", &(self.description.site())().name).finish_non_exhaustive()
    }
}

/// The first poll of an asynchronous function, which its metadata belongs to.
#[derive(Debug)]
pub struct Entered {
    mark: Mark,
    word: Word,
}

/// Called at the beginning of such a function, which has this level: what its first poll is, where that is recorded.
#[inline(always)]
#[must_use]
pub fn entered(level: Level) -> Option<Entered> {
    if !is_compiled(level) {
        return None;
    }
    ENTERED.take().map(|(mark, word)| Entered { mark, word })
}

impl Entered {
    /// Adds metadata.
    #[inline]
    pub fn record<R: Raw>(&self, key: &'static str, value: R) {
        with_local(|local| local.note(self.word, self.mark, key, value));
    }
}
