//! Each way in which a program ends: what its parent sees, and what is in the profile.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::{Program, Stats, names, read_file, stats, told, unfinished, worked};

/// The instant of a panic in the file of the programs.
fn panicked(message: Option<&str>, location: &str) -> Stats {
    let message = message.map(|text| ("message".to_owned(), text.into()));
    message.into_iter().chain([("location".to_owned(), location.into())]).collect()
}

/// Where the text stands in the source of the programs, as panics say it.
fn place(program: &str, text: &str) -> String {
    let path = format!("tests/src/bin/{program}.rs");
    let source = std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).expect("it is there");
    let (index, line) = source.lines().enumerate().find(|(_, line)| line.contains(text)).expect("it is in there");
    format!("{path}:{}:{}", index + 1, line.find(text).expect("it is in there") + 1)
}

#[test]
fn a_return_from_main_is_written() {
    let ended = Program::new("return").run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "true\n"));
    ended.only_line();
    let lines = ended.profile();
    assert_eq!(told(&lines, "main"), worked(&[]));
    assert_eq!(lines.len(), 1);
}

#[test]
fn an_exit_inside_a_scope_is_written() {
    let ended = Program::new("exit 3").run();
    assert_eq!(ended.status.code(), Some(3));
    let open = stats([("code", 3.into()), ("unfinished", 1.into())]);
    assert_eq!(told(&ended.profile(), "main"), worked(&[("open", open)]));
}

#[test]
fn an_exit_by_another_thread_is_written() {
    let ended = Program::new("exit-in-thread").run();
    assert_eq!(ended.status.code(), Some(6));
    let lines = ended.profile();
    assert_eq!(told(&lines, "main"), worked(&[]));
    assert_eq!(lines.len(), 2);
    let other = lines.iter().find(|line| line.name != "main").expect("two lines of two names");
    assert_eq!(other.told(), [("open", &stats([("code", 6.into()), ("unfinished", 1.into())]))]);
}

#[test]
fn a_panic_that_ends_the_program_is_written_and_told_as_before() {
    let ended = Program::new("panic").run();
    assert_eq!(ended.status.code(), Some(101));
    let place = place("ended", "panic!(\"the end, {}");
    assert!(ended.stderr.contains(&format!("panicked at {place}:\nthe end, 1 of 1\n")), "{}", ended.stderr);
    let panicked = panicked(Some("the end, 1 of 1"), &place);
    assert_eq!(told(&ended.profile(), "main"), worked(&[("open", stats([])), ("panic", panicked)]));
}

#[test]
fn a_panic_that_is_caught_is_an_instant() {
    let ended = Program::new("caught").run();
    assert_eq!(ended.status.code(), Some(0));
    let lines = ended.profile();
    assert_eq!(told(&lines, "main"), worked(&[("after", stats([]))]));
    let first = panicked(Some("caught"), &place("ended", "panic!(\"caught\")"));
    assert_eq!(told(&lines, "first"), [("before".to_owned(), stats([])), ("panic".to_owned(), first)]);
    let second = panicked(None, &place("ended", "panic::panic_any(7)"));
    assert_eq!(told(&lines, "second"), [("panic".to_owned(), second)]);
}

#[test]
fn an_abort_is_written() {
    let ended = Program::new("abort").run();
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT));
    ended.only_line();
    assert_eq!(told(&ended.profile(), "main"), worked(&[]));
}

#[test]
fn an_abort_of_another_thread_in_c_is_written() {
    let ended = Program::new("c-abort").run();
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT));
    assert_eq!(told(&ended.profile(), "aborting"), [("open".to_owned(), unfinished())]);
}

#[test]
fn a_panic_that_cannot_unwind_is_written() {
    let ended = Program::new("no-unwind").run();
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT));
    let main = told(&ended.profile(), "main");
    let first = panicked(Some("cannot leave"), &place("ended", "panic!(\"cannot leave\")"));
    assert_eq!(main[..5], worked(&[("open", main[3].1.clone()), ("panic", first)]));
    // The second is the standard library's, at a place of its own.
    assert_eq!((main.len(), main[5].0.as_str()), (6, "panic"));
    assert_eq!(main[5].1[0], ("message".to_owned(), "panic in a function that cannot unwind".into()));
}

#[test]
fn a_stack_overflow_is_written() {
    let ended = Program::new("overflow").run();
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{}", ended.stderr);
    assert!(ended.stderr.contains("has overflowed its stack"), "{}", ended.stderr);
    assert_eq!(told(&ended.profile(), "main"), worked(&[]));
}

