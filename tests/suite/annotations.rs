//! What live tools see of scopes: NVTX and ROCTx through a tool that writes down each call, and the real Nsight Systems.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zprof_tests::annotations::tool::{Attach, Roctx, Seen, watch};
use zprof_tests::annotations::{Range, Thread, nsys, thread};
use zprof_tests::profile::{self, Event, Line, Stat};

const NVTX: Attach = Attach { nvtx: true, roctx: None };
const BOTH: Attach = Attach { nvtx: true, roctx: Some(Roctx::InProcess) };

fn annotated(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annotated"));
    command.args(arguments);
    command
}

/// What NVTX and ROCTx saw, which must be the same and closed to the last range, thread by thread.
fn both(arguments: &[&str]) -> Vec<Thread> {
    let seen = watch(&mut annotated(arguments), BOTH);
    let nvtx = balanced(&seen, "nvtx", Some("TSL"));
    let roctx = balanced(&seen, "roctx", None);
    let trees =
        |threads: &[Thread]| threads.iter().map(|thread| (thread.id, thread.tree())).collect::<BTreeMap<_, _>>();
    assert_eq!(trees(&nvtx), trees(&roctx));
    nvtx
}

fn balanced(seen: &Seen, api: &str, domain: Option<&str>) -> Vec<Thread> {
    assert_eq!(seen.count(api, "push"), seen.count(api, "pop"), "{api}");
    let threads = seen.threads(api, domain);
    for thread in &threads {
        assert_eq!((thread.open, thread.surplus), (0, 0), "{api}: {}", thread.tree());
    }
    threads
}

#[test]
fn a_label_has_name_and_values_on_one_line() {
    let threads = both(&["values"]);
    let [main] = threads.as_slice() else { panic!("one thread: {threads:?}") };
    let mut labels = main.labels();
    let long = labels.iter().position(|label| label.starts_with("long#")).expect("the long one is there");
    let cut = labels.remove(long);
    assert_eq!((cut.len(), &cut[..11], &cut[4090..]), (4095, "long#long=x", "x…#"));
    let expected = [
        "all literal#a=1,b=-2,c=x,y=z,d=1,e=c,f=1.5#",
        "line break#k=a  b#",
        "numbers#small=-5,large=18446744073709551615,half=0.3,whole=3,no=0#",
        "texts#text=owned,first=ä,mode=Sampled,some=7#",
        "mixed#fixed=1,moving=18446744073709551615,end=of it#",
        "text#text=a_b#",
        "text#text=nul nul#",
        "text#text=two lines #",
        "text#text=#",
        "text#text=🦀 crab#",
        "text#text=tab\tstays#",
        "step#step_num=1,_r=1#",
        "step#step_num=2#",
        "only a root",
        "conv_1 #small=-5,end=of it#",
        "conv_1",
        "add #small=-5,end=of it#",
        "add",
    ];
    // Rust prints the sum of 0.1 and 0.2 as an f32 with all its digits.
    let half = format!("half={}", 0.1_f32 + 0.2);
    let expected = expected.map(|label| label.replace("half=0.3", &half));
    assert_eq!(labels, expected);
}

#[test]
fn instants_are_marks() {
    let seen = watch(&mut annotated(&["marks"]), BOTH);
    let labels = ["whole#a=1,b=x#", "in it#n=0,text=a_b#", "in it#n=1,text=a_b#", "plain"];
    for (api, domain) in [("nvtx", Some("TSL")), ("roctx", None)] {
        let marks: Vec<_> = seen.of(api, "mark").map(|call| (call.label.as_deref(), call.domain.as_deref())).collect();
        assert_eq!(marks, labels.map(|label| (Some(label), domain)), "{api}");
        let [main] = &balanced(&seen, api, domain)[..] else { panic!("one thread") };
        assert_eq!(main.tree(), "step#step_num=3,_r=1#\n", "{api}");
    }
    let kinds: Vec<_> = seen.of("nvtx", "mark").map(|call| (call.registered, call.color, call.category)).collect();
    let [whole, values, plain] = [(true, 0xff4e_79a7), (false, 0xff4e_79a7), (false, 0xffa6_bcd3)]
        .map(|(registered, colour)| (registered, Some(colour), 1));
    assert_eq!(kinds, [whole, values, values, plain]);
}

#[test]
fn names_of_threads_reach_tools_at_once() {
    let seen = watch(&mut annotated(&["names"]), BOTH);
    let names: Vec<Option<&str>> = seen.of("nvtx", "name thread").map(|call| call.label.as_deref()).collect();
    assert_eq!(names, ["before any scope", "nul inside", "pool 3", "without a scope"].map(Some));
    let trees: BTreeMap<String, String> =
        seen.threads("nvtx", Some("TSL")).iter().map(|thread| (thread.name().to_owned(), thread.tree())).collect();
    let expected = [("nul inside", "first\nsecond\n"), ("pool 3", "third\n")];
    assert_eq!(trees, expected.map(|(name, tree)| (name.to_owned(), tree.to_owned())).into());
}

