//! 64-bit atomics: those of the processor, or, where it has none, values under a lock.
//!
//! Only a build without the feature `enable` gets the values under a lock: `lib.rs` refuses to record without 64-bit
//! atomics. A lock would make scopes wait, and neither a signal handler nor the child of a fork may take it.

#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::AtomicI64;
#[cfg(target_has_atomic = "64")]
pub use std::sync::atomic::AtomicU64;

#[cfg(not(target_has_atomic = "64"))]
pub(crate) use locked::AtomicI64;
#[cfg(not(target_has_atomic = "64"))]
pub use locked::AtomicU64;

#[cfg(any(test, not(target_has_atomic = "64")))]
#[allow(dead_code, missing_docs, unreachable_pub)] // the interface is the standard library's, whatever part is called
mod locked {
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    macro_rules! locked {
        ($($name:ident: $int:ty;)*) => {$(
            /// A number under a lock, with the interface of the standard library's atomic of this name. The lock orders all
            /// that threads do, so every `Ordering` is as strong as `SeqCst`.
            #[derive(Debug, Default)]
            pub struct $name(Mutex<$int>);

            impl $name {
                pub const fn new(value: $int) -> Self {
                    Self(Mutex::new(value))
                }

                fn lock(&self) -> MutexGuard<'_, $int> {
                    // The number is whole at any moment, also after a panic in the closure of `fetch_update`.
                    self.0.lock().unwrap_or_else(PoisonError::into_inner)
                }

                fn replace(&self, change: impl FnOnce($int) -> $int) -> $int {
                    let mut value = self.lock();
                    let new = change(*value);
                    std::mem::replace(&mut *value, new)
                }

                pub fn load(&self, _: Ordering) -> $int {
                    *self.lock()
                }

                pub fn store(&self, value: $int, _: Ordering) {
                    *self.lock() = value;
                }

                pub fn swap(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|_| value)
                }

                pub fn fetch_add(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|old| old.wrapping_add(value))
                }

                pub fn fetch_sub(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|old| old.wrapping_sub(value))
                }

                pub fn fetch_and(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|old| old & value)
                }

                pub fn fetch_or(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|old| old | value)
                }

                pub fn fetch_max(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|old| old.max(value))
                }

                pub fn fetch_min(&self, value: $int, _: Ordering) -> $int {
                    self.replace(|old| old.min(value))
                }

                pub fn fetch_update(
                    &self,
                    _: Ordering,
                    _: Ordering,
                    mut change: impl FnMut($int) -> Option<$int>,
                ) -> Result<$int, $int> {
                    let mut value = self.lock();
                    let old = *value;
                    match change(old) {
                        Some(new) => {
                            *value = new;
                            Ok(old)
                        }
                        None => Err(old),
                    }
                }

                pub fn compare_exchange(
                    &self,
                    current: $int,
                    new: $int,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$int, $int> {
                    self.fetch_update(success, failure, |old| (old == current).then_some(new))
                }

                pub fn compare_exchange_weak(
                    &self,
                    current: $int,
                    new: $int,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$int, $int> {
                    self.compare_exchange(current, new, success, failure)
                }
            }
        )*};
    }

    locked! {
        AtomicI64: i64;
        AtomicU64: u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
    use std::sync::atomic::{AtomicI64, AtomicU64};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::locked;

    /// One call of an atomic by its number, with two arguments, and the result of the call.
    macro_rules! call {
        ($on:expr, $call:expr, $first:expr, $second:expr) => {
            match $call {
                0 => {
                    $on.store($first, Release);
                    Ok($on.load(Acquire))
                }
                1 => Ok($on.swap($first, AcqRel)),
                2 => Ok($on.fetch_add($first, Relaxed)),
                3 => Ok($on.fetch_sub($first, Relaxed)),
                4 => Ok($on.fetch_and($first, Relaxed)),
                5 => Ok($on.fetch_or($first, Relaxed)),
                6 => Ok($on.fetch_max($first, Relaxed)),
                7 => Ok($on.fetch_min($first, Relaxed)),
                8 => $on.fetch_update(AcqRel, Acquire, |old| old.checked_add($first)),
                // Strong and weak exchanges agree where both fail.
                9 if $on.load(Relaxed) != $first => $on.compare_exchange_weak($first, $second, AcqRel, Acquire),
                _ => $on.compare_exchange($first, $second, AcqRel, Acquire),
            }
        };
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn numbers_under_a_lock_do_what_atomics_do(calls in vec((0..11, any::<i64>(), any::<i64>(), any::<bool>()), 0..40)) {
            let (signed, locked_signed) = (AtomicI64::new(7), locked::AtomicI64::new(7));
            let (unsigned, locked_unsigned) = (AtomicU64::new(7), locked::AtomicU64::new(7));
            for (call, first, second, is_hit) in calls {
                let first = if is_hit { signed.load(Relaxed) } else { first };
                prop_assert_eq!(call!(signed, call, first, second), call!(locked_signed, call, first, second));
                let first = if is_hit { unsigned.load(Relaxed) } else { first.cast_unsigned() };
                let second = second.cast_unsigned();
                prop_assert_eq!(call!(unsigned, call, first, second), call!(locked_unsigned, call, first, second));
            }
            prop_assert_eq!(signed.into_inner(), locked_signed.load(Relaxed));
            prop_assert_eq!(unsigned.into_inner(), locked_unsigned.load(Relaxed));
        }
    }
}
