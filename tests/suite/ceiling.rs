//! The compile-time ceiling, by a program that is built with one: what is above it is not recorded, and leaves nothing in the
//! program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zprof::Level;
use zprof_tests::profile::read_file;

use crate::actor::made;
use crate::callgrind::of_one_round;

/// Runs cargo with these flags for rustc, in a folder that no other build uses.
fn cargo(flags: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("ceiling"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flags)
        .output()
        .expect("cargo can be run")
}

/// The program with the ceiling `info`. Warnings are errors.
fn program() -> PathBuf {
    let flags = r#"-Dwarnings --cfg zprof_max_level="info""#;
    let arguments = ["build", "--quiet", "--release", "-p", "zprof-tests-ceiling", "--message-format", "json"];
    let output = cargo(flags, &arguments);
    made(&output)
}

const FORMS: [&str; 9] = ["scope", "block", "span", "step", "instant", "counter", "function", "future", "task"];

#[test]
fn what_is_above_the_ceiling_leaves_nothing() {
    let (program, folder) = (program(), tempfile::tempdir().expect("a temporary folder can be made"));
    let output = Command::new(&program).arg("record").arg(folder.path()).output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).expect("it writes UTF-8");
    let (most, path) = told.trim_end().split_once(' ').expect("two words");
    assert_eq!(most, format!("{:?}", Some(Level::Info)));

    // Every form up to the ceiling is recorded; a future has a poll and a whole.
    let (lines, ..) = read_file(Path::new(path));
    let mut found: Vec<&str> = lines.iter().flat_map(|line| line.names()).collect();
    found.sort_unstable();
    let mut expected = Vec::new();
    for level in ["critical", "info"] {
        for form in FORMS {
            let times = if ["future", "task"].contains(&form) { 2 } else { 1 };
            expected.extend(std::iter::repeat_n(format!("{level} {form}"), times));
        }
    }
    expected.sort_unstable();
    assert_eq!(found, expected);

    // Nothing of the rest is in the program.
    let bytes = std::fs::read(&program).expect("it is there");
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("info scope") && holds("info task"));
    for form in FORMS {
        assert!(!holds(&format!("verbose {form}")) && !holds(&format!("spun {form}")), "the program holds the {form}");
    }
}

#[test]
fn what_is_above_the_ceiling_runs_no_instruction() {
    let program = program();
    let of = |form: &str| of_one_round(&program, |count| vec!["spin".to_owned(), form.to_owned(), count.to_string()]);
    let (bare, bare_future) = (of("bare"), of("bare future"));
    for form in FORMS {
        let (measured, bare) = match form {
            "future" | "task" => (of(form), bare_future),
            _ => (of(form), bare),
        };
        println!("{form}: {measured:.2} instructions, {bare:.2} without");
        // A task's future has the type that any other has, and asks itself at each poll; ten per cent above what was measured.
        let more = if form == "task" { 28.6 } else { 0.01 };
        assert!(measured <= bare + more, "a {form} takes {measured:.2} instructions, {bare:.2} without it");
    }
}

#[test]
fn a_ceiling_that_is_none_is_refused_with_the_cure() {
    let told = |flags: &str| {
        let output = cargo(flags, &["check", "-p", "zprof-runtime"]);
        assert!(!output.status.success(), "{flags} is accepted");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find(|line| line.contains("zprof_max_level")).unwrap_or_else(|| panic!("{text}"));
        line.split_once("0: ").map(|(_, rest)| rest.to_owned()).unwrap_or_else(|| panic!("{line}"))
    };
    let cure = r#"; give it once, as one of "off", "critical", "info", "verbose""#;
    let wrong = told(r#"--cfg zprof_max_level="loud""#);
    assert_eq!(wrong, format!(r#"`--cfg zprof_max_level="loud"` names no level{cure}"#));
    assert_eq!(told("--cfg zprof_max_level"), format!("`--cfg zprof_max_level` has no value{cure}"));
    let twice = told(r#"--cfg zprof_max_level="off" --cfg zprof_max_level="info""#);
    assert!(
        twice.starts_with("`--cfg zprof_max_level` is given more than once, as ") && twice.ends_with(cure),
        "{twice}"
    );
}