#[test]
fn sites_that_are_made_at_run_time_are_seen_too() {
    let seen = watch(&mut annotated(&["raw"]), BOTH);
    for (api, domain) in [("nvtx", Some("TSL")), ("roctx", None)] {
        let [main] = &balanced(&seen, api, domain)[..] else { panic!("one thread") };
        assert_eq!(main.tree(), "raw#a=x_y,b=0.5#\n  a_b c\n  raw#a=1#\n", "{api}");
        let marks: Vec<_> = seen.of(api, "mark").map(|call| call.label.as_deref()).collect();
        assert_eq!(marks, [Some("raw#b=-1#")], "{api}");
    }
}

#[test]
fn ranges_close_on_every_way_out_of_a_scope() {
    let threads = both(&["ways-out"]);
    let [main] = threads.as_slice() else { panic!("one thread: {threads:?}") };
    let expected = "\
around
  returns_early
    before
  returns_early
    before
      after
  outer
    inner
  leaks
    leaked
      in the leaked
  first
    second
  third
    fourth
      in the fourth
";
    assert_eq!(main.tree(), expected);
}

#[test]
fn ranges_close_when_their_thread_ends() {
    let threads = both(&["threads"]);
    let holder = thread(&threads, "holder");
    assert_eq!(holder.tree(), "held\n  forgotten\n");
    let deep = thread(&threads, "deep");
    let levels: Vec<String> = (0..=300).rev().map(|level| format!("deep#depth={level}#")).collect();
    assert_eq!(deep.labels(), levels);
    let busy: Vec<&Thread> = threads.iter().filter(|thread| !["holder", "deep"].contains(&thread.name())).collect();
    assert_eq!(busy.len(), 8);
    let mut trees: Vec<String> = busy.iter().map(|thread| thread.tree()).collect();
    trees.sort();
    let expected = (0..8).map(|index| {
        (0..100).map(|round| format!("busy#index={index},round={round}#\n  within\n")).collect::<String>()
    });
    assert_eq!(trees, expected.collect::<Vec<_>>());
}

#[test]
fn the_first_scope_may_be_in_the_destructor_of_a_thread() {
    let threads = both(&["destructor"]);
    let trees: Vec<String> = threads.iter().map(Thread::tree).collect();
    assert_eq!(trees, ["in a destructor#name=first#\n", "afterwards\n"]);
}

#[test]
fn sessions_and_tools_do_not_mind_each_other() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().to_str().expect("the folder has a plain name");
    let seen = watch(&mut annotated(&["sessions", path]), BOTH);
    for (api, domain) in [("nvtx", Some("TSL")), ("roctx", None)] {
        let [main] = &balanced(&seen, api, domain)[..] else { panic!("one thread") };
        assert_eq!(main.tree(), "before\n  across\ncritical\n  verbose\nopen at stop\n", "{api}");
    }
    // The session has level 1.
    assert_eq!(seen.stdout, "2\n");
    let run = folder.path().join("plugins/profile/profiling/profiling.xplane.pb");
    let (lines, _, _) = profile::read_file(&run);
    assert_eq!(lines.iter().map(Line::names).collect::<Vec<_>>(), [["critical", "open at stop"]]);
}

#[test]
fn a_library_that_opens_the_first_scope_while_it_is_loaded_does_not_hang() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (source, library) = (folder.path().join("early.c"), folder.path().join("libearly.so"));
    let text = "#include <stdlib.h>\n\
        __attribute__((constructor)) static void run(void) {\n\
        const char* address = getenv(\"ZPROF_TEST_CONSTRUCTOR\");\n\
        if (address) ((void (*)(void))strtoull(address, 0, 10))();\n}\n";
    fs::write(&source, text).expect("is written");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(status.expect("there is a C compiler").success());
    let seen = watch(&mut annotated(&["constructor", library.to_str().expect("a plain name")]), NVTX);
    let [main] = &balanced(&seen, "nvtx", Some("TSL"))[..] else { panic!("one thread") };
    // The constructor's own came too early for the tool.
    assert!(main.labels().iter().all(|label| *label == "afterwards"), "{}", main.tree());
    assert!(!main.ranges.is_empty());
}

#[test]
fn a_session_finds_a_tool_that_came_after_the_first_scope() {
    let library = fetched("get-roctx");
    let mut command = annotated(&["late", library.to_str().expect("a plain name")]);
    let seen = watch(&mut command, Attach::default());
    assert_eq!(seen.calls, []);
    // The tracer has loaded the library before `main` here, so that all is seen.
    let seen = watch(&mut command, Attach { nvtx: false, roctx: Some(Roctx::ByName) });
    let [main] = &balanced(&seen, "roctx", None)[..] else { panic!("one thread") };
    assert_eq!(main.tree(), "unseen\nstill unseen\nseen\nseen without a session\n");
}

