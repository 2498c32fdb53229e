//! Turns what the recorder brought into the plane `/host:CPU`.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::counters::Counters;
use super::tasks::{Tasks, flow};
use crate::clock::Cursor;
use crate::lanes::{LaneAllocator, LaneLimits};
use crate::record::decode::{Decoded, Record, Retimed, Words, value};
use crate::record::drain::{Early, Fate, Scope, Scopes};
use crate::record::raw::any_crossed;
use crate::record::recording::{Recorded, is_short, recycle, trim};
use crate::record::steady::Straightened;
use crate::record::task::Outcome;
use crate::record::{Sampled, Stream};
use crate::room::{self, OutOfMemory, Result, Room as _};
use crate::site::{Origin, Site};
use crate::value::{Kind, Shape};
use crate::xspace::names;
use crate::xspace::writer::{Event, EventKind, Line, Plane, StatNames, StatValue};

/// Line ids from here on are ours: no system gives such thread ids.
pub(super) const FIRST_OWN_ID: u64 = 1 << 30;

/// What was lost on one thread, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) thread: String,
    pub(crate) tid: u64,
    pub(crate) scopes: u64,
    pub(crate) notes: u64,
    /// Scopes that were open for long, and of which nothing is known any more.
    pub(crate) unknown: u64,
}

/// Which time is kept of a thread whose oldest records were let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) thread: String,
    /// Id of its line.
    pub(crate) id: u64,
    /// From when on the record is whole, in picoseconds.
    pub(crate) since: u64,
    /// Until when, in picoseconds, where that is later than for the other threads.
    pub(crate) until: Option<u64>,
    /// Bytes of records that were let go.
    pub(crate) released: u64,
}

/// The host plane, and what it leaves out.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) plane: Plane,
    pub(crate) losses: Vec<Loss>,
    pub(crate) parts: Vec<Part>,
    /// Threads that recorded.
    pub(crate) threads: usize,
    /// Sites whose scopes were kept on an overlap line.
    pub(crate) overlapping: Vec<&'static Site>,
    /// Line ids from here on are free.
    pub(crate) next_id: u64,
    /// Samples of counters; they are events of the plane, but no scopes.
    pub(crate) samples: u64,
    /// Scopes whose own name was one too many.
    pub(crate) unnamed: u64,
    /// Threads whose ticks are at fault.
    pub(crate) unsteady: usize,
}

/// Converts all streams, in the order of their threads, and gives each one's memory back before the next.
pub(crate) fn convert(recorded: &mut Recorded) -> Result<Host> {
    let recorded_whole_since = recorded.whole_since();
    let streams = std::mem::take(&mut recorded.streams);
    let crossing = crossing_spans(&streams)?;
    let mut converter = Converter {
        recorded,
        plane: Plane::new(names::HOST_CPU),
        shapes: Shapes::default(),
        seen: HashSet::default(),
        next_id: FIRST_OWN_ID,
        losses: Vec::new(),
        parts: Vec::new(),
        whole_since: recorded_whole_since,
        overlapping: Vec::new(),
        tasks: Tasks::default(),
        crossing,
        counters: Counters::default(),
        given: GivenNames::default(),
        unsteady: 0,
    };
    let threads = streams.len();
    let mut result = Ok(());
    for stream in streams {
        // After an error, only to give the chunks back.
        result = result.and_then(|()| converter.thread(&stream));
        recycle(stream);
        if is_short() {
            // The next thread's part needs what this one had.
            trim(0);
        }
    }
    result?;
    converter.tasks()?;
    let Converter { recorded, mut plane, losses, parts, overlapping, next_id, counters, given, unsteady, .. } =
        converter;
    let samples = counters.write(recorded.timeline.cursor(), &mut plane)?;
    Ok(Host { plane, losses, parts, threads, overlapping, next_id, samples, unnamed: given.unnamed, unsteady })
}

