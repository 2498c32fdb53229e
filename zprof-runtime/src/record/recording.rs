//! One recording, from start to stop: state word, helper, anchors, and the streams that come out at the stop or, as
//! snapshots, before.

use std::io;

use super::chain::Bounds;
use super::directives::Directives;
use super::helper::{self, Helper};
use super::log::{Gone, Stream};
use super::raw::{self, Unknown};
use super::registry::{Dropped, Word};
use super::steady::Steady;
use super::thread::{LOCAL, Local, SHARED};
use crate::clock::{Anchor, Source, Timeline};
use crate::laps::Laps;
use crate::room::Result;

/// How far ticks of different processors may be apart without being at fault, in picoseconds.
const SLACK_PS: u64 = 1_000_000_000;

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
    /// How long records are kept, in nanoseconds, if not to the end.
    pub(crate) keep_ns: Option<u64>,
    /// How many bytes of records are kept of each thread, if not all.
    pub(crate) keep_bytes: Option<u64>,
    /// Take the system's clock, also where there is a counter that can be trusted.
    pub(crate) system_clock: bool,
}

/// A recording under way. There is one at a time; the session sees to that.
#[derive(Debug)]
pub(crate) struct Recording {
    live: Live,
    helper: Option<Helper>,
}

/// What a snapshot needs to know of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    source: Source,
    start: Anchor,
    keep_ns: Option<u64>,
}

/// What a recording has brought.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) source: Source,
    pub(crate) timeline: Timeline,
    /// Tick of the stop, or of the snapshot.
    pub(crate) stop: u64,
    /// Tick at which the record begins; 0 for the session's start.
    pub(crate) since: u64,
    pub(crate) streams: Vec<Stream>,
    /// Scopes of threads whose storage was being torn down.
    pub(crate) orphans: u64,
    /// What was dropped since the recorder was at work on the same thread, by what it was and why.
    pub(crate) interrupted: Dropped,
    /// Scopes of threads that could not be registered.
    pub(crate) unregistered: u64,
    /// Spans that were entered, and that a bridge does not know.
    pub(crate) unknown: Option<Unknown>,
    /// Where the session came into this process by a fork.
    pub(crate) forked: Option<Forked>,
    /// The system had no memory for a chunk, within the recorder's own limit.
    pub(crate) was_short: bool,
    /// What was let go of threads that have ended.
    pub(crate) gone: Gone,
    /// Directives by which no site has gone; none in a snapshot, when some still may.
    pub(crate) unmet: Vec<String>,
    /// The clock, for threads whose ticks are at fault.
    pub(crate) steady: Steady,
    /// The system has lost its trust in the counter since the start.
    pub(crate) is_distrusted: bool,
}

/// A fork by which a running session came into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forked {
    /// The parent's id.
    pub(crate) process: u64,
    /// Time from the session's start to the fork, in picoseconds.
    pub(crate) ps: u64,
}

impl Recording {
    /// Starts to record.
    pub(crate) fn start(settings: Settings) -> io::Result<Self> {
        super::fork::watch()?;
        let source = if settings.system_clock { Source::System } else { Source::detect() };
        super::probe();
        let ready = settings.prefault_bytes.min(settings.max_bytes).min(most_ready());
        SHARED.pool.set_limit(settings.max_bytes);
        SHARED.pool.trim(ready);
        let Settings { keep_ns, keep_bytes, .. } = settings;
        // Before the pool is filled: where address space is short, the helper's stack comes first.
        let helper = Helper::start(source).inspect_err(|_| SHARED.pool.trim(0))?;
        SHARED.pool.prefault(ready);
        let clock = if source == Source::Counter { Word::COUNTER } else { 0 };
        let start = Anchor::take(source);
        let (most, distinguish) = (u64::from(settings.directives.most()), settings.directives.distinguish());
        let choice = if distinguish { Word::DIRECTED } else { 0 };
        let flags = if most == 0 { 0 } else { most.min(Word::ALL_LEVELS) | clock | choice };
        let bounds = Bounds { ns: keep_ns.unwrap_or(u64::MAX), bytes: keep_bytes.unwrap_or(u64::MAX) };
        let _old = SHARED.direct(settings.directives);
        SHARED.open_session(flags, settings.filter, bounds);
        raw::changed();
        Ok(Self { live: Live { source, start, keep_ns }, helper: Some(helper) })
    }

    /// What a snapshot needs.
    pub(crate) fn live(&self) -> Live {
        self.live
    }

    /// Where its ticks come from.
    pub(crate) fn source(&self) -> Source {
        self.live.source
    }

    /// Stops recording and takes what was recorded.
    pub(crate) fn stop(mut self) -> Result<Recorded> {
        SHARED.close_session();
        let stop = Anchor::take(self.live.source);
        raw::changed();
        if let Some(helper) = self.helper.take() {
            helper.stop();
        }
        sweep();
        // A thread that has not seen the stop yet gets a verdict that counts for this session, which is over.
        let unmet = SHARED.direct(Directives::none()).unmet();
        if SHARED.pool.is_short() {
            // What is free is for what follows.
            SHARED.pool.trim(0);
        }
        let streams = SHARED.streams(SHARED.word().epoch(), || self.live.source.now())?;
        let mut recorded = self.live.recorded(stop.tick, stop, streams)?;
        recorded.is_distrusted = self.live.source.is_distrusted();
        recorded.steady.is_over = true;
        recorded.unmet = unmet;
        Ok(recorded)
    }
}

