//! Names of one plane: texts that are told once a sequence, what each kind of event is called, and which arguments they
//! share.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::flow::Role;
use super::ids::Ids;
use super::intern::Symbol;
use super::output::put_text;
use crate::Result;
use crate::export::json::names::{LONG, LONGEST_HIDDEN, MANY_ARGS, Rank, keep_last, push_last, read_text};
use crate::export::json::{HIDDEN_EVENTS, HIDDEN_STATS};
use crate::export::text::{put_double, put_int, put_uint};
use crate::xspace::reader::{Value, each_event_metadata, each_metadata_stat, each_stat_metadata};
use crate::xspace::window::{Extent, Window};

/// A text: one of the plane's, or still in the source because it is long.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    Symbol(Symbol),
    Source(Extent),
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArgValue {
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text),
    /// A text of an event's own.
    Own(Extent),
    Bytes(Extent),
}

/// Names of a plane.
pub(super) struct Names {
    /// Texts, each UTF-8, that `symbols` points into.
    arena: Vec<u8>,
    /// Where each text ends; it begins where that before it ends. Those of keys come first, in order of rank.
    symbols: Vec<usize>,
    /// Names of stats, sorted and each once.
    keys: Vec<Key>,
    ranks: Ids<Rank>,
    kinds: Ids<Kind>,
    /// Arguments of all kinds.
    args: Vec<Arg>,
    unknown: Kind,
    unknown_rank: Rank,
    /// The stat that has a kind's category.
    module_path: Option<Rank>,
}

/// The name of a stat; its rank is its symbol.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) hidden: bool,
    pub(super) role: Role,
}

/// What events with one metadata id have in common.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) hidden: bool,
    pub(super) name: Text,
    /// The module that it stands in, where that is told.
    pub(super) category: Option<Symbol>,
    /// Arguments, by rank and each rank once: a run of [`Names::args`].
    args: (usize, usize),
}

/// An argument that a kind has.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    pub(super) rank: Rank,
    pub(super) value: ArgValue,
}

/// Texts of kinds by what they are, while names are loaded.
type Known = HashMap<Box<[u8]>, Symbol, FixedState>;

impl Names {
    /// Reads the names of a plane.
    pub(super) fn load(window: &mut Window<'_>, plane: Extent) -> Result<Self> {
        let mut names = Self {
            arena: Vec::new(),
            symbols: Vec::new(),
            keys: Vec::new(),
            ranks: Ids::default(),
            kinds: Ids::default(),
            args: Vec::new(),
            unknown: Kind { hidden: false, name: Text::Symbol(0), category: None, args: (0, 0) },
            unknown_rank: 0,
            module_path: None,
        };
        let long_name = names.load_keys(window, plane)?;
        names.load_kinds(window, plane, long_name)?;
        Ok(names)
    }

    /// What an id without metadata means: the empty name.
    #[inline]
    pub(super) fn kind(&self, metadata_id: i64) -> &Kind {
        self.kinds.get(metadata_id).unwrap_or(&self.unknown)
    }

    #[inline]
    pub(super) fn args(&self, kind: &Kind) -> &[Arg] {
        &self.args[kind.args.0..kind.args.1]
    }

    #[inline]
    pub(super) fn rank(&self, metadata_id: i64) -> Rank {
        self.ranks.get(metadata_id).copied().unwrap_or(self.unknown_rank)
    }

    #[inline]
    pub(super) fn key(&self, rank: Rank) -> Key {
        self.keys[rank as usize] // ranks are places in this list
    }

    /// The text of a symbol.
    #[inline]
    pub(super) fn text(&self, symbol: Symbol) -> &[u8] {
        let place = symbol as usize; // symbols are places in this list
        let start = if place == 0 { 0 } else { self.symbols[place - 1] };
        &self.arena[start..self.symbols[place]]
    }