/// The numbers of the spans that were entered on several threads.
///
/// A span's slices on its first thread do not know of the others, and threads are converted one by one. So those spans are
/// found before, in a walk over all records, which is left out where no span of the program was ever entered on two threads.
fn crossing_spans(streams: &[Stream]) -> Result<HashSet<u64, FixedState>> {
    let mut found = HashSet::default();
    if !any_crossed() {
        return Ok(found);
    }
    for records in streams.iter().flat_map(Stream::words).map(Words::records) {
        for record in records {
            let number = match record {
                Record::Begin { shape: Shape { site: Origin::Made(_), kinds, .. }, values, .. } => {
                    let last = kinds.last().zip(values.last());
                    last.filter(|(kind, _)| matches!(kind, Kind::Number)).map(|(_, number)| number >> 1)
                }
                Record::Task { task, site: Origin::Made(_), .. } => Some(task >> Outcome::BITS),
                _ => None,
            };
            if let Some(number) = number {
                found.room(1)?;
                found.insert(number);
            }
        }
    }
    Ok(found)
}

struct Converter<'a> {
    recorded: &'a Recorded,
    plane: Plane,
    shapes: Shapes,
    seen: HashSet<u64, FixedState>,
    next_id: u64,
    losses: Vec<Loss>,
    parts: Vec<Part>,
    /// Tick from which on nothing is missing on any thread; 0 for the session's start.
    whole_since: u64,
    overlapping: Vec<&'static Site>,
    tasks: Tasks,
    /// Numbers of the spans that were entered on several threads.
    crossing: HashSet<u64, FixedState>,
    counters: Counters,
    given: GivenNames,
    /// Threads whose ticks are at fault.
    unsteady: usize,
}

