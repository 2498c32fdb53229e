//! The lock of the recorder's cold paths: the standard one, which survives a fork.

use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A lock whose whole state is in itself. Where waiters stand in a queue in memory, as in parking_lot, an unlock in the
/// child of a fork may hand the lock to a thread that did not come along, and nobody gets it ever after.
#[derive(Debug)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for the lock. That its last holder panicked is of no account: each leaves the value whole at every step.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
