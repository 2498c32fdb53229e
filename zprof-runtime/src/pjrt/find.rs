//! Where plugins are found: named by the environment, loaded already, in the usual folders, in Python wheels.
//!
//! The order, in which the first that can profile is taken; of those that the environment names, the first that loads:
//!
//! 1. `PJRT_PLUGIN_LIBRARY_PATH`: a library, or a folder of them, or a list of either.
//! 2. `PJRT_NAMES_AND_LIBRARY_PATHS`: `name:path,name:path`.
//! 3. `TPU_LIBRARY_PATH`: a library.
//! 4. What the process has loaded already.
//! 5. Folders of libraries: `LD_LIBRARY_PATH`, `~/.local/lib/go-xla`, `/usr/local/lib`, `/usr/lib` and what is usual there.
//! 6. Packages of Python below `PYTHONPATH`, `VIRTUAL_ENV`, `CONDA_PREFIX`, `~/.local`, `/opt/venv`, `/usr/local` and `/usr`:
//!    `jax_plugins`, `xla_plugins`, `libtpu`, `libneuronxla`, `pjrt_plugin_*`.
//!
//! In a process with raised privileges (see `environment`), variables are not read, and a library is tried only if root owns
//! it with every folder above it and nobody else may write to them: loading it runs its code with these privileges.
//!
//! Within the last two, plugins whose device this machine has come first, then those of unknown devices, then those
//! whose device it has not, then those for the processor. Nothing is run to find out.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::plugin::Plugin;
use crate::environment;
use crate::os::HAS_SESSIONS;

const LIBRARY: &str = "PJRT_PLUGIN_LIBRARY_PATH";
const NAMED: &str = "PJRT_NAMES_AND_LIBRARY_PATHS";
const TPU: &str = "TPU_LIBRARY_PATH";

/// Folders of libraries, besides those of the environment.
const FOLDERS: [&str; 7] = [
    "/usr/local/lib/go-xla",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/opt/aws/neuron/lib",
];

/// Folders that Python may be installed below, besides those of the environment.
const PREFIXES: [&str; 4] = ["/opt/venv", "/opt/conda", "/usr/local", "/usr"];

/// Words in the names of plugins, and what a machine with their device has.
const DEVICES: [(&str, &[&str]); 8] = [
    ("cuda", &["/dev/nvidiactl", "/dev/dxg"]),
    ("rocm", &["/dev/kfd"]),
    ("gpu", &["/dev/nvidiactl", "/dev/dxg", "/dev/kfd"]),
    ("tpu", &["/dev/accel0", "/dev/vfio/0"]),
    ("xpu", &["/dev/dri/renderD128"]),
    ("neuron", &["/dev/neuron0"]),
    ("_tt", &["/dev/tenstorrent"]),
    ("cpu", &[]),
];

/// What is asked about the machine; tests have their own.
trait Machine {
    fn variable(&self, name: &str) -> Option<OsString>;
    /// Libraries that the process has loaded.
    fn loaded(&self) -> Vec<PathBuf>;
    /// A path of the machine, where it is to be read.
    fn at(&self, path: &str) -> PathBuf;
    /// Whether this process runs with raised privileges.
    fn is_privileged(&self) -> bool;
    /// Whether root alone can replace the file at this canonical path.
    fn is_of_system(&self, path: &Path) -> bool;
}

struct This;

impl Machine for This {
    fn variable(&self, name: &str) -> Option<OsString> {
        environment::variable(name)
    }

    fn loaded(&self) -> Vec<PathBuf> {
        // Linux alone has this file; elsewhere nothing is found so.
        let maps = fs::read("/proc/self/maps").unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in maps.lines().filter_map(|line| line.find('/').map(|start| PathBuf::from(&line[start..]))) {
            if paths.last() != Some(&path) {
                paths.push(path);
            }
        }
        paths
    }

    fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(path)
    }

    fn is_privileged(&self) -> bool {
        environment::is_privileged()
    }

    fn is_of_system(&self, path: &Path) -> bool {
        environment::is_of_system(path)
    }
}

/// A library that may be a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    name: Option<String>,
    path: PathBuf,
}

/// A place to look into.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    /// What is named after "found", in words.
    place: String,
    /// Whether a person named these: then the first that loads is meant, whatever it can do.
    named: bool,
    candidates: Vec<Candidate>,
}

