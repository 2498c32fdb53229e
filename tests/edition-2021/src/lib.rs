//! Nothing but test targets: they expand what the suite expands, as crates of edition 2021.
