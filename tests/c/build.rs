//! Compiles the C part of the program that is half Rust, and lets that export the C API.

fn main() {
    println!("cargo::rerun-if-changed=programs/half.c");
    println!("cargo::rerun-if-changed=../../zprof-c/include/zprof.h");
    // What the tests load finds the C API in them.
    println!("cargo::rustc-link-arg-tests=-rdynamic");
    cc::Build::new()
        .file("programs/half.c")
        .include("../../zprof-c/include")
        .std("c99")
        .define("_POSIX_C_SOURCE", "200809L")
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("half");
}
