//! The scopes that are open at a place of a thread's stream, while its records are read.

use crate::room::{Result, Room as _};

/// A scope without an end as yet.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) index: usize,
    position: u64,
    /// End of the first scope around this one that ended before it, or 0.
    pub(super) outlived: u64,
    /// The number of that end within its tick.
    pub(super) outlived_order: u8,
    /// It has ended; it stands there only because others stand above it.
    closed: bool,
}

/// The scopes that are open at one place of the stream, in the order of their begins. Whatever the order in which they
/// end, a step takes the same time however many there are.
#[derive(Default)]
pub(super) struct Nest {
    /// The last one is never closed.
    scopes: Vec<Open>,
    /// How many of them are closed.
    closed: usize,
    /// Positions of those that have outlived nothing, ascending, and of closed ones.
    nested: Vec<u64>,
    /// Positions of those that are polls, ascending, and of closed ones.
    polls: Vec<u64>,
}

impl Nest {
    #[inline]
    pub(super) fn push(&mut self, index: usize, position: u64) -> Result<()> {
        self.scopes.room(1)?;
        self.nested.room(1)?;
        self.scopes.push(Open { index, position, outlived: 0, outlived_order: 0, closed: false });
        self.nested.push(position);
        Ok(())
    }

    /// Says that the scope that was pushed last is a poll.
    pub(super) fn is_poll(&mut self, position: u64) -> Result<()> {
        self.polls.room(1)?;
        self.polls.push(position);
        Ok(())
    }

    /// Whether a poll is open that began at `position` or later.
    pub(super) fn has_poll_from(&mut self, position: u64) -> bool {
        while let Some(&last) = self.polls.last() {
            if self.find(last).is_some() {
                return last >= position;
            }
            self.polls.pop();
        }
        false
    }

    /// Takes the innermost scope.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Open> {
        let scope = self.scopes.pop()?;
        while self.scopes.last().is_some_and(|scope| scope.closed) {
            self.scopes.pop();
            self.closed -= 1;
        }
        while self.nested.last().is_some_and(|&position| position >= scope.position) {
            self.nested.pop();
        }
        while self.polls.last().is_some_and(|&position| position >= scope.position) {
            self.polls.pop();
        }
        Some(scope)
    }

    fn find(&self, position: u64) -> Option<usize> {
        // Begins stand in the order of their positions, and so do the open ones.
        let at = self.scopes.partition_point(|scope| scope.position < position);
        self.scopes.get(at).filter(|scope| scope.position == position && !scope.closed).map(|_| at)
    }

    /// Takes the scope that began at `position`.
    pub(super) fn take(&mut self, position: u64) -> Option<Open> {
        let at = self.find(position)?;
        if at + 1 == self.scopes.len() {
            return self.pop();
        }
        let scope = self.scopes[at];
        self.scopes[at].closed = true;
        self.closed += 1;
        if self.closed > self.scopes.len() / 2 {
            self.scopes.retain(|scope| !scope.closed);
            self.closed = 0;
        }
        Some(scope)
    }

    /// Notes that a scope around all those that began at `position` or later has ended, at a tick and in an order within it.
    pub(super) fn outlive(&mut self, position: u64, tick: u64, order: u8) {
        while let Some(&inner) = self.nested.last().filter(|&&inner| inner >= position) {
            self.nested.pop();
            if let Some(at) = self.find(inner) {
                self.scopes[at].outlived = tick;
                self.scopes[at].outlived_order = order;
            }
        }
    }

    /// What the scope that began at `position` was pushed with, if it is open.
    pub(super) fn index_of(&self, position: u64) -> Option<usize> {
        self.find(position).map(|at| self.scopes[at].index)
    }

    /// What is open, in the order of the begins.
    pub(super) fn into_open(self) -> impl Iterator<Item = Open> {
        self.scopes.into_iter().filter(|scope| !scope.closed)
    }

    /// Index and position of what is open, in the order of the begins.
    pub(super) fn open(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.scopes.iter().filter(|scope| !scope.closed).map(|scope| (scope.index, scope.position))
    }
}
