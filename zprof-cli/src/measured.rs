//! What rows of scopes and of asynchronous spans have in common.

use zprof_runtime::export::{AsyncSummary, Runs, ScopeSummary};

/// Runs of one name; times are picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'s> {
    pub(crate) name: &'s str,
    pub(crate) count: u64,
    pub(crate) total_ps: u128,
    /// Of asynchronous spans, which have none, the total.
    pub(crate) self_ps: u128,
    pub(crate) mean_ps: f64,
    pub(crate) runs: Option<&'s Runs>,
}

impl<'s> Measured<'s> {
    pub(crate) fn of_scope(scope: &'s ScopeSummary) -> Self {
        let ScopeSummary { name, count, total_ps, self_ps, runs, .. } = scope;
        let mean_ps = scope.mean_ps();
        Self { name, count: *count, total_ps: *total_ps, self_ps: *self_ps, mean_ps, runs: runs.as_ref() }
    }

    pub(crate) fn of_async(spans: &'s AsyncSummary) -> Self {
        let AsyncSummary { name, count, total_ps, runs, .. } = spans;
        let mean_ps = spans.mean_ps();
        Self { name, count: *count, total_ps: *total_ps, self_ps: *total_ps, mean_ps, runs: runs.as_ref() }
    }

    /// A time of the runs one by one, where these are known.
    pub(crate) fn of_runs(&self, time: fn(&Runs) -> u64) -> Option<u64> {
        self.runs.map(time)
    }

    pub(crate) fn deviation_ps(&self) -> Option<f64> {
        self.runs.and_then(|runs| runs.deviation_ps)
    }
}
