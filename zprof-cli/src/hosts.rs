//! The hosts of a run: their times on one axis, and the programs that were profiled there.

use anyhow::{Context, Result};
use zprof_runtime::export::{Host, host_starts};

use crate::output::tell;
use crate::summary::Summed;

/// The plane of the program's own threads.
const HOST_PLANE: &str = "/host:CPU";

/// Puts the times of several hosts on one axis, by the start times of their sessions. Says so where these cannot be compared.
pub(crate) fn align(spaces: &mut [Summed]) -> Result<()> {
    if spaces.len() < 2 {
        return Ok(());
    }
    let hosts = spaces.iter().map(|Summed { space, .. }| Host { name: &space.host, source: space.bytes() });
    let starts = host_starts(&hosts.collect::<Vec<_>>()).context("failed to read the start times of the hosts")?;
    for (Summed { summary, later_ps, .. }, later) in spaces.iter_mut().zip(starts.later_ps) {
        summary.delay(later);
        *later_ps = later;
    }
    starts.notes.iter().for_each(tell);
    Ok(())
}

/// The name of a plane, and behind that of the program's own threads the program with its process id, as far as they are known.
pub(crate) fn plane_label(space: &Summed, plane: &str) -> String {
    match &space.summary.process {
        Some(process) if plane == HOST_PLANE => format!("{plane}: {}", process.label()),
        _ => plane.to_owned(),
    }
}

/// The programs of these spaces with their process ids, as far as they are known; with the hosts before them, if wanted.
pub(crate) fn programs(spaces: &[Summed], with_hosts: bool) -> Vec<String> {
    let label = |Summed { space, summary, .. }: &Summed| {
        let label = summary.process.as_ref()?.label();
        Some(if with_hosts { format!("{} {label}", space.host) } else { label })
    };
    spaces.iter().filter_map(label).collect()
}
