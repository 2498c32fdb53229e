//! The C API: its header, programs in C and C++, and a program that is half Rust: this one.

mod build;
mod half;
mod header;
mod programs;
mod tools;
