//! Every shape of function that a program may write, traced: what it returns, its type and its effects stay.
//!
//! The file is a module of the suite (edition 2024) and the root of a test of its own (edition 2021). It stays clean
//! under clippy's strictest groups, so a lint that an expansion trips fails the check.

#![warn(clippy::pedantic, clippy::nursery)]
#![allow(clippy::unused_async, clippy::manual_async_fn, reason = "the shapes are what users write, with little inside")]
#![allow(clippy::redundant_pub_crate, reason = "the opposite of rustc's `unreachable_pub`, which the workspace keeps")]

mod arguments;
mod blocks;
mod bodies;
mod futures;
mod generics;
mod markers;
mod methods;
mod outcomes;
mod returns;