    /// Reads and sorts the names of stats; returns the rank of `long_name`.
    fn load_keys(&mut self, window: &mut Window<'_>, plane: Extent) -> Result<Rank> {
        let mut text = String::from("long_name");
        // An id that comes again keeps its place in `found`, and its last name.
        let mut found: Vec<(i64, usize, usize)> = Vec::new();
        let mut places: HashMap<i64, usize, FixedState> = HashMap::default();
        each_stat_metadata(window, plane, |window, id, name| {
            let start = text.len();
            read_text(window, name, &mut text)?;
            let entry = (id, start, text.len());
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
        self.add_key(&mut last, "");
        let mut long_name = None;
        for (id, start, end) in found {
            let name = &text[start..end];
            if long_name.is_none() && name >= "long_name" {
                long_name = Some(self.add_key(&mut last, "long_name"));
            }
            let rank = self.add_key(&mut last, name);
            self.ranks.insert(id, rank);
            if name == "module_path" {
                self.module_path = Some(rank);
            }
        }
        Ok(long_name.unwrap_or_else(|| self.add_key(&mut last, "long_name")))
    }

    /// The rank of `name`, which does not sort before the `last` one.
    fn add_key<'t>(&mut self, last: &mut Option<&'t str>, name: &'t str) -> Rank {
        if *last != Some(name) {
            *last = Some(name);
            self.keys.push(Key { hidden: HIDDEN_STATS.contains(&name), role: Role::of(name) });
            self.arena.extend_from_slice(name.as_bytes());
            return self.end_symbol();
        }
        last_place(&self.keys)
    }

    fn load_kinds(&mut self, window: &mut Window<'_>, plane: Extent, long_name: Rank) -> Result<()> {
        let mut known = Known::default();
        let mut args = Vec::new();
        each_event_metadata(window, plane, |window, metadata| {
            args.clear();
            let mut hidden = false;
            if metadata.name.len <= LONGEST_HIDDEN {
                let name = window.piece(metadata.name)?;
                hidden = HIDDEN_EVENTS.iter().any(|hidden| hidden.as_bytes() == name);
            }
            let mut name = self.add_text(window, &mut known, metadata.name)?;
            if metadata.display_name.len != 0 {
                args.push(Arg { rank: long_name, value: ArgValue::Text(name) });
                name = self.add_text(window, &mut known, metadata.display_name)?;
            }
            let mut category = None;
            let mut many = MANY_ARGS;
            each_metadata_stat(window, metadata.entry, |window, stat| {
                let rank = self.rank(stat.metadata_id);
                let key = self.key(rank);
                if key.hidden {
                    return Ok(());
                }
                let value = match stat.value {
                    Value::Unset => return Ok(()),
                    Value::Str(extent) => ArgValue::Text(self.add_text(window, &mut known, extent)?),
                    value => self.value(value),
                };
                if let (true, ArgValue::Text(Text::Symbol(symbol))) = (Some(rank) == self.module_path, value) {
                    category = Some(symbol);
                }
                if key.role == Role::StepName {
                    name = self.add_name(value);
                }
                push_last(&mut args, Arg { rank, value }, |arg| arg.rank, &mut many)
            })?;
            keep_last(&mut args, |arg| arg.rank)?;
            let start = self.args.len();
            self.args.extend_from_slice(&args);
            self.kinds.insert(metadata.id, Kind { hidden, name, category, args: (start, self.args.len()) });
            Ok(())
        })
    }

    /// The value of an event's own stat, which is not unset.
    #[inline]
    pub(super) fn value(&self, value: Value) -> ArgValue {
        match value {
            Value::Int(number) => ArgValue::Int(number),
            Value::Uint(number) => ArgValue::Uint(number),
            Value::Double(number) => ArgValue::Double(number),
            Value::Ref(id) => ArgValue::Text(Text::Symbol(self.rank(id))),
            Value::Str(extent) => ArgValue::Own(extent),
            Value::Bytes(extent) => ArgValue::Bytes(extent),
            Value::Unset => ArgValue::Text(Text::Symbol(0)),
        }
    }

    /// Keeps a text, unless it is long.
    fn add_text(&mut self, window: &mut Window<'_>, known: &mut Known, extent: Extent) -> Result<Text> {
        if extent.len > LONG {
            return Ok(Text::Source(extent));
        }
        let raw = window.piece(extent)?;
        if let Some(symbol) = known.get(raw) {
            return Ok(Text::Symbol(*symbol));
        }
        let raw: Box<[u8]> = raw.into();
        put_text(&mut self.arena, &raw);
        let symbol = self.end_symbol();
        known.insert(raw, symbol);
        Ok(Text::Symbol(symbol))
    }

    /// A value as the name of an event.
    fn add_name(&mut self, value: ArgValue) -> Text {
        match value {
            ArgValue::Text(text) => text,
            ArgValue::Own(extent) => Text::Source(extent),
            ArgValue::Int(_) | ArgValue::Uint(_) | ArgValue::Double(_) | ArgValue::Bytes(_) => {
                put_as_name(&mut self.arena, value);
                Text::Symbol(self.end_symbol())
            }
        }
    }

    fn end_symbol(&mut self) -> Symbol {
        self.symbols.push(self.arena.len());
        last_place(&self.symbols)
    }
}

/// The place of the last element. Each takes an entry of at least four bytes in a file, so 32 bits do for all that fit a
/// disk; past 2^32 the last place repeats.
fn last_place<T>(list: &[T]) -> u32 {
    u32::try_from(list.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

/// Appends what a value that is no text reads as a name: the text that the JSON has.
pub(super) fn put_as_name(out: &mut Vec<u8>, value: ArgValue) {
    match value {
        ArgValue::Int(number) => put_int(out, number),
        ArgValue::Uint(number) => put_uint(out, number),
        ArgValue::Double(number) => put_double(out, number),
        ArgValue::Bytes(_) => out.extend_from_slice(b"<opaque bytes>"),
        ArgValue::Text(_) | ArgValue::Own(_) => {}
    }
}
