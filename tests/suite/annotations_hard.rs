//! Live annotations where it is hard: forks, allocators that open scopes, crowds, and tools that do not behave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zprof_tests::annotations::thread;
use zprof_tests::annotations::tool::{Attach, Seen, watch};

const NVTX: Attach = Attach { nvtx: true, roctx: None };

fn cornered(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cornered"));
    command.args(arguments);
    command
}

/// Whether the tool saw each range closed, by process and thread.
fn assert_balanced(seen: &Seen) {
    assert_eq!(seen.count("nvtx", "push"), seen.count("nvtx", "pop"));
    for thread in seen.threads("nvtx", Some("TSL")) {
        assert_eq!((thread.open, thread.surplus), (0, 0), "{}", thread.tree());
    }
}

#[test]
fn an_allocator_may_open_the_first_scope_and_all_others() {
    let seen = watch(&mut cornered(&["allocator"]), NVTX);
    assert_balanced(&seen);
    let threads = seen.threads("nvtx", Some("TSL"));
    let deep = |label: &&str| label.starts_with("deep#");
    let counts: Vec<usize> = threads.iter().map(|thread| thread.labels().into_iter().filter(deep).count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 1200);
    let main = thread(&threads, "main");
    assert_eq!(main.labels()[..2], ["allocates#bytes=1#", "next"]);
}

#[test]
fn a_crowd_that_comes_first_is_seen_whole_by_one_tool() {
    let seen = watch(&mut cornered(&["crowd", "2000"]), NVTX);
    assert_balanced(&seen);
    assert_eq!(seen.count("nvtx", "push"), 2000);
    assert_eq!(seen.count("nvtx", "create domain"), 1);
    assert_eq!(seen.count("nvtx", "name category"), 1);
}

#[test]
fn the_child_of_a_fork_is_seen_under_its_own_thread() {
    let seen = watch(&mut cornered(&["fork"]), NVTX);
    let threads = seen.threads("nvtx", Some("TSL"));
    let trees: Vec<String> = threads.iter().map(|thread| thread.tree()).collect();
    assert_eq!(trees, ["parent\n  afterwards\n", "child\n", "thread of the child\n"]);
    let [parent, child, of_child] = [0, 1, 2].map(|index| &threads[index]);
    assert_eq!([parent.name(), child.name()], ["main", "main"]);
    assert_eq!([parent, child, of_child].map(|thread| (thread.open, thread.surplus)), [(0, 0); 3]);
}

#[test]
fn a_task_has_the_label_of_a_scope_on_whatever_thread_it_is() {
    let seen = watch(&mut cornered(&["tasks"]), NVTX);
    assert_balanced(&seen);
    let threads = seen.threads("nvtx", Some("TSL"));
    let trees: Vec<String> = threads.iter().map(|thread| thread.tree()).collect();
    let values = "values#single=0.1,some=0.1,double=0.1,text=té_xt,flag=1,letter=x,_r=1#\n";
    assert_eq!(trees, [values, values, "values\n", "values\n", "values\n"]);
}

#[test]
fn sessions_that_come_and_go_leave_no_range_open() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let seen = watch(&mut cornered(&["storm", folder.path().to_str().expect("a plain name")]), NVTX);
    assert_balanced(&seen);
    for thread in seen.threads("nvtx", Some("TSL")) {
        for range in &thread.ranges {
            let children: Vec<&str> = range.children.iter().map(|child| &child.label[..5]).collect();
            assert_eq!((range.label.starts_with("outer#index="), &children[..]), (true, &["first"][..]));
            assert_eq!(range.children[0].children.len(), 1);
        }
    }
}

/// A library for `NVTX_INJECTION64_PATH` whose entry does this.
fn tool(folder: &Path, body: &str) -> PathBuf {
    let (source, library) = (folder.join("tool.c"), folder.join("libtool.so"));
    let text = format!(
        "#include <stdlib.h>\n#include <unistd.h>\nint InitializeInjectionNvtx2(void* export) {{\n{body}\n}}\n"
    );
    fs::write(&source, text).expect("is written");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(status.expect("there is a C compiler").success());
    library
}

/// What the program says to standard error with this in the place of a tool; it must end well.
fn stderr(command: &mut Command, injection: &Path) -> String {
    let output = command.env("NVTX_INJECTION64_PATH", injection).output().expect("the program can be run");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {stderr}", output.status);
    stderr
}

#[test]
fn a_fork_while_a_tool_starts_does_not_wait_for_it() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let body = "char byte = 1;\n\
        if (write(atoi(getenv(\"ZPROF_TEST_ENTERED\")), &byte, 1) != 1) abort();\n\
        return read(atoi(getenv(\"ZPROF_TEST_GATE\")), &byte, 1) == 0;";
    let said = stderr(&mut cornered(&["fork-in-probe"]), &tool(folder.path(), body));
    assert!(said.lines().count() <= 1, "{said}");
}

#[test]
fn a_tool_that_fails_to_start_is_told_once() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let library = tool(folder.path(), "return 0;");
    let output = folder.path().join("profile");
    let output = output.to_str().expect("a plain name");
    let expected = format!(
        "zprof: warning: no NVTX ranges: the tool `{}` that NVTX_INJECTION64_PATH names failed to start or takes no domain\n",
        library.display()
    );
    assert_eq!(stderr(&mut cornered(&["again", output]), &library), expected);
    let absent = stderr(&mut cornered(&["again", output]), folder.path());
    assert!(absent.contains("which is no tool: ") && absent.lines().count() == 1, "{absent}");
    // Emptied is as good as unset.
    assert_eq!(stderr(&mut cornered(&["again", output]), Path::new("")), "");
}
