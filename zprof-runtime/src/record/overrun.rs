//! Tests of snapshots and stops that threads overrun: they overwrite the common moment in their rings before it can be read.
//!
//! All happens on one thread, step by step, so that no test depends on the speed of a machine. A clock that is a counter
//! stands in for the processor's, and a thread is its log and its writer. Reading the clock is where a snapshot can be
//! overrun: it happens when the moment is chosen and whenever a chain has been shared.

use std::borrow::Cow;
use std::cell::Cell;

use super::chain::Bounds;
use super::chunk::{ChunkBox, Moment};
use super::decode::Words;
use super::drain::Scopes;
use super::log::{Log, Stream};
use super::pool::SMALL;
use super::primitive::Arc;
use super::registry::{Shared, Word};
use super::ring::{Mark, Room, Writer};
use crate::site::{Level, Memo, NO_FILTER, Origin, Site};
use crate::value::Shape;

const fn site(name: &'static str) -> Site {
    Site {
        name,
        label: "s\0",
        given: 0,
        keys: &[],
        level: Level::Critical,
        filter: NO_FILTER,
        module_path: "m",
        file: "f",
        line: 1,
        memo: Memo::new(),
    }
}

const fn shape(site: fn() -> &'static Site) -> Shape {
    Shape { site: Origin::Coded(site), kinds: Cow::Borrowed(&[]), plain: true }
}

fn outer() -> &'static Site {
    static SITE: Site = site("outer");
    &SITE
}

fn item() -> &'static Site {
    static SITE: Site = site("item");
    &SITE
}

static OUTER: Shape = shape(outer);
static ITEM: Shape = shape(item);

const ON: u64 = 3;
/// A session whose rings are bounded by the memory limit alone.
const RINGS: Bounds = Bounds { ns: u64::MAX, bytes: u64::MAX - 1 };
/// A scope takes three words, and the ends that cross chunks a little more: more of them than a small chunk holds.
const CHUNKFUL: u64 = SMALL as u64 / 3;

#[derive(Default)]
struct Clock(Cell<u64>);

impl Clock {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

/// What `thread.rs` keeps in thread-local storage.
struct Thread<'a> {
    shared: &'a Shared,
    clock: &'a Clock,
    word: Word,
    log: Arc<Log>,
    writer: Writer,
}

impl<'a> Thread<'a> {
    fn new(shared: &'a Shared, clock: &'a Clock, word: Word) -> Self {
        let log = Arc::new(Log::new(1, "t".to_owned()));
        shared.register(Arc::clone(&log)).expect("there is memory");
        Self { shared, clock, word, log, writer: Writer::new() }
    }

    /// Room for a begin without metadata.
    fn make_room(&self) -> Option<Room> {
        let moment = || Moment { tick: self.clock.now(), ns: 0 };
        self.log.make_room(self.shared, &self.writer, self.word, 2, moment)
    }

    fn open(&self, shape: &'static Shape) -> Mark {
        let room = self.make_room().expect("a ring has always room");
        // SAFETY: the room is this writer's, for two words, and nothing was written since.
        unsafe { self.writer.begin(room, shape, (), || self.clock.now()) }
    }

    fn close(&self, mark: Mark) {
        let tick = self.clock.now();
        if self.writer.top() == mark.position {
            self.writer.end_top(mark, tick);
            return;
        }
        let at = self.writer.position();
        // SAFETY: the mark is of this session, and each is closed once.
        unsafe { self.writer.end_by_position(mark, tick) };
        self.log.close(&self.writer, at, mark.position, true);
    }

    fn items(&self, count: u64) {
        for _ in 0..count {
            self.close(self.open(&ITEM));
        }
    }

    /// Whether somebody else has the chain locked, as a snapshot has while it shares it.
    fn is_shared_now(&self) -> bool {
        self.log.lock_chain(false).is_none()
    }

    fn end(&self) {
        self.writer.leave();
        self.log.end(self.writer.position(), Moment { tick: self.clock.now(), ns: 0 });
    }
}

