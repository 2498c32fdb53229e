//! Lists and tables that grow with a recording: where memory is short, growing them is an error, and not the end of the program.
//!
//! What takes more memory the longer a program records asks for room here before it adds anything. A single small allocation,
//! as of a warning or a path, does not; see "Memory" in docs/architecture.md.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use crate::error::{Error, ErrorKind};
use crate::os;

/// There was no memory for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// The result of what may find no memory.
pub(crate) type Result<T, E = OutOfMemory> = std::result::Result<T, E>;

impl OutOfMemory {
    /// The error of a call that ends here.
    #[cold]
    pub(crate) fn error(self) -> Error {
        Error::new(ErrorKind::OutOfMemory, "out of memory")
    }
}

/// Bytes from which on an allocation must leave some for small ones, which end the program where they fail; and how many.
const LARGE: usize = 64 << 10;
const HEADROOM: usize = 1 << 20;

/// Something that elements can be added to.
pub(crate) trait Room {
    /// Makes room for `more` elements, so that adding them allocates nothing.
    fn room(&mut self, more: usize) -> Result<()>;
}

/// Says whether an allocation of that many bytes has left address space for small ones, which cannot fail in a good way.
#[cold]
fn leaves_room(bytes: usize) -> Result<()> {
    if bytes < LARGE || os::has_headroom(HEADROOM) { Ok(()) } else { Err(OutOfMemory) }
}

impl<T> Room for Vec<T> {
    #[inline]
    fn room(&mut self, more: usize) -> Result<()> {
        if self.capacity() - self.len() >= more { Ok(()) } else { grow(self, more) }
    }
}

#[cold]
#[inline(never)]
fn grow<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    list.try_reserve(more).map_err(|_| OutOfMemory)?;
    leaves_room(list.capacity().saturating_mul(size_of::<T>()))
}

impl Room for String {
    fn room(&mut self, more: usize) -> Result<()> {
        self.try_reserve(more).map_err(|_| OutOfMemory)
    }
}

impl<T> Room for VecDeque<T> {
    fn room(&mut self, more: usize) -> Result<()> {
        self.try_reserve(more).map_err(|_| OutOfMemory)
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Room for HashMap<K, V, S> {
    #[inline]
    fn room(&mut self, more: usize) -> Result<()> {
        self.try_reserve(more).map_err(|_| OutOfMemory)
    }
}

impl<T: Eq + Hash, S: BuildHasher> Room for HashSet<T, S> {
    #[inline]
    fn room(&mut self, more: usize) -> Result<()> {
        self.try_reserve(more).map_err(|_| OutOfMemory)
    }
}

/// Adds an element.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, element: T) -> Result<()> {
    list.room(1)?;
    list.push(element);
    Ok(())
}

/// Adds elements.
#[inline]
pub(crate) fn extend<T: Clone>(list: &mut Vec<T>, elements: &[T]) -> Result<()> {
    list.room(elements.len())?;
    list.extend_from_slice(elements);
    Ok(())
}

/// An empty list with room for `count` elements.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| OutOfMemory)?;
    leaves_room(count.saturating_mul(size_of::<T>()))?;
    Ok(list)
}

/// The elements of an iterator, which has `count` of them at most.
pub(crate) fn collect<T>(elements: impl Iterator<Item = T>, count: usize) -> Result<Vec<T>> {
    let mut list = with_room(count)?;
    for element in elements {
        push(&mut list, element)?;
    }
    Ok(list)
}

/// A copy of these elements.
pub(crate) fn copy<T: Clone>(elements: &[T]) -> Result<Box<[T]>> {
    let mut list = with_room(elements.len())?;
    list.extend_from_slice(elements);
    Ok(list.into_boxed_slice())
}

/// A copy of a text.
pub(crate) fn text(text: &str) -> Result<String> {
    let mut copy = String::new();
    copy.try_reserve_exact(text.len()).map_err(|_| OutOfMemory)?;
    copy.push_str(text);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut list = vec![1_u64];
        assert_eq!(list.room(usize::MAX / 8), Err(OutOfMemory));
        assert_eq!(list, [1]);
        assert_eq!(with_room::<u64>(usize::MAX), Err(OutOfMemory));
        assert_eq!(push(&mut list, 2), Ok(()));
        assert_eq!(extend(&mut list, &[3, 4]), Ok(()));
        assert_eq!(copy(&list).as_deref(), Ok([1, 2, 3, 4].as_slice()));
        assert_eq!(collect(list.iter().copied(), 1), Ok(list.clone()));
        assert_eq!(text("a b").as_deref(), Ok("a b"));
        assert_eq!(OutOfMemory.error().kind(), ErrorKind::OutOfMemory);
    }
}
