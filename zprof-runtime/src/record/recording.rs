//! One recording, from start to stop: state word, helper, anchors, and the streams that come out.

use std::io;

use super::helper::Helper;
use super::registry::{Stream, Word};
use super::thread::SHARED;
use crate::clock::{Anchor, Source, Timeline};

/// How to record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Highest level that is recorded, 0 to 255.
    pub(crate) level: u8,
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
        let flags = if settings.level == 0 { 0 } else { u64::from(settings.level).min(Word::ALL_LEVELS) | clock };
        let word = SHARED.open_session(flags, settings.filter);
        super::raw::changed();
        Ok(Self { source, word, start, helper: Some(helper) })
    }

    /// Stops recording and takes what was recorded.
    pub(crate) fn stop(mut self) -> Recorded {
        SHARED.close_session();
        let stop = Anchor::take(self.source);
        super::raw::changed();
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
