//! The part of its parent's record that the child of a fork has: the begins of the scopes that are open in its one thread.
//!
//! The chunks of the parent are empty in the child, so that a fork need not copy them. The begins that the child goes on with
//! are therefore copied into a chunk of their own before the fork, which the child's writer goes on in. That runs in the
//! handler that `pthread_atfork` calls, with the recorder's locks held: it takes a few microseconds, and neither allocates nor
//! frees, since the program's allocator may be locked or may open scopes.
//!
//! Which chunks have such begins is known without a look at their records. A thread notes how many scopes of earlier chunks
//! were open when it left a chunk, and how many of the chunk's own. Where scopes end in the opposite order of their begins,
//! the oldest begins of a chunk are those that are left of it. Two scopes of which the older ended first, in a later chunk
//! than they began in, are the exception: the child may have the begin of the one in place of the other's.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use super::chain::Locked;
use super::chunk::{ChunkBox, Link};
use super::decode::{Record, Words};
use super::memory;
use super::pool::SMALL;
use super::ring::{END_WORDS, MOVED, OTHER, head};

/// Chunks whose begins are looked for, at most.
const MOST_CHUNKS: usize = 64;
/// Begins that are inherited, at most: the innermost. Scopes around them count as open since before the record.
const MOST_BEGINS: usize = 4096;
/// Begins that are open in one chunk, at most.
const MOST_OPEN: usize = 16 * 1024;
/// Words that are copied, at most.
const MOST_WORDS: usize = 128 * 1024;

/// The begins, in a chunk that a fork copies.
#[derive(Debug)]
pub(crate) struct Heir {
    pub(super) chunk: ChunkBox,
    /// Words of the begins and their metadata.
    pub(super) words: usize,
    /// Position of the first.
    pub(super) floor: u64,
    pub(super) epoch: u32,
}

/// A record to copy: its words lie in the parent's chunks.
#[derive(Clone, Copy)]
struct Copied<'a> {
    /// Position of a begin; for metadata, that of its scope.
    scope: u64,
    /// Position of the record.
    at: u64,
    is_note: bool,
    words: &'a [u64],
}

/// Memory that is needed for moments, straight from the system.
struct Scratch(NonNull<u8>);

impl Scratch {
    const OPEN: usize = MOST_OPEN * size_of::<u32>();
    const BYTES: usize = Self::OPEN + 2 * MOST_BEGINS * size_of::<Copied<'_>>();

    fn map() -> Option<Self> {
        memory::map_exactly(Self::BYTES).map(Self)
    }

    /// Both lists, empty.
    fn lists<'a>(&mut self) -> (List<'_, u32>, List<'_, Copied<'a>>) {
        // SAFETY: the mapping is longer than that.
        let second = unsafe { memory::ptr_at(self.0, Self::OPEN) };
        let open = List { first: self.0.cast(), len: 0, most: MOST_OPEN, _scratch: PhantomData };
        (open, List { first: second.cast(), len: 0, most: 2 * MOST_BEGINS, _scratch: PhantomData })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: `map` has mapped this many bytes, and the lists have borrowed from this.
        unsafe { memory::unmap(self.0, Self::BYTES) };
    }
}

/// A list in scratch memory: `first` is aligned for `T` and has room for `most`, of which the first `len` are written.
struct List<'s, T> {
    first: NonNull<T>,
    len: usize,
    most: usize,
    _scratch: PhantomData<&'s mut T>,
}

