//! House rules that can be checked by reading the files of the repository; docs/architecture.md gives their reasons.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that hold unsafe code. A new one is a decision: its module line opens `unsafe_code` with a reason.
const UNSAFE: &[&str] = &[
    "examples/examples/pjrt/abi.rs",
    "examples/examples/pjrt/plugin.rs",
    "zprof-c/src/abi.rs",
    "zprof-c/src/names.rs",
    "zprof-c/src/scope.rs",
    "zprof-c/src/session.rs",
    "zprof-c/src/site.rs",
    "zprof-c/src/thread.rs",
    "zprof-cli/src/run/signals.rs",
    "zprof-runtime/src/bridge/tracing/layer.rs",
    "zprof-runtime/src/clock.rs",
    "zprof-runtime/src/annotate/nvtx.rs",
    "zprof-runtime/src/annotate/roctx.rs",
    "zprof-runtime/src/annotate/signpost/system.rs",
    "zprof-runtime/src/dylib.rs",
    "zprof-runtime/src/environment.rs",
    "zprof-runtime/src/export/text.rs",
    "zprof-runtime/src/folder/unix.rs",
    "zprof-runtime/src/os.rs",
    "zprof-runtime/src/thread_name.rs",
    "zprof-runtime/src/pjrt/abi.rs",
    "zprof-runtime/src/pjrt/off.rs",
    "zprof-runtime/src/pjrt/plugin.rs",
    "zprof-runtime/src/pjrt/table.rs",
    "zprof-runtime/src/record/chain.rs",
    "zprof-runtime/src/record/chunk.rs",
    "zprof-runtime/src/record/decode.rs",
    "zprof-runtime/src/record/fork.rs",
    "zprof-runtime/src/record/inherit.rs",
    "zprof-runtime/src/record/log.rs",
    "zprof-runtime/src/record/memory.rs",
    "zprof-runtime/src/record/mod.rs",
    "zprof-runtime/src/record/model.rs",
    "zprof-runtime/src/record/off.rs",
    "zprof-runtime/src/record/overrun.rs",
    "zprof-runtime/src/record/raw/value.rs",
    "zprof-runtime/src/record/reclaim.rs",
    "zprof-runtime/src/record/ring.rs",
    "zprof-runtime/src/record/slab.rs",
    "zprof-runtime/src/record/task.rs",
    "zprof-runtime/src/record/thread.rs",
    "zprof-runtime/src/session/copies/linux.rs",
    "zprof-runtime/src/session/ends/at_exit.rs",
    "zprof-runtime/src/session/ends/unix.rs",
    "zprof-runtime/src/session/ends/windows.rs",
    "zprof-runtime/src/session/platform.rs",
    "zprof-runtime/src/value/mod.rs",
    "zprof-runtime/src/value/standard.rs",
];

/// Files of the runtime that may look at target, feature or loom; everything else asks them.
const CONDITIONAL: &[&str] = &[
    "zprof-runtime/src/annotate/mod.rs",
    "zprof-runtime/src/annotate/nvtx.rs",
    "zprof-runtime/src/annotate/signpost/mod.rs",
    "zprof-runtime/src/atomic.rs",
    "zprof-runtime/src/bridge/held.rs",
    "zprof-runtime/src/clock.rs",
    "zprof-runtime/src/dylib.rs",
    "zprof-runtime/src/environment.rs",
    "zprof-runtime/src/folder/elsewhere.rs",
    "zprof-runtime/src/folder/mod.rs",
    "zprof-runtime/src/folder/unix.rs",
    "zprof-runtime/src/lib.rs",
    "zprof-runtime/src/record/fork.rs",
    "zprof-runtime/src/os.rs",
    "zprof-runtime/src/thread_name.rs",
    "zprof-runtime/src/cgroup.rs",
    "zprof-runtime/src/record/chain.rs",
    "zprof-runtime/src/record/chunk.rs",
    "zprof-runtime/src/record/helper.rs",
    "zprof-runtime/src/record/log.rs",
    "zprof-runtime/src/record/memory.rs",
    "zprof-runtime/src/record/mod.rs",
    "zprof-runtime/src/record/pool.rs",
    "zprof-runtime/src/record/registry.rs",
    "zprof-runtime/src/record/ring.rs",
    "zprof-runtime/src/record/share.rs",
    "zprof-runtime/src/record/slab.rs",
    "zprof-runtime/src/record/thread.rs",
    "zprof-runtime/src/session/copies/mod.rs",
    "zprof-runtime/src/session/ends/mod.rs",
    "zprof-runtime/src/session/ends/unix.rs",
    "zprof-runtime/src/session/exit.rs",
    "zprof-runtime/src/session/run_names.rs",
    "zprof-runtime/src/xspace/source.rs",
];