#[test]
fn static_labels_are_registered_once_and_the_others_never() {
    let seen = watch(&mut annotated(&["threads"]), NVTX);
    let mut registered: Vec<&str> = seen.of("nvtx", "register").filter_map(|call| call.label.as_deref()).collect();
    // Threads may race to be first with one; then both have it.
    registered.sort_unstable();
    registered.dedup();
    assert_eq!(registered, ["forgotten", "held", "within"]);
    let mut within = 0;
    for push in seen.of("nvtx", "push") {
        let label = push.label.as_deref().unwrap_or_default();
        assert_eq!(push.registered, !label.contains('='), "{label}");
        within += usize::from(label == "within");
    }
    assert_eq!(within, 800);
    let colours: BTreeMap<_, _> = seen.of("nvtx", "push").map(|push| (push.color, push.category)).collect();
    assert_eq!(colours, [(Some(0xff4e_79a7), 1)].into(), "one module at one level");
    let categories: Vec<_> = seen.of("nvtx", "name category").map(|call| call.label.as_deref()).collect();
    assert_eq!(categories, [Some("annotated")]);
}

#[test]
fn a_variable_that_names_no_tool_is_told_and_harms_nothing() {
    let mut command = annotated(&["destructor"]);
    let output = command.env("NVTX_INJECTION64_PATH", "/absent/tool.so").output().expect("the program can be run");
    assert!(output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let start = "zprof: warning: no NVTX ranges: NVTX_INJECTION64_PATH names `/absent/tool.so`, which is no tool: ";
    assert!(stderr.starts_with(start) && stderr.lines().count() == 1, "{stderr}");
}

/// The path that a script of this repository prints.
fn fetched(script: &str) -> PathBuf {
    let output = Command::new(root().join("scripts").join(script)).output().expect("the script can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}

/// The example with this name, built with NVTX.
fn example(name: &str) -> PathBuf {
    let arguments = ["build", "--release", "-p", "zprof-examples", "--features", "nvtx", "--message-format", "json"];
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--quiet", "--example", name]).current_dir(root());
    let output = command.output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let path = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).expect("cargo writes one message a line");
        message["executable"].as_str().map(PathBuf::from)
    });
    path.unwrap_or_else(|| panic!("cargo made no program: {messages}"))
}

/// What the label of an event should be, from what the profile says of it.
fn label(event: &Event) -> String {
    let values = event.stats.iter().map(|(key, value)| match value {
        Stat::Int(value) => format!("{key}={value}"),
        Stat::Text(value) => format!("{key}={value}"),
        other => panic!("the example has no such values: {other:?}"),
    });
    let values: Vec<String> = values.collect();
    if values.is_empty() { event.name.clone() } else { format!("{}#{}#", event.name, values.join(",")) }
}

/// The events of a line as nested ranges, by their times.
fn nested(line: &Line) -> Vec<(usize, String)> {
    let mut open: Vec<i64> = Vec::new();
    let depth_of = |event: &Event| {
        while open.last().is_some_and(|end| *end <= event.start_ps) {
            open.pop();
        }
        open.push(event.end_ps);
        open.len() - 1
    };
    line.events.iter().map(depth_of).zip(line.events.iter().map(label)).collect()
}

fn ranges(ranges: &[Range], depth: usize, flat: &mut Vec<(usize, String)>) {
    for range in ranges {
        flat.push((depth, range.label.clone()));
        self::ranges(&range.children, depth + 1, flat);
    }
}

#[test]
fn nsight_systems_shows_every_scope_of_a_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut llm = Command::new(example("llm"));
    llm.args(["--tokens", "4", "--threads", "2", "--output"]).arg(folder.path());
    let report = nsys::profile(&llm, "TSL");
    let (lines, warnings, _) = profile::read_file(&folder.path().join("plugins/profile/profiling/profiling.xplane.pb"));
    assert_eq!(warnings, Vec::<String>::new());

    let mut scopes = 0;
    for line in &lines {
        let thread = report.threads.iter().find(|thread| i64::from(thread.id) == line.id);
        let thread = thread.unwrap_or_else(|| panic!("nsys has no thread of `{}`", line.name));
        assert_eq!(thread.name.as_deref(), Some(line.name.as_str()));
        assert_eq!((thread.open, thread.surplus), (0, 0));
        let mut flat = Vec::new();
        ranges(&thread.ranges, 0, &mut flat);
        assert_eq!(flat, nested(line), "{}", line.name);
        scopes += flat.len();
    }
    assert!(scopes > 500 && lines.len() == 2, "{scopes} scopes on {} threads", lines.len());
    assert_eq!(report.categories.values().map(String::as_str).min(), Some("llm"));

    // Without nsys the program says the same.
    let alone = llm.output().expect("the example can be run");
    assert!(alone.status.success());
    let tokens = |stdout: &str| stdout.lines().find(|line| line.contains(" tokens: [")).map(str::to_owned);
    let alone = String::from_utf8(alone.stdout).expect("the example writes UTF-8");
    assert!(tokens(&alone).is_some());
    assert_eq!(tokens(&report.stdout), tokens(&alone));
}
