//! The names of one plane, rendered once: what its events are called and which arguments they share.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::output::{LONGEST_ESCAPE, Style, Text};
use super::{HIDDEN_EVENTS, HIDDEN_STATS};
use crate::export::text::{put_double, put_int, put_uint};
use crate::room::{self, OutOfMemory, Room as _};
use crate::xspace::reader::{Value, each_event_metadata, each_metadata_stat, each_stat_metadata};
use crate::xspace::window::{Extent, PIECE, Window};
use crate::xspace::wire::wide;
use crate::{Error, ErrorKind, Result};

/// Bytes from which on a text stays in the source.
pub(in crate::export) const LONG: u64 = 16 << 10;
/// Arguments of one event from which on doubles are dropped before all are there.
pub(in crate::export) const MANY_ARGS: usize = 4_096;
/// Longest name of an event that is not shown.
pub(in crate::export) const LONGEST_HIDDEN: u64 = 40;

type Map<V> = HashMap<i64, V, FixedState>;

/// Place of an argument's name among all names of the plane, sorted.
pub(in crate::export) type Rank = u32;

/// Names of a plane.
pub(super) struct Names {
    /// Rendered JSON that the rest points into.
    pub(super) arena: Vec<u8>,
    /// Names of stats, sorted and each once.
    keys: Vec<Key>,
    ranks: Map<Rank>,
    kinds: Map<Kind>,
    /// Arguments of all kinds.
    args: Vec<Arg>,
    /// What an id without metadata means: the empty name.
    unknown: Kind,
    unknown_rank: Rank,
    style: Style,
}

/// The name of a stat.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// The name as a JSON string.
    start: usize,
    end: usize,
    pub(super) hidden: bool,
    pub(super) is_step_name: bool,
}

/// What events with one metadata id have in common.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) hidden: bool,
    pub(super) name: Text,
    /// Arguments, by rank and each rank once: a run of [`Names::args`].
    args: (usize, usize),
}

/// An argument that a kind has.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    pub(super) rank: Rank,
    /// The value as a JSON string.
    pub(super) value: Text,
}

impl Names {
    /// Reads the names of a plane.
    pub(super) fn load(window: &mut Window<'_>, plane: Extent, style: Style) -> Result<Self> {
        let mut names = Self {
            arena: b"\"\"\"<opaque bytes>\"".to_vec(),
            keys: Vec::new(),
            ranks: Map::default(),
            kinds: Map::default(),
            args: Vec::new(),
            unknown: Kind { hidden: false, name: Text::Rendered(0, 2), args: (0, 0) },
            unknown_rank: 0,
            style,
        };
        let long_name = names.load_keys(window, plane)?;
        names.load_kinds(window, plane, long_name)?;
        Ok(names)
    }

    #[inline]
    pub(super) fn kind(&self, metadata_id: i64) -> Kind {
        self.kinds.get(&metadata_id).copied().unwrap_or(self.unknown)
    }

    #[inline]
    pub(super) fn args(&self, kind: &Kind) -> &[Arg] {
        &self.args[kind.args.0..kind.args.1]
    }

    #[inline]
    pub(super) fn rank(&self, metadata_id: i64) -> Rank {
        self.ranks.get(&metadata_id).copied().unwrap_or(self.unknown_rank)
    }

    #[inline]
    pub(super) fn key(&self, rank: Rank) -> Key {
        self.keys[rank as usize] // ranks are places in this list
    }

    /// A key as a JSON string.
    #[inline]
    pub(super) fn key_text(&self, key: Key) -> Text {
        Text::Rendered(key.start, key.end)
    }

    /// The rendered string `<opaque bytes>`.
    pub(super) fn opaque(&self) -> Text {
        Text::Rendered(2, 18)
    }

    /// Reads and sorts the names of stats; returns the rank of `long_name`.
    fn load_keys(&mut self, window: &mut Window<'_>, plane: Extent) -> Result<Rank> {
        let mut text = String::from("long_name");
        // An id that comes again keeps its place in `found`, and its last name.
        let mut found: Vec<(i64, usize, usize)> = Vec::new();
        let mut places: Map<usize> = Map::default();
        each_stat_metadata(window, plane, |window, id, name| {
            let start = text.len();
            read_text(window, name, &mut text)?;
            let entry = (id, start, text.len());
            places.room(1).map_err(OutOfMemory::error)?;
            found.room(1).map_err(OutOfMemory::error)?;
            let place = *places.entry(id).or_insert(found.len());
            match found.get_mut(place) {
                Some(known) => *known = entry,
                None => found.push(entry),
            }
            Ok(())
        })?;
        drop(places);
        found.sort_unstable_by(|left, right| text[left.1..left.2].cmp(&text[right.1..right.2]));

        // Two names are there whatever the plane says: that of an unknown id, and long_name.
        let mut last = None;
        self.ranks.room(found.len()).map_err(OutOfMemory::error)?;
        self.add_key(&mut last, "")?;
        let mut long_name = None;
        for (id, start, end) in found {
            let name = &text[start..end];
            if long_name.is_none() && name >= "long_name" {
                long_name = Some(self.add_key(&mut last, "long_name")?);
            }
            let rank = self.add_key(&mut last, name)?;
            self.ranks.insert(id, rank);
        }
        long_name.map_or_else(|| self.add_key(&mut last, "long_name"), Ok)
    }

