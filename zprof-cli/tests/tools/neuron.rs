//! Which commands a stand-in for Neuron Explorer gets, and what becomes of runs.

use std::fs;
use std::path::Path;

use crate::stand_in::{Bench, err, map, out, words};

fn explorer(bench: &Bench, text: &str) {
    bench.runner("bin/neuron-explorer", text);
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
    fs::write(path, text).expect("the folder is ours");
}

#[test]
fn a_profile_has_a_folder_and_an_environment_of_its_own() {
    let bench = Bench::new();
    let program = bench.program();
    explorer(&bench, "");
    let root = bench.path("runs");
    let mut command = bench.zprof(&["neuron", "profile", "--root", &root, &program, "a b"]);
    let output = command.env("XLA_FLAGS", "--mine=1").output().expect("zprof runs");
    assert_eq!(output.status.code(), Some(5), "the folder is told whatever the status: {}", err(&output));
    let runs: Vec<_> = fs::read_dir(&root).expect("it was made").map(|entry| entry.expect("readable").path()).collect();
    let [run] = runs.as_slice() else { panic!("one run, not {runs:?}") };
    let name = run.file_name().expect("a name").to_str().expect("UTF-8");
    let shape: String = name.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    assert_eq!(shape, "00000000T000000Z");
    assert!(err(&output).starts_with(&format!("zprof: report: {}\n", run.display())), "{}", err(&output));
    let (compile, execution) = (run.join("compile"), run.join("execution"));
    assert!(compile.is_dir() && execution.is_dir());
    let execution = execution.to_str().expect("UTF-8");
    assert_eq!(bench.calls("neuron-explorer"), [["inspect", "-o", execution, &program, "a b"]]);
    let flags = format!(
        "--mine=1 --xla_dump_to={} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=.*",
        compile.display()
    );
    let expected = map(&[
        ("SKIP_PJRT_PROFILER", "true"),
        ("NEURON_RT_INSPECT_ENABLE", "1"),
        ("NEURON_RT_INSPECT_SYSTEM_PROFILE", "1"),
        ("NEURON_RT_INSPECT_DEVICE_PROFILE", "1"),
        ("NEURON_RT_INSPECT_OUTPUT_DIR", execution),
        ("XLA_IR_DEBUG", "1"),
        ("XLA_HLO_DEBUG", "1"),
        ("XLA_FLAGS", &flags),
    ]);
    assert_eq!(bench.added("prog"), expected);
}

#[test]
fn a_dry_profile_makes_no_folder() {
    let bench = Bench::new();
    let root = bench.path("runs");
    let output = bench.run(&["neuron", "profile", "--root", &root, "--dry-run", "prog", "a b"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).ends_with("/execution prog 'a b'\n"), "{}", out(&output));
    assert!(!Path::new(&root).exists());
}

#[test]
fn the_server_is_the_stand_in_itself_and_its_address_comes_first() {
    let bench = Bench::new();
    bench.tool("bin/neuron-explorer", "echo serving; exit 9");
    let output = bench.run(&["neuron", "server"]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(9), "http://localhost:3001\nserving\n"));
    bench.run(&["neuron", "server", "--port", "4000", "--data-path", "a b"]);
    assert_eq!(
        bench.calls("neuron-explorer"),
        [
            words("view --data-path /tmp/zprof-neuron-explorer --port 3001"),
            ["view", "--data-path", "a b", "--port", "4000"].map(str::to_owned).to_vec(),
        ]
    );
}