/// What a layer must not name, with the reason.
const LAYERS: &[(&str, &[&str], &str)] = &[
    (
        "zprof-runtime/src/xspace/",
        &["std::thread", "std::time", "std::env", "crate::record", "crate::session", "crate::export", "crate::clock"],
        "xspace turns bytes into bytes",
    ),
    (
        "zprof-runtime/src/export/",
        &["std::thread", "std::time", "std::env", "crate::record", "crate::session", "crate::clock"],
        "export reads an XSpace, whoever made it",
    ),
    (
        "zprof-runtime/src/record/",
        &["crate::session", "crate::xspace", "crate::export"],
        "the recorder does not know who drains it",
    ),
    (
        "zprof-runtime/src/annotate/",
        &["crate::record", "crate::session", "crate::export", "crate::xspace"],
        "an annotation needs no recorder",
    ),
    (
        "zprof-runtime/src/pjrt/",
        &["crate::record", "crate::session", "crate::export", "crate::xspace"],
        "a plugin gives bytes and knows nothing of the rest",
    ),
    ("zprof-macros/src/", &["cfg!(", "env::consts"], "a macro runs on the host; it emits cfg tokens instead of asking"),
    ("zprof/src/macros.rs", &["cfg(feature", "cfg!("], "a cfg in an exported macro is read in the caller's crate"),
];

const LONGEST: usize = 600;

/// One file of the repository.
struct Source {
    /// Path from the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// The text without unit tests, which stand at the end of a file.
    fn product(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default()
    }

    fn generated(&self) -> bool {
        self.text.lines().take(3).any(|line| line.contains("@generated"))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("failed to read `{path}`: {error}"))
}

/// Every Rust file that a person wrote, but the UI cases: those show what users write.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root(), &root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "only {} files found under {}", found.len(), root().display());
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("failed to list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the listing can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        if path.is_dir() {
            let skipped = name.starts_with('.') || name.starts_with("target") || path == root.join("tests/ui");
            if !skipped {
                collect(root, &path, found);
            }
        } else if name.ends_with(".rs") {
            let path = path.strip_prefix(root).expect("below the root").to_str().expect("names are UTF-8").to_owned();
            let source = Source { text: read(&path), path };
            if !source.generated() {
                found.push(source);
            }
        }
    }
}

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// The first paragraph of the file's `//!` comment, if the file begins with one that is a sentence.
fn opening_sentence(text: &str) -> Option<String> {
    let words = text.lines().map_while(|line| line.strip_prefix("//! ")).collect::<Vec<_>>().join(" ");
    words.ends_with('.').then_some(words)
}

#[test]
fn every_file_begins_with_its_sentence() {
    assert_eq!(opening_sentence("//! Does this\n//! and that.\n//!\n//! More"), Some("Does this and that.".to_owned()));
    assert_eq!(opening_sentence("use std::fs;\n//! Late."), None);
    let without: Vec<String> =
        sources().into_iter().filter(|file| opening_sentence(&file.text).is_none()).map(|file| file.path).collect();
    assert_eq!(without, Vec::<String>::new(), "these need a `//!` sentence on their first line, ending in a full stop");
}