    /// The rank of `name`, which does not sort before the `last` one.
    fn add_key<'t>(&mut self, last: &mut Option<&'t str>, name: &'t str) -> Result<Rank> {
        if *last != Some(name) {
            *last = Some(name);
            let start = self.arena.len();
            self.arena.room(quoted(name.len())).map_err(OutOfMemory::error)?;
            self.keys.room(1).map_err(OutOfMemory::error)?;
            self.style.put_quoted(&mut self.arena, name.as_bytes());
            let hidden = HIDDEN_STATS.contains(&name);
            self.keys.push(Key { start, end: self.arena.len(), hidden, is_step_name: name == "step_name" });
        }
        // Each name takes two bytes of an entry of at least four in a file that fits a disk; past 2^32 the last repeats.
        Ok(Rank::try_from(self.keys.len() - 1).unwrap_or(Rank::MAX))
    }

    fn load_kinds(&mut self, window: &mut Window<'_>, plane: Extent, long_name: Rank) -> Result<()> {
        let mut args = Vec::new();
        each_event_metadata(window, plane, |window, metadata| {
            args.clear();
            let mut hidden = false;
            if metadata.name.len <= LONGEST_HIDDEN {
                let name = window.piece(metadata.name)?;
                hidden = HIDDEN_EVENTS.iter().any(|hidden| hidden.as_bytes() == name);
            }
            let mut name = self.text(window, metadata.name)?;
            if metadata.display_name.len != 0 {
                room::push(&mut args, Arg { rank: long_name, value: name }).map_err(OutOfMemory::error)?;
                name = self.text(window, metadata.display_name)?;
            }
            let mut many = MANY_ARGS;
            each_metadata_stat(window, metadata.entry, |window, stat| {
                let rank = self.rank(stat.metadata_id);
                let key = self.key(rank);
                if key.hidden || stat.value == Value::Unset {
                    return Ok(());
                }
                let value = self.value(window, stat.value)?;
                if key.is_step_name {
                    name = value;
                }
                push_last(&mut args, Arg { rank, value }, |arg| arg.rank, &mut many)
            })?;
            keep_last(&mut args, |arg| arg.rank)?;
            let start = self.args.len();
            room::extend(&mut self.args, &args).map_err(OutOfMemory::error)?;
            self.kinds.room(1).map_err(OutOfMemory::error)?;
            self.kinds.insert(metadata.id, Kind { hidden, name, args: (start, self.args.len()) });
            Ok(())
        })
    }

    /// Renders a text into the arena, unless it is long.
    fn text(&mut self, window: &mut Window<'_>, extent: Extent) -> Result<Text> {
        if extent.len == 0 {
            return Ok(self.unknown.name);
        }
        if extent.len > LONG {
            return Ok(Text::Source(extent));
        }
        let start = self.arena.len();
        let piece = window.piece(extent)?;
        self.arena.room(quoted(piece.len())).map_err(OutOfMemory::error)?;
        self.style.put_quoted(&mut self.arena, piece);
        Ok(Text::Rendered(start, self.arena.len()))
    }

    fn value(&mut self, window: &mut Window<'_>, value: Value) -> Result<Text> {
        let start = self.arena.len();
        self.arena.room(LONGEST_NUMBER).map_err(OutOfMemory::error)?;
        match value {
            Value::Str(extent) => return self.text(window, extent),
            Value::Bytes(_) => return Ok(self.opaque()),
            Value::Ref(id) => return Ok(self.key_text(self.key(self.rank(id)))),
            Value::Unset | Value::Int(_) | Value::Uint(_) | Value::Double(_) => put_number(&mut self.arena, value),
        }
        Ok(Text::Rendered(start, self.arena.len()))
    }
}

/// Bytes of the longest number, with its quotes.
const LONGEST_NUMBER: usize = 32;

/// Bytes that a text takes at most as a JSON string.
fn quoted(len: usize) -> usize {
    len.saturating_mul(LONGEST_ESCAPE).saturating_add(2)
}

