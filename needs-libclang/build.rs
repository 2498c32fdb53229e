//! Looks for libclang the way that the build of nvtx-sys does, a little earlier.

use std::process::exit;

fn main() {
    for variable in ["LIBCLANG_PATH", "LLVM_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if let Err(reason) = clang_sys::load() {
        eprintln!(
            "the feature `nvtx` of zprof makes its bindings with libclang, which was not found\n\
             \n\
             Debian, Ubuntu:  apt install libclang-dev gcc\n\
             Fedora:          dnf install clang-devel gcc\n\
             macOS:           xcode-select --install\n\
             elsewhere:       install LLVM, or set LIBCLANG_PATH to the folder of its libclang\n\
             \n\
             Without Nsight Systems the feature is of no use: switch it off. The search said: {reason}"
        );
        exit(1);
    }
}
