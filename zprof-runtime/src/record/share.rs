//! How a stop and a snapshot get hold of what all threads have written.

use super::log::{Log, Stream};
use super::primitive::{Arc, Ordering, pause};
use super::registry::Shared;
use crate::room::{self, OutOfMemory, Result};

/// Why a try of [`Shared::share`] has brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotShared {
    /// The log with this index no longer covers the moment.
    Late(usize),
    OutOfMemory,
}

impl From<OutOfMemory> for NotShared {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl Shared {
    /// Takes what each thread has written in session `epoch`, in the order in which the threads came. `now` reads the
    /// session's clock.
    pub(crate) fn streams(&self, epoch: u32, now: impl Fn() -> u64) -> Result<Vec<Stream>> {
        let _visit = self.visit.lock();
        let logs = self.all_logs()?;
        let mut streams = room::with_room(logs.len())?;
        for log in &logs {
            match Log::stream(log, epoch, &now) {
                Ok(stream) => streams.extend(stream),
                Err(error) => {
                    self.give_back(streams);
                    return Err(error);
                }
            }
        }
        Ok(streams)
    }

    /// Gives the chunks of streams back.
    fn give_back(&self, streams: impl IntoIterator<Item = Stream>) {
        streams.into_iter().flat_map(|stream| stream.chunks).for_each(|(chunk, _)| self.pool.give_back(chunk));
    }

    /// Shares what each thread has written in session `epoch`, in the order in which the threads came, while recording goes
    /// on. Also returns the tick of the snapshot, read by `now`.
    ///
    /// Threads that record faster than this one reaches them overwrite that tick in their rings. Such a try is given up
    /// for another with a later tick, as long as there are tries left. In the last try every stream is taken as it is, so
    /// that no thread is missing: [`Stream::last`] says up to which tick each one is to be read.
    pub(crate) fn share(&self, epoch: u32, now: impl Fn() -> u64) -> Result<(u64, Vec<Stream>)> {
        const MOST_TRIES: usize = 8;
        let _visit = self.visit.lock();
        self.held.store(1, Ordering::Release);
        let mut late = None;
        let mut left = MOST_TRIES;
        let shared = loop {
            left -= 1;
            let moment = now();
            // After the tick, so that a thread that is not among these has recorded nothing before it. A copy, so that the
            // first scope of a new thread does not wait for all the chains.
            let logs = match self.all_logs() {
                Ok(logs) => logs,
                Err(error) => break Err(error),
            };
            match self.try_share(&logs, epoch, moment, &now, late, left == 0) {
                Ok(streams) => break Ok((moment, streams)),
                Err(NotShared::Late(index)) => late = Some(Arc::as_ptr(&logs[index])),
                Err(NotShared::OutOfMemory) => break Err(OutOfMemory),
            }
        };
        self.held.store(0, Ordering::Release);
        shared
    }

    /// One try of [`share`](Self::share): the streams of `logs`, which all cover tick `moment`, or the index of a log that
    /// no longer does. With `takes_all`, streams that do not cover it are returned as well.
    ///
    /// A thread that is put aside while it has its own chain locked writes nothing meanwhile, so its ring keeps the
    /// moment, while the rings of running threads go on. So the log that was too late in the try before is visited first,
    /// then all others whose chain is free, and only then those that must be waited for. These are tried in turn with
    /// short pauses: to wait for the lock of one would be to miss the time in which another one's is free.
    fn try_share(
        &self,
        logs: &[Arc<Log>],
        epoch: u32,
        moment: u64,
        now: &impl Fn() -> u64,
        late: Option<*const Log>,
        takes_all: bool,
    ) -> Result<Vec<Stream>, NotShared> {
        /// Rounds over the locked chains before this thread waits for one after the other.
        const PAUSES: usize = if cfg!(zprof_loom) { 1 } else { 100 };
        let mut most = if self.bounds().is_some() { self.pool.most_kept() } else { usize::MAX };
        // All lists first, so that nothing but a stream itself can find no memory once chunks are shared.
        let (mut order, mut locked) = (room::with_room(logs.len())?, room::with_room(logs.len())?);
        let mut streams: Vec<Option<Stream>> = room::with_room(logs.len())?;
        let mut all = room::with_room(logs.len())?;
        order.extend(0..logs.len());
        if let Some(at) = logs.iter().position(|log| Some(Arc::as_ptr(log)) == late) {
            order.swap(0, at);
        }
        streams.extend(logs.iter().map(|_| None));
        for round in 0..=PAUSES {
            for index in order.drain(..) {
                let Some(chain) = logs[index].lock_chain(round == PAUSES) else {
                    locked.push(index);
                    continue;
                };
                let stream = match Log::share(&logs[index], chain, self, epoch, &mut most, moment, now) {
                    Ok(stream) => stream,
                    Err(error) => {
                        self.give_back(streams.into_iter().flatten());
                        return Err(error.into());
                    }
                };
                let is_late = stream.as_ref().is_some_and(|stream| !stream.covers(moment));
                streams[index] = stream;
                if is_late && !takes_all {
                    self.give_back(streams.into_iter().flatten());
                    return Err(NotShared::Late(index));
                }
            }
            if locked.is_empty() {
                break;
            }
            if round + 1 < PAUSES {
                pause();
            }
            std::mem::swap(&mut order, &mut locked);
        }
        all.extend(streams.into_iter().flatten());
        Ok(all)
    }
}
