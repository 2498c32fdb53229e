//! The warnings of a profile: what it lacks, and why.

use super::host::{Host, Loss, Part};
use super::options::ProfilerOptions;
use crate::record::raw::Unknown;
use crate::record::recording::{Forked, Recorded};
use crate::record::{Dropped, Gone, Interrupted, Reason};

/// What to say of scopes on overlap lines.
pub(super) fn crossings(host: &Host) -> impl Iterator<Item = String> {
    host.overlapping.iter().map(|site| {
        format!(
            "scope `{}` ({}:{}) ended out of order or was held across an await; it is on a line of its own, `… (overlap)`",
            site.name, site.file, site.line
        )
    })
}

/// How many threads that lost something have a warning each; one more warning has the rest.
const MOST_LOSSES: usize = 32;

/// What was lost, and is not told by thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unplaced {
    /// Scopes of threads that had ended.
    orphans: u64,
    /// Scopes of threads for which there was no memory.
    unregistered: u64,
    interrupted: Dropped,
    /// Spans that were entered, and that a bridge does not know.
    unknown: Option<Unknown>,
}

impl Unplaced {
    pub(super) fn of(recorded: &Recorded) -> Self {
        let Recorded { orphans, unregistered, interrupted, unknown, .. } = *recorded;
        Self { orphans, unregistered, interrupted, unknown }
    }

    /// Scopes that were dropped.
    pub(super) fn scopes(self) -> u64 {
        self.orphans + self.unregistered + self.interrupted[Interrupted::Scope as usize].iter().sum::<u64>()
    }
}

/// Why records found no room, and what to do about it.
pub(super) struct Cause {
    why: String,
    cure: String,
}

/// The cause of losses: the limit of the options, unless the system had no memory below that.
pub(super) fn cause_of_losses(was_short: bool, options: &ProfilerOptions) -> Cause {
    let (limit, option) = (options.max_buffer_bytes, options.named("max_buffer_bytes"));
    if was_short {
        return Cause {
            why: "the system had no more memory for the recorder".to_owned(),
            cure: format!("give the process more, or lower `{option}`"),
        };
    }
    Cause {
        why: format!("the recorder's memory limit of {limit} bytes was reached"),
        cure: format!("raise `{option}`"),
    }
}

/// What to say of `count` scopes, values or ends that were dropped though there was memory for them.
fn interrupted_by(count: u64, what: Interrupted, why: Reason) -> String {
    let dropped = match what {
        Interrupted::Scope => "scopes were dropped",
        Interrupted::Note => "values added to open spans were dropped",
        Interrupted::End => "scopes look as if they had not ended",
    };
    let cause = match why {
        Reason::Reentered => {
            "they came from code that the recorder had called on the same thread, such as the program's allocator, and it records \
             one thing at a time"
        }
        Reason::InterruptedByHandler => "a signal handler ran while the recorder was at work on the same thread",
        Reason::AllocatesInHandler => {
            "a signal handler, or a handler of a fork, came where its thread had to allocate first, for its first record or for a new \
             chunk of memory"
        }
    };
    format!("{count} {dropped}: {cause}; a larger buffer changes nothing")
}

