//! Model checking of stream, log and pool with loom: every order of the threads' steps is tried.
//!
//! Run with `RUSTFLAGS="--cfg zprof_loom" cargo test -p zprof-runtime --release --lib model`.

use std::borrow::Cow;

use loom::thread;

use super::chain::Bounds;
use super::chunk::{Moment, Slot};
use super::log::{Log, Stream};
use super::primitive::{Arc, Ordering, WEAKENED};
use super::registry::{Shared, Word};
use super::ring::{BEGIN, CLOSE, END, Mark, Writer};
use crate::site::{Level, Memo, NO_FILTER, Origin, Site};
use crate::value::Shape;

fn site() -> &'static Site {
    static SITE: Site = Site {
        name: "s",
        label: "s\0",
        given: 0,
        keys: &[],
        level: Level::Critical,
        filter: NO_FILTER,
        module_path: "m",
        file: "f",
        line: 1,
        memo: Memo::new(),
    };
    &SITE
}

static SHAPE: Shape = Shape { site: Origin::Coded(site), kinds: Cow::Borrowed(&[]), plain: true };

/// A thread of the model: what `thread.rs` keeps in thread-local storage.
struct Thread {
    shared: Arc<Shared>,
    log: Arc<Log>,
    writer: Writer,
    tick: u64,
}

impl Thread {
    fn new(shared: &Arc<Shared>) -> Self {
        let log = Arc::new(Log::new(1, "t".to_owned()));
        shared.register(Arc::clone(&log));
        Self { shared: Arc::clone(shared), log, writer: Writer::new(), tick: 0 }
    }

