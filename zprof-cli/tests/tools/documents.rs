//! The commands of the documents, run as they are written: with stand-ins for the tools and for cargo, or with nothing but the
//! command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace};

use crate::blocks::block;
use crate::stand_in::{Bench, err, out, words};

/// The folders that `zprof neuron` uses by default are everybody's: those of the test take their places.
const NEURON: &str = r#"
zprof() {
    case "$1 ${2-}" in
        "neuron profile") shift 2 && set -- neuron profile --root "$HOME/runs" "$@" ;;
        "neuron ingest") set -- "$@" --data-path "$HOME/data" "$HOME/runs" ;;
        "neuron server") set -- "$@" --data-path "$HOME/data" ;;
    esac
    command zprof "$@"
}
"#;

/// Runs what follows a tool's own arguments, from the name of a program of the documents on.
const RUNS: &str = r#"while [ $# -gt 0 ] && [ "${1##*/}" != model ] && [ "${1##*/}" != backends ]; do shift; done
[ $# -eq 0 ] || "$@" || exit
"#;

/// The block of a document.
fn text(file: &str, first_line: &str) -> String {
    block(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), file, first_line)
}

/// Runs the text in the bench's folder, where `zprof` is the command; it must end well.
fn shell(bench: &Bench, text: &str) -> Output {
    let command = bench.root().join("bin/zprof");
    if !command.exists() {
        symlink(env!("CARGO_BIN_EXE_zprof"), command).expect("the folder is ours");
    }
    let environment = bench.zprof(&[]);
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", text]).env_clear().current_dir(bench.work());
    shell.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().expect("bash runs");
    assert!(output.status.success(), "{text}\n{}\n{}", out(&output), err(&output));
    output
}

/// A bench with every tool that the documents name, and their program.
fn bench() -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.path("home")).expect("the folder is ours");
    for tool in ["nsys", "rocprofv3", "xctrace"] {
        bench.tool(&format!("bin/{tool}"), RUNS);
    }
    // A run has a system profile then, which can be ingested.
    let explorer = format!(
        r#"case $1 in
inspect) mkdir -p "$3/host/1" && touch "$3/host/1/ntrace.pb" ;;
view) case "$*" in *summary*) echo summary ;; esac ;;
esac
{RUNS}"#
    );
    bench.tool("bin/neuron-explorer", &explorer);
    bench.tool("bin/open", "");
    bench.tool("work/target/release/model", "");
    // Cargo makes the example that it is asked for.
    bench.tool("backends", "");
    let built = bench.path("backends");
    let make = format!("mkdir -p target/release/examples && cp {built} target/release/examples/backends\n");
    bench.tool("bin/cargo", &make);
    bench
}

#[test]
fn commands_of_the_documents_give_the_tools_the_program() {
    let seqlen = words("--seqlen 128");
    let none: Vec<String> = Vec::new();
    let example =
        text("README.md", "cargo build --release -p zprof-examples --features nvtx,roctx,signpost --example backends");
    let all = text("docs/profiling.md", "zprof nsys -- target/release/model --seqlen 128");
    let cuda = text(
        "docs/profiling.md",
        "cargo build --release    # with zprof = { …, features = [\"nvtx\"] } in Cargo.toml, for zprof's ranges",
    );
    let rocm = text("docs/profiling.md", "zprof rocprofv3 -- target/release/model");
    let macos = text("docs/profiling.md", "zprof xctrace -o run.trace -- target/release/model");
    let ranges = text(
        "docs/profiling.md",
        "ZPROF_NSYS_ARGS=\"profile -t nvtx,osrt --sample=none --cpuctxsw=none\" zprof nsys -- target/release/model",
    );
    for (text, program, tools, calls) in [
        (&example, "backends", &["cargo", "nsys", "rocprofv3", "xctrace"][..], vec![none.clone(); 3]),
        (&all, "model", &["nsys", "rocprofv3", "neuron-explorer", "xctrace"], vec![seqlen; 4]),
        (&cuda, "model", &["cargo", "nsys"], vec![none.clone()]),
        (&rocm, "model", &["rocprofv3"], vec![none.clone()]),
        (&macos, "model", &["xctrace", "open"], vec![none.clone()]),
        (&ranges, "model", &["nsys"], vec![none]),
    ] {
        let bench = bench();
        shell(&bench, &format!("{NEURON}{text}"));
        assert_eq!(bench.calls(program), calls, "{text}");
        for tool in ["cargo", "nsys", "rocprofv3", "neuron-explorer", "xctrace", "open"] {
            assert_eq!(!bench.calls(tool).is_empty(), tools.contains(&tool), "{tool}: {text}");
        }
        if text == &ranges {
            let expected = words("profile -t nvtx,osrt --sample=none --cpuctxsw=none target/release/model");
            assert_eq!(bench.calls("nsys").pop(), Some(expected));
        }
    }
}