impl Converter<'_> {
    fn own_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn thread(&mut self, stream: &Stream) -> Result<()> {
        let tid = stream.log.tid();
        let name = stream.name.text();
        let name = if name.is_empty() { format!("thread {tid}") } else { room::text(&name)? };
        let (scopes, notes, unknown) = (stream.lost, stream.lost_notes, stream.uncarried);
        if (scopes, notes, unknown) != (0, 0, 0) {
            room::push(&mut self.losses, Loss { thread: room::text(&name)?, tid, scopes, notes, unknown })?;
        }
        let notes = stream.carried.iter().map(|carried| carried.notes.len()).sum::<usize>();
        let words: Vec<Words<'_>> = room::collect(stream.words(), stream.chunks.len() + stream.carried.len() + notes)?;
        let straightened = self.recorded.steady.straighten(&words, stream.ended, stream.held);
        let (words, since, last) = match &straightened {
            None => (words, stream.since.max(self.recorded.since), stream.last(self.recorded.stop)),
            Some(Straightened { chunks, last }) => {
                self.unsteady += 1;
                (room::collect(chunks.iter().map(Retimed::words), chunks.len())?, self.recorded.since, *last)
            }
        };
        self.counts_before(&stream.counts)?;
        if last < since {
            // It ended before what is shown.
            return Ok(());
        }
        let scopes = Scopes::resolve(&words, since, last)?;
        self.task_ends(&scopes)?;
        self.counts_before(&scopes.before)?;
        self.counters.take(&scopes.counts, self.recorded.timeline.cursor(), &mut self.plane)?;
        if scopes.len() == 0 && scopes.early.is_empty() {
            return Ok(());
        }
        self.seen.room(1)?;
        // The kernel gives the id of a dead thread to a new one within seconds.
        let again = !self.seen.insert(tid);
        let id = if again { self.own_id() } else { tid };
        let tid_stat = again.then_some(tid);
        let has_own_window = straightened.is_none() && !stream.covers(self.recorded.stop);
        if stream.released != 0 || has_own_window {
            let mut cursor = self.recorded.timeline.cursor();
            let (since, until) = (cursor.ps(since), has_own_window.then(|| cursor.ps(last)));
            let part = Part { thread: room::text(&name)?, id, since, until, released: stream.released };
            room::push(&mut self.parts, part)?;
        }

        let words_in_all: usize = words.iter().map(|words| words.len()).sum();
        let mut line = Line::new(id, room::text(&name)?, words_in_all * 4);
        let mut cursor = self.recorded.timeline.cursor();
        self.early(&scopes, &mut line, &mut cursor, tid_stat);
        let early = scopes.early.iter().rev().filter(|early| early.overlaps);
        let mut overlaps: Vec<(u64, u64)> =
            room::collect(early.map(|early| (0, cursor.ps(early.end))), scopes.early.len())?;
        let mut result = Ok(());
        scopes.for_each(|scope| {
            let added = if scope.fate.overlaps {
                room::push(&mut overlaps, interval(&scope, &mut cursor))
            } else {
                self.scope(&scope, &mut line, &mut cursor, tid_stat)
            };
            if added.is_err() {
                result = added;
            }
        });
        result?;
        self.plane.push(line);
        if overlaps.is_empty() { Ok(()) } else { self.overlap_lines(&scopes, &overlaps, &name, tid) }
    }

    fn counts_before(&mut self, last: &[Sampled]) -> Result<()> {
        let mut cursor = self.recorded.timeline.cursor();
        self.counters.take_before(last, self.recorded.since, &mut cursor, &mut self.plane)
    }

    fn task_ends(&mut self, scopes: &Scopes<'_>) -> Result<()> {
        self.tasks.next_thread();
        let mut cursor = self.recorded.timeline.cursor();
        for end in &scopes.tasks {
            let kind = self.plane.event_kind(kind_of(end.site.site()));
            self.tasks.end(end.task, cursor.ps(end.end), kind)?;
        }
        Ok(())
    }

    fn tasks(&mut self) -> Result<()> {
        let stop = self.recorded.timeline.cursor().ps(self.recorded.stop);
        let next_id = &mut self.next_id;
        let own_id = || {
            let id = *next_id;
            *next_id += 1;
            id
        };
        let is_part = self.whole_since != 0;
        let whole_since = is_part.then(|| self.recorded.timeline.cursor().ps(self.whole_since));
        std::mem::take(&mut self.tasks).write(&mut self.plane, stop, whole_since, own_id)
    }

    /// Scopes that were open when the session started: from its start to their end, the last to end around the others.
    fn early(&mut self, scopes: &Scopes<'_>, line: &mut Line, cursor: &mut Cursor<'_>, tid: Option<u64>) {
        for early in scopes.early.iter().rev().filter(|early| !early.overlaps) {
            self.one_early(early, line, cursor, tid);
        }
    }

    fn one_early(&mut self, early: &Early, line: &mut Line, cursor: &mut Cursor<'_>, tid: Option<u64>) {
        let kind = self.plane.event_kind(kind_of(early.site.site()));
        let end = cursor.ps(early.end);
        let started_before = self.plane.names.id("started_before");
        let mut event = line.event(kind, 0, end);
        event.stat(started_before, StatValue::Int(1), &mut self.plane.names);
        if let Some(tid) = tid {
            let name = self.plane.names.id("tid");
            event.stat(name, unsigned(tid), &mut self.plane.names);
        }
        event.end();
    }

    /// Keeps the site of a scope that is on an overlap line.
    fn blame(&mut self, site: &'static Site) -> Result<()> {
        if self.overlapping.iter().any(|known| std::ptr::eq(*known, site)) {
            return Ok(());
        }
        room::push(&mut self.overlapping, site)
    }

    #[inline(always)]
    fn scope(&mut self, scope: &Scope<'_>, line: &mut Line, cursor: &mut Cursor<'_>, tid: Option<u64>) -> Result<()> {
        let (begin, end) = interval(scope, cursor);
        let known = self.shapes.get(scope.shape, &mut self.plane)?;
        let mut words = scope.values;
        let (mut kind, mut unnamed) = (known.kind, None);
        if known.is_named {
            if let Some((Some(Decoded::Text(name)), rest)) = value(&Kind::Name, words) {
                words = rest;
                match self.given.kind(scope.shape.site.site(), name, &mut self.plane)? {
                    Some(own) => kind = own,
                    None => unnamed = Some(name),
                }
            }
        }
        let names = &mut self.plane.names;
        let mut event = line.event(kind, begin, end.saturating_sub(begin));
        if let Some(name) = unnamed {
            let key = names.id("name");
            event.stat(key, StatValue::Text(name), names);
        }
        // A task says all it knows at each of its polls where only the last ones are kept; it is shown with the first.
        let values = if known.says_again(scope) { &[] } else { known.keys.as_slice() };
        for (kind, &key) in scope.shape.kinds.iter().zip(values).skip(usize::from(known.is_named)) {
            // The two usual kinds, at once; the others by way of their decoded form.
            if let (Kind::Signed | Kind::Unsigned, Some((&word, rest))) = (kind, words.split_first()) {
                let signed = i64::from_ne_bytes(word.to_ne_bytes());
                let fits = signed >= 0 || matches!(kind, Kind::Signed);
                event.stat(key, if fits { StatValue::Int(signed) } else { StatValue::Uint(word) }, names);
                words = rest;
                continue;
            }
            let Some((decoded, rest)) = value(kind, words) else { break };
            words = rest;
            // Of a task, the whole is the step.
            if let Some(decoded) = decoded.filter(|_| !(known.is_poll && matches!(kind, Kind::Flag))) {
                put(&mut event, key, decoded, names);
            }
        }
        if known.is_slice {
            let number = scope.values.last().filter(|number| self.crossing.contains(number));
            if let Some(&number) = number {
                self.tasks.slice(number, (begin, end), kind)?;
                let key = names.id("flow");
                event.stat(key, flow(number), names);
            }
        }
        if known.is_poll {
            let since = match *scope.shape.kinds {
                [.., Kind::Since, Kind::Number] => scope.values.iter().rev().nth(1).filter(|&&since| since != 0),
                _ => None,
            };
            let since = since.map(|&since| cursor.ps(since));
            let kind = (kind, unnamed);
            if let Some(number) = self.tasks.poll(scope, (begin, end), kind, since, &known.keys, names)? {
                let key = names.id("flow");
                event.stat(key, flow(number), names);
            }
        }
        let is_older = scope.begin < self.recorded.since;
        if scope.fate != Fate::default() || !scope.notes.is_empty() || tid.is_some() || is_older {
            let is_step = |kind: &Kind| known.is_poll && matches!(kind, Kind::Flag);
            for (_, note) in scope.notes.iter().filter(|(_, note)| !is_step(note.kind)) {
                let key = names.id(note.key);
                if let Some((Some(decoded), _)) = value(note.kind, note.words) {
                    put(&mut event, key, decoded, names);
                }
            }
            let fate = scope.fate;
            let marks = [("unfinished", fate.unfinished), ("leaked", fate.leaked), ("started_before", is_older)];
            for (mark, _) in marks.into_iter().filter(|mark| mark.1) {
                let key = names.id(mark);
                event.stat(key, StatValue::Int(1), names);
            }
            if let Some(tid) = tid {
                let key = names.id("tid");
                event.stat(key, unsigned(tid), names);
            }
        }
        event.end();
        Ok(())
    }

    /// Lines for the scopes that cross others on the thread's own line. The `intervals` are those of the scopes that were open
    /// before the session, the longest first, then those of the others.
    fn overlap_lines(&mut self, scopes: &Scopes<'_>, intervals: &[(u64, u64)], name: &str, tid: u64) -> Result<()> {
        let lanes = lanes(intervals)?;
        let count = lanes.iter().copied().max().unwrap_or(0) + 1;
        let new_line = |lane| {
            let number = if lane == 0 { String::new() } else { format!(" {}", lane + 1) };
            Line::new(self.own_id(), format!("{name} (overlap{number})"), 0)
        };
        let mut lines = room::collect((0..count).map(new_line), count)?;
        let mut result = Ok(());
        let mut cursor = self.recorded.timeline.cursor();
        let mut lanes = lanes.into_iter();
        for (early, lane) in scopes.early.iter().rev().filter(|early| early.overlaps).zip(lanes.by_ref()) {
            self.blame(early.site.site())?;
            if let Some(line) = lines.get_mut(lane) {
                self.one_early(early, line, &mut cursor, Some(tid));
            }
        }
        scopes.for_each(|scope| {
            let lane = if scope.fate.overlaps { lanes.next() } else { None };
            let Some(line) = lane.and_then(|lane| lines.get_mut(lane)) else { return };
            let added = self.blame(scope.shape.site.site());
            let added = added.and_then(|()| self.scope(&scope, line, &mut cursor, Some(tid)));
            if added.is_err() {
                result = added;
            }
        });
        result?;
        for line in lines {
            self.plane.push(line);
        }
        Ok(())
    }
}

