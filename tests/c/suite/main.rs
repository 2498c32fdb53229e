//! The C API: its header, programs in C and C++, and a program that is half Rust: this one.

mod build;
mod documents;
mod half;
mod header;
mod install;
#[allow(unsafe_code)] // loads libraries and calls what is in them
mod loaded;
mod programs;
mod tools;
mod viewers;
