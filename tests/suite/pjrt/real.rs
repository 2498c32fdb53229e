//! The real plugins of PyPI, which `scripts/get-pjrt-plugins` fetches, each in a process of its own: they are large, and
//! start threads and handlers of signals that no other test should have.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::found::auto;
use super::{LONG, Platform, capture, plugin, space, told};
use zprof::ProfilerOptions;
use zprof_tests::profile::read_hosts;

/// Set in the process that loads a plugin: its library.
const CHILD: &str = "ZPROF_TEST_PLUGIN";
/// The same for whole sessions.
const SESSION_CHILD: &str = "ZPROF_TEST_SESSION_PLUGIN";

/// Options of version 1, with host, device and Python tracers at level 3, 3 and 1; then the same with HLO.
const OPTIONS: [&[u8]; 2] =
    [b"\x08\x01\x10\x03\x18\x03\x20\x01\x28\x01", b"\x08\x01\x10\x03\x18\x03\x20\x01\x28\x01\x38\x01"];

/// Loads a plugin, profiles with it and says what became of it, where this test is its own child.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let platform = Platform::load(path).expect("a real plugin can be loaded");
    println!("\nversion: {:?}", platform.api_version());
    println!("extensions: {}", platform.extensions().join(", "));
    println!("profiler: {}", platform.has_profiler());
    for options in OPTIONS {
        match capture(plugin(&platform).expect("it was loaded"), options, LONG, || ()) {
            Err(error) => println!("start: {:?}", told::<()>(Err(error))),
            Ok((stopped, collected)) => {
                let bytes = collected.expect("it collects");
                let space = space(&bytes);
                let planes: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
                println!("stop: {}", stopped.is_ok());
                println!("collected: {} bytes, the last {:?}, planes {planes:?}", bytes.len(), bytes.last());
            }
        }
    }
}

/// Whole sessions with a plugin, where this test is its own child: with a warning for what fails, and with an error.
#[test]
fn session_child() {
    let Some(path) = std::env::var_os(SESSION_CHILD) else { return };
    let platform = Platform::load(path).expect("a real plugin can be loaded");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for raise in [false, true] {
        let options = ProfilerOptions::default().repository_path(folder.path()).raise_error_on_start_failure(raise);
        let mut profiler = platform.profiler(options).expect("good options");
        if let Err(error) = profiler.start() {
            println!("\nraise {raise}: {:?}: {error}", error.kind());
            continue;
        }
        zprof::scope!("scope", { assert!(profiler.is_running()) });
        let profile = profiler.stop().expect("the files can be written").expect("it was running");
        let (lines, warnings, _) = read_hosts(&profile.protobuf_path);
        assert_eq!(warnings, profile.warnings);
        println!("\nraise {raise}: {} scopes on {} lines, {:?}", profile.scopes, lines.len(), profile.warnings);
    }
}

/// The library of a real plugin, fetched if need be.
fn fetched(kind: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/get-pjrt-plugins");
    let output = Command::new(script).arg(kind).output().expect("the script can be run");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(line.trim().strip_prefix(&format!("{kind} ")).expect("a line `KIND PATH`"))
}

/// What the child says of a plugin.
fn said(kind: &str) -> Vec<String> {
    let words = ["version", "extensions", "profiler", "start", "stop", "collected"];
    let text = child_output("pjrt::real::child", CHILD, kind, "");
    let lines = text.lines().filter(|line| words.iter().any(|word| line.split(':').next() == Some(word)));
    lines.map(str::to_owned).collect()
}

/// What whole sessions with a plugin come to, with `SKIP_PJRT_PROFILER` as given.
fn sessions(kind: &str, skip: &str) -> Vec<String> {
    let text = child_output("pjrt::real::session_child", SESSION_CHILD, kind, skip);
    text.lines().filter(|line| line.starts_with("raise ")).map(str::to_owned).collect()
}

/// Runs a test of this file in a process of its own.
fn child_output(test: &str, variable: &str, kind: &str, skip: &str) -> String {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut child = Command::new(program);
    child.args(["--exact", test, "--nocapture"]).env(variable, fetched(kind)).env("SKIP_PJRT_PROFILER", skip);
    let output = child.output().expect("the program that runs can be run");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} {text}{errors}", output.status);
    text.into_owned()
}

