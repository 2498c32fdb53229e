//! What stands for the recorder in programs that are built without it: the same names, with nothing behind them.
//!
//! Destructors of what a program holds stay, though they do nothing: what it may do with a value must not depend on a
//! feature.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::guard::a_scope_must_not_be_held_across_an_await_or_sent_to_another_thread;
use super::marks::OneWord;
use super::registry::Word;
use crate::site::{Callsite, Level};
use crate::value::{NumberWord, One, Raw, RawArgs, Value};

/// An open scope; it ends when this is dropped.
#[must_use = "the scope ends when its guard is dropped"]
pub struct Guard(PhantomData<dyn a_scope_must_not_be_held_across_an_await_or_sent_to_another_thread>);

/// The state word that all scopes read.
#[inline(always)]
#[must_use]
pub fn word() -> Word {
    Word(0)
}

/// The same for site `S`.
#[inline(always)]
#[must_use]
pub fn word_at<S: Callsite>() -> Word {
    word()
}

/// Whether anything listens to site `S`.
#[inline(always)]
#[must_use]
pub fn hears<S: Callsite>(_: Word) -> bool {
    false
}

/// Opens a scope.
#[inline(always)]
pub fn open_at<S: Callsite, R: RawArgs>(_: S, word: Word, _: R) -> Guard {
    inert::<S>(word)
}

/// A guard for a site that nothing listens to now.
#[inline(always)]
pub fn inert<S: Callsite>(_: Word) -> Guard {
    Guard(PhantomData)
}

/// Records an instant.
#[inline(always)]
pub fn mark_at<S: Callsite, R: RawArgs>(_: S, _: Word, _: R) {}

/// Records a sample of a counter.
#[inline(always)]
pub fn count_at<S: Callsite, R: OneWord>(_: S, _: Word, _: R) {}

impl Guard {
    /// Whether metadata that is added now is recorded.
    pub(super) fn is_recorded(&self) -> bool {
        false
    }

    /// Adds metadata while the scope is open.
    #[inline(always)]
    pub(super) fn note<R: Raw>(&self, _: &'static str, _: R) {}
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// A scope held as a value: ended early, or given metadata that is known only later.
///
/// Made by `zprof::span!`. It ends when it is dropped or by [`end`](Span::end), and stays on its thread.
#[derive(Debug)]
#[must_use = "the span ends at once unless it is held by a name: `let span = …`, as `let _ = …` ends it too"]
pub struct Span(Guard);

impl Span {
    #[doc(hidden)]
    #[inline(always)]
    pub fn __new(guard: Guard) -> Self {
        Self(guard)
    }

    /// Adds the metadata `key = value` to the open span: nothing, since zprof is built without its feature `enable`.
    #[inline(always)]
    pub fn record<V: Value>(&mut self, key: &'static str, value: V) {
        self.0.note(key, value.raw());
    }

    /// Ends the span now.
    #[inline(always)]
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Describes a future for [`TraceFuture::traced`]: made by `zprof::task!`, owned, and `Send`.
#[must_use = "a task describes a future: `future.traced(task)`"]
pub struct Task(());

impl Drop for Task {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

/// Stands for the number of a task among its values; it comes last.
pub const NUMBER: One<NumberWord> = One::new(0);

/// A task with its metadata, of which [`NUMBER`] is the last.
#[inline(always)]
pub fn described<S: Callsite, R: RawArgs>(_: S, _: R) -> Task {
    Task(())
}

/// A task of which nobody wants to know the metadata now.
#[inline(always)]
pub fn undescribed<S: Callsite>(_: S) -> Task {
    Task(())
}

/// The site of an asynchronous function.
#[derive(Clone, Copy, Debug)]
pub struct Here<S>(pub S);

/// What a future is recorded as. Sealed.
pub trait Describe: crate::value::sealed::Sealed {}

impl<S: Callsite> crate::value::sealed::Sealed for Here<S> {}
impl<S: Callsite> Describe for Here<S> {}
impl crate::value::sealed::Sealed for Task {}
impl Describe for Task {}

/// A future that is recorded, made by [`TraceFuture::traced`] or by `#[zprof::trace]`. It is `Send`, `Sync` and `Unpin` if
/// the future is.
#[must_use = "futures do nothing unless they are polled or awaited"]
pub struct Traced<F, D: Describe = Task, O = ()> {
    future: F,
    _description: D,
    _outcome: O,
}

/// Records `future`.
#[inline(always)]
pub fn traced<F: Future, D: Describe>(description: D, future: F) -> Traced<F, D> {
    Traced { future, _description: description, _outcome: () }
}

/// Records `future`, and lets `outcome` see what it gives.
#[inline(always)]
pub fn traced_and<F, D, O>(description: D, future: F, outcome: O) -> Traced<F, D, O>
where
    F: Future,
    D: Describe,
    O: Fn(&Guard, &F::Output),
{
    Traced { future, _description: description, _outcome: outcome }
}

/// A future's own `poll`.
pub(super) type Poller<F> = fn(Pin<&mut F>, &mut Context<'_>) -> Poll<<F as Future>::Output>;

/// Records `future`. The expansion of an attribute gives `poll` so that rustc finds the future's code there too; it is
/// never called.
#[inline(always)]
pub fn polled<F: Future, D: Describe>(description: D, future: F, _poll: Poller<F>) -> Traced<F, D> {
    traced(description, future)
}

/// Records `future` like [`polled`], and lets `outcome` see what it gives.
#[inline(always)]
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
    /// the end, as a span on a line of its own. Without the feature `enable` it is the future, and nothing else.
    fn traced(self, task: Task) -> Traced<Self> {
        traced(task, self)
    }
}

impl<F: Future> TraceFuture for F {}

impl<F: Future, D: Describe, O> Future for Traced<F, D, O> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of this reference, which pins it as long as what holds it: nothing else gives
        // it out, and it is dropped in place.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
    }
}

impl<F, D: Describe, O> Drop for Traced<F, D, O> {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl<F, D: Describe, O> fmt::Debug for Traced<F, D, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").finish_non_exhaustive()
    }
}

/// The first poll of an asynchronous function, which is never seen.
#[derive(Debug)]
pub enum Entered {}

/// Called at the beginning of such a function.
#[inline(always)]
#[must_use]
pub fn entered(_: Level) -> Option<Entered> {
    None
}

impl Entered {
    /// Adds metadata.
    #[inline(always)]
    pub fn record<R: Raw>(&self, _: &'static str, _: R) {
        match *self {}
    }
}