    fn now(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Opens a scope if a session is seen; `None` where none is, or where there is no room.
    fn open(&mut self) -> Option<Mark> {
        let word = self.shared.word();
        if word.is_off() {
            return None;
        }
        let mut room = None;
        if self.writer.epoch() == word.epoch() {
            room = self.writer.room(2);
        }
        let room = room.or_else(|| self.log.make_room(&self.shared, &self.writer, word, 2, || Moment::default()));
        let tick = self.now();
        // SAFETY: the room is this writer's, for two words, and nothing was written since.
        room.map(|room| unsafe { self.writer.begin(room, &SHAPE, (), || tick) })
    }

    fn close(&mut self, mark: Mark) {
        let word = self.shared.word();
        if word.is_off() || word.epoch() != self.writer.epoch() {
            return;
        }
        let tick = self.now();
        if self.writer.top() == mark.position {
            self.writer.end_top(mark, tick);
        } else if self.writer.is_ours(mark) {
            let at = self.writer.position();
            // SAFETY: the mark is of this session, and each is closed once.
            unsafe { self.writer.end_by_position(mark, tick) };
            self.log.close(&self.writer, at, mark.position, self.shared.bounds().is_some());
        }
    }

    fn end(self) {
        self.writer.leave();
        self.log.end(self.writer.position(), Moment { tick: self.tick + 1, ns: 0 });
    }
}

/// Tags of the records that a drain of session `word` finds, stream by stream.
fn drain(shared: &Shared, word: Word) -> Vec<Vec<u64>> {
    shared.streams(word.epoch(), || 0).expect("there is memory").iter().map(tags).collect()
}

/// Reads records as the drain does; loom fails the model where a word is read that the writer may still write. What is
/// carried comes first.
fn tags(stream: &Stream) -> Vec<u64> {
    let mut tags: Vec<u64> = stream.carried.iter().map(|carried| carried.words[0] & 3).collect();
    let mut expected = None;
    for (chunk, len) in &stream.chunks {
        assert!(expected.is_none_or(|position| position == chunk.base()), "a gap before {}", chunk.base());
        // SAFETY: the stream came with this length.
        let words = unsafe { chunk.words(*len) };
        let mut at = 0;
        while at < *len {
            let tag = words[at] & 3;
            at += match tag {
                BEGIN => 2,
                END => 1,
                CLOSE => 3,
                other => panic!("tag {other}"),
            };
            tags.push(tag);
        }
        assert_eq!(at, *len, "only whole records are published");
        expected = Some(chunk.base() + (*len * size_of::<Slot>()) as u64);
    }
    tags
}

const ON: u64 = 3;

#[test]
fn model_a_drain_sees_whole_records_in_order() {
    loom::model(|| {
        let shared = Arc::new(Shared::new());
        let word = shared.open_session(ON, u64::MAX, Bounds::NONE);
        let mut recorder = Thread::new(&shared);
        let writer = thread::spawn(move || {
            if let Some(mark) = recorder.open() {
                recorder.close(mark);
            }
            if let Some(mark) = recorder.open() {
                recorder.close(mark);
            }
            recorder.end();
        });
        shared.close_session();
        let seen = drain(&shared, word).into_iter().flatten().collect::<Vec<_>>();
        assert!([BEGIN, END, BEGIN, END].starts_with(&seen), "{seen:?}");
        writer.join().expect("the writer ends well");
    });
}

#[test]
fn model_a_thread_that_has_ended_has_lost_nothing() {
    loom::model(|| {
        let shared = Arc::new(Shared::new());
        let word = shared.open_session(ON, u64::MAX, Bounds::NONE);
        let mut recorder = Thread::new(&shared);
        let writer = thread::spawn(move || {
            let mark = recorder.open().expect("the session is open");
            recorder.close(mark);
            recorder.end();
        });
        // The drain of a live session may come before, between or after; joined, all must be there.
        writer.join().expect("the writer ends well");
        shared.close_session();
        assert_eq!(drain(&shared, word), [[BEGIN, END]]);
    });
}

#[test]
fn model_chunks_are_reused_only_after_their_writer_has_moved_on() {
    // Two switches away from a thread that could go on find what there is to find; all of them take minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new(Shared::new());
        let first = shared.open_session(ON, u64::MAX, Bounds::NONE);
        let mut recorder = Thread::new(&shared);
        let writer = thread::spawn(move || {
            let mark = recorder.open();
            if let Some(mark) = mark {
                recorder.close(mark);
            }
            recorder.end();
        });
        shared.close_session();
        let seen = drain(&shared, first).into_iter().flatten().count();
        let second = shared.open_session(ON, u64::MAX, Bounds::NONE);
        // Another thread takes what the pool has; loom fails if the first writer still writes there.
        let mut other = Thread::new(&shared);
        let mark = other.open().expect("the session is open");
        other.close(mark);
        shared.close_session();
        let streams = drain(&shared, second);
        assert!(streams.contains(&vec![BEGIN, END]), "{streams:?} after {seen}");
        writer.join().expect("the writer ends well");
    });
}

#[test]
fn model_a_session_takes_only_its_own_records() {
    loom::model(|| {
        let shared = Arc::new(Shared::new());
        let first = shared.open_session(ON, u64::MAX, Bounds::NONE);
        let mut recorder = Thread::new(&shared);
        let mark = recorder.open().expect("the session is open");
        shared.close_session();
        assert_eq!(drain(&shared, first), [[BEGIN]]);
        let control = Arc::clone(&shared);
        let starter = thread::spawn(move || control.open_session(ON, u64::MAX, Bounds::NONE));
        recorder.close(mark);
        let inner = recorder.open();
        let second = starter.join().expect("starts");
        if let Some(inner) = inner {
            recorder.close(inner);
        }
        shared.close_session();
        let seen = drain(&shared, second).into_iter().flatten().collect::<Vec<_>>();
        assert!(seen.is_empty() || seen == [BEGIN, END], "{seen:?}");
        drop(recorder);
    });
}

/// A ring of as little as can be: a chunk that has one after it may go.
const RING: Bounds = Bounds { ns: u64::MAX, bytes: 1 };

