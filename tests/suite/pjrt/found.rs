//! `Platform::auto`, in processes of its own: what the environment names, what lies in a wheel, and what is passed over.

use std::path::Path;
use std::process::Command;

use super::{Platform, library};

/// Set in the process that `auto` runs in.
const CHILD: &str = "ZPROF_TEST_AUTO";

/// Says what `auto` finds, where this test is its own child.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        let platform = Platform::auto().expect("it never fails");
        println!("\nfound: {} | {}", platform.name(), platform.describe());
    }
}

/// What `auto` finds in an environment of these variables alone.
pub(super) fn auto(variables: &[(&str, &Path)]) -> String {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut child = Command::new(program);
    child.args(["--exact", "pjrt::found::child", "--nocapture"]);
    for name in
        ["PJRT_PLUGIN_LIBRARY_PATH", "PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH", "PYTHONPATH", "CONDA_PREFIX"]
    {
        child.env_remove(name);
    }
    // Beside the tests lies the fake, and cargo has put that folder here.
    child.env_remove("LD_LIBRARY_PATH").env("HOME", "/nonexistent").env("VIRTUAL_ENV", "/nonexistent");
    child.env(CHILD, "1").env("ZPROF_FAKE", "").envs(variables.iter().copied());
    let output = child.output().expect("the program that runs can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().find_map(|line| line.strip_prefix("found: ")).expect("the child says what it found").to_owned()
}

fn named(name: &str, at: &Path, reason: &str) -> String {
    format!("{name} | PJRT plugin `{name}` at `{}`, PJRT 0.116, can profile; {reason}", at.display())
}

#[test]
fn what_the_environment_names_is_taken() {
    let fake = library();
    assert_eq!(
        auto(&[("PJRT_PLUGIN_LIBRARY_PATH", &fake)]),
        named("libzprof_fake_plugin", &fake, "found by `PJRT_PLUGIN_LIBRARY_PATH`")
    );
    let pairs = format!("broken,ours:{}", fake.display());
    assert_eq!(
        auto(&[("PJRT_NAMES_AND_LIBRARY_PATHS", Path::new(&pairs))]),
        named("ours", &fake, "found by `PJRT_NAMES_AND_LIBRARY_PATHS`")
    );
    assert_eq!(
        auto(&[("TPU_LIBRARY_PATH", &fake), ("ZPROF_FAKE", Path::new("no-profiler"))]),
        format!(
            "libzprof_fake_plugin | PJRT plugin `libzprof_fake_plugin` at `{}`, PJRT 0.116, cannot profile: the plugin \
             has no profiler extension; found by `TPU_LIBRARY_PATH`",
            fake.display()
        )
    );
}

#[test]
fn what_cannot_be_loaded_is_passed_over_and_told() {
    let fake = library();
    let found = auto(&[("PJRT_PLUGIN_LIBRARY_PATH", Path::new("/missing.so")), ("TPU_LIBRARY_PATH", &fake)]);
    let start = named(
        "libzprof_fake_plugin",
        &fake,
        "found by `TPU_LIBRARY_PATH` (not used: failed to load PJRT plugin `/missing.so`: /missing.so: ",
    );
    assert!(found.starts_with(&start), "{found}");
}

#[test]
fn a_wheel_is_found_without_python() {
    let venv = tempfile::tempdir().expect("a temporary folder");
    let package = venv.path().join("lib/python3.12/site-packages/jax_plugins/xla_fake");
    std::fs::create_dir_all(&package).expect("the folder is ours");
    let plugin = package.join("xla_fake_plugin.so");
    std::fs::copy(library(), &plugin).expect("the folder is ours");
    let found = auto(&[("VIRTUAL_ENV", venv.path())]);
    // Other plugins that this machine may have come later: the fake's device is unknown.
    let start = named("xla_fake_plugin", &plugin, "found in a Python package");
    assert!(found.starts_with(&start), "{found}");
}
