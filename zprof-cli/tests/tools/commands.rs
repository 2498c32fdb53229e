//! Which commands stand-ins for nsys, rocprofv3, xctrace and sudo get, with their whole arguments and environment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::stand_in::{Bench, err, map, out, words};

const NSYS: &str = "profile -t cuda,syscall,nvtx,cublas,cublas-verbose,cusparse,cusparse-verbose,cudnn,osrt \
                    --inherit-environment=true --cuda-memory-usage true --cuda-event-trace=false --backtrace=dwarf \
                    --cuda-graph-trace=node";

const ROCPROFV3: &str = "--sys-trace --runtime-trace --hip-trace --kernel-trace --memory-copy-trace --hip-runtime-trace \
                         --hsa-core-trace --scratch-memory-trace --marker-trace --kernel-rename --stats --output-format \
                         pftrace";

/// What the program is given, where quoting matters.
const ODD: [&str; 6] = ["two words", "it's", "\"", "", "--", "line\nbreak"];

fn with<'a>(start: impl IntoIterator<Item = &'a str>, program: &'a str) -> Vec<String> {
    start.into_iter().chain([program]).chain(ODD).map(str::to_owned).collect()
}

fn arguments<'a>(command: &[&'a str], program: &'a str) -> Vec<&'a str> {
    command.iter().copied().chain([program]).chain(ODD).collect()
}

/// A stand-in whose help names no options, so that all are passed.
fn nsys(bench: &Bench) {
    bench.runner("bin/nsys", "echo report >report1.nsys-rep");
}

#[test]
fn nsys_stand_in_gets_the_defaults_and_the_program_as_it_is() {
    let bench = Bench::new();
    let program = bench.program();
    nsys(&bench);
    let output = bench.run(&arguments(&["nsys", "--no-sudo", "--no-check"], &program));
    assert_eq!(output.status.code(), Some(5), "the program's own: {}", err(&output));
    assert_eq!(bench.calls("nsys"), [words("profile --help"), with(NSYS.split_whitespace(), &program)]);
    assert_eq!(bench.calls("prog"), [ODD]);
    assert_eq!(bench.added("prog"), map(&[("SKIP_PJRT_PROFILER", "true")]));
    assert_eq!(err(&output), format!("zprof: report: {}/report1.nsys-rep\n", bench.work().display()));
}

#[test]
fn nsys_stand_in_of_less_knowledge_gets_less() {
    let bench = Bench::new();
    let program = bench.program();
    let help = "echo \"-t, --trace=
  Possible values are 'nvtx', 'osrt'.
--backtrace=
  Possible values are 'lbr', 'none'.
--cuda-graph-trace=\"";
    bench.tool("bin/nsys", help);
    let output = bench.run(&["nsys", "--dry-run", "--no-sudo", &program]);
    let line = format!("SKIP_PJRT_PROFILER=true nsys profile -t 'nvtx,osrt' '--cuda-graph-trace=node' {program}\n");
    assert_eq!(out(&output), line);
    let told: Vec<String> = err(&output).lines().map(str::to_owned).collect();
    let expected = ["-t cuda", "-t syscall", "-t cublas", "-t cublas-verbose", "-t cusparse", "-t cusparse-verbose"]
        .into_iter()
        .chain(["-t cudnn", "--inherit-environment=true", "--cuda-memory-usage true", "--cuda-event-trace=false"])
        .chain(["--backtrace=dwarf"]);
    let expected: Vec<String> =
        expected.map(|word| format!("zprof: this nsys does not know `{word}`, which is left out")).collect();
    assert_eq!(told, expected);
}