/// The plugin of this process and where it was found, or why there is none; see the top of this file.
pub(super) fn find() -> (Option<Plugin>, String) {
    let steps = steps(&This);
    let mut misses: Vec<String> = Vec::new();
    let mut second: Option<(Plugin, String)> = None;
    for Step { place, named, candidates } in steps {
        for Candidate { name, path } in candidates {
            let plugin = match name {
                Some(name) => Plugin::load_as(&path, name),
                None => Plugin::load(&path),
            };
            match plugin {
                Ok(plugin) if named || plugin.lacks_profiler().is_none() => {
                    return (Some(plugin), format!("found {place}{}", told(&misses)));
                }
                Ok(plugin) => {
                    let why = plugin.lacks_profiler().unwrap_or_default();
                    misses.push(format!("`{}`: {why}", path.display()));
                    second.get_or_insert((plugin, place.clone()));
                }
                Err(error) => {
                    if named {
                        log::warn!("{}; it was named {place}", error.told());
                    }
                    misses.push(error.told());
                }
            }
        }
    }
    match second {
        Some((plugin, place)) => (Some(plugin), format!("found {place}, and none that can profile{}", told(&misses))),
        None if environment::is_privileged() => {
            let why = "this program runs with raised privileges, so the environment is not read and only libraries that \
                       root alone can replace are tried";
            (None, format!("no PJRT plugin found; {why}{}", told(&misses)))
        }
        None => (None, format!("no PJRT plugin found; `{LIBRARY}` names one{}", told(&misses))),
    }
}

/// What [`find`] would try, in its order: the library, the place, and whether the environment names it.
pub(crate) fn candidates() -> Vec<(PathBuf, String, bool)> {
    let steps = steps(&This).into_iter();
    let candidates = steps.flat_map(|Step { place, named, candidates }| {
        candidates.into_iter().map(move |candidate| (candidate.path, place.clone(), named))
    });
    candidates.collect()
}

fn told(misses: &[String]) -> String {
    if misses.is_empty() { String::new() } else { format!(" (not used: {})", misses.join("; ")) }
}

/// All places with their candidates, in order.
fn steps(machine: &impl Machine) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut step = |place: &str, named: bool, candidates: Vec<Candidate>| {
        let mut fresh = Vec::new();
        for candidate in candidates {
            let path = fs::canonicalize(&candidate.path).unwrap_or_else(|_| candidate.path.clone());
            if seen.contains(&path) || machine.is_privileged() && !machine.is_of_system(&path) {
                continue;
            }
            // A privileged process loads the very file that was checked, and follows no link that may change meanwhile.
            let load = if machine.is_privileged() { path.clone() } else { candidate.path };
            seen.push(path);
            fresh.push(Candidate { path: load, ..candidate });
        }
        if !fresh.is_empty() {
            steps.push(Step { place: place.to_owned(), named, candidates: fresh });
        }
    };
    step(&format!("by `{LIBRARY}`"), true, machine.variable(LIBRARY).map(|value| listed(&value)).unwrap_or_default());
    step(&format!("by `{NAMED}`"), true, machine.variable(NAMED).map(|value| named(&value)).unwrap_or_default());
    step(&format!("by `{TPU}`"), true, machine.variable(TPU).map(|path| vec![plain(path.into())]).unwrap_or_default());
    let loaded = machine.loaded().into_iter().filter(|path| path.file_name().is_some_and(is_plugin));
    step("in the process", false, loaded.map(plain).collect());
    step("among the system's libraries", false, ranked(machine, libraries(machine)));
    step("in a Python package", false, ranked(machine, packages(machine)));
    steps
}

fn plain(path: PathBuf) -> Candidate {
    Candidate { name: None, path }
}

/// Libraries named one after another, or by their folder.
fn listed(value: &OsStr) -> Vec<Candidate> {
    let paths = if Path::new(value).exists() { vec![value.into()] } else { split_paths(value) };
    let mut candidates = Vec::new();
    for path in paths.into_iter().filter(|path: &PathBuf| !path.as_os_str().is_empty()) {
        if path.is_dir() {
            candidates.extend(plugins_in(&path).into_iter().map(plain));
        } else {
            // Also where there is none: the attempt to load it says so.
            candidates.push(plain(path));
        }
    }
    candidates
}

/// `name:path,name:path`.
fn named(value: &OsStr) -> Vec<Candidate> {
    let value = value.to_string_lossy();
    let pairs = value.split(',').filter(|pair| !pair.trim().is_empty());
    let candidates = pairs.filter_map(|pair| match pair.trim().split_once(':') {
        Some((name, path)) if !path.is_empty() => Some(Candidate { name: Some(name.to_owned()), path: path.into() }),
        _ => {
            log::warn!("`{pair}` in `{NAMED}` is not of the form `name:path`");
            None
        }
    });
    candidates.collect()
}

/// Whether a file has the name of a plugin, such as `xla_cuda_plugin.so`, `pjrt_c_api_gpu_plugin.so` or `libtpu.so`.
fn is_plugin(name: &OsStr) -> bool {
    let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(DLL_SUFFIX)) else { return false };
    let stem = stem.strip_prefix(DLL_PREFIX).unwrap_or(stem);
    stem == "tpu" || stem.contains("pjrt") || stem.starts_with("xla_") && stem.ends_with("_plugin")
}

