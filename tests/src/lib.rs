//! Helpers of the test suite.

pub mod annotations;
pub mod canonical;
#[allow(unsafe_code)] // calls functions of the fake
pub mod fake;
#[cfg(unix)]
pub mod interrupted;
pub mod make;
pub mod marks;
pub mod oracle;
pub mod profile;
pub mod viewers;

pub use canonical::{Canonical, canonical};
