//! All that this crate takes from the recorder, which makes no promise to keep it.

use std::sync::atomic::Ordering;

use zprof_runtime::__private::Link as _;

pub(crate) use zprof_runtime::raw::{
    AtomicU64, Description, Key, Level, MOST_KEYS, MOST_SITES, NO_FILTER, RawGuard, RawSite, RawValue, STATE, count,
    hold, instant, is_dropped_in_handler, look, open, take,
};
pub(crate) use zprof_runtime::{ENABLED, Flow, name_thread};

/// Whether nobody listens to anything. Who does listen, to what, the recorder finds out by itself.
#[inline]
pub(crate) fn is_off() -> bool {
    !ENABLED || STATE.load(Ordering::Relaxed) & 0xffff_ffff == 0
}

/// A new flow.
pub(crate) fn new_flow() -> u64 {
    number_of(zprof_runtime::flow())
}

/// The number of a flow.
pub(crate) fn number_of(flow: Flow) -> u64 {
    flow.number()
}
