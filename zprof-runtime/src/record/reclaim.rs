//! What sessions that are over have left with threads, and how it is given back.

use super::log::Log;
use super::primitive::Arc;
use super::registry::Shared;
use crate::room;

impl Log {
    /// Whether the thread has ended, and has recorded in no session after this one.
    pub(crate) fn is_over(&self, epoch: u32) -> bool {
        // First whether it has ended: then its chain is of the last session that it has recorded in.
        self.is_ended() && self.chain.lock().epoch() <= epoch
    }

    /// Gives the pages of the chunks back that the thread has of a session up to this one, which is over and taken.
    pub(crate) fn purge(&self, epoch: u32) {
        let chain = self.chain.lock();
        if chain.epoch() <= epoch {
            // SAFETY: nobody reads what is in the chunks: the session was taken, and no other one has begun in this chain.
            unsafe { chain.purge() };
        }
    }

    /// Takes the chunks of a thread that has ended.
    pub(crate) fn reclaim(&self, shared: &Shared) {
        if self.is_ended() {
            // SAFETY: the thread has ended, and left its last chunk before.
            unsafe { self.chain.lock().clear(|chunk| shared.pool.give_back(chunk)) };
        }
    }
}

impl Shared {
    /// Gives up the threads that have ended, as far as they have recorded in no session after session `epoch`, which is over
    /// and taken. Where there is no memory for that, they stay until the next time.
    pub(super) fn forget_ended(&self, epoch: u32) {
        let _visit = self.visit.lock();
        let mut ended: Vec<Arc<Log>> = Vec::new();
        loop {
            let mut logs = self.logs.lock();
            let count = logs.iter().filter(|log| log.is_ended()).count();
            if count <= ended.capacity() {
                // As many as there is room for, since another thread may have ended just now. The lists share each log, so that
                // nothing is freed under the lock.
                logs.retain(|log| {
                    let goes = ended.len() < ended.capacity() && log.is_over(epoch);
                    if goes {
                        ended.push(Arc::clone(log));
                    }
                    !goes
                });
                break;
            }
            drop(logs);
            let Ok(more) = room::with_room(count) else { return };
            ended = more;
        }
        for log in ended {
            log.reclaim(self);
        }
    }

    /// Gives back what threads have of session `epoch`, which is over and taken: all of those that have ended, and what the
    /// last chunks of the others take beside their first pages.
    pub(crate) fn give_back_memory(&self, epoch: u32) {
        self.forget_ended(epoch);
        let _visit = self.visit.lock();
        // Where there is no memory to look, nothing goes now.
        for log in self.all_logs().iter().flatten() {
            log.purge(epoch);
        }
    }
}
