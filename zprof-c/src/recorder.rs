//! All that this crate takes from the recorder, which makes no promise to keep it.

use zprof_runtime::__private::Link as _;

pub(crate) use zprof_runtime::raw::{
    Description, Level, MOST_KEYS, MOST_SITES, NO_FILTER, RawGuard, RawSite, RawValue, STATE, begin, count, end,
    instant, listens, note,
};
pub(crate) use zprof_runtime::{ENABLED, Flow};

/// A new flow.
pub(crate) fn new_flow() -> u64 {
    number_of(zprof_runtime::flow())
}

/// The number of a flow.
pub(crate) fn number_of(flow: Flow) -> u64 {
    flow.number()
}