#[test]
fn the_cpu_plugin_has_no_profiler() {
    let said = said("cpu");
    let refused = "start: (Unsupported, \"PJRT plugin `xla_cpu_pjrt` cannot profile: the plugin has no profiler extension; \
                   the host alone can be profiled\", None)";
    let expected = [
        "version: Some((0, 81))",
        "extensions: phase compile, ffi, memory descriptions, layouts",
        "profiler: false",
        refused,
        refused,
    ];
    assert_eq!(said, expected);
}

#[test]
fn the_cuda_plugin_profiles_nothing_without_a_gpu() {
    let said = said("cuda");
    let [version, extensions, rest @ ..] = said.as_slice() else { panic!("{said:?}") };
    assert!(version.starts_with("version: Some((0, "), "{version}");
    assert!(extensions.split([':', ',']).any(|name| name.trim() == "profiler"), "{extensions}");
    if Path::new("/dev/nvidiactl").exists() {
        // What a GPU gives depends on its driver.
        assert_eq!([rest[0].as_str(), rest[1].as_str()], ["profiler: true", "stop: true"]);
        return;
    }
    let expected = [
        "profiler: true",
        "stop: true",
        "collected: 1 bytes, the last Some(0), planes []",
        "stop: true",
        "collected: 19 bytes, the last Some(0), planes [\"/host:metadata\"]",
    ];
    assert_eq!(rest, expected, "and the last byte is stray both times");
}

#[test]
fn the_tpu_plugin_refuses_to_start_without_a_tpu() {
    let said = said("tpu");
    if ["/dev/accel0", "/dev/vfio/0"].iter().any(|node| Path::new(node).exists()) {
        assert_eq!(said[2..4], ["profiler: true", "stop: true"]);
        return;
    }
    let [version, extensions, profiler, start, again] = said.as_slice() else { panic!("{said:?}") };
    assert!(version.starts_with("version: Some((0, "), "{version}");
    assert!(extensions.split([':', ',']).any(|name| name.trim() == "profiler"), "{extensions}");
    assert_eq!(profiler, "profiler: true");
    let refused =
        "start: (Plugin, \"failed to start the profiler of PJRT plugin `libtpu`\", Some(\"UNIMPLEMENTED (12): ";
    assert!(start.starts_with(refused), "{start}");
    assert_eq!(start, again);
}

#[test]
fn real_wheels_are_found_and_the_one_that_can_profile_is_taken() {
    let plugins = ["cpu", "cuda"].map(fetched);
    // Below the folder that holds `xla_plugins` or `jax_plugins`, as a site-packages would.
    let sites = plugins.iter().map(|path| path.ancestors().nth(3).expect("three folders up"));
    let sites = std::env::join_paths(sites).expect("no colons");
    let found = auto(&[("PYTHONPATH", Path::new(&sites))]);
    assert!(found.starts_with("xla_cuda_plugin | PJRT plugin `xla_cuda_plugin` at "), "{found}");
    assert!(found.contains(", can profile; found in a Python package"), "{found}");
}

#[test]
fn each_real_outcome_ends_in_a_host_profile_that_says_why() {
    const HOST: &str = "1 scopes on 1 lines";
    const CPU: &str = "PJRT plugin `xla_cpu_pjrt` cannot profile: the plugin has no profiler extension";
    let expected = [
        format!("raise false: {HOST}, [\"only the host is profiled: {CPU}\"]"),
        format!("raise true: Unsupported: {CPU}"),
    ];
    assert_eq!(sessions("cpu", ""), expected);

    if !Path::new("/dev/nvidiactl").exists() {
        let empty = "PJRT plugin `xla_cuda_plugin` has returned an empty profile";
        let expected = [false, true].map(|raise| format!("raise {raise}: {HOST}, [\"{empty}\"]"));
        assert_eq!(sessions("cuda", ""), expected, "an empty profile is no failure to start");
        let expected = [false, true].map(|raise| format!("raise {raise}: {HOST}, []"));
        assert_eq!(sessions("cuda", "true"), expected, "left alone as the environment asks");
    }
    if !["/dev/accel0", "/dev/vfio/0"].iter().any(|node| Path::new(node).exists()) {
        let said = sessions("tpu", "");
        let [warned, raised] = said.as_slice() else { panic!("{said:?}") };
        let why = "failed to start the profiler of PJRT plugin `libtpu`";
        let start = format!("raise false: {HOST}, [\"only the host is profiled: {why}: UNIMPLEMENTED (12): ");
        assert!(warned.starts_with(&start), "{warned}");
        assert_eq!(*raised, format!("raise true: Plugin: {why}"));
    }
}
