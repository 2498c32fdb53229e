//! Links a program's call of a PJRT plugin with what the plugin's own recorder says of that call.

use std::ffi::c_void;
use std::fmt;
use std::ptr::null;
use std::sync::atomic::Ordering;

use super::Platform;
use crate::atomic::AtomicI64;
use crate::pjrt::CallNode;
use crate::record::{hears, open_at, word};
use crate::site::{Callsite, Level, Memo, NO_FILTER, Site};
use crate::value::Value as _;

/// `PjrtLibraryCall`, the type of the context that caller and plugin share.
const LIBRARY_CALL: i64 = 14;

/// The next id of a call. It begins far from those of other recorders of the process, which count up from a small
/// thread number in the upper half, and below 2^53, so that no reader rounds it.
static NEXT_ID: AtomicI64 = AtomicI64::new(0x7a70 << 32);

/// Ties a call of a PJRT plugin to the scope that makes it: XProf draws an arrow from here to the plugin's own event of
/// the call, and what the plugin does for it belongs to the step that the scope is in.
///
/// Making one records a short scope at once, `PJRT_LoadedExecutable_Execute linkage` or `PJRT_Client_Compile linkage`.
/// [`as_ptr`](Self::as_ptr) goes into the field `extension_start` of the call's arguments, and the value stays until the
/// call has returned. It is for one call: calls that share it become one in the profile.
///
/// Where no session records, and where the platform's plugin has no profiler or is older than PJRT 0.45, nothing is
/// recorded and the pointer is null, as it is in a call without extensions.
///
/// ```
/// # use zprof_runtime as zprof;
/// # use std::ffi::c_void;
/// # #[repr(C)]
/// # struct ExecuteArgs {
/// #     struct_size: usize,
/// #     extension_start: *const c_void,
/// # }
/// # fn execute(_args: &mut ExecuteArgs) {}
/// let platform = zprof::Platform::host(); // the one whose plugin is called
///
/// let link = zprof::Linkage::execute(&platform);
/// let mut args = ExecuteArgs { struct_size: size_of::<ExecuteArgs>(), extension_start: link.as_ptr() };
/// execute(&mut args); // PJRT_LoadedExecutable_Execute
/// drop(link);
/// # assert!(args.extension_start.is_null(), "the host has no plugin");
/// ```
#[must_use = "the call has the link only while this lives"]
pub struct Linkage {
    node: Option<CallNode>,
}

impl Linkage {
    /// For a call of `PJRT_LoadedExecutable_Execute` of the platform's plugin.
    pub fn execute(platform: &Platform) -> Self {
        Self::new(platform, Execute)
    }

    /// For a call of `PJRT_Client_Compile` of the platform's plugin.
    pub fn compile(platform: &Platform) -> Self {
        Self::new(platform, Compile)
    }

    fn new<S: Callsite>(platform: &Platform, site: S) -> Self {
        // Tools are no concern of this scope: it ties a session's events.
        let word = word().bare();
        let Some(plugin) = platform.plugin().filter(|_| hears::<S>(word)) else { return Self { node: None } };
        let node = plugin.call_node(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        if let Some(node) = &node {
            drop(open_at(site, word, (LIBRARY_CALL.raw(), node.context().raw())));
        }
        Self { node }
    }

    /// A chain of one `PJRT_Profiler_Extension`, or null where nothing is linked. It stays where it is, unchanged, for as
    /// long as this value lives, also while that is moved.
    #[must_use]
    pub fn as_ptr(&self) -> *const c_void {
        self.node.as_ref().map_or(null(), CallNode::as_ptr)
    }

    /// Id of the call, one of its own in the process: the stat `_p` of the recorded scope, and `_c` of the plugin's event.
    #[must_use]
    pub fn id(&self) -> Option<i64> {
        self.node.as_ref().map(CallNode::context)
    }
}

impl fmt::Debug for Linkage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linkage").field("id", &self.id()).finish()
    }
}

macro_rules! sites {
    ($($site:ident $name:literal;)*) => {$(
        struct $site;

        impl Callsite for $site {
            const LEVEL: Level = Level::Critical;
            const FILTER: u64 = NO_FILTER;

            fn site() -> &'static Site {
                static SITE: Site = Site {
                    name: $name,
                    label: concat!($name, "#_pt=\0"),
                    given: 0,
                    keys: &["_pt", "_p"],
                    level: $site::LEVEL,
                    filter: $site::FILTER,
                    module_path: module_path!(),
                    file: file!(),
                    line: line!(),
                    memo: Memo::new(),
                };
                &SITE
            }
        }
    )*};
}

sites! {
    Execute "PJRT_LoadedExecutable_Execute linkage";
    Compile "PJRT_Client_Compile linkage";
}
