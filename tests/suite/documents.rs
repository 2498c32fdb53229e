//! Blocks of the documents: each that holds commands or code for another compiler is run by a test, or is on a list with the reason
//! why none runs it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use zprof_tests::blocks::{Block, blocks};

/// How a block is known to work.
#[derive(Clone, Copy, Debug)]
enum How {
    /// The tests of this file read it out of its document and run it.
    Run(&'static str),
    /// No test runs it, for this reason.
    Not(&'static str),
}

use How::{Not, Run};

const TOOLS: &str = "zprof-cli/tests/tools/documents.rs";
const C: &str = "tests/c/suite/documents.rs";
const MEASURES: &str = "it measures for minutes, on a machine with nothing else to do";
const ITSELF: &str = "it runs these tests, among others";

/// The blocks by document and first line.
const KNOWN: &[(&str, &str, How)] = &[
    ("CONTRIBUTING.md", "cargo check -p zprof-runtime --features enable                     # seconds", Not(ITSELF)),
    (
        "README.md",
        "cargo run --release -p zprof-examples --example llm    # the main job",
        Not("`.ci/run examples` runs the example, and `scripts/test` runs these tests"),
    ),
    (
        "README.md",
        "cargo run --release -p zprof-examples --example pjrt -- \"$(scripts/get-pjrt-plugins cpu | cut -d' ' -f2)\"",
        Not("tests/suite/pjrt_example.rs runs the example, as it was built for the tests, with that plugin"),
    ),
    (
        "README.md",
        "cargo build --release -p zprof-examples --features nvtx,roctx,signpost --example backends",
        Run(TOOLS),
    ),
    (
        "README.md",
        "zprof convert /tmp/xprof                                 # the newest run, as <host>.trace.json beside it",
        Run(TOOLS),
    ),
    (
        "benches/README.md",
        "cd benches && cargo run --release --bin hot_path    # --quick: five rounds instead of sixty",
        Not(MEASURES),
    ),
    ("benches/README.md", "cd benches && cargo run --release --bin fork", Not(MEASURES)),
    (
        "benches/README.md",
        "cd benches && cargo run --release --bin hot_path -- --quick    # and: --bin snapshot",
        Not(MEASURES),
    ),
    (
        "benches/README.md",
        "cd benches && cargo run --release --bin bridge    # --quick: three rounds instead of thirty; --only ROW: that row alone",
        Not(MEASURES),
    ),
    (
        "benches/README.md",
        "cd benches && cargo run --release --bin c_api    # --quick: five rounds instead of sixty",
        Not(MEASURES),
    ),
    ("benches/README.md", "cd benches && cargo run --release --features tools --bin annotate", Not(MEASURES)),
    ("benches/README.md", "cd benches && cargo run --release --bin stop", Not(MEASURES)),
    ("benches/README.md", "cd benches && cargo run --release --bin device [MEGABYTES]", Not(MEASURES)),
    ("benches/README.md", "scripts/get-tsl-oracle && cd benches && cargo run --release --bin json", Not(MEASURES)),
    (
        "benches/README.md",
        "scripts/get-tsl-oracle && cd benches && cargo run --release --bin json    # and: --bin json -- --huge",
        Not(MEASURES),
    ),
    (
        "benches/README.md",
        "cd benches && cargo run --release --bin pftrace [XSPACE...]    # --quick: five rounds instead of forty",
        Not(MEASURES),
    ),
    ("docs/c.md", "#include <zprof.h>", Run(C)),
    (
        "docs/c.md",
        "scripts/install-c ~/.local                        # builds; libzprof.so, libzprof.a, zprof.h, and files for pkg-config",
        Run(C),
    ),
    ("docs/c.md", "zprof_options options = ZPROF_OPTIONS_INIT;", Run(C)),
    (
        "docs/c.md",
        "const c = @cImport(@cInclude(\"zprof.h\"));",
        Not("no machine that runs the tests has Zig; the text says so"),
    ),
    (
        "docs/filtering.md",
        "RUSTFLAGS='--cfg zprof_max_level=\"info\"' cargo build --release",
        Not("it builds a user's program; tests/suite/ceiling.rs builds one of its own so, and runs it"),
    ),
    ("docs/profiling.md", "zprof nsys -- target/release/model --seqlen 128", Run(TOOLS)),
    (
        "docs/profiling.md",
        "cargo build --release    # with zprof = { …, features = [\"nvtx\"] } in Cargo.toml, for zprof's ranges",
        Run(TOOLS),
    ),
    ("docs/profiling.md", "zprof rocprofv3 -- target/release/model", Run(TOOLS)),
    (
        "docs/profiling.md",
        "zprof neuron profile -- target/release/model    # /tmp/zprof-neuron-profile/<UTC time>",
        Run(TOOLS),
    ),
    ("docs/profiling.md", "zprof xctrace -o run.trace -- target/release/model", Run(TOOLS)),
    (
        "docs/profiling.md",
        "ZPROF_NSYS_ARGS=\"profile -t nvtx,osrt --sample=none --cpuctxsw=none\" zprof nsys -- target/release/model",
        Run(TOOLS),
    ),
    (
        "zprof-cli/README.md",
        "cargo install --path zprof-cli    # from a clone",
        Not("it builds the command anew, for minutes"),
    ),
];

/// Languages whose blocks are no commands: rustdoc runs those in Rust, `text` is output or a picture, and `toml` is for the user's own
/// files.
const OTHERS: [&str; 4] = ["rust", "text", "toml", "markdown"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("failed to read `{path}`: {error}"))
}

/// The documents below a folder, without those that are links to others. Folders that are made are not searched.
fn documents(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let entry = entry.expect("it can be read");
        let (path, kind) = (entry.path(), entry.file_type().expect("it has a kind"));
        let name = entry.file_name().into_string().expect("a plain name");
        if kind.is_dir() && !name.starts_with('.') && !["target", "corpus", "fixtures"].contains(&name.as_str()) {
            documents(&path, found);
        } else if kind.is_file() && name.ends_with(".md") {
            found.insert(path.strip_prefix(root()).expect("it is below").to_str().expect("UTF-8").to_owned());
        }
    }
}

