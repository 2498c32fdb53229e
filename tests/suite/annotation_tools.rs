//! The tools that the tests of annotations look through, on calls that are known: `tests/src/bin/annotate.rs` makes them without
//! zprof. Also holds what zprof must know of Nsight Systems.

use std::process::Command;

use zprof_tests::annotations::tool::{Attach, Roctx, watch};
use zprof_tests::annotations::{Range, Span, Thread, nsys, thread};

fn annotate(part: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annotate"));
    command.arg(part);
    command
}

const NVTX: Attach = Attach { nvtx: true, roctx: None };

fn range(label: &str, color: Option<u32>, category: u32, children: Vec<Range>) -> Range {
    Range { label: label.to_owned(), registered: false, color, category, children }
}

fn registered(range: Range) -> Range {
    Range { registered: true, ..range }
}

/// What `annotate nvtx` does in its first domain.
fn expected() -> [(&'static str, usize, Vec<Range>); 2] {
    let crab = range("café 🦀\tline\nbreak", None, 0, vec![]);
    let children = vec![range("matmul#m=2,n=3#", Some(0x80ff_0000), 7, vec![]), range("", None, 0, vec![crab])];
    let step = "llm.step#step=1#";
    let main = vec![registered(range(step, Some(0xff00_ff00), 7, children)), registered(range(step, None, 0, vec![]))];
    let worker = vec![range("in the worker", None, 0, vec![]), range("left open", None, 0, vec![])];
    [("the main one", 0, main), ("worker with a name of more than 15", 1, worker)]
}

fn check_threads(threads: &[Thread], surplus: usize) {
    assert_eq!(threads.len(), 2);
    for ((name, open, ranges), surplus) in expected().into_iter().zip([surplus, 0]) {
        let thread = thread(threads, name);
        assert_eq!((thread.open, thread.surplus), (open, surplus), "{name}");
        assert_eq!(thread.ranges, ranges, "{name}");
    }
}

fn check_spans(spans: &[Span], threads: &[Thread]) {
    let [main, worker] = [threads[0].id, threads[1].id];
    let span = |ended_on| Span {
        label: "async".to_owned(),
        registered: false,
        color: Some(0xff00_00ff),
        category: 3,
        started_on: main,
        ended_on,
    };
    assert_eq!(spans, [span(vec![main]), span(vec![worker]), span(vec![])]);
}

#[test]
fn the_fake_tool_sees_every_nvtx_call() {
    let seen = watch(&mut annotate("nvtx"), NVTX);
    let threads = seen.threads("nvtx", Some("TSL"));
    check_threads(&threads, 1);
    check_spans(&seen.spans("nvtx"), &threads);
    let other = seen.threads("nvtx", Some("another"));
    assert_eq!(other.iter().map(Thread::tree).collect::<Vec<_>>(), ["elsewhere\n"]);
    let levels: Vec<Option<i64>> = seen.of("nvtx", "pop").map(|call| call.id).collect();
    assert_eq!(levels, [1, 2, 1, 0, -1, 0, 0, 0].map(Some));
    let categories: Vec<_> =
        seen.of("nvtx", "name category").map(|call| (call.category, call.label.as_deref())).collect();
    assert_eq!(categories, [(7, Some("llm::decode"))]);
    let counts = ["mark", "register", "create domain"].map(|call| seen.count("nvtx", call));
    assert_eq!(counts, [1, 1, 2]);
    assert_eq!(seen.stdout, "");
}

#[test]
fn nsight_systems_shows_the_same_calls() {
    let report = nsys::profile(&annotate("nvtx"), "TSL");
    // A pop without a range leaves no trace there.
    check_threads(&report.threads, 0);
    check_spans(&report.spans, &report.threads);
    assert_eq!(report.marks, ["a mark"]);
    assert_eq!(report.categories, [(7, "llm::decode".to_owned())].into());
    assert_eq!(report.domains, ["TSL", "another"]);
}

/// What is too long for its buffer of 64 KiB, it drops, so that the pop ends another range.
#[test]
fn nsight_systems_loses_ranges_with_long_labels() {
    let report = nsys::profile(&annotate("long"), "TSL");
    let long = "x".repeat(65_000);
    let fits = range("around", None, 0, vec![range(&long, Some(1), 2, vec![]), range("after", None, 0, vec![])]);
    let torn = [range("around", None, 0, vec![]), range("after", None, 0, vec![])];
    let [first, second, third, fourth, fifth] = report.threads[0].ranges.as_slice() else {
        panic!("{:?}", report.threads[0].ranges.iter().map(|range| &range.label[..10]).collect::<Vec<_>>())
    };
    assert!(*first == fits && *second == registered(range(&long, Some(1), 2, vec![])), "65,000 bytes are well");
    assert_eq!([third, fourth], [&torn[0], &torn[1]]);
    assert_eq!(fifth.label, "QnxKernelTrace", "the first of nsys's own strings");
}

#[test]
fn without_a_tool_nothing_is_seen() {
    let seen = watch(&mut annotate("nvtx"), Attach::default());
    assert_eq!((seen.stdout.as_str(), seen.calls), ("no tool: -2 -2\n", vec![]));
}

#[test]
fn the_fake_tool_sees_every_roctx_call() {
    for (found, in_process) in [(Roctx::ByName, false), (Roctx::InProcess, true)] {
        let seen = watch(&mut annotate("roctx"), Attach { nvtx: false, roctx: Some(found) });
        let said = "push 0\npush 1\npop 1\npop 0\npop -1\nstart 1\n";
        assert_eq!(seen.stdout, format!("in the process: {in_process}\n{said}"));
        let threads = seen.threads("roctx", None);
        assert_eq!(threads.iter().map(Thread::tree).collect::<Vec<_>>(), ["outer\n  inner#k=v#\n"]);
        assert_eq!((threads[0].open, threads[0].surplus), (0, 1));
        let spans = seen.spans("roctx");
        let named: Vec<_> = spans.iter().map(|span| (span.label.as_str(), span.ended_on.as_slice())).collect();
        assert_eq!(named, [("async", &[threads[0].id][..])]);
        let marks: Vec<_> = seen.of("roctx", "mark").map(|call| call.label.as_deref()).collect();
        assert_eq!(marks, [Some("a mark")]);
    }
}