#[test]
fn both_names_replace_the_arguments_and_ours_wins() {
    let bench = Bench::new();
    let program = bench.program();
    nsys(&bench);
    bench.runner("rocm/bin/rocprofv3", "");
    let root = bench.path("rocm");
    for (variables, expected) in [
        (&[("ZML_NSYS_ARGS", "a 'b c'")][..], &["a", "'b", "c'"][..]),
        (&[("ZML_NSYS_ARGS", "a"), ("ZPROF_NSYS_ARGS", "x 'y z'")], &["x", "y z"]),
        (&[("ZPROF_NSYS_ARGS", "it's")], &["it's"]),
    ] {
        let output =
            bench.zprof(&["nsys", "--no-sudo", "--no-check", &program]).envs(variables.iter().copied()).output();
        assert_eq!(output.expect("zprof runs").status.code(), Some(5));
        let last = bench.calls("nsys").pop().expect("it was called");
        assert_eq!(last[..last.len() - 1], *expected, "{variables:?}");

        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (name.replace("NSYS", "ROCPROFV3"), value)).collect();
        let output = bench.zprof(&["rocprofv3", "--rocm-root", &root, &program]).envs(variables).output();
        assert_eq!(output.expect("zprof runs").status.code(), Some(5));
        let last = bench.calls("rocprofv3").pop().expect("it was called");
        assert_eq!(last[2..last.len() - 2], *expected);
    }
}

#[test]
fn a_dry_run_prints_what_a_shell_runs_the_same() {
    let bench = Bench::new();
    let program = bench.program();
    nsys(&bench);
    bench.runner("rocm/bin/rocprofv3", "");
    bench.runner("bin/xctrace", "");
    let root = bench.path("rocm");
    for command in [
        &["nsys", "--no-sudo", "--no-check"][..],
        &["rocprofv3", "--rocm-root", &root],
        &["xctrace", "--output", "my out.trace"],
    ] {
        let tool = command[0];
        let calls = |tool: &str| {
            bench.calls(tool).into_iter().filter(|words| words != &["profile", "--help"]).collect::<Vec<_>>()
        };
        let dry = bench.run(&arguments(&[command, &["--dry-run"]].concat(), &program));
        assert_eq!(dry.status.code(), Some(0), "{}", err(&dry));
        assert_eq!((calls(tool), bench.calls("prog")), (vec![], vec![]), "nothing runs");
        let run = bench.run(&arguments(command, &program));
        assert_eq!(run.status.code(), Some(5), "{}", err(&run));
        let environment = bench.added("prog");
        let mut shell = bench.zprof(&[]);
        let path =
            shell.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).map(ToOwned::to_owned);
        shell = std::process::Command::new("/bin/sh");
        let status = shell.arg("-c").arg(out(&dry)).env_clear().env("PATH", path.expect("set")).env("LANG", "C");
        let status = status.env("HOME", bench.path("home")).current_dir(bench.work()).status().expect("sh runs");
        assert_eq!(status.code(), Some(5));
        let calls = calls(tool);
        assert_eq!((calls.len(), &calls[0]), (2, &calls[1]), "the shell ran the same");
        assert_eq!(bench.added("prog"), environment);
        fs::remove_file(bench.root().join("prog.record")).expect("the folder is ours");
    }
}

/// A bench whose command runs as another user than root, or nothing where this is no root.
fn as_nobody(bench: &Bench, arguments: &[&str], variables: &[(&str, &str)]) -> Option<std::process::Output> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The build's folder may be closed to others.
    let copy = bench.path("zprof");
    fs::copy(env!("CARGO_BIN_EXE_zprof"), &copy).expect("the folder is ours");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let zprof = bench.zprof(arguments);
    let mut command = std::process::Command::new(copy);
    command.args(arguments).env_clear().current_dir(bench.work()).uid(65534).gid(65534);
    command.envs(zprof.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(variables.iter().copied());
    Some(command.output().expect("zprof runs"))
}