/// All blocks that hold commands or code for another compiler, each with its document.
fn found() -> Vec<(String, Block)> {
    let mut files = BTreeSet::new();
    documents(&root(), &mut files);
    let all = files.iter().flat_map(|file| blocks(&root(), file).into_iter().map(|block| (file.clone(), block)));
    all.filter(|(_, block)| !OTHERS.contains(&block.language.as_str())).collect()
}

#[test]
fn every_block_of_commands_is_run_or_has_a_reason() {
    let found: Vec<(String, String)> =
        found().into_iter().map(|(file, block)| (file, block.first_line().to_owned())).collect();
    let known: Vec<(String, String)> =
        KNOWN.iter().map(|(file, first_line, _)| ((*file).to_owned(), (*first_line).to_owned())).collect();
    let sorted = |list: &[(String, String)]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    let (found, known) = (sorted(&found), sorted(&known));
    let unknown: Vec<_> = found.iter().filter(|block| !known.contains(block)).collect();
    assert!(unknown.is_empty(), "no test runs these blocks, and no reason says why: {unknown:#?}");
    assert_eq!(found, known, "the list has a block that is not there, or one block twice");
}

#[test]
fn a_block_that_is_said_to_run_is_read_by_its_test() {
    for (file, first_line, how) in KNOWN {
        match how {
            Run(test) => {
                let source: String = read(test).split_whitespace().collect();
                let call = format!("\"{file}\",\"{}\"", first_line.replace('"', "\\\""));
                let call: String = call.split_whitespace().collect();
                let is_read = source.contains(&call) || {
                    // The line may stand in a variable.
                    let line: String =
                        format!("=\"{}\";", first_line.replace('"', "\\\"")).split_whitespace().collect();
                    source.contains(&line) && source.contains(&format!("\"{file}\",first"))
                };
                assert!(is_read, "{test} does not read `{first_line}` of {file}");
            }
            Not(reason) => assert!(reason.len() > 10, "{file}: `{first_line}` has no reason"),
        }
    }
}

/// The words of a command, up to a comment.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().take_while(|word| !word.starts_with('#')).collect()
}

#[test]
fn commands_that_no_test_runs_name_what_is_there() {
    let is_run = |file: &str, first: &str| {
        KNOWN.iter().any(|known| (known.0, known.1) == (file, first) && matches!(known.2, Run(_)))
    };
    let mut looked_at = 0;
    for (file, block) in found().iter().filter(|(_, block)| block.language == "sh") {
        if is_run(file, block.first_line()) {
            continue;
        }
        let in_benches = file == "benches/README.md";
        for line in block.text.lines() {
            let words = words(line);
            for word in &words {
                let word = word.trim_start_matches(['"', '$', '(']);
                if word.starts_with("scripts/") || word == ".ci/run" {
                    assert!(root().join(word).is_file(), "{file}: {line}");
                    looked_at += 1;
                }
            }
            for pair in words.windows(2) {
                let value = pair[1];
                let is_there = match pair[0] {
                    "-p" => {
                        let manifest = if in_benches { "benches/Cargo.toml" } else { "Cargo.lock" };
                        read(manifest).contains(&format!("name = \"{value}\"\n"))
                    }
                    "--bin" => {
                        let folder = root().join("benches/src");
                        in_benches && (folder.join(format!("{value}.rs")).is_file() || folder.join(value).is_dir())
                    }
                    "--example" => {
                        let folder = root().join("examples/examples");
                        folder.join(format!("{value}.rs")).is_file() || folder.join(value).join("main.rs").is_file()
                    }
                    "--features" if in_benches => read("benches/Cargo.toml").contains(&format!("\n{value} = [")),
                    "--path" => root().join(value).join("Cargo.toml").is_file(),
                    _ => continue,
                };
                assert!(is_there, "{file}: `{} {value}` of `{line}` is not there", pair[0]);
                looked_at += 1;
            }
        }
    }
    assert!(looked_at >= 20, "{looked_at}");
}

#[test]
fn blocks_in_rust_are_run_by_rustdoc() {
    let mut files = BTreeSet::new();
    documents(&root(), &mut files);
    let has_rust = |file: &&String| blocks(&root(), file).iter().any(|block| block.language == "rust");
    let with_rust: Vec<_> = files.iter().filter(has_rust).collect();
    let included: String = ["zprof/src/lib.rs", "zprof/src/_docs.rs"]
        .into_iter()
        .filter(|path| root().join(path).exists())
        .map(read)
        .collect();
    for file in &with_rust {
        let name = file.rsplit('/').next().expect("a name");
        assert!(included.contains(&format!("{name}\")")), "the face does not include {file}");
    }
    assert!(with_rust.len() >= 4, "{with_rust:?}");
}
