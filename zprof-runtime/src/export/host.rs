//! The hosts of a run, and how their processes are numbered in one trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::xspace::Source;

/// The first host has process ids from here on, the second from twice this, as in XProf.
const STRIDE: u32 = 1_000;

/// One host's XSpace, where several go into one trace.
#[derive(Clone, Copy)]
pub struct Host<'s> {
    /// Name of the host, which is put before the names of its processes.
    pub name: &'s str,
    /// The XSpace.
    pub source: &'s dyn Source,
}

impl fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Gives each process of several hosts an id of its own.
///
/// `pids` are the processes as `(host from 0, id on that host)`. An id below 1000 becomes `1000 * (host + 1) + id`; others
/// get what follows the last host's thousand, in order.
pub(crate) fn number_processes(hosts: usize, pids: impl Iterator<Item = (usize, u32)>) -> BTreeMap<(usize, u32), u32> {
    let base = |host: usize| u32::try_from(host).unwrap_or(u32::MAX).saturating_add(1).saturating_mul(STRIDE);
    let mut shown: BTreeMap<(usize, u32), u32> = pids.map(|process| (process, 0)).collect();
    let mut next = base(hosts);
    for ((host, pid), id) in &mut shown {
        if *pid < STRIDE {
            *id = base(*host).saturating_add(*pid);
        } else {
            *id = next;
            next = next.saturating_add(1);
        }
    }
    shown
}

/// First id of processes that have none of their own.
const FIRST_FREE_PID: u32 = 10_001;

/// Gives each process of a trace an id of its own that viewers can hold, from 1 to 2^31 - 1.
///
/// `wanted` has a host and, for processes that have one, an id on that host. Of several processes that want one id the first gets
/// it, numbered as in [`number_processes`] where there are several hosts. The others get ids from 10,001 on.
pub(crate) fn process_ids(hosts: usize, wanted: &[(usize, Option<u32>)]) -> Vec<u32> {
    let known = wanted.iter().filter_map(|(host, pid)| Some((*host, (*pid)?)));
    let shown = if hosts > 1 { number_processes(hosts, known) } else { BTreeMap::new() };
    let mut taken = BTreeSet::new();
    let mut claim = |(host, pid): &(usize, Option<u32>)| {
        let pid = (*pid)?;
        let pid = shown.get(&(*host, pid)).copied().unwrap_or(pid);
        (pid != 0 && i32::try_from(pid).is_ok() && taken.insert(pid)).then_some(pid)
    };
    let claimed: Vec<Option<u32>> = wanted.iter().map(&mut claim).collect();
    let mut free = (FIRST_FREE_PID..).filter(|pid| !taken.contains(pid)); // a process takes bytes: there are never 2^31
    claimed.into_iter().map(|pid| pid.or_else(|| free.next()).unwrap_or(u32::MAX)).collect()
}

/// Gives processes the ids that the programs had, as far as viewers can hold these and no other process of the trace has them.
/// `programs` are the ids of all processes, in the order of `ids`, where they are known.
pub(crate) fn take_program_ids(ids: &mut [u32], programs: impl Iterator<Item = Option<u32>>) {
    let mut taken: BTreeSet<u32> = ids.iter().copied().collect();
    for (id, program) in ids.iter_mut().zip(programs) {
        if let Some(program) = program.filter(|&own| own != 0 && i32::try_from(own).is_ok() && taken.insert(own)) {
            *id = program;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_want_one_id_get_different_ones() {
        let wanted = [701, 1, 10_002, 1, 0, u32::MAX].map(|pid| (0, Some(pid)));
        assert_eq!(process_ids(1, &wanted), [701, 1, 10_002, 10_001, 10_003, 10_004]);
        let wanted = [(0, Some(701)), (0, None), (0, Some(701)), (1, Some(701)), (1, None)];
        assert_eq!(process_ids(2, &wanted), [1_701, 10_001, 10_002, 2_701, 10_003]);
    }

    #[test]
    fn processes_of_several_hosts_never_share_an_id() {
        let pids = [(0, 701), (0, 1), (0, 1_701), (1, 701), (1, 0), (1, u32::MAX), (1, 1_000), (1, 701)];
        let shown = number_processes(2, pids.into_iter());
        let expected = [
            ((0, 1), 1_001),
            ((0, 701), 1_701),
            ((0, 1_701), 3_000),
            ((1, 0), 2_000),
            ((1, 701), 2_701),
            ((1, 1_000), 3_001),
            ((1, u32::MAX), 3_002),
        ];
        assert_eq!(shown.into_iter().collect::<Vec<_>>(), expected);
    }
}
