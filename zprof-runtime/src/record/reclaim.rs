//! What sessions that are over have left with threads, and how it is given back.

use super::log::Log;
use super::primitive::Arc;
use super::registry::Shared;
use crate::room;

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