impl<T: Copy> List<'_, T> {
    fn push(&mut self, value: T) -> bool {
        if self.len == self.most {
            return false;
        }
        // SAFETY: there is room for `most` of them, says the type.
        let at = unsafe { self.first.add(self.len) };
        // SAFETY: the address lies in the list's memory, and is aligned as its first.
        unsafe { at.write(value) };
        self.len += 1;
        true
    }

    fn slice(&mut self) -> &mut [T] {
        // SAFETY: the first `len` are written, says the type, and the list alone has them.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

/// Copies the begins of `open` scopes of this chain, whose owner calls, into a chunk for the child of a fork. Of those that
/// began in earlier chunks than the last, `crossing` are open. `None` where there is no memory.
pub(super) fn heir(chain: &Locked<'_>, open: usize, crossing: usize) -> Option<Heir> {
    let epoch = chain.epoch();
    let mut scratch = Scratch::map()?;
    let (mut here, mut copied) = scratch.lists();
    let found = find(chain, crossing);
    let mut left = MOST_BEGINS;
    for (link, count, has_notes) in found.iter().rev().flatten().copied() {
        let count = if link.next().is_none() { open.saturating_sub(crossing) } else { count };
        // The innermost of all, so that those before the first are older.
        let skipped = count.saturating_sub(left);
        let before = copied.len;
        if !collect(link, skipped..count, has_notes, &mut here, &mut copied) {
            copied.len = before;
            break;
        }
        left -= count - skipped;
    }
    let copied = copied.slice();
    // Begins first, by their positions, as they stand in any chunk; then metadata, in the order in which it was added.
    copied.sort_unstable_by_key(|record| (record.is_note, record.at));
    let (begins, notes) = copied.split_at(copied.partition_point(|record| !record.is_note));
    let floor = begins.first()?.scope;
    let is_of_begin = |note: &&Copied<'_>| begins.binary_search_by_key(&note.scope, |begin| begin.scope).is_ok();
    let moved = begins.iter().map(|begin| begin.words.len() + MOVED_WORDS).sum::<usize>();
    let words = moved + notes.iter().filter(is_of_begin).map(|note| note.words.len()).sum::<usize>();
    if words > MOST_WORDS {
        return None;
    }
    let capacity = (words + END_WORDS * (open + 1)).max(SMALL);
    let chunk = ChunkBox::new_inherited(capacity)?;
    let mut at = 0;
    let mut put = |word| {
        // SAFETY: as many words are put as were counted, which the chunk has room for; and nobody else has the chunk.
        unsafe { chunk.write_word(at, word) };
        at += 1;
    };
    for begin in begins {
        let (first, rest) = begin.words.split_first()?;
        // A begin that was moved before says its position itself.
        let is_moved = first & 3 == OTHER;
        put(if is_moved { *first } else { head(first >> 2, OTHER) });
        if !is_moved {
            put(MOVED);
            put(begin.scope);
        }
        rest.iter().copied().for_each(&mut put);
    }
    notes.iter().filter(is_of_begin).flat_map(|note| note.words).copied().for_each(&mut put);
    Some(Heir { chunk, words: at, floor, epoch })
}

/// Words that a begin takes more where it says its position.
const MOVED_WORDS: usize = 2;

/// The chunks that have begins of open scopes, or metadata of some, oldest first: with how many begins, and whether metadata
/// of earlier chunks' scopes is there. The last chunk is always among them.
fn find<'a>(chain: &'a Locked<'_>, crossing: usize) -> [Option<(Link<'a>, usize, bool)>; MOST_CHUNKS] {
    let mut found = [None; MOST_CHUNKS];
    let mut len = 0;
    // How many open scopes began in those, and in chunks that found no room among them.
    let (mut total, mut older) = (0, 0_usize);
    for link in chain.links() {
        let is_last = link.next().is_none();
        let left = link.left();
        let now_open = if is_last { crossing } else { left.crossing as usize };
        // Scopes have ended while the thread wrote to this chunk: the youngest.
        for (_, count, _) in found[..len].iter_mut().rev().flatten() {
            let ended = (older + total).saturating_sub(now_open).min(*count);
            *count -= ended;
            total -= ended;
        }
        older = older.min(now_open);
        if total == 0 {
            // Metadata in these is of scopes that have ended.
            found[..len].fill(None);
            len = 0;
        }
        let (count, has_notes) = if is_last { (0, true) } else { (left.open as usize, left.has_notes && total > 0) };
        if count == 0 && !has_notes && !is_last {
            continue;
        }
        if len == MOST_CHUNKS {
            // The oldest goes, and its scopes count as open since before the record.
            let oldest = found[0].map_or(0, |(_, count, _)| count);
            (total, older) = (total - oldest, older + oldest);
            found.rotate_left(1);
            len -= 1;
        }
        found[len] = Some((link, count, has_notes));
        len += 1;
        total += count;
    }
    found
}

/// Adds those of the begins that are open at the end of a chunk, by their number from the oldest, and metadata that was added
/// to scopes. `false` where there is no room for them.
fn collect<'a>(
    link: Link<'a>,
    wanted: Range<usize>,
    has_notes: bool,
    open: &mut List<'_, u32>,
    copied: &mut List<'_, Copied<'a>>,
) -> bool {
    if wanted.is_empty() && !has_notes {
        return true;
    }
    // SAFETY: a writer publishes whole records, and the chunk began there.
    let words = unsafe { Words::new(link.published(), link.base()) };
    open.len = 0;
    let mut records = words.records();
    loop {
        let from = records.offset();
        match records.next() {
            Some(Record::Begin { .. }) => {
                if !open.push(u32::try_from(from).unwrap_or(u32::MAX)) {
                    return false;
                }
            }
            Some(Record::End { .. }) => open.len = open.len.saturating_sub(1),
            Some(Record::Close { position, .. }) => remove(words, open, position),
            Some(Record::Note { position, .. }) => {
                let at = words.position(from);
                let record = Copied { scope: position, at, is_note: true, words: words.raw(from..records.offset()) };
                if !copied.push(record) {
                    return false;
                }
            }
            Some(Record::Early { .. } | Record::Task { .. } | Record::Count { .. }) => {}
            None => break,
        }
    }
    for &mut from in open.slice().iter_mut().take(wanted.end).skip(wanted.start) {
        let from = from as usize;
        let mut record = words.records_from(from);
        let Some(Record::Begin { position, .. }) = record.next() else { continue };
        let words = words.raw(from..record.offset());
        if !copied.push(Copied { scope: position, at: position, is_note: false, words }) {
            return false;
        }
    }
    true
}

/// Takes the begin at `position` out of those that are open, where it is one.
fn remove(words: Words<'_>, open: &mut List<'_, u32>, position: u64) {
    let is_it = |&from: &u32| matches!(words.records_from(from as usize).next(), Some(Record::Begin { position: begin, .. }) if begin == position);
    let slice = open.slice();
    if let Some(at) = slice.iter().rposition(is_it) {
        slice.copy_within(at + 1.., at);
        open.len -= 1;
    }
}