#[test]
fn nsys_runs_as_root_only_if_it_is_asked_to() {
    let bench = Bench::new();
    let program = bench.program();
    bench.runner("bin/nsys", "");
    let own = ("ZPROF_NSYS_ARGS", "x");
    let said = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = as_nobody(&bench, &[&["nsys", "--dry-run"], arguments, &[&program]].concat(), variables);
        output.map(|output| (output.status.code(), out(&output), err(&output)))
    };
    let line = |nsys: &str| (Some(0), format!("SKIP_PJRT_PROFILER=true {nsys} x {program}\n"), String::new());
    let (plain, sudo) = (line("nsys"), line(&format!("sudo -E {}", bench.path("bin/nsys"))));
    let Some(without) = said(&[], &[own]) else { return };
    assert_eq!(without, plain, "there is no sudo");
    // Writes its words down, and runs what it is given as the same user.
    bench.tool("bin/sudo", "shift; exec \"$@\"\n");
    let said = |arguments: &[&str], variables: &[(&str, &str)]| said(arguments, variables).expect("this is root");
    for name in ["ZPROF_NO_SUDO", "ZML_PROFILE_NO_SUDO"] {
        assert_eq!(said(&["--no-sudo"], &[own]), plain);
        assert_eq!(said(&[], &[own, (name, "1")]), plain);
        assert_eq!(said(&["--sudo"], &[own, (name, "0")]), sudo);
        let forbidden = "zprof: `--sudo` is forbidden by `ZPROF_NO_SUDO` or `ZML_PROFILE_NO_SUDO`; unset it, or leave the option out\n";
        assert_eq!(said(&["--sudo"], &[own, (name, "1")]), (Some(1), String::new(), forbidden.to_owned()));
    }
    assert_eq!(said(&[], &[own]), plain);
    assert_eq!(said(&["--sudo", "--no-sudo"], &[own]).0, Some(2));

    let run = |arguments: &[&str]| {
        let output = as_nobody(&bench, &[&["nsys", "--no-check"], arguments, &[&program]].concat(), &[own]);
        let output = output.expect("this is root");
        (output.status.code(), err(&output))
    };
    let report = format!("zprof: nsys has left no report in {}\n", bench.work().display());
    assert_eq!((run(&[]), bench.calls("sudo").len()), ((Some(5), report.clone()), 0));
    let told = "zprof: nsys and the program run as root, by `sudo -E`; what they write belongs to root\n";
    assert_eq!(run(&["--sudo"]), (Some(5), format!("{told}{report}")));
    assert_eq!(bench.calls("sudo"), [["-E", &bench.path("bin/nsys"), "x", &program]]);
    fs::remove_file(bench.path("bin/sudo")).expect("the folder is ours");
    let missing = "zprof: `sudo` is not found in PATH; leave `--sudo` out, or run this as root\n";
    assert_eq!(run(&["--sudo"]), (Some(1), missing.to_owned()));

    let output =
        bench.zprof(&["nsys", "--dry-run", "--sudo", &program]).env(own.0, own.1).output().expect("zprof runs");
    assert_eq!(out(&output), plain.1, "root needs no sudo");
}

#[test]
fn rocprofv3_stand_in_is_found_in_the_order_of_places() {
    let bench = Bench::new();
    let program = bench.program();
    for name in ["option", "path", "home"] {
        bench.runner(&format!("{name}/bin/rocprofv3"), "mkdir -p host; echo decode#n=1# >host/7_results.pftrace");
    }
    let (option, path, home) = (bench.path("option"), bench.path("path"), bench.path("home"));
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let arguments = [&["rocprofv3"], arguments].concat();
        bench
            .zprof(&self::arguments(&arguments, &program))
            .envs(variables.iter().copied())
            .output()
            .expect("zprof runs")
    };
    let both = [("ROCM_PATH", path.as_str()), ("ROCM_HOME", home.as_str())];
    for (arguments, variables, root) in
        [(&["--rocm-root", &option][..], &both[..], &option), (&[], &both, &path), (&[], &both[1..], &home)]
    {
        fs::remove_dir_all(bench.work().join("host")).ok();
        let output = run(arguments, variables);
        assert_eq!(output.status.code(), Some(5), "{}", err(&output));
        let start = ["--rocm-root", root].into_iter().chain(ROCPROFV3.split_whitespace()).chain(["--"]);
        assert_eq!(bench.calls("rocprofv3").last(), Some(&with(start, &program)));
        let report = bench.work().join("host/7_results.pftrace");
        let told = format!("zprof: report: {}\nzprof: ranges: zprof's are in the report\n", report.display());
        assert_eq!(err(&output), told);
    }
    assert_eq!(bench.added("prog"), map(&[("SKIP_PJRT_PROFILER", "true"), ("ROCM_HOME", &home)]));
    let output = run(&["--rocm-root", "/nowhere"], &both);
    assert_eq!((output.status.code(), bench.calls("prog").len()), (Some(1), 3));
    assert!(err(&output).starts_with("zprof: `/nowhere` has no `bin/rocprofv3`; "), "{}", err(&output));
}

