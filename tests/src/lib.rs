//! Helpers of the test suite.

pub mod annotations;
pub mod canonical;
#[allow(unsafe_code)] // calls functions of the fake
pub mod fake;
pub mod make;
pub mod marks;
pub mod oracle;
pub mod profile;
#[allow(unsafe_code)] // is an allocator
pub mod starved;
pub mod viewers;

pub use canonical::{Canonical, canonical};
