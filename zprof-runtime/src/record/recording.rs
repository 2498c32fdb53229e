//! One recording, from start to stop: state word, helper, anchors, and the streams that come out.

use std::io;

use super::directives::Directives;
use super::helper::Helper;
use super::registry::{Stream, Word};
use super::thread::{LOCAL, Local, SHARED};
use crate::clock::{Anchor, Source, Timeline};

/// How to record.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The levels of modules, with one for all others.
    pub(crate) directives: Directives,
    /// Filter mask; all ones for none.
    pub(crate) filter: u64,
    /// What all chunks may take, in bytes.
    pub(crate) max_bytes: usize,
    /// How much of it to fault in at once, in bytes.
    pub(crate) prefault_bytes: usize,
}

/// A recording under way. There is one at a time; the session sees to that.
#[derive(Debug)]
pub(crate) struct Recording {
    source: Source,
    word: Word,
    start: Anchor,
    helper: Option<Helper>,
}

/// What a recording has brought.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) source: Source,
    pub(crate) timeline: Timeline,
    /// Tick of the stop.
    pub(crate) stop: u64,
    pub(crate) streams: Vec<Stream>,
    /// Scopes of threads whose storage was being torn down.
    pub(crate) orphans: u64,
}

impl Recording {
    /// Starts to record.
    pub(crate) fn start(settings: Settings) -> io::Result<Self> {
        super::fork::watch()?;
        let source = Source::detect();
        super::probe();
        SHARED.pool.set_limit(settings.max_bytes);
        SHARED.pool.trim(settings.prefault_bytes.min(settings.max_bytes));
        SHARED.pool.prefault(settings.prefault_bytes.min(settings.max_bytes));
        let helper = Helper::start(source)?;
        let clock = if source == Source::Counter { Word::COUNTER } else { 0 };
        let start = Anchor::take(source);
        let (most, distinguish) = (u64::from(settings.directives.most()), settings.directives.distinguish());
        let choice = if distinguish { Word::DIRECTED } else { 0 };
        let flags = if most == 0 { 0 } else { most.min(Word::ALL_LEVELS) | clock | choice };
        SHARED.direct(settings.directives);
        let word = SHARED.open_session(flags, settings.filter);
        Ok(Self { source, word, start, helper: Some(helper) })
    }

    /// Where its ticks come from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Stops recording and takes what was recorded.
    pub(crate) fn stop(mut self) -> Recorded {
        SHARED.close_session();
        let stop = Anchor::take(self.source);
        let mut anchors = vec![self.start];
        anchors.extend(self.helper.take().map(Helper::stop).unwrap_or_default());
        anchors.push(stop);
        Recorded {
            source: self.source,
            timeline: Timeline::new(&anchors),
            stop: stop.tick,
            streams: SHARED.streams(self.word.epoch()),
            orphans: SHARED.orphans(),
        }
    }
}

/// Keeps the calling thread, one of zprof's own, out of recordings.
pub(crate) fn keep_out() {
    LOCAL.with(Local::keep_out);
}

/// Gives the chunks of a drained stream back.
pub(crate) fn recycle(stream: Stream) {
    for (chunk, _) in stream.chunks {
        SHARED.pool.give_back(chunk);
    }
}

/// Frees what the recorder holds beyond `keep` bytes of free chunks.
pub(crate) fn trim(keep: usize) {
    SHARED.pool.trim(keep);
}
