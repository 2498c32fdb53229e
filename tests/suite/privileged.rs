//! Programs with raised privileges, whose caller chose their environment: nothing in it is followed.
//!
//! Set-id bits and file capabilities are real, so these tests run as root; otherwise each says that it was skipped.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The user and group that call the program: nobody.
const CALLER: u32 = 65_534;

/// A library that says by which file it was loaded.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void say(void) {
    Dl_info info;
    if (dladdr((void *)say, &info)) {
        printf("loaded: %s, as user %d\n", info.dli_fname, (int)geteuid());
        fflush(stdout);
    }
}
"#;

/// How a program gets its privileges.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Raised {
    No,
    SetUser,
    SetGroup,
    Capability,
}

/// The program, and libraries wherever the environment can lead.
struct Installed {
    folder: TempDir,
}

impl Installed {
    /// `None` where this user cannot raise the privileges of a program.
    fn new(raised: Raised) -> Option<Self> {
        // A process that is root owns the folder of its own entry.
        let user = fs::metadata("/proc/self").map(|process| std::os::unix::fs::MetadataExt::uid(&process));
        if user.expect("this process has an entry") != 0 {
            println!("skipped: only root can install a program with raised privileges");
            return None;
        }
        let installed = Self { folder: tempfile::tempdir().expect("a temporary folder can be made") };
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        };
        mode(installed.folder.path(), 0o755);
        let program = installed.at("program");
        fs::copy(env!("CARGO_BIN_EXE_privileged"), &program).expect("the folder is ours");
        mode(&program, 0o755);
        match raised {
            Raised::No => {}
            Raised::SetUser => mode(&program, 0o4755),
            Raised::SetGroup => mode(&program, 0o2755),
            Raised::Capability => {
                let output = Command::new("setcap").arg("cap_chown+ep").arg(&program).output();
                let output = output.expect("`setcap` is installed by scripts/get-packages");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
        }
        let source = installed.at("library.c");
        fs::write(&source, LIBRARY).expect("the folder is ours");
        let library = installed.at("library.so");
        let gcc = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").output();
        let gcc = gcc.expect("`gcc` is installed by scripts/get-packages");
        assert!(gcc.status.success(), "{}", String::from_utf8_lossy(&gcc.stderr));
        for place in [
            "asked.so",
            "by_path.so",
            "by_name.so",
            "by_tpu.so",
            "injected.so",
            "libraries/pjrt_system.so",
            "libraries/librocprofiler-sdk-roctx.so.1",
            "home/.local/lib/go-xla/pjrt_home.so",
            "home/.local/lib/python3.12/site-packages/libtpu/libtpu.so",
            "python/jax_plugins/x/pjrt_python.so",
            "environment/lib/python3.12/site-packages/jax_plugins/x/pjrt_environment.so",
            "conda/lib/python3.12/site-packages/jax_plugins/x/pjrt_conda.so",
            "base/lib/python3.12/site-packages/jax_plugins/x/pjrt_base.so",
        ] {
            let place = installed.at(place);
            fs::create_dir_all(place.parent().expect("it has a folder")).expect("the folder is ours");
            // Each has a file of its own, since the system loads a file once whatever it is called.
            fs::copy(&library, &place).expect("the folder is ours");
        }
        symlink(installed.at("by_path.so"), installed.at("link.so")).expect("the folder is ours");
        fs::create_dir(installed.at("profiles")).expect("the folder is ours");
        mode(&installed.at("profiles"), 0o777);
        Some(installed)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the program for the caller, in an environment of these variables, whose values are places in the folder.
    fn run(&self, variables: &[(&str, &str)], plain: &[(&str, &str)]) -> Answer {
        let mut command = Command::new(self.at("program"));
        command.uid(CALLER).gid(CALLER).current_dir("/").env_clear();
        command.envs(variables.iter().map(|(name, place)| (*name, self.at(place))));
        command.envs(plain.iter().copied());
        let output = command.output().expect("the program can be run by everybody");
        let text = |bytes| {
            String::from_utf8(bytes).expect("it writes UTF-8").replace(&self.folder.path().display().to_string(), "")
        };
        Answer { stdout: text(output.stdout), stderr: text(output.stderr), is_success: output.status.success() }
    }
}

struct Answer {
    stdout: String,
    stderr: String,
    is_success: bool,
}

impl Answer {
    /// The libraries that were loaded.
    fn loaded(&self) -> BTreeSet<&str> {
        self.stdout.lines().filter_map(|line| line.strip_prefix("loaded: ")).collect()
    }
}

/// Variables that lead to libraries, with places in the folder.
const LEADING: &[(&str, &str)] = &[
    ("PJRT_PLUGIN_LIBRARY_PATH", "link.so"),
    ("TPU_LIBRARY_PATH", "by_tpu.so"),
    ("NVTX_INJECTION64_PATH", "injected.so"),
    ("ROCP_TOOL_LIBRARIES", "injected.so"),
    ("LD_LIBRARY_PATH", "libraries"),
    ("PYTHONPATH", "python"),
    ("VIRTUAL_ENV", "environment"),
    ("CONDA_PREFIX", "conda"),
    ("PYTHONUSERBASE", "base"),
    ("HOME", "home"),
];

const IGNORED: &str = "zprof: warning: no profile: `ZPROF` is ignored, because this program runs with raised privileges \
                       (setuid, setgid or file capabilities) and its caller chose the environment; run it without them, or \
                       let it start a `Profiler` itself\n";

/// Checks that a privileged program loads nothing and writes nothing, whatever its environment asks for.
fn assert_ignored(raised: Raised) {
    let Some(installed) = Installed::new(raised) else { return };
    let place = |name| installed.at(name).display().to_string();
    let (asked, profile, by_name) =
        (place("asked.so"), place("profiles/x.xplane.pb"), format!("x:{}", place("by_name.so")));
    let cases: [(&[(&str, &str)], &str); 3] = [
        (&[("ZPROF", "1"), ("ZPROF_PJRT", &asked)], IGNORED),
        (&[("ZPROF", &profile), ("ZPROF_PJRT", "off")], IGNORED),
        (&[], ""),
    ];
    for (variables, said) in cases {
        let more = [variables, &[("PJRT_NAMES_AND_LIBRARY_PATHS", &*by_name)]].concat();
        let answer = installed.run(LEADING, &more);
        assert!(
            answer.stdout.starts_with("raised: true\n"),
            "{raised:?} has no effect in `{}`: let TMPDIR name a folder of a file system without `nosuid`\n{}",
            installed.folder.path().display(),
            answer.stdout
        );
        let expected = "raised: true\nprofiled: false\nprofiled: false\nplatform: ";
        assert!(answer.stdout.starts_with(expected), "{}", answer.stdout);
        assert_eq!(
            (answer.loaded(), &*answer.stderr, answer.is_success),
            (BTreeSet::new(), said, true),
            "{variables:?}"
        );
        assert_eq!(fs::read_dir(installed.at("profiles")).expect("it is there").count(), 0, "{variables:?}");
    }
}

#[test]
fn privileged_program_with_set_user_id_ignores_the_environment() {
    assert_ignored(Raised::SetUser);
}

#[test]
fn privileged_program_with_set_group_id_ignores_the_environment() {
    assert_ignored(Raised::SetGroup);
}

#[test]
fn privileged_program_with_a_file_capability_ignores_the_environment() {
    assert_ignored(Raised::Capability);
}

/// Shows that the tests above would see what they deny.
#[test]
fn the_same_program_without_privileges_follows_the_environment() {
    let Some(installed) = Installed::new(Raised::No) else { return };
    let by_name = format!("x:{}", installed.at("by_name.so").display());
    let answer = installed.run(LEADING, &[("PJRT_NAMES_AND_LIBRARY_PATHS", &by_name)]);
    assert!(answer.stdout.starts_with("raised: false\n"), "{}", answer.stdout);
    let user = |place: &&str| format!("{place}, as user {CALLER}");
    let expected: BTreeSet<String> = [
        "/link.so",
        "/by_name.so",
        "/by_tpu.so",
        "/injected.so",
        "/libraries/pjrt_system.so",
        "/libraries/librocprofiler-sdk-roctx.so.1",
        "/home/.local/lib/go-xla/pjrt_home.so",
        "/home/.local/lib/python3.12/site-packages/libtpu/libtpu.so",
        "/python/jax_plugins/x/pjrt_python.so",
        "/environment/lib/python3.12/site-packages/jax_plugins/x/pjrt_environment.so",
        "/conda/lib/python3.12/site-packages/jax_plugins/x/pjrt_conda.so",
        "/base/lib/python3.12/site-packages/jax_plugins/x/pjrt_base.so",
    ]
    .iter()
    .map(user)
    .collect();
    let loaded: BTreeSet<String> = answer.loaded().into_iter().map(str::to_owned).collect();
    assert_eq!(loaded, expected, "{}", answer.stderr);

    let asked = installed.at("asked.so").display().to_string();
    let answer = installed.run(&[], &[("ZPROF", "1"), ("ZPROF_PJRT", &asked)]);
    assert_eq!(answer.loaded(), BTreeSet::from([&*user(&"/asked.so")]), "{}", answer.stderr);

    let file = installed.at("profiles/x.xplane.pb");
    let answer = installed.run(&[("ZPROF", "profiles/x.xplane.pb")], &[("ZPROF_PJRT", "off")]);
    assert!(answer.is_success && file.metadata().expect("it is written").len() > 0, "{}", answer.stderr);
}
