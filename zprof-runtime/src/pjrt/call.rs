//! The extension that a program hangs into its call of a plugin, so that the plugin's recorder names the caller.

use std::ffi::c_void;
use std::ptr::null;
use std::rc::Rc;

use super::Plugin;
use super::abi::{Extension, KIND_PROFILER, MINOR_SIZED_EXTENSIONS, ProfilerExtension};

/// A chain of one extension: the profiler's, without its table and with the caller's context.
///
/// It lies on the heap and stays there, so that whoever owns this may move it while a call reads the chain.
pub(crate) struct CallNode(Rc<ProfilerExtension>);

impl Plugin {
    /// The extension for a call of this plugin; none where the plugin has no recorder, or knows extensions in a layout
    /// without sizes.
    pub(crate) fn call_node(&self, context: i64) -> Option<CallNode> {
        let takes_it = self.lacks_profiler().is_none() && self.api_version().1 >= MINOR_SIZED_EXTENSIONS;
        takes_it.then(|| CallNode::new(context))
    }
}

impl CallNode {
    fn new(context: i64) -> Self {
        let base = Extension { struct_size: size_of::<ProfilerExtension>(), kind: KIND_PROFILER, next: null() };
        Self(Rc::new(ProfilerExtension { base, profiler_api: null(), traceme_context_id: context }))
    }

    /// The start of the chain.
    pub(crate) fn as_ptr(&self) -> *const c_void {
        Rc::as_ptr(&self.0).cast()
    }

    /// The caller's context.
    pub(crate) fn context(&self) -> i64 {
        self.0.traceme_context_id
    }
}

// The numbers are those of 64-bit systems, for which alone there are plugins.
#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_that_of_the_header_and_stays_where_it_is() {
        let node = CallNode::new(77);
        let ProfilerExtension { base, profiler_api, traceme_context_id } = &*node.0;
        let Extension { struct_size, kind, next } = base;
        assert_eq!((*struct_size, *kind, *next), (40, 1, null()));
        assert_eq!((*profiler_api, *traceme_context_id, node.context()), (null(), 77, 77));
        let at = node.as_ptr();
        let moved = [Some(node)];
        assert_eq!(moved[0].as_ref().map(CallNode::as_ptr), Some(at));
    }
}
