//! What cannot be done: one line that names the file and says why, exit code 1, or 2 for usage; nothing half done.

use std::fs;
use std::process::Stdio;

use super::profiles::{of_runs, write};
use super::{run, run_on, zprof};

const COMMANDS: [&str; 4] = ["summary", "diff", "flame", "check"];

/// The arguments of a command on one profile.
fn on<'a>(command: &'a str, profile: &'a str) -> Vec<&'a str> {
    if command == "diff" { vec![command, profile, profile] } else { vec![command, profile] }
}

#[test]
fn what_is_not_there_is_named() {
    for command in COMMANDS {
        let (code, out, error) = run(&on(command, "/nowhere/x.xplane.pb"));
        assert_eq!((code, out.as_str()), (1, ""), "{command}");
        assert!(error.starts_with("zprof: ") && error.contains("`/nowhere/x.xplane.pb`"), "{command}: {error}");
        assert_eq!(error.lines().count(), 1, "{command}: {error}");
    }
}

#[test]
fn planes_that_are_not_there_are_named_with_those_that_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = write(folder.path(), "one.xplane.pb", &of_runs(&[("a", 1)]));
    for command in ["summary", "diff", "flame"] {
        let (code, out, error) = run(&[&on(command, &profile)[..], &["--planes", "GPU,x*"]].concat());
        assert_eq!((code, out.as_str()), (1, ""), "{command}");
        assert_eq!(error, format!("zprof: no plane of `{profile}` matches `GPU`, `x*`; there are `/host:CPU`\n"));
    }
    // One host of a run may lack what another has.
    write(folder.path(), "two.xplane.pb", &[0x22, 1, b'h']);
    let (code, ..) = run(&["summary", "--planes", "CPU", folder.path().to_str().expect("is UTF-8")]);
    assert_eq!(code, 0);
}

#[test]
fn what_is_no_profile_is_refused_with_the_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let cut = of_runs(&[("a", 1), ("b", 2)]);
    let cut = write(folder.path(), "cut.xplane.pb", &cut[..cut.len() - 3]);
    for command in ["summary", "diff", "flame"] {
        let (code, out, error) = run(&on(command, &cut));
        assert_eq!((code, out.as_str()), (1, ""), "{command}");
        assert!(error.contains("cut.xplane.pb") && error.contains("byte"), "{command}: {error}");
    }
    let (code, out, _) = run(&on("check", &cut));
    assert!(code == 1 && out.contains("error[malformed]") && out.contains("not sound"), "{out}");
}

#[test]
fn a_failed_flame_leaves_the_old_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = write(folder.path(), "flame.svg", b"old");
    let idle = write(folder.path(), "idle.xplane.pb", &of_runs(&[("nothing", 0)]));
    let (code, _, error) = run(&["flame", &idle, "-o", &target]);
    assert_eq!(code, 1);
    assert!(error.contains("nothing to draw") && error.contains("idle.xplane.pb"), "{error}");
    assert_eq!(fs::read_to_string(&target).expect("is there"), "old");
    let (code, _, error) = run(&["flame", &idle, "-o", &idle]);
    assert!(code == 1 && error.contains("is the profile itself"), "{error}");
    let busy = write(folder.path(), "busy.xplane.pb", &of_runs(&[("a", 10)]));
    let (code, _, error) = run(&["flame", &busy, "-o", "/nowhere/flame.svg"]);
    assert!(code == 1 && error.contains("failed to create `/nowhere/flame.svg`"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("is there").count(), 3, "nothing else is left");
}

#[test]
fn usage_is_told_with_exit_code_two() {
    for arguments in [
        &["summary"][..],
        &["summary", "x", "--sort", "colour"],
        &["summary", "x", "--json", "--csv"],
        &["diff", "x"],
        &["diff", "-", "-"],
        &["check", "x", "--max-per-kind", "-1"],
    ] {
        let (code, out, error) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {error}");
        assert!(error.starts_with("error: "), "{error}");
    }
}

#[test]
fn names_cannot_move_the_cursor() {
    let profile = of_runs(&[("red \u{1b}[31m\nrow", 10)]);
    for arguments in [&["summary", "-"][..], &["check", "--strict", "-"]] {
        let (_, out, _) = run_on(&profile, arguments);
        assert!(!out.contains('\u{1b}'), "{out}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..1_500).map(|index| format!("{}{index}", "long".repeat(50))).collect();
    let runs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 5)).collect();
    let profile = write(folder.path(), "many.xplane.pb", &of_runs(&runs));
    for arguments in [&["summary", "--csv"][..], &["summary", "--json"], &["flame"]] {
        let mut child =
            zprof(arguments).arg(&profile).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("zprof starts");
        drop(child.stdout.take());
        let done = child.wait_with_output().expect("zprof ends");
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
    }
}
