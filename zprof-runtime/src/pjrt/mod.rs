//! Accelerators' PJRT plugins: found, loaded, asked for their profile of a session.
//!
//! Reading order: the foreign layouts, tables and calls made safe, plugins, their sessions, the thread a session has,
//! where plugins are found, and what a program hangs into its own calls.

#[allow(unsafe_code)] // types of foreign functions
mod abi;
mod call;
mod capture;
mod find;
#[allow(unsafe_code)] // takes a caller's word for a pointer
mod plugin;
mod session;
#[allow(unsafe_code)] // reads foreign tables and calls what is in them
mod table;

pub(crate) use call::CallNode;
pub(crate) use capture::{Capture, Finished};
pub(crate) use find::candidates;
pub use plugin::Plugin;
pub use session::PluginSession;