/// Appends the number that a value is, as a JSON string.
#[inline]
pub(super) fn put_number(out: &mut Vec<u8>, value: Value) {
    out.push(b'"');
    match value {
        Value::Int(value) => put_int(out, value),
        Value::Uint(value) => put_uint(out, value),
        Value::Double(value) => put_double(out, value),
        Value::Unset | Value::Str(_) | Value::Bytes(_) | Value::Ref(_) => {}
    }
    out.push(b'"');
}

/// Adds an argument. Where there are `many` the doubles are dropped, so that no more are kept than the plane has names.
#[inline]
pub(in crate::export) fn push_last<T: Copy>(
    args: &mut Vec<T>,
    arg: T,
    rank: impl Fn(&T) -> Rank,
    many: &mut usize,
) -> Result<()> {
    room::push(args, arg).map_err(OutOfMemory::error)?;
    if args.len() >= *many {
        keep_last(args, rank)?;
        *many = MANY_ARGS.max(2 * args.len());
    }
    Ok(())
}

/// Sorts by rank and keeps the last of each; the order within a rank is the order of arrival.
pub(in crate::export) fn keep_last<T: Copy>(args: &mut Vec<T>, rank: impl Fn(&T) -> Rank) -> Result<()> {
    if args.windows(2).all(|pair| rank(&pair[0]) < rank(&pair[1])) {
        return Ok(());
    }
    // With their places, since a sort that keeps the order of equals allocates.
    let places = args.iter().copied().enumerate();
    let mut placed = room::collect(places, args.len()).map_err(OutOfMemory::error)?;
    placed.sort_unstable_by_key(|(place, arg)| (rank(arg), *place));
    args.clear();
    for (_, arg) in placed {
        match args.last_mut().filter(|last| rank(last) == rank(&arg)) {
            Some(last) => *last = arg,
            None => args.push(arg), // there is room for as many as there were
        }
    }
    Ok(())
}

/// Appends a text of the source to a string, what is not UTF-8 replaced.
pub(in crate::export) fn read_text(window: &mut Window<'_>, extent: Extent, out: &mut String) -> Result<()> {
    if extent.len <= PIECE {
        return push_text(out, window.piece(extent)?);
    }
    let mut bytes = Vec::new();
    let Extent { mut at, mut len } = extent;
    while len > 0 {
        let piece = window.piece(Extent { at, len })?;
        let done = wide(piece.len());
        bytes.try_reserve(piece.len()).map_err(|_| {
            let message = format!("the stat's name at byte {} does not fit memory: {} bytes", extent.at, extent.len);
            Error::new(ErrorKind::InvalidData, message)
        })?;
        bytes.extend_from_slice(piece);
        at += done;
        len -= done;
    }
    push_text(out, &bytes)
}

/// Appends a text, what is not UTF-8 replaced.
fn push_text(out: &mut String, bytes: &[u8]) -> Result<()> {
    const REPLACEMENT: &str = "\u{fffd}";
    out.room(bytes.len()).map_err(OutOfMemory::error)?;
    for chunk in bytes.utf8_chunks() {
        out.room(chunk.valid().len() + REPLACEMENT.len()).map_err(OutOfMemory::error)?;
        out.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            out.push_str(REPLACEMENT);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_rank_is_kept_and_ranks_are_sorted() {
        type Args = &'static [(Rank, u8)];
        let rows: [(Args, Args); 4] = [
            (&[], &[]),
            (&[(1, 0), (2, 1), (5, 2)], &[(1, 0), (2, 1), (5, 2)]),
            (&[(1, 0), (1, 1), (1, 2)], &[(1, 2)]),
            (&[(5, 0), (1, 1), (5, 2), (0, 3), (1, 4)], &[(0, 3), (1, 4), (5, 2)]),
        ];
        for (given, expected) in rows {
            let mut args = given.to_vec();
            keep_last(&mut args, |arg| arg.0).expect("there is memory");
            assert_eq!(args, expected);
        }
    }

    #[test]
    fn no_more_arguments_are_kept_than_there_are_names() {
        let (mut args, mut many) = (Vec::new(), MANY_ARGS);
        for value in 0..100_000_u32 {
            push_last(&mut args, (value % 10, value), |arg| arg.0, &mut many).expect("there is memory");
            assert!(args.len() < MANY_ARGS);
        }
        keep_last(&mut args, |arg| arg.0).expect("there is memory");
        let expected: Vec<_> = (0..10).map(|rank| (rank, 99_990 + rank)).collect();
        assert_eq!(args, expected);
    }
}
