//! The example `llm` under the real Nsight Systems, without a GPU: its ranges are in the report. No stand-in here.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use zprof_runtime::environment::variable;

/// The example, built with the ranges that nsys sees.
fn llm(repository: &Path) -> PathBuf {
    let mut cargo = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", "zprof-examples", "--example", "llm", "--features", "nvtx"]);
    let output = cargo.current_dir(repository).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Beside this command, whose folder is the build's.
    let folder = Path::new(env!("CARGO_BIN_EXE_zprof")).parent().expect("a folder");
    folder.join("examples/llm")
}

#[test]
fn the_llm_examples_ranges_are_in_the_report() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let setup = Command::new(repository.join("scripts/get-nsys")).output().expect("the script runs");
    assert!(setup.status.success(), "{}", String::from_utf8_lossy(&setup.stderr));
    let nsys = PathBuf::from(String::from_utf8(setup.stdout).expect("UTF-8").trim_end());
    let path = env::join_paths(
        [nsys.parent().expect("a folder").to_owned()]
            .into_iter()
            .chain(env::split_paths(&variable("PATH").expect("set"))),
    );
    let path = path.expect("no colons");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let profiles = folder.path().join("profiles");
    let llm = llm(repository);
    let zprof = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zprof"));
        command.args(["nsys", "--no-sudo", "-o", "run"]).args(arguments).arg("--").arg(&llm);
        command.args(["--tokens", "3", "--output"]).arg(&profiles).current_dir(folder.path()).env("PATH", &path);
        command.env("ZPROF_NSYS_ARGS", "profile -t nvtx --sample=none --cpuctxsw=none");
        command
    };
    let output = zprof(&[]).output().expect("zprof runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains(&format!("zprof: report: {}/run.nsys-rep\n", folder.path().display())), "{told}");
    let ranges = told.lines().find_map(|line| line.strip_prefix("zprof: ranges: ")).expect("it looks for them");
    let count = ranges.split(' ').next().and_then(|count| count.replace(',', "").parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 10), "{ranges}");

    let dry = zprof(&["--dry-run"]).env_remove("ZPROF_NSYS_ARGS").output().expect("zprof runs");
    let line = String::from_utf8_lossy(&dry.stdout);
    assert!(!line.contains("syscall") && line.contains("--backtrace=dwarf"), "2022.4 knows no such value: {line}");
}
