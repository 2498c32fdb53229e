//! The runtime of zprof: sites, recorder, session, XSpace and export, in reading order.
//!
//! Programs use it through the `zprof` crate, which re-exports what is public here.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub(crate) mod atomic;
pub(crate) mod ceiling;
#[cfg(not(zprof_loom))]
pub(crate) mod cgroup;
#[cfg(not(zprof_loom))]
pub(crate) mod clock;
pub(crate) mod decimal;
#[doc(hidden)] // for the command
pub mod display;
#[doc(hidden)] // for the command
pub mod environment;
pub mod error;
/// Folders, locks and files for this crate and the command. Not public API: it changes with what is built on it.
#[cfg(not(zprof_loom))]
#[doc(hidden)]
pub mod folder;
#[cfg(not(zprof_loom))]
pub(crate) mod lanes;
#[cfg(not(zprof_loom))]
pub(crate) mod laps;
#[cfg_attr(zprof_loom, allow(dead_code))]
pub(crate) mod os;
pub(crate) mod room;
pub mod site;
#[allow(unsafe_code)] // values write themselves into slots of the stream
pub mod value;
#[cfg(not(zprof_loom))]
pub(crate) mod warn;

#[cfg(not(zprof_loom))]
pub(crate) mod annotate;
#[cfg(zprof_loom)]
#[path = "annotate/line.rs"]
pub(crate) mod annotate;
pub mod record;

#[cfg(not(zprof_loom))]
pub mod export;
#[cfg(not(zprof_loom))]
pub mod xspace;

#[cfg(all(any(feature = "nvtx", feature = "roctx", feature = "pjrt"), not(zprof_loom)))]
#[allow(unsafe_code)] // loads libraries
pub(crate) mod dylib;
#[cfg(all(feature = "pjrt", not(zprof_loom)))]
pub(crate) mod pjrt;
#[cfg(all(not(feature = "pjrt"), not(zprof_loom)))]
#[allow(unsafe_code)] // has the signatures of the real one
#[path = "pjrt/off.rs"]
pub(crate) mod pjrt;

#[cfg(not(zprof_loom))]
pub mod session;

/// What other crates record, recorded here: each in a module of the crate's name, as a feature.
#[cfg(not(zprof_loom))]
pub mod bridge {
    #[cfg_attr(not(unix), allow(dead_code))] // nothing forks elsewhere
    pub(crate) mod held;
    #[cfg(feature = "log")]
    pub mod log;
    #[cfg(feature = "tracing")]
    pub mod tracing;
}

#[cfg(all(feature = "enable", not(target_has_atomic = "64")))]
compile_error!(
    "zprof records with 64-bit atomics, which this target lacks; leave the feature `enable` off (`default-features = false` \
     of the crate `zprof`), and marks compile to nothing"
);

/// Sites and scopes that are made while the program runs, for bridges from other libraries and languages. Not public API: it
/// changes with what is built on it.
#[cfg(not(zprof_loom))]
#[doc(hidden)]
pub mod raw {
    pub use crate::atomic::AtomicU64;
    pub use crate::record::raw::{
        Description, Key, MOST_KEYS, MOST_SITES, RawGuard, RawSite, RawValue, STATE, Values, Whole, begin, count, end,
        heard_level, hold, instant, is_dropped_in_handler, listens, look, note, open, sites, take, watch,
    };
    pub use crate::site::{Level, NO_FILTER, Site};
}

pub use ceiling::MAX_LEVEL;
pub use error::{Error, ErrorKind, Result};
#[cfg(not(zprof_loom))]
pub use record::{Flow, Span, Task, TraceFuture, Traced, flow, name_thread, name_worker};
#[cfg(not(zprof_loom))]
pub use session::{
    AdvancedValue, DeviceType, Linkage, Platform, Profile, Profiler, ProfilerOptions, SessionId, finish, init_from_env,
    snapshot, testing,
};
pub use site::Level;
pub use value::Value;

/// Whether the recorder is compiled in (feature `enable`).
pub const ENABLED: bool = cfg!(feature = "enable");

/// The features of this crate, and whether each is compiled in: for `zprof doctor`.
#[doc(hidden)]
pub const FEATURES: &[(&str, bool)] = &[
    ("enable", cfg!(feature = "enable")),
    ("pjrt", cfg!(feature = "pjrt")),
    ("nvtx", cfg!(feature = "nvtx")),
    ("roctx", cfg!(feature = "roctx")),
    ("signpost", cfg!(feature = "signpost")),
    ("tracing", cfg!(feature = "tracing")),
    ("log", cfg!(feature = "log")),
];

#[cfg(not(zprof_loom))]
#[doc(hidden)]
#[path = "doctor.rs"]
pub mod __doctor;

#[cfg(not(zprof_loom))]
#[doc(hidden)]
#[path = "testing.rs"]
pub mod __test;

/// What macro expansions call. Not public API: it changes with the macros, which are pinned to this version.
#[cfg(not(zprof_loom))]
#[doc(hidden)]
pub mod __private {
    pub use crate::ENABLED;
    pub use crate::record::{
        Entered, Fallible, Guard, Here, Link, NUMBER, Returned, Returns, Sample, Shown, StepNumber, Word, always, call,
        count_at, debug, described, display, entered, hears, inert, mark_at, never, open_at, polled, polled_and,
        returned, traced, traced_and, undescribed, word, word_at,
    };
    pub use crate::site::{Callsite, Level, Memo, NO_FILTER, Site};
    pub use crate::value::{Named, Root, Value, Variant, Variants};
    pub use core;
}