#[test]
fn xctrace_stand_in_records_points_of_interest() {
    let bench = Bench::new();
    let program = bench.program();
    bench.runner("bin/xctrace", "mkdir -p 'my out.trace'");
    let output = bench.run(&arguments(&["xctrace", "--output", "my out.trace"], &program));
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
    let start = ["record", "--template", "Points of Interest", "--output", "my out.trace", "--launch", "--"];
    assert_eq!(bench.calls("xctrace"), [with(start, &program)]);
    assert_eq!(bench.added("prog"), map(&[("SKIP_PJRT_PROFILER", "true")]));
    assert!(err(&output).contains(&format!("report: {}/my out.trace ", bench.work().display())), "{}", err(&output));
}

#[test]
fn tools_that_are_missing_are_named_with_their_source() {
    let bench = Bench::new();
    let program = bench.program();
    for (command, source) in [
        (&["nsys", "--no-sudo"][..], "https://developer.nvidia.com/nsight-systems"),
        (&["rocprofv3"], "rocprofiler-sdk"),
        (&["xctrace"], "Xcode"),
        (&["neuron", "profile"], "aws-neuronx-tools"),
        (&["neuron", "server"], "aws-neuronx-tools"),
    ] {
        let program = if command[1..] == ["server"] { vec![] } else { vec![program.as_str()] };
        let output = bench.run(&[command, &program].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()), "{command:?}");
        assert!(err(&output).contains("is not found in ") && err(&output).contains(source), "{}", err(&output));
    }
    assert_eq!(bench.calls("prog"), Vec::<Vec<String>>::new());
    assert_eq!(bench.run(&["nsys"]).status.code(), Some(2), "a program must be named");
    assert_eq!(bench.run(&["nsys", "--bogus", &program]).status.code(), Some(2));
}

#[test]
fn a_report_that_is_there_is_kept_unless_forced() {
    let bench = Bench::new();
    let program = bench.program();
    bench.runner("bin/nsys", "[ $# -eq 0 ] || echo new >run.nsys-rep");
    bench.runner("bin/xctrace", "");
    let report = bench.work().join("run.nsys-rep");
    fs::write(&report, "old").expect("the folder is ours");
    for output in ["run", "run.nsys-rep"] {
        let output = bench.run(&["nsys", "--no-sudo", "--no-check", "-o", output, &program]);
        let expected = "zprof: `run.nsys-rep` exists; give another -o, or --force\n";
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), expected));
    }
    fs::create_dir(bench.work().join("my.trace")).expect("the folder is ours");
    let output = bench.run(&["xctrace", "-o", "my.trace", &program]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), "zprof: `my.trace` exists; give another -o\n"));
    assert_eq!(bench.calls("prog"), Vec::<Vec<String>>::new(), "nothing ran");
    assert_eq!(fs::read_to_string(&report).expect("is there"), "old");
    let output = bench.run(&["nsys", "--no-sudo", "--no-check", "-o", "run", "--force", &program]);
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
    let words = words(&format!("{NSYS} -o run --force-overwrite true {program}"));
    assert_eq!(bench.calls("nsys").last(), Some(&words));
    assert_eq!(fs::read_to_string(&report).expect("is there"), "new\n");
}

#[test]
fn a_tool_that_leaves_no_report_is_told_of() {
    let bench = Bench::new();
    let program = bench.program();
    bench.runner("bin/nsys", "");
    let output = bench.run(&["nsys", "--no-sudo", &program, "x"]);
    assert_eq!(err(&output), format!("zprof: nsys has left no report in {}\n", bench.work().display()));
}

#[test]
fn a_program_that_a_signal_ends_gives_the_shells_code() {
    let bench = Bench::new();
    bench.script("prog", "kill -9 $$\n");
    bench.runner("bin/nsys", "");
    assert_eq!(bench.run(&["nsys", "--no-sudo", &bench.path("prog")]).status.code(), Some(137));
    bench.script("bin/nsys", "case $2 in --help) ;; *) kill -15 $$ ;; esac\n");
    assert_eq!(bench.run(&["nsys", "--no-sudo", &bench.path("prog")]).status.code(), Some(143));
}
