//! Every shape of function that a program may write, traced: what it returns, its type and its effects stay.
//!
//! The file is a module of the suite (edition 2024) and the root of a test of its own (edition 2021). It stays clean
//! under clippy's strictest groups, so a lint that an expansion trips fails the check.

#![warn(clippy::pedantic, clippy::nursery)]
#![allow(dead_code, clippy::similar_names, reason = "shapes need not be used up, only to compile")]

mod arguments;
mod bodies;
mod generics;
mod markers;
mod methods;
mod returns;