/// What the profile must say of itself.
pub(super) fn warnings(
    losses: &[Loss],
    unplaced: Unplaced,
    steps_ns: &[i64],
    Cause { why, cure }: &Cause,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let (told, rest) = losses.split_at(losses.len().min(MOST_LOSSES));
    for Loss { thread, tid, scopes, notes, unknown } in told {
        if *scopes != 0 {
            warnings.push(format!("thread `{thread}` ({tid}) dropped {scopes} scopes: {why}; {cure}"));
        }
        if *notes != 0 {
            warnings.push(format!("thread `{thread}` ({tid}) dropped {notes} values added to open spans: {why}"));
        }
        if *unknown != 0 {
            warnings.push(format!(
                "thread `{thread}` ({tid}) has scopes open from before what is kept, of which {unknown} are not shown: at most 65536 \
                 are kept, and fewer where the system has no memory for them"
            ));
        }
    }
    if !rest.is_empty() {
        let (threads, scopes) = (rest.len(), rest.iter().map(|loss| loss.scopes).sum::<u64>());
        let notes = rest.iter().map(|loss| loss.notes).sum::<u64>();
        warnings.push(format!(
            "{threads} more threads dropped {scopes} scopes and {notes} values added to open spans, for the same reason"
        ));
    }
    let Unplaced { orphans, unregistered, interrupted, unknown } = unplaced;
    if let Some(Unknown { entered, example }) = unknown {
        let example = example
            .map_or_else(String::new, |site| format!(", such as `{}` ({}:{}),", site.name, site.file, site.line));
        let times = if entered == 1 { "once".to_owned() } else { format!("{entered} times") };
        warnings.push(format!(
            "spans of `tracing` that were made while nothing recorded{example} were entered {times}, and are not in the profile; \
             make the layer by `zprof::tracing::layer().keep_idle_spans(true)`, or start the session before the spans are made"
        ));
    }
    if orphans != 0 {
        warnings.push(format!("{orphans} scopes were dropped: they came from destructors of threads that had ended"));
    }
    if unregistered != 0 {
        warnings.push(format!(
            "{unregistered} scopes were dropped: the system had no memory to register their threads; give the process more"
        ));
    }
    for (what, counts) in [Interrupted::Scope, Interrupted::Note, Interrupted::End].into_iter().zip(interrupted) {
        for (why, count) in
            [Reason::Reentered, Reason::InterruptedByHandler, Reason::AllocatesInHandler].into_iter().zip(counts)
        {
            if count != 0 {
                warnings.push(interrupted_by(count, what, why));
            }
        }
    }
    for step in steps_ns {
        warnings.push(format!("the wall clock was set by {step} ns during the session; times go on from its start"));
    }
    warnings
}

/// The warnings about a clock that is at fault; `unsteady` threads have ticks that go back or lie outside of the session.
pub(super) fn faults_of_clock(recorded: &Recorded, unsteady: usize) -> Vec<String> {
    let name = recorded.source.name();
    let cure = "the variable `ZPROF_CLOCK=system` of `init_from_env` takes the system's clock instead";
    let mut warnings = Vec::new();
    if recorded.is_distrusted {
        warnings.push(format!(
            "the system has found the clock `{name}` unstable since the session started; every scope is kept, but its times \
             may be wrong; {cure}"
        ));
    }
    if let Some((lowest, highest)) = recorded.timeline.rates {
        warnings.push(format!(
            "the clock `{name}` changed its rate: it made {lowest} to {highest} ticks a second; times follow the system's \
             clock from second to second; {cure}"
        ));
    }
    let steps = recorded.steady.laps.steps();
    if steps != 0 {
        warnings.push(format!(
            "the clock `{name}` went back {steps} times during the session; every scope is kept, at a time that the system's \
             clock gives; {cure}"
        ));
    } else if unsteady != 0 {
        warnings.push(format!(
            "the clock `{name}` went back on {unsteady} threads, or differs between processors; every scope is kept, but some \
             are shown too short or at another time; {cure}"
        ));
    }
    warnings
}

/// What to say of threads that have ended and are not in the profile at all.
pub(super) fn gone_with_threads(gone: Gone, Cause { why, cure }: &Cause) -> Option<String> {
    (gone.lost != 0).then(|| {
        format!("threads that have ended, and are older than what is kept, dropped {} scopes: {why}; {cure}", gone.lost)
    })
}

/// The warning for threads that are shown up to a moment of their own, where all others are shown up to `stop`, in
/// picoseconds.
pub(super) fn own_windows(parts: &[Part], stop: u64, options: &ProfilerOptions) -> Option<String> {
    let (limit, option) = (options.max_buffer_bytes, options.named("max_buffer_bytes"));
    let late = || parts.iter().filter_map(|part| part.until);
    late().max().map(|last| {
        format!(
            "{} threads are shown up to a moment of their own, at most {} ns after that of the other threads: they \
             overwrote their ring buffers, which share {limit} bytes, before these could be read; raise `{option}`",
            late().count(),
            last.saturating_sub(stop).div_ceil(1000)
        )
    })
}

/// What to say of a session that came into this process by a fork.
pub(super) fn begins_at(Forked { process, ps }: Forked) -> String {
    format!(
        "this is the profile of process {}, which was forked from process {process}: it begins at the fork, {} ns after the \
         session's start; the scopes before then are in the profile of process {process}, if that is written",
        std::process::id(),
        ps / 1000
    )
}

/// What to say of an XSpace of that many bytes.
pub(super) fn too_long(bytes: usize) -> Option<String> {
    const MOST: usize = (1 << 31) - 1;
    (bytes > MOST).then(|| {
        format!(
            "the profile takes {bytes} bytes; readers built on protobuf, XProf among them, take {MOST} at most; record a \
             shorter time or fewer scopes"
        )
    })
}