/// Plugins that lie in a folder, by name.
fn plugins_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| is_plugin(&entry.file_name())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Folders that lie in a folder and whose names begin like this, by name.
fn folders_in(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start)).map(|entry| entry.path());
    let mut found: Vec<PathBuf> = named.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// The paths of a list, as `PATH` is one. WebAssembly has no such lists, and the standard library would panic.
fn split_paths(list: &OsStr) -> Vec<PathBuf> {
    if HAS_SESSIONS { env::split_paths(list).collect() } else { Vec::new() }
}

fn libraries(machine: &impl Machine) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    folders.extend(machine.variable("LD_LIBRARY_PATH").iter().flat_map(|list| split_paths(list)));
    folders.extend(machine.variable("HOME").map(|home| Path::new(&home).join(".local/lib/go-xla")));
    folders.extend(FOLDERS.map(|folder| machine.at(folder)));
    folders.retain(|folder| folder.is_absolute());
    folders.iter().flat_map(|folder| plugins_in(folder)).collect()
}

fn packages(machine: &impl Machine) -> Vec<PathBuf> {
    let mut sites: Vec<PathBuf> = Vec::new();
    sites.extend(
        machine.variable("PYTHONPATH").iter().flat_map(|list| split_paths(list)).filter(|path| path.is_absolute()),
    );
    let variables =
        ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONUSERBASE"].map(|name| machine.variable(name).map(PathBuf::from));
    let home = machine.variable("HOME").map(|home| Path::new(&home).join(".local"));
    let usual = PREFIXES.map(|prefix| Some(machine.at(prefix)));
    for prefix in variables.into_iter().chain([home]).chain(usual).flatten().filter(|prefix| prefix.is_absolute()) {
        sites.push(prefix.join("Lib").join("site-packages"));
        for lib in ["lib", "lib64"] {
            for python in folders_in(&prefix.join(lib), "python3") {
                sites.extend(["site-packages", "dist-packages"].map(|folder| python.join(folder)));
            }
        }
    }
    let mut found = Vec::new();
    for site in sites {
        for group in ["jax_plugins", "xla_plugins"] {
            found.extend(folders_in(&site.join(group), "").iter().flat_map(|package| plugins_in(package)));
        }
        let single = ["libtpu", "libneuronxla"].map(|package| site.join(package));
        found.extend(single.iter().chain(&folders_in(&site, "pjrt_plugin_")).flat_map(|package| plugins_in(package)));
    }
    found
}

/// Candidates in the order in which they are likely to be of use here.
fn ranked(machine: &impl Machine, mut paths: Vec<PathBuf>) -> Vec<Candidate> {
    paths.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match DEVICES.iter().find(|(word, _)| name.contains(word)) {
            Some(("cpu", _)) => 3,
            Some((_, nodes)) if nodes.iter().any(|node| machine.at(node).exists()) => 0,
            Some(_) => 2,
            None => 1,
        }
    });
    paths.into_iter().map(plain).collect()
}

