//! Helpers of the test suite.

pub mod canonical;
pub mod make;
pub mod oracle;

pub use canonical::{Canonical, canonical};