#[test]
fn files_stay_short() {
    let long: Vec<(String, usize)> = sources()
        .into_iter()
        .map(|file| (file.path, file.text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .collect();
    assert_eq!(long, [], "split these by role");
}

/// Whether there is unsafe code, rather than talk of it.
fn has_unsafe(text: &str) -> bool {
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"))
        .any(|line| ["{", "fn", "impl", "extern", "trait"].iter().any(|next| line.contains(&format!("unsafe {next}"))))
}

#[test]
fn unsafe_stays_where_it_is_listed() {
    assert!(has_unsafe("    let x = unsafe { y() };"));
    assert!(!has_unsafe("    // no unsafe { here"));
    let listed = |path: &str| ["zprof", "proto/", "examples/"].iter().any(|start| path.starts_with(start));
    let found = sources().into_iter().filter(|file| listed(&file.path) && has_unsafe(&file.text));
    assert_eq!(found.map(|file| file.path).collect::<BTreeSet<_>>(), set(UNSAFE));
}

#[test]
fn conditions_stay_where_they_are_listed() {
    let asks = |text: &str| {
        ["target_", "feature", "zprof_loom", "unix", "windows"].iter().any(|what| {
            ["cfg(", "cfg!(", "cfg(not(", "cfg(all(", "cfg(any(", "cfg_attr("]
                .iter()
                .any(|start| text.contains(&format!("{start}{what}")))
        })
    };
    let asking = sources()
        .into_iter()
        .filter(|file| file.path.starts_with("zprof-runtime/src/") && asks(file.product()))
        .map(|file| file.path);
    assert_eq!(asking.collect::<BTreeSet<_>>(), set(CONDITIONAL));
}

#[test]
fn layers_use_what_is_below_them() {
    let mut wrong = Vec::new();
    for file in sources() {
        for (folder, words, reason) in LAYERS {
            let hits = words.iter().filter(|word| file.path.starts_with(folder) && file.product().contains(*word));
            wrong.extend(hits.map(|word| format!("{} names `{word}`, but {reason}", file.path)));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn libraries_are_loaded_in_one_place() {
    let loads = |file: &Source| file.path.starts_with("zprof") && file.text.contains("libloading");
    let loading: Vec<String> = sources().into_iter().filter(loads).map(|file| file.path).collect();
    assert_eq!(loading, ["zprof-runtime/src/dylib.rs"]);
}

/// Whether the code reads the environment, by itself or through a function that does. Comments do not count.
fn reads_environment(text: &str) -> bool {
    let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    let readers = ["env::var", "var_os(", "vars_os(", "temp_dir(", "home_dir(", "getenv(", "environ;"];
    code.into_iter().any(|line| readers.iter().any(|reader| line.contains(reader)))
}

#[test]
fn the_environment_is_read_in_one_place() {
    assert!(reads_environment("    let path = std::env::var_os(\"PATH\");"));
    assert!(!reads_environment("//! let folder = std::env::temp_dir();"));
    // Build scripts run inside cargo, which tells them by variables what it builds.
    let is_product = |file: &Source| file.path.starts_with("zprof") && file.path.contains("/src/");
    let reading = sources().into_iter().filter(|file| is_product(file) && reads_environment(file.product()));
    assert_eq!(
        reading.map(|file| file.path).collect::<Vec<_>>(),
        ["zprof-runtime/src/environment.rs"],
        "use `zprof_runtime::environment`, which gives nothing to programs with raised privileges"
    );
}

/// Public items as written, from `pub` to the body or the semicolon.
fn public_signatures(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("pub ").filter(|(start, _)| text[..*start].trim_end_matches(' ').ends_with('\n')).map(
        |(start, _)| {
            let signature = &text[start..];
            &signature[..signature.find(['{', ';', '=']).unwrap_or(signature.len())]
        },
    )
}

#[test]
fn public_signatures_name_no_foreign_message_type() {
    let sample =
        "\npub fn a(x: &prost::Message) -> u8 { zprof_proto::b() }\n    pub(crate) fn c(x: zprof_proto::D) {}\n";
    assert_eq!(public_signatures(sample).collect::<Vec<_>>(), ["pub fn a(x: &prost::Message) -> u8 "]);
    let mut wrong = Vec::new();
    for file in sources() {
        if file.path.starts_with("zprof/src/") || file.path.starts_with("zprof-runtime/src/") {
            let foreign = ["prost", "zprof_proto", "serde"];
            let hits = public_signatures(file.product()).filter(|item| foreign.iter().any(|name| item.contains(name)));
            wrong.extend(hits.map(|item| format!("{}: {}", file.path, item.trim())));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_todo_names_an_issue() {
    let mark = ["TO", "DO"].concat();
    let mut wrong = Vec::new();
    for file in sources() {
        let lines = file.text.lines().filter(|line| line.contains(&mark) && !line.contains(&format!("{mark}(#")));
        wrong.extend(lines.map(|line| format!("{}: {}", file.path, line.trim())));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What stands between the lines of `text` that begin with `start` and with `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let from = text.find(start).unwrap_or_else(|| panic!("there is no `{start}`")) + start.len();
    let length = text[from..].find(end).unwrap_or_else(|| panic!("there is no `{end}` after `{start}`"));
    &text[from..from + length]
}

#[test]
fn the_readme_shows_the_quickstart_as_it_is() {
    let example = read("examples/examples/quickstart.rs");
    let (_, program) = example.split_once("\n\n").expect("a blank line follows the sentence");
    assert_eq!(between(&read("README.md"), "```rust\n", "```"), program);
}

/// Names of the features of the zprof crate, but `default`.
fn features() -> BTreeSet<String> {
    let manifest = read("zprof/Cargo.toml");
    let table = between(&manifest, "[features]\n", "\n[");
    let names = table.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned());
    names.filter(|name| name != "default" && !name.starts_with('#')).collect()
}

#[test]
fn the_readme_and_the_check_know_every_feature() {
    let readme = read("README.md");
    let table = between(&readme, "| feature |", "\n\n");
    let described = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned);
    assert_eq!(described.collect::<BTreeSet<_>>(), features(), "README.md");

    let script = read(".ci/run");
    let checked = between(&script, "\nfeatures=(", ")").split_whitespace().map(str::to_owned);
    assert_eq!(checked.collect::<BTreeSet<_>>(), features(), ".ci/run");
}

#[test]
fn the_architecture_names_files_that_exist() {
    let text = read("docs/architecture.md");
    // Every second piece stands in backticks; what ends like a file or folder is one.
    let named = text.split('`').skip(1).step_by(2).filter(|word| {
        !word.contains(' ') && ["/", ".rs", ".md", ".proto", ".toml"].iter().any(|end| word.ends_with(end))
    });
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 10, "the code map names only {named:?}");
    let missing: Vec<&&str> = named.iter().filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}