/// The lane of each interval of begin and end. They come by ascending begin.
fn lanes(intervals: &[(u64, u64)]) -> Result<Vec<usize>> {
    let mut allocator = LaneAllocator::new(LaneLimits::NONE);
    let mut lanes = room::with_room(intervals.len())?;
    for &(begin, end) in intervals {
        allocator.close(begin, |_, _| Ok(()))?;
        lanes.push(allocator.open(end, ())?.ok_or(OutOfMemory)?); // only memory bounds the lanes
    }
    Ok(lanes)
}

/// When a scope begins and ends, in picoseconds.
#[inline(always)]
fn interval(scope: &Scope<'_>, cursor: &mut Cursor<'_>) -> (u64, u64) {
    let [begin, end] = scope.order.map(u64::from);
    (cursor.ps(scope.begin) + begin, cursor.ps(scope.end) + end)
}

#[inline]
fn put(event: &mut Event<'_>, key: u64, value: Decoded<'_>, names: &mut StatNames) {
    let mut utf8 = [0; 4];
    let value = match value {
        Decoded::Bool(value) => StatValue::Int(i64::from(value)),
        Decoded::Signed(value) => StatValue::Int(value),
        Decoded::Unsigned(value) => unsigned(value),
        Decoded::Float(value) => StatValue::Double(value),
        Decoded::Single(value) => StatValue::Double(value.into()),
        Decoded::Char(value) => StatValue::Text(value.encode_utf8(&mut utf8)),
        Decoded::Text(value) => StatValue::Text(value),
        // Readers take a type and a number together; ours are of no particular type.
        Decoded::Sends(number) | Decoded::Receives(number) => {
            let type_key = names.id(if matches!(value, Decoded::Sends(_)) { "_pt" } else { "_ct" });
            event.stat(type_key, StatValue::Int(0), names);
            unsigned(number)
        }
    };
    event.stat(key, value, names);
}