#[test]
fn summaries_lie_beside_the_run() {
    let bench = Bench::new();
    let run = bench.work().join("run");
    fs::create_dir_all(run.join("execution")).expect("the folder is ours");
    bench.tool(
        "bin/neuron-explorer",
        "case \"$*\" in *--output-file*) echo trace >run/summary.pftrace ;; *) echo text ;; esac",
    );
    for (command, file, arguments) in [
        ("summary-txt", "summary.txt", "view -d run/execution --output-format summary-text"),
        ("summary-json", "summary.json", "view -d run/execution --output-format summary-json"),
        (
            "summary-perfetto",
            "summary.pftrace",
            "view -d run/execution --output-format perfetto --output-file run/summary.pftrace",
        ),
    ] {
        let dry = bench.run(&["neuron", command, "run", "--dry-run"]);
        let redirect = if command == "summary-perfetto" { String::new() } else { format!(" > run/{file}") };
        assert_eq!(out(&dry), format!("neuron-explorer {arguments}{redirect}\n"));
        let output = bench.run(&["neuron", command, "run"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_eq!(err(&output), format!("zprof: report: run/{file}\n"));
        assert_eq!(bench.calls("neuron-explorer").pop(), Some(words(arguments)));
        assert!(run.join(file).metadata().expect("it is there").len() > 0);
    }
    fs::remove_file(run.join("summary.txt")).expect("it is there");
    bench.tool("bin/neuron-explorer", "echo half; exit 4");
    assert_eq!(bench.run(&["neuron", "summary-txt", "run"]).status.code(), Some(4));
    let mut left: Vec<_> =
        fs::read_dir(&run).expect("a folder").map(|entry| entry.expect("readable").file_name()).collect();
    left.sort();
    assert_eq!(left, ["execution", "summary.json", "summary.pftrace"], "nothing half");
    let output = bench.run(&["neuron", "summary-txt", "elsewhere"]);
    assert_eq!(err(&output), "zprof: `elsewhere` is no run: it has no folder `execution`\n");
}

#[test]
fn ingest_gathers_system_profiles_and_captures_what_is_missing() {
    let bench = Bench::new();
    let runs = bench.work().join("runs");
    let host = runs.join("r1/execution/host/1");
    for (name, text) in [
        ("ntrace.pb", "n"),
        ("cpu_util.pb", "c"),
        ("other.pb", "o"),
        ("a.neff", "xMODULE_jit_a_77\0"),
        ("a_rank_0.ntff", "0"),
        ("a_rank_1.ntff", "1"),
        ("b_vnc_2.neff", "MODULE_b"),
    ] {
        write(&host.join(name), text);
    }
    write(&runs.join("r2/execution/host/1/trace_info.pb"), "without its first file this is none");
    fs::create_dir_all(runs.join("notes")).expect("the folder is ours");
    bench.tool(
        "bin/neuron-explorer",
        "case $1 in capture) : >\"$5\" ;; esac\ncase \"$*\" in *:system*) ls \"$9\" >gathered ;; esac\n",
    );
    let output = bench.run(&["neuron", "ingest", "--data-path", "data", "runs"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let mut calls = bench.calls("neuron-explorer");
    let gathered = std::mem::take(&mut calls[0][8]);
    assert!(!Path::new(&gathered).exists(), "the folder is gone");
    let at = "runs/r1/execution/host/1";
    let view = |rest: &str| words(&format!("view --ingest-only --force --data-path data --display-name {rest}"));
    let mut system = view("r1:system -d x");
    system[8].clear();
    assert_eq!(
        calls,
        [
            system,
            view(&format!("r1:jit_a_nc0 -n {at}/a.neff -s {at}/a_rank_0.ntff")),
            view(&format!("r1:jit_a_nc1 -n {at}/a.neff -s {at}/a_rank_1.ntff")),
            words(&format!(
                "capture -n {at}/b_vnc_2.neff -s {at}/b_vnc_2.ntff --num-exec=2 --profile-nth-exec=2 --io-from=neff"
            )),
            view(&format!("r1:b_vnc_2 -n {at}/b_vnc_2.neff -s {at}/b_vnc_2.ntff")),
        ]
    );
    assert_eq!(fs::read_to_string(bench.work().join("gathered")).expect("it was written"), "cpu_util.pb\nntrace.pb\n");
    assert_eq!(err(&output), "zprof: 4 profiles ingested; `zprof neuron server` shows them\n");
}

#[test]
fn ingest_says_what_is_wrong() {
    let bench = Bench::new();
    bench.tool("bin/neuron-explorer", "exit 3");
    let run = bench.work().join("run/execution/h/1");
    write(&run.join("a.neff"), "nothing");
    let output = bench.run(&["neuron", "ingest", "run"]);
    let message = "zprof: `run/execution/h/1/a.neff` names no program: no `MODULE_<name>` is in it\n";
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), message));
    write(&run.join("a.neff"), "MODULE_a");
    let output = bench.run(&["neuron", "ingest", "run"]);
    assert_eq!(output.status.code(), Some(3), "the tool's own: {}", err(&output));
    if !Path::new("/tmp/zprof-neuron-profile").exists() {
        let output = bench.run(&["neuron", "ingest"]);
        let message = "zprof: no runs in `/tmp/zprof-neuron-profile` yet; `zprof neuron profile` makes one\n";
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), message));
    }
    let output = bench.run(&["neuron", "ingest", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("failed to list `nowhere`"), "{}", err(&output));
}
