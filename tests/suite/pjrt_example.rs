//! The `pjrt` example runs on the real CPU plugin of PyPI, gets right numbers from it, and shows in its profile what it did.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zprof_tests::profile::{self, Line, Stat, stats};

const STEPS: usize = 24;
/// Bytes of the weights and biases, in the order of the program's arguments.
const WEIGHTS: [usize; 6] = [256 * 512 * 4, 512 * 4, 512 * 512 * 4, 512 * 4, 512 * 128 * 4, 128 * 4];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}

/// The library of `xla-cpu-pjrt`.
fn plugin() -> PathBuf {
    let named = env::var_os("ZPROF_PJRT_CPU").map(PathBuf::from);
    let path = named.unwrap_or_else(|| {
        let home = || PathBuf::from(env::var_os("HOME").expect("there is a home")).join(".cache");
        let cache = env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
        cache.join("zprof-tools/pjrt/cpu/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so")
    });
    assert!(path.exists(), "no plugin `{}`; it comes with `scripts/get-pjrt-plugins cpu`", path.display());
    path
}

/// Runs the example with the plugin, if one is given; `found` is the one that the environment names.
fn example(plugin: Option<&Path>, found: &Path, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.env("PJRT_PLUGIN_LIBRARY_PATH", found);
    command.args(["run", "--quiet", "--release", "-p", "zprof-examples", "--example", "pjrt", "--"]);
    command.args(plugin).args(["--steps", &STEPS.to_string(), "--output"]).arg(folder).current_dir(root());
    command.output().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"))
}

#[test]
fn the_example_runs_on_the_cpu_plugin() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plugin = plugin();
    let output = example(Some(&plugin), Path::new("/absent"), folder.path());
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the example ended with {}\n{stdout}\n{stderr}", output.status);

    let run = folder.path().join("plugins/profile/profiling");
    let protobuf = run.join("profiling.xplane.pb");
    says_what_it_did(&stdout, &plugin, &[&protobuf, &run.join("profiling.trace.json")]);

    let (lines, _, _) = profile::read_file(&protobuf);
    assert_eq!(lines.len(), 1, "only the main thread has scopes: {lines:?}");
    nests_what_it_did(&lines[0]);
    tells_sizes_and_steps(&lines[0]);
}

fn says_what_it_did(stdout: &str, plugin: &Path, files: &[&Path; 2]) {
    let lines: Vec<&str> = stdout.lines().collect();
    let [library, platform, mean, largest, protobuf, json] = lines[..] else { panic!("not six lines: {stdout}") };
    assert_eq!(library, format!("{} has PJRT 0.81", plugin.display()));
    assert_eq!(platform, "its platform is cpu");
    assert!(mean.starts_with(&format!("{STEPS} steps of ")), "{mean}");
    let largest = largest.strip_prefix("largest difference from the plain computation: ");
    let largest: f64 = largest.and_then(|number| number.parse().ok()).expect("a difference");
    // Sums are taken in another order, so the numbers are not all the same: zero would say that nothing was compared.
    assert!(largest > 0.0 && largest < 1e-4, "the results are off by {largest}");
    assert_eq!([protobuf, json].map(Path::new), *files);
}

fn nests_what_it_did(line: &Line) {
    let step = " pjrt.step(pjrt.upload pjrt.execute pjrt.await pjrt.download pjrt.check)";
    let uploads = ["pjrt.upload"; WEIGHTS.len()].join(" ");
    let before = format!("pjrt.client pjrt.compile pjrt.load({uploads}) pjrt.reference");
    assert_eq!(line.tree(), format!("pjrt.execute_all({before}{})", step.repeat(STEPS)));
}

fn tells_sizes_and_steps(line: &Line) {
    let told = |name: &str| {
        let events = line.events.iter().filter(|event| event.name == name);
        events.map(|event| event.stats.clone()).collect::<Vec<_>>()
    };
    let int = |value: usize| Stat::Int(i64::try_from(value).expect("sizes fit"));

    let steps = (0..STEPS).map(|step| stats([("step_num", int(step)), ("_r", Stat::Int(1))]));
    assert_eq!(told("pjrt.step"), steps.collect::<Vec<_>>());
    let sizes = WEIGHTS.into_iter().chain([64 * 256 * 4; STEPS]).map(|bytes| stats([("bytes", int(bytes))]));
    assert_eq!(told("pjrt.upload"), sizes.collect::<Vec<_>>());
    assert_eq!(told("pjrt.download"), vec![stats([("bytes", int(64 * 128 * 4))]); STEPS]);
    let program = fs::metadata(root().join("examples/data/mlp.mlir")).expect("the program is in the repository").len();
    assert_eq!(told("pjrt.compile"), [stats([("bytes", int(usize::try_from(program).expect("it fits")))])]);
}

#[test]
fn the_example_finds_the_plugin_that_the_environment_names() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plugin = plugin();
    let output = example(None, &plugin, folder.path());
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the example ended with {}\n{stdout}\n{stderr}", output.status);
    assert_eq!(stdout.lines().next(), Some(format!("{} has PJRT 0.81", plugin.display()).as_str()));
}

#[test]
fn the_example_refuses_what_is_no_plugin() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (plugin, named) in [(folder.path().join("absent.so"), "absent.so"), (root().join("README.md"), "README.md")] {
        let output = example(Some(&plugin), &plugin, folder.path());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said = stderr.lines().next().unwrap_or_default();
        assert!(said.starts_with("pjrt: ") && said.contains(named), "with {plugin:?} the example says: {stderr}");
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(1), ""));
    }
    assert!(!folder.path().join("plugins").exists(), "a profile was begun");
}