/// An unsigned integer is an int64_value where it fits one.
#[inline]
fn unsigned(value: u64) -> StatValue<'static> {
    i64::try_from(value).map_or(StatValue::Uint(value), StatValue::Int)
}

fn kind_of(site: &'static Site) -> EventKind<'static> {
    EventKind { name: site.name, module_path: site.module_path, file: site.file, line: site.line }
}

/// The ids that a shape has in the plane.
#[derive(Debug)]
struct Known {
    kind: u64,
    keys: Vec<u64>,
    /// Its scopes are polls of tasks.
    is_poll: bool,
    /// Its scopes are slices of spans that may be entered on several threads.
    is_slice: bool,
    /// Its scopes bring their names.
    is_named: bool,
}

impl Known {
    /// Whether this is a later poll of a task that has said what it knows with its first.
    #[inline(always)]
    fn says_again(&self, scope: &Scope<'_>) -> bool {
        self.is_poll
            && scope.values.last().is_some_and(|word| word & 1 == 0)
            && !matches!(*scope.shape.kinds, [.., Kind::Since, Kind::Number])
    }
}

/// How many names scopes may bring along in one session: readers list each as a kind of its own.
pub(crate) const MOST_NAMES: usize = 16_384;

/// The names that scopes brought along, by site.
#[derive(Debug, Default)]
struct GivenNames {
    kinds: HashMap<usize, HashMap<Box<str>, u64, FixedState>, FixedState>,
    count: usize,
    unnamed: u64,
}

impl GivenNames {
    /// The id of a scope of `site` that is called `name`, or `None` where that would be one name too many.
    fn kind(&mut self, site: &'static Site, name: &str, plane: &mut Plane) -> Result<Option<u64>> {
        self.kinds.room(1)?;
        let kinds = self.kinds.entry(std::ptr::from_ref(site).addr()).or_default();
        if let Some(&kind) = kinds.get(name) {
            return Ok(Some(kind));
        }
        if self.count == MOST_NAMES {
            self.unnamed += 1;
            return Ok(None);
        }
        kinds.room(1)?;
        self.count += 1;
        let kind = plane.event_kind(EventKind { name, ..kind_of(site) });
        kinds.insert(room::text(name)?.into_boxed_str(), kind);
        Ok(Some(kind))
    }
}

/// Shapes met so far: a small table before a map, since a thread meets few shapes at a time.
#[derive(Debug)]
struct Shapes {
    recent: [(usize, usize); RECENT],
    ids: HashMap<usize, usize, FixedState>,
    known: Vec<Known>,
}

const RECENT: usize = 64;

impl Default for Shapes {
    fn default() -> Self {
        Self { recent: [(0, 0); RECENT], ids: HashMap::default(), known: Vec::new() }
    }
}

impl Shapes {
    #[inline]
    fn get(&mut self, shape: &'static Shape, plane: &mut Plane) -> Result<&Known> {
        let address = std::ptr::from_ref(shape).addr();
        let slot = (address / align_of::<Shape>()) % RECENT;
        if self.recent[slot].0 != address {
            self.recent[slot] = (address, self.find(address, shape, plane)?);
        }
        Ok(&self.known[self.recent[slot].1])
    }

    #[cold]
    fn find(&mut self, address: usize, shape: &'static Shape, plane: &mut Plane) -> Result<usize> {
        if let Some(&index) = self.ids.get(&address) {
            return Ok(index);
        }
        self.ids.room(1)?;
        let site = shape.site.site();
        let kind = plane.event_kind(kind_of(site));
        let is_poll = matches!(shape.kinds.last(), Some(Kind::Number));
        let is_slice = matches!(shape.kinds.last(), Some(Kind::Slice));
        let is_named = matches!(shape.kinds.first(), Some(Kind::Name));
        // The name is no stat, and has no key.
        let keys = site.keys.iter().map(|key| if key.is_empty() { 0 } else { plane.names.id(key) });
        let keys = room::collect(keys, site.keys.len())?;
        room::push(&mut self.known, Known { kind, keys, is_poll, is_slice, is_named })?;
        self.ids.insert(address, self.known.len() - 1);
        Ok(self.known.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_scopes_share_lanes_where_they_nest() {
        let nested = [(0, 10), (1, 5), (5, 9), (20, 30)];
        assert_eq!(lanes(&nested).as_deref(), Ok([0, 0, 0, 0].as_slice()));
        let crossing = [(0, 10), (5, 15), (12, 20), (16, 18)];
        assert_eq!(lanes(&crossing).as_deref(), Ok([0, 1, 0, 0].as_slice()));
        assert_eq!(lanes(&[]).as_deref(), Ok([].as_slice()));
    }
}