impl Live {
    /// What was recorded until now; recording goes on. The session must not be stopped meanwhile.
    pub(crate) fn snapshot(&self) -> Result<Recorded> {
        sweep();
        let (stop, streams) = SHARED.share(SHARED.word().epoch(), || self.source.now())?;
        self.recorded(stop, Anchor::take(self.source), streams)
    }

    fn recorded(&self, stop: u64, last: Anchor, mut streams: Vec<Stream>) -> Result<Recorded> {
        let named = streams.iter_mut().try_for_each(Stream::look_up_name);
        match named.and_then(|()| self.timeline(last)) {
            Ok((laps, timeline)) => Ok(self.recorded_on(laps, timeline, stop, streams)),
            Err(error) => {
                streams.into_iter().for_each(recycle);
                Err(error)
            }
        }
    }

    /// The laps of the source and the timeline, up to an anchor.
    fn timeline(&self, last: Anchor) -> Result<(Laps, Timeline)> {
        let mut anchors = helper::anchors(self.start)?;
        anchors.push(last);
        let (laps, anchors) = Laps::of(&anchors)?;
        Ok((laps, Timeline::new(&anchors)?))
    }

    fn recorded_on(&self, laps: Laps, mut timeline: Timeline, stop: u64, streams: Vec<Stream>) -> Recorded {
        let stop = laps.latest(stop);
        // Streams that do not cover the stop have windows of their own, which end later. The last anchor may be later than
        // all of them: that of a snapshot, or one that the helper has taken while the session was being stopped.
        let is_steady = laps.steps() == 0;
        let ends = streams.iter().filter(|_| is_steady).map(|stream| stream.last(stop));
        let end = ends.fold(stop, u64::max);
        timeline.end_ps = timeline.cursor().ps(end);
        let oldest = self.keep_ns.map_or(0, |ns| {
            let now = timeline.cursor().ps(stop);
            timeline.tick(now.saturating_sub(ns.saturating_mul(1000)))
        });
        let gone = SHARED.gone();
        // Where the source went back, it cannot be told which rings begin later.
        let is_part = is_steady && (gone.threads != 0 || streams.iter().any(|stream| stream.released != 0));
        let first = if is_part { streams.iter().filter_map(Stream::first).min().unwrap_or(0) } else { 0 };
        let fork = SHARED.fork().map(|(tick, process)| (laps.follow(0).next(tick), process));
        let forked = fork.map(|(tick, process)| Forked { process, ps: timeline.cursor().ps(tick) });
        let oldest = fork.map_or(0, |(tick, _)| tick).max(oldest);
        let since = Some(oldest.max(first)).filter(|&since| since > self.start.tick).unwrap_or(0);
        let slack = timeline.tick(SLACK_PS) - timeline.first_tick();
        let steady = Steady { laps, slack, start: timeline.first_tick(), stop, is_over: false };
        Recorded {
            source: self.source,
            steady,
            is_distrusted: false,
            timeline,
            stop,
            since,
            streams,
            orphans: SHARED.orphans(),
            interrupted: SHARED.interrupted(),
            unregistered: SHARED.unregistered(),
            unknown: raw::unknown(),
            forked,
            was_short: SHARED.pool.was_short(),
            gone,
            unmet: Vec::new(),
        }
    }
}

impl Recorded {
    /// Lets time begin where the record does.
    pub(crate) fn cut(&mut self) -> Result<()> {
        if self.since != 0 {
            self.timeline = self.timeline.from(self.since)?;
        }
        Ok(())
    }

    /// Tick from which on nothing is missing on any thread; 0 for the session's start.
    pub(crate) fn whole_since(&self) -> u64 {
        self.streams.iter().map(|stream| stream.since).fold(self.since, u64::max)
    }
}

/// Bytes that are made ready at most, since they count as used from then on: a part of what the process may take yet, where its
/// control group limits that.
fn most_ready() -> usize {
    const PART: u64 = 4;
    let left = crate::cgroup::memory_left().map(|left| left / PART);
    left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX))
}

/// Lets go of what bounds rule out on threads that write nothing, so that what is taken next has no more than it may.
fn sweep() {
    if let Some(bounds) = SHARED.bounds() {
        SHARED.sweep(bounds, Source::System.now());
    }
}

/// Keeps the calling thread, one of zprof's own, out of recordings.
pub(crate) fn keep_out() {
    LOCAL.with(Local::keep_out);
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.streams.drain(..).for_each(recycle);
    }
}

/// Gives the chunks of a drained stream back.
pub(crate) fn recycle(stream: Stream) {
    for (chunk, _) in stream.chunks {
        SHARED.pool.give_back(chunk);
    }
}

/// Bytes of all chunks.
pub(crate) fn allocated() -> usize {
    SHARED.pool.allocated()
}

/// Whether the system had no memory for a chunk when it was asked last.
pub(crate) fn is_short() -> bool {
    SHARED.pool.is_short()
}

/// The session that runs, or the last one.
pub(crate) fn epoch() -> u32 {
    SHARED.latest_epoch()
}

/// Frees what the recorder holds after session `epoch`, which is over and taken; no session runs, or a later one.
pub(crate) fn free(epoch: u32) {
    SHARED.give_back_memory(epoch);
    SHARED.pool.trim(0);
}

/// Frees what the recorder holds beyond `keep` bytes of free chunks.
pub(crate) fn trim(keep: usize) {
    SHARED.pool.trim(keep);
}
