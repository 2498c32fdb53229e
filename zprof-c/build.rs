//! Gives the shared library the name under which programs look for it once it is installed.

use std::env;

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script what it builds by variables")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // Before 1.0 a minor version may break programs, so it is part of the name.
    let version = format!("{}.{}", variable("CARGO_PKG_VERSION_MAJOR"), variable("CARGO_PKG_VERSION_MINOR"));
    match variable("CARGO_CFG_TARGET_OS").as_str() {
        "macos" | "ios" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libzprof.{version}.dylib");
        }
        "windows" => {}
        // Threads end long after their scopes, so a library that was loaded stays.
        _ => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libzprof.so.{version},-z,nodelete"),
    }
}