#[test]
fn model_a_snapshot_is_whole_while_the_ring_goes_round() {
    // A chunk of the models holds two scopes, or one and an open one around it.
    static WENT_ROUND: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new(Shared::new());
        let word = shared.open_session(ON, u64::MAX, RING);
        let mut recorder = Thread::new(&shared);
        let outer = recorder.open().expect("the session is open");
        let writer = thread::spawn(move || {
            for _ in 0..4 {
                let inner = recorder.open().expect("a ring has always room");
                recorder.close(inner);
            }
            recorder.close(outer);
            recorder.end();
        });
        let (_, streams) = shared.share(word.epoch(), || 0).expect("there is memory");
        for stream in &streams {
            let tags = tags(stream);
            // Whatever has gone, the scope that is open, or has ended only just, is there.
            let rest = tags.strip_prefix(&[BEGIN]).unwrap_or_else(|| panic!("no outer begin: {tags:?}"));
            let inner = rest.strip_suffix(&[CLOSE]).unwrap_or(rest);
            let whole: Vec<u64> = [BEGIN, END].repeat(4);
            assert!(whole.starts_with(inner), "{tags:?}");
        }
        for (chunk, _) in streams.into_iter().flat_map(|stream| stream.chunks) {
            shared.pool.give_back(chunk);
        }
        writer.join().expect("the writer ends well");
        shared.close_session();
        let streams = shared.streams(word.epoch(), || 0).expect("there is memory");
        // Not where the snapshot holds all chunks for as long as the writer writes.
        WENT_ROUND.fetch_or(streams.iter().all(|stream| stream.released > 0), Ordering::Relaxed);
    });
    assert!(WENT_ROUND.load(Ordering::Relaxed), "the ring never went round");
}

#[test]
fn model_two_may_let_go_of_one_ring() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new(Shared::new());
        let word = shared.open_session(ON, u64::MAX, RING);
        let mut recorder = Thread::new(&shared);
        let outer = recorder.open().expect("the session is open");
        let writer = thread::spawn(move || {
            for _ in 0..3 {
                let inner = recorder.open().expect("a ring has always room");
                recorder.close(inner);
            }
            recorder.close(outer);
            recorder.end();
        });
        shared.squeeze(false);
        shared.sweep(Bounds { ns: 0, ..RING }, 1);
        writer.join().expect("the writer ends well");
        shared.close_session();
        let streams = drain(&shared, word);
        assert!(streams.iter().all(|tags| tags.first() == Some(&BEGIN) && tags.last() == Some(&CLOSE)), "{streams:?}");
    });
}

/// What a session keeps and filters is written before its state word, which scopes read without an ordering.
#[test]
fn model_a_thread_that_sees_a_session_sees_its_filter_and_bounds() {
    loom::model(|| {
        let shared = Arc::new(Shared::new());
        let control = Arc::clone(&shared);
        let starter = thread::spawn(move || control.open_session(ON, 2, RING));
        if !shared.word().is_off() {
            assert_eq!((shared.passes(1), shared.passes(2)), (false, true), "the filter of the session before");
        }
        if !shared.word().is_off() {
            assert_eq!(shared.bounds(), Some(RING), "the bounds of the session before");
        }
        starter.join().expect("starts");
    });
}

/// The proof that these models can fail: the same hand-over with the length published by a relaxed store.
#[test]
fn model_a_relaxed_publication_is_caught() {
    WEAKENED.set(true);
    let weakened = std::panic::catch_unwind(|| {
        loom::model(|| {
            let shared = Arc::new(Shared::new());
            let word = shared.open_session(ON, u64::MAX, Bounds::NONE);
            let mut recorder = Thread::new(&shared);
            let writer = thread::spawn(move || {
                if let Some(mark) = recorder.open() {
                    recorder.close(mark);
                }
            });
            shared.close_session();
            drain(&shared, word);
            writer.join().expect("the writer ends well");
        });
    });
    WEAKENED.set(false);
    let message = weakened.expect_err("a relaxed store must be found out");
    let text = message.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("Causality violation"), "{text}");
}
