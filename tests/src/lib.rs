//! Helpers of the test suite.

pub mod canonical;
pub mod make;
pub mod oracle;
pub mod profile;

pub use canonical::{Canonical, canonical};