#[test]
fn a_program_that_aborts_at_panics_is_written() {
    // The setting is that of all crates, as it is for programs that choose it in their profile.
    let arguments = ["build", "--quiet", "--release", "-p", "zprof-tests", "--bin", "aborting"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    cargo.args(["--message-format", "json", "--config", "profile.release.panic=\"abort\""]);
    let output = cargo.output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let path = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).expect("cargo writes one message a line");
        message["executable"].as_str().map(PathBuf::from)
    });
    let path = path.expect("cargo makes a program");
    let ended = Program::of(&path, "").run();
    assert_eq!((ended.status.signal(), ended.stdout.as_str()), (Some(libc::SIGABRT), "true\n"));
    let place = place("aborting", "panic!(\"the end\")");
    assert!(ended.stderr.contains(&format!("panicked at {place}:\nthe end\n")), "{}", ended.stderr);
    let expected = [("open", unfinished()), ("work", stats([])), ("panic", panicked(Some("the end"), &place))];
    let expected = expected.map(|(name, stats)| (name.to_owned(), stats));
    assert_eq!(told(&ended.profile(), "main"), expected);

    // A session of the program's own profiler, in which panics are no instants.
    let ended = Program::of(&path, "profiler").with_folder("own").run();
    assert_eq!((ended.status.signal(), ended.stdout.as_str()), (Some(libc::SIGABRT), "true\n"));
    let run = ended.folder.path().join("own/plugins/profile/profiling");
    assert_eq!(names(&run), ["profiling.trace.json", "profiling.xplane.pb"]);
    let (lines, ..) = read_file(&run.join("profiling.xplane.pb"));
    assert_eq!(told(&lines, "main"), expected[..2]);
}

#[test]
fn what_cannot_be_caught_leaves_an_empty_folder() {
    let ended = Program::new("kill").run();
    assert_eq!(ended.status.signal(), Some(libc::SIGKILL));
    let runs = ended.runs();
    assert_eq!((runs.len(), names(&runs[0])), (1, Vec::new()));
    assert_eq!(ended.stderr, "");
}

#[test]
fn an_exit_while_eight_threads_record_neither_hangs_nor_crashes() {
    for round in 0..50 {
        let ended = Program::new("crowd").with("ZPROF_BUFFER", "4M").run();
        assert_eq!(ended.status.code(), Some(0), "round {round}: {}", ended.stderr);
        let (lines, ..) = read_file(&ended.path());
        assert_eq!(told(&lines, "main"), worked(&[]));
        assert_eq!(lines.len(), 9);
        for line in lines.iter().filter(|line| line.name != "main") {
            let outer: Vec<&Stats> =
                line.events.iter().filter(|event| event.name == "outer").map(|event| &event.stats).collect();
            assert!(outer.len() > 100, "{} of `{}`", outer.len(), line.name);
            for (n, found) in (0_i64..).zip(&outer[..100]) {
                assert_eq!(**found, stats([("n", n.into())]));
            }
            assert!(line.tree().starts_with("outer"));
        }
    }
}

#[test]
fn closed_pipes_and_held_locks_do_not_hold_it_up() {
    let closed = Program::new("closed").run();
    assert_eq!((closed.status.code(), closed.stderr.as_str()), (Some(0), ""));
    let (lines, ..) = read_file(&closed.path());
    assert_eq!(told(&lines, "main"), worked(&[]));

    let locked = Program::new("locked").run();
    assert_eq!(locked.status.code(), Some(4));
    assert_eq!(
        told(&locked.profile(), "main"),
        worked(&[("open", stats([("code", 4.into()), ("unfinished", 1.into())]))])
    );

    let logger = Program::new("logger").run();
    assert_eq!(logger.status.code(), Some(5));
    assert_eq!(told(&logger.profile(), "main").len(), 4);
}

#[test]
fn a_program_that_replaces_itself_is_profiled_from_there() {
    let ended = Program::new("exec").run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "true\ntrue\n"));
    let runs = ended.runs();
    // Both have the same process: the second folder's name is the first's with a number.
    assert_eq!(runs.len(), 2);
    assert_eq!(names(&runs[0]), Vec::<String>::new());
    let (lines, ..) = read_file(&runs[1].join("profiling.xplane.pb"));
    assert_eq!(told(&lines, "main"), worked(&[]));
}