// Libraries and paths have the names that they have there.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A machine whose root is a folder.
    struct Fake {
        root: tempfile::TempDir,
        variables: Vec<(&'static str, OsString)>,
        loaded: Vec<PathBuf>,
        is_privileged: bool,
    }

    impl Machine for Fake {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        }

        fn loaded(&self) -> Vec<PathBuf> {
            self.loaded.clone()
        }

        fn at(&self, path: &str) -> PathBuf {
            self.root.path().join(path.trim_start_matches('/'))
        }

        fn is_privileged(&self) -> bool {
            self.is_privileged
        }

        fn is_of_system(&self, path: &Path) -> bool {
            path.starts_with(self.at("/usr/lib"))
        }
    }

    impl Fake {
        fn with(files: &[&str]) -> Self {
            let root = tempfile::tempdir().expect("a temporary folder");
            for file in files {
                let path = root.path().join(file);
                fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
                fs::write(path, "").expect("the folder is ours");
            }
            Self { root, variables: Vec::new(), loaded: Vec::new(), is_privileged: false }
        }

        fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
            self.variables.push((name, value.into()));
        }

        /// Places and what was found there, a line each, with the root left out.
        fn found(&self) -> Vec<String> {
            let root = format!("{}/", self.root.path().display());
            let lines = steps(self).into_iter().map(|step| {
                let paths = step.candidates.iter().map(|candidate| {
                    let path = candidate.path.display().to_string().replace(&root, "");
                    candidate.name.as_ref().map_or_else(|| path.clone(), |name| format!("{name}={path}"))
                });
                format!(
                    "{} ({}): {}",
                    step.place,
                    if step.named { "named" } else { "found" },
                    paths.collect::<Vec<_>>().join(" ")
                )
            });
            lines.collect()
        }
    }

    #[test]
    fn nothing_is_found_on_a_bare_machine() {
        assert_eq!(Fake::with(&[]).found(), Vec::<String>::new());
        assert_eq!(
            Fake::with(&["usr/lib/libc.so", "usr/lib/libpjrt.txt", "usr/lib/libxla_thing.so"]).found(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_environment_comes_first_and_names_what_is_not_there() {
        let mut machine = Fake::with(&["some/b_pjrt.so", "some/a_pjrt.so", "some/notes.so", "usr/lib/libtpu.so"]);
        let folder = machine.at("/some");
        let list = env::join_paths([Path::new("/missing.so"), folder.as_path()]).expect("no colons");
        machine.set(LIBRARY, list);
        machine.set(NAMED, "cuda:/c.so, tpu:/t.so,,broken,empty:");
        machine.set(TPU, machine.at("/usr/lib/libtpu.so"));
        assert_eq!(
            machine.found(),
            [
                "by `PJRT_PLUGIN_LIBRARY_PATH` (named): /missing.so some/a_pjrt.so some/b_pjrt.so",
                "by `PJRT_NAMES_AND_LIBRARY_PATHS` (named): cuda=/c.so tpu=/t.so",
                "by `TPU_LIBRARY_PATH` (named): usr/lib/libtpu.so",
            ],
            "and what was named is not found again"
        );
    }

    #[test]
    fn a_library_whose_path_has_a_colon_is_one() {
        let mut machine = Fake::with(&["odd:name/pjrt.so"]);
        machine.set(LIBRARY, machine.at("/odd:name/pjrt.so"));
        assert_eq!(machine.found(), ["by `PJRT_PLUGIN_LIBRARY_PATH` (named): odd:name/pjrt.so"]);
    }

    #[test]
    fn what_the_process_has_comes_before_what_lies_about() {
        let mut machine = Fake::with(&["usr/lib/libtpu.so", "app/pjrt_c_api_gpu_plugin.so"]);
        machine.loaded = vec!["/lib/libc.so.6".into(), machine.at("/app/pjrt_c_api_gpu_plugin.so")];
        assert_eq!(
            machine.found(),
            [
                "in the process (found): app/pjrt_c_api_gpu_plugin.so",
                "among the system's libraries (found): usr/lib/libtpu.so"
            ]
        );
    }

    #[test]
    fn a_privileged_process_loads_only_the_systems_files_by_their_own_paths() {
        let mut machine = Fake::with(&[
            "usr/lib/real/libtpu.so",
            "usr/lib/pjrt_c_api_gpu_plugin.so",
            "usr/local/lib/xla_own_plugin.so",
            "opt/venv/lib/python3.12/site-packages/jax_plugins/any/pjrt_any.so",
            "caller/pjrt_mapped.so",
        ]);
        std::os::unix::fs::symlink(machine.at("/usr/lib/real/libtpu.so"), machine.at("/usr/local/lib/libtpu.so"))
            .expect("the folder is ours");
        machine.loaded = vec![machine.at("/caller/pjrt_mapped.so")];
        assert_eq!(
            machine.found(),
            [
                "in the process (found): caller/pjrt_mapped.so",
                "among the system's libraries (found): usr/local/lib/xla_own_plugin.so usr/local/lib/libtpu.so \
                 usr/lib/pjrt_c_api_gpu_plugin.so",
                "in a Python package (found): opt/venv/lib/python3.12/site-packages/jax_plugins/any/pjrt_any.so",
            ]
        );
        machine.is_privileged = true;
        assert_eq!(
            machine.found(),
            ["among the system's libraries (found): usr/lib/real/libtpu.so usr/lib/pjrt_c_api_gpu_plugin.so"]
        );
    }

    #[test]
    fn wheels_are_found_and_ranked_by_what_the_machine_has() {
        let files = [
            "venv/lib/python3.12/site-packages/libtpu/libtpu.so",
            "venv/lib/python3.12/site-packages/libtpu/sdk.so",
            "venv/lib/python3.12/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
            "venv/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
            "usr/lib/python3/dist-packages/pjrt_plugin_tt/pjrt_plugin_tt.so",
            "usr/lib/python3/dist-packages/jax_plugins/own/pjrt_own.so",
        ];
        let mut machine = Fake::with(&files);
        machine.set("VIRTUAL_ENV", machine.at("/venv"));
        let [tpu, _, cpu, cuda, tt, own] = files;
        let line = |order: [&str; 5]| format!("in a Python package (found): {}", order.join(" "));
        assert_eq!(machine.found(), [line([own, cuda, tpu, tt, cpu])]);
        fs::create_dir_all(machine.at("/dev/tenstorrent")).expect("the folder is ours");
        assert_eq!(machine.found(), [line([tt, own, cuda, tpu, cpu])]);
    }
}
