//! The committed code of the messages is what the `.proto` files make today.

use std::fs;
use std::path::Path;

const FILES: [&str; 2] = ["tensorflow.profiler.rs", "tensorflow.rs"];

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("src/generated");
    let fresh = tempfile::tempdir().expect("a temporary folder");

    let sources = ["xplane.proto", "profiler_options.proto"].map(|name| root.join("proto").join(name));
    let descriptors = protox::compile(&sources, [root.join("proto")]).expect("the .proto files are valid");
    prost_build::Config::new()
        .out_dir(fresh.path())
        .btree_map(["."])
        .compile_fds(descriptors)
        .expect("code for the .proto files");

    for file in FILES {
        let new = fs::read_to_string(fresh.path().join(file)).expect("a generated file");
        #[expect(
            clippy::disallowed_methods,
            reason = "this crate knows nothing of the runtime, and a test has no raised privileges"
        )]
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(committed.join(file), &new).expect("the committed file is writable");
        }
        let old = fs::read_to_string(committed.join(file)).unwrap_or_default();
        assert!(
            old == new,
            "proto/src/generated/{file} is not what the .proto files make; run \
             UPDATE_GENERATED=1 cargo test -p zprof-proto --test current"
        );
    }
    let made = fs::read_dir(fresh.path()).expect("a readable folder").count();
    assert_eq!(made, FILES.len(), "a package without a committed file: add it to FILES and to src/lib.rs");
}