/// Name, begin and end of each scope that is shown of a stream where all others end at `stop`.
fn shown(stream: &Stream, stop: u64) -> Vec<(&'static str, u64, u64)> {
    let words: Vec<Words<'_>> = stream.words().collect();
    let mut found = Vec::new();
    Scopes::resolve(&words, stream.since, stream.last(stop))
        .expect("there is memory")
        .for_each(|scope| found.push((scope.shape.site.site().name, scope.begin, scope.end)));
    found
}

/// What a thread shows that has `outer` open since its first tick and records items on and on: `outer` up to `last`, and the
/// items of a time without a gap. Each tick is the begin or the end of an item, or a change of chunks.
fn is_whole(shown: &[(&'static str, u64, u64)], first: u64, last: u64) {
    let (&(name, begin, end), items) = shown.split_first().expect("the thread is shown");
    assert_eq!((name, begin, end), ("outer", first, last));
    assert!(!items.is_empty(), "no items up to {last}");
    for pair in items.windows(2) {
        let ((name, begin, end), (_, next, _)) = (pair[0], pair[1]);
        assert!(name == "item" && begin < end && (end + 1..=end + 2).contains(&next), "{pair:?}");
    }
}

fn recycle(shared: &Shared, streams: Vec<Stream>) {
    streams.into_iter().flat_map(|stream| stream.chunks).for_each(|(chunk, _)| shared.pool.give_back(chunk));
}

/// Ends the session, and frees what its threads have.
fn finish(shared: &Shared, threads: &[&Thread<'_>]) {
    threads.iter().for_each(|thread| thread.end());
    shared.open_session(ON, u64::MAX, Bounds::NONE);
    shared.pool.trim(0);
    assert_eq!(shared.pool.allocated(), 0);
}

#[test]
fn a_snapshot_that_is_overrun_in_each_try_shows_every_thread() {
    let (shared, clock) = (Shared::new(), Clock::default());
    shared.pool.set_limit(16 * ChunkBox::bytes(SMALL));
    let word = shared.open_session(ON, u64::MAX, RINGS);
    let [fast, idle, faster] = [(); 3].map(|()| Thread::new(&shared, &clock, word));
    let outers = [&fast, &idle, &faster].map(|thread| thread.open(&OUTER));
    idle.items(3);
    // Whatever the snapshot reads, two threads write more than all rings have before it comes to them.
    let now = || {
        let now = clock.now();
        for thread in [&fast, &faster].into_iter().filter(|thread| !thread.is_shared_now()) {
            thread.items(20 * CHUNKFUL);
        }
        now
    };
    let (moment, streams) = shared.share(word.epoch(), now).expect("there is memory");
    assert_eq!(streams.iter().map(|stream| stream.covers(moment)).collect::<Vec<_>>(), [false, true, false]);
    for (stream, outer) in streams.iter().zip(outers) {
        let last = if stream.covers(moment) { moment } else { stream.held };
        assert!(last >= moment && stream.since <= last);
        is_whole(&shown(stream, moment), outer.tick, last);
    }
    recycle(&shared, streams);
    finish(&shared, &[&fast, &idle, &faster]);
}

#[test]
fn a_snapshot_that_is_overrun_once_is_of_a_later_moment() {
    let (shared, clock) = (Shared::new(), Clock::default());
    shared.pool.set_limit(16 * ChunkBox::bytes(SMALL));
    let word = shared.open_session(ON, u64::MAX, RINGS);
    let [first, second] = [(); 2].map(|()| Thread::new(&shared, &clock, word));
    let outers = [&first, &second].map(|thread| thread.open(&OUTER));
    first.items(3);
    let overran = Cell::new(0);
    let now = || {
        let now = clock.now();
        if overran.get() == 0 && !second.is_shared_now() {
            second.items(20 * CHUNKFUL);
            overran.set(now);
        }
        now
    };
    let (moment, streams) = shared.share(word.epoch(), now).expect("there is memory");
    assert!(moment > overran.get() && overran.get() != 0);
    for (stream, outer) in streams.iter().zip(outers) {
        assert!(stream.covers(moment));
        is_whole(&shown(stream, moment), outer.tick, moment);
    }
    // The holds of the try that was given up are gone.
    let held: usize = streams.iter().flat_map(|stream| &stream.chunks).map(|(chunk, _)| chunk.size()).sum();
    recycle(&shared, streams);
    assert!(shared.pool.allocated() <= 2 * held, "{} bytes", shared.pool.allocated());
    finish(&shared, &[&first, &second]);
}

#[test]
fn a_thread_whose_kept_records_all_begin_after_the_moment_has_its_own_window() {
    let (shared, clock) = (Shared::new(), Clock::default());
    let word = shared.open_session(ON, u64::MAX, Bounds { ns: u64::MAX, bytes: 1 });
    let thread = Thread::new(&shared, &clock, word);
    thread.items(2 * CHUNKFUL);
    while thread.writer.has_room(2) {
        thread.items(1);
    }
    thread.writer.return_room(thread.make_room().expect("a ring has always room"), 2);
    // The thread has gone on to another chunk, and is put aside before it writes there.
    let moment = clock.now();
    thread.items(1);
    assert!(shared.squeeze(false), "the chunk before can go");
    let is_first = Cell::new(false);
    let now = || if is_first.replace(!is_first.get()) { clock.now() } else { moment };
    let (given, streams) = shared.share(word.epoch(), now).expect("there is memory");
    let [stream] = streams.as_slice() else { panic!("one thread: {streams:?}") };
    assert_eq!((given, stream.since <= moment, stream.covers(moment)), (moment, true, false));
    let shown = shown(stream, moment);
    assert!(matches!(shown.as_slice(), [("item", begin, _)] if *begin > moment), "{shown:?}");
    recycle(&shared, streams);
    finish(&shared, &[&thread]);
}

#[test]
fn a_thread_keeps_the_last_chunk_that_it_has_written_to() {
    let (shared, clock) = (Shared::new(), Clock::default());
    let word = shared.open_session(ON, u64::MAX, RINGS);
    let thread = Thread::new(&shared, &clock, word);
    thread.items(CHUNKFUL / 2);
    while thread.writer.has_room(2) {
        thread.items(1);
    }
    thread.writer.return_room(thread.make_room().expect("a ring has always room"), 2);
    assert!(!shared.squeeze(false), "the next chunk is empty");
    thread.items(1);
    assert!(shared.squeeze(false), "the next chunk has an item");
    assert!(!shared.squeeze(false), "the last chunk is in use");
    finish(&shared, &[&thread]);
}

#[test]
fn what_a_snapshot_may_not_hold_is_no_younger_than_the_snapshot() {
    let (shared, clock) = (Shared::new(), Clock::default());
    // So little that all chunks are small ones.
    shared.pool.set_limit(64 * ChunkBox::bytes(SMALL));
    let word = shared.open_session(ON, u64::MAX, RINGS);
    let [first, second] = [(); 2].map(|()| Thread::new(&shared, &clock, word));
    let outers = [&first, &second].map(|thread| thread.open(&OUTER));
    [&first, &second].iter().for_each(|thread| thread.items(8 * CHUNKFUL));
    let reads = Cell::new(0);
    let now = || {
        let now = clock.now();
        if reads.replace(reads.get() + 1) == 0 {
            [&first, &second].iter().for_each(|thread| thread.items(4 * CHUNKFUL));
            // Less than the two have written since.
            shared.pool.set_limit(2 * ChunkBox::bytes(SMALL));
        }
        now
    };
    let (moment, streams) = shared.share(word.epoch(), now).expect("there is memory");
    assert_eq!(reads.get(), 3, "one try");
    for (stream, outer) in streams.iter().zip(outers) {
        assert!(stream.covers(moment) && stream.since != 0, "only older records are let go");
        is_whole(&shown(stream, moment), outer.tick, moment);
    }
    recycle(&shared, streams);
    finish(&shared, &[&first, &second]);
}

#[test]
fn a_stop_that_is_overrun_shows_every_thread() {
    let (shared, clock) = (Shared::new(), Clock::default());
    let word = shared.open_session(ON, u64::MAX, RINGS);
    let [first, second] = [(); 2].map(|()| Thread::new(&shared, &clock, word));
    let outers = [&first, &second].map(|thread| thread.open(&OUTER));
    [&first, &second].iter().for_each(|thread| thread.items(2 * CHUNKFUL));
    shared.close_session();
    let stop = clock.now();
    // A scope that has seen the session is recorded still. It is in a new chunk, and another thread, which has seen the
    // session as well, needs the memory of all others.
    while first.writer.room(2).is_some() {
        first.items(1);
    }
    first.items(2);
    while shared.squeeze(false) {}
    let streams = shared.streams(word.epoch(), || clock.now()).expect("there is memory");
    assert_eq!(streams.iter().map(|stream| stream.covers(stop)).collect::<Vec<_>>(), [false, true]);
    is_whole(&shown(&streams[0], stop), outers[0].tick, streams[0].held);
    is_whole(&shown(&streams[1], stop), outers[1].tick, stop);
    recycle(&shared, streams);
    finish(&shared, &[&first, &second]);
}

#[test]
fn memory_of_sessions_that_are_over_is_given_back_and_that_of_later_ones_is_not() {
    let (shared, clock) = (Shared::new(), Clock::default());
    let first = shared.open_session(ON, u64::MAX, Bounds::NONE);
    let [ended, living] = [(); 2].map(|()| Thread::new(&shared, &clock, first));
    [&ended, &living].iter().for_each(|thread| thread.items(2 * CHUNKFUL));
    ended.end();
    shared.close_session();
    recycle(&shared, shared.streams(first.epoch(), || clock.now()).expect("there is memory"));
    shared.give_back_memory(first.epoch());
    let left = shared.all_logs().expect("there is memory");
    assert!(matches!(left.as_slice(), [log] if Arc::ptr_eq(log, &living.log)), "{left:?}");

    let second = shared.open_session(ON, u64::MAX, Bounds::NONE);
    let (living, later) = (Thread { word: second, ..living }, Thread::new(&shared, &clock, second));
    [&living, &later].iter().for_each(|thread| thread.items(2 * CHUNKFUL));
    later.end();
    shared.give_back_memory(first.epoch());
    let stop = clock.now();
    shared.close_session();
    let streams = shared.streams(second.epoch(), || clock.now()).expect("there is memory");
    let counts: Vec<_> = streams.iter().map(|stream| shown(stream, stop).len()).collect();
    assert_eq!(counts, [2 * CHUNKFUL as usize; 2]);
    recycle(&shared, streams);
    finish(&shared, &[&living, &later]);
}

#[test]
fn a_thread_that_only_has_scopes_open_is_shown_however_old_they_are() {
    let (shared, clock) = (Shared::new(), Clock::default());
    let word = shared.open_session(ON, u64::MAX, Bounds { ns: u64::MAX, bytes: 1 });
    let [thread, other] = [(); 2].map(|()| Thread::new(&shared, &clock, word));
    let outer = thread.open(&OUTER);
    other.items(20 * CHUNKFUL);
    let (moment, streams) = shared.share(word.epoch(), || clock.now()).expect("there is memory");
    assert_eq!(shown(&streams[0], moment), [("outer", outer.tick, moment)]);
    recycle(&shared, streams);
    // The same with a begin that is no longer in a chunk.
    thread.items(20 * CHUNKFUL);
    let (moment, streams) = shared.share(word.epoch(), || clock.now()).expect("there is memory");
    assert_eq!(streams[0].carried.len(), 1);
    is_whole(&shown(&streams[0], moment), outer.tick, moment);
    recycle(&shared, streams);
    finish(&shared, &[&thread, &other]);
}