#[test]
fn commands_of_the_documents_take_a_neuron_run_from_program_to_summary() {
    let bench = bench();
    let first = "zprof neuron profile -- target/release/model    # /tmp/zprof-neuron-profile/<UTC time>";
    // The run has a name of its own: `RUN` stands for it.
    let text = text("docs/profiling.md", first).replace("RUN ", "\"$HOME\"/runs/* ");
    let output = shell(&bench, &format!("{NEURON}{text}"));
    assert_eq!(out(&output), "http://localhost:3001\n");
    assert!(err(&output).contains("1 profiles ingested"), "{}", err(&output));
    assert_eq!(bench.calls("model"), [Vec::<String>::new()]);
    let runs: Vec<_> = fs::read_dir(bench.path("home/runs")).expect("it is there").flatten().collect();
    let [run] = runs.as_slice() else { panic!("one run, not {runs:?}") };
    assert_eq!(fs::read_to_string(run.path().join("summary.txt")).expect("it is written"), "summary\n");
}

/// A profile of two planes: the host's, and one of a GPU whose event is within the range that the README shows.
fn vm() -> Vec<u8> {
    let plane = |name: &str, event: &str| {
        let mut plane = XPlane { name: name.into(), ..Default::default() };
        plane.event_metadata.insert(1, XEventMetadata { id: 1, name: event.into(), ..Default::default() });
        let data = Some(Data::OffsetPs(1_200_000_000_000));
        let event = XEvent { metadata_id: 1, data, duration_ps: 20_000_000, stats: vec![] };
        plane.lines.push(XLine { id: 1, name: "line".into(), events: vec![event], ..Default::default() });
        plane
    };
    let planes = vec![plane("/host:CPU", "decode"), plane("/device:GPU:0", "matmul")];
    XSpace { planes, ..Default::default() }.encode_to_vec()
}

#[test]
fn commands_of_the_readme_convert_a_profile() {
    let bench = Bench::new();
    let log = bench.work().join("log");
    let run = log.join("plugins/profile/run");
    fs::create_dir_all(&run).expect("the folder is ours");
    for path in [run.join("host.xplane.pb"), bench.work().join("vm.xplane.pb")] {
        fs::write(path, vm()).expect("the folder is ours");
    }
    let first =
        "zprof convert /tmp/xprof                                 # the newest run, as <host>.trace.json beside it";
    // The folder of all users has whatever they put there.
    let text = text("README.md", first).replace("/tmp/xprof", log.to_str().expect("UTF-8"));
    let output = shell(&bench, &text);
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let work = bench.work();
    let json = String::from_utf8(read(&run.join("host.trace.json"))).expect("UTF-8");
    assert!(json.contains("\"decode\"") && json.contains("\"matmul\""), "{json}");
    assert_eq!(read(&work.join("vm.trace.json.gz"))[..2], [0x1f, 0x8b]);
    assert!(!read(&work.join("vm.pftrace")).is_empty());
    let part = String::from_utf8(read(&work.join("part.json"))).expect("UTF-8");
    assert!(part.contains("\"matmul\"") && !part.contains("\"decode\""), "{part}");
    let piped = out(&output);
    assert!(piped.len() <= 300 && json.starts_with(&piped[..40]), "{piped}");
}
