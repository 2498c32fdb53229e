//! What the macros record: names, metadata and nesting, on every way out of a function.
//!
//! A process has one session at a time, so these tests are a binary of their own and take turns.

use std::cell::Cell;
use std::fmt::Write;
use std::num::ParseIntError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use prost::Message;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XPlane, XSpace, XStat};
use zprof_runtime::export::{CheckOptions, check};

/// Records what `work` does on a thread of its own, as a tree of text: a line a scope, two spaces a level.
fn record(options: zprof::ProfilerOptions, work: impl FnOnce() + Send + 'static) -> String {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().expect("a test that fails says so itself, and `work` runs elsewhere");
    let folder = tempfile::tempdir().expect("a folder for the profile");
    let options = options.repository_path(folder.path());
    let mut profiler = zprof::Platform::host().profiler(options).expect("good options");
    profiler.start().expect("the only session");
    let worker = std::thread::Builder::new().name("recorded".into()).spawn(work).expect("a thread");
    worker.join().expect("work that catches its panics");
    let profile = profiler.stop().expect("a writable folder").expect("a session");
    let bytes = std::fs::read(&profile.protobuf_path).expect("the profile");
    let checked = check(&bytes.as_slice(), &CheckOptions::default()).expect("memory can be read");
    assert_eq!(checked.counts, [], "{:?}", checked.findings);
    let space = XSpace::decode(bytes.as_slice()).expect("an XSpace");
    let plane = space.planes.iter().find(|plane| plane.name == "/host:CPU").expect("the host's plane");
    let mut tree = String::new();
    for line in plane.lines.iter().filter(|line| line.name == "recorded" || line.display_name == "recorded") {
        let mut open: Vec<i64> = Vec::new();
        for event in &line.events {
            let Some(Data::OffsetPs(start)) = event.data else { panic!("an event without a place in time") };
            open.retain(|end| *end > start || *end == start && event.duration_ps == 0);
            writeln!(tree, "{}{}", "  ".repeat(open.len()), text(plane, event)).expect("a String takes everything");
            open.push(start + event.duration_ps);
        }
    }
    tree
}

fn text(plane: &XPlane, event: &XEvent) -> String {
    let name = plane.event_metadata.get(&event.metadata_id).map_or("?", |metadata| &metadata.name);
    event.stats.iter().fold(name.to_owned(), |text, stat| text + &stat_text(plane, stat))
}

fn stat_text(plane: &XPlane, stat: &XStat) -> String {
    let name = |id: i64| plane.stat_metadata.get(&id).map_or("?", |metadata| metadata.name.as_str());
    let key = name(stat.metadata_id);
    match &stat.value {
        Some(Value::Int64Value(value)) => format!(" {key}={value}i"),
        Some(Value::Uint64Value(value)) => format!(" {key}={value}u"),
        Some(Value::DoubleValue(value)) => format!(" {key}={value:?}"),
        Some(Value::StrValue(value)) => format!(" {key}={value:?}"),
        Some(Value::RefValue(id)) => format!(" {key}={:?}", name(i64::try_from(*id).expect("a small id"))),
        other => panic!("{key} is {other:?}"),
    }
}

fn everything() -> zprof::ProfilerOptions {
    zprof::ProfilerOptions::default()
}

#[derive(zprof::Value)]
enum Mode {
    Greedy,
    r#Loop,
}

struct Model {
    seqlen: usize,
}

impl Model {
    #[zprof::trace(self.seqlen, twice = self.seqlen * 2)]
    fn method(&self) {}

    #[zprof::trace("model.named", text = format!("{}-{}", self.seqlen, 1), n)]
    fn named(&self, n: i8) {
        zprof::scope!("inside", mode = Mode::Greedy, other = &Mode::r#Loop);
    }
}

#[zprof::trace]
fn r#match() {}

#[zprof::trace(name = "by name", root = true, step_num = 7, none = None::<u8>, some = Some('x'))]
fn by_name() {}

#[test]
fn names_and_values_are_recorded() {
    let tree = record(everything(), || {
        let model = Model { seqlen: 3 };
        model.method();
        model.named(-4);
        r#match();
        by_name();
        zprof::scope!("literals", a = 1, b = -2, c = 1.5, d = true, e = "text", f = u64::MAX, r#level = "kept");
    });
    let expected = "\
method seqlen=3i twice=6i
model.named text=\"3-1\" n=-4i
  inside mode=\"Greedy\" other=\"Loop\"
match
by name step_num=7i some=\"x\" _r=1i
literals a=1i b=-2i c=1.5 d=1i e=\"text\" f=18446744073709551615u level=\"kept\"
";
    assert_eq!(tree, expected);
}

#[zprof::trace]
fn parse(text: &str) -> Result<u32, ParseIntError> {
    zprof::scope!("statement");
    let number: u32 = zprof::scope!("block", { text.parse()? });
    zprof::scope!("behind");
    Ok(number)
}

#[zprof::trace]
fn early(stop: bool) {
    if stop {
        zprof::scope!("early");
        return;
    }
    zprof::scope!("late");
}

#[zprof::trace]
fn panics() {
    zprof::scope!("deep");
    panic!("caught by the test");
}

fn jumps() {
    'outer: for n in 0..3 {
        zprof::scope!("round", n);
        for m in 0..2 {
            zprof::scope!("jump", m, {
                if n + m == 1 {
                    continue 'outer;
                }
                if n == 1 {
                    break 'outer;
                }
            });
        }
    }
}

#[test]
fn every_way_out_closes_the_scope() {
    let tree = record(everything(), || {
        assert_eq!(parse("1"), Ok(1));
        assert!(parse("x").is_err());
        early(true);
        early(false);
        assert!(catch_unwind(panics).is_err());
        jumps();
        let mut span = zprof::span!("span", given = 1);
        zprof::scope!("in the span", {});
        span.record("late", "value");
        span.end();
        {
            zprof::scope!("first");
            zprof::scope!("second");
        }
        zprof::scope!("after");
    });
    let expected = "\
parse
  statement
    block
    behind
parse
  statement
    block
early
  early
early
  late
panics
  deep
round n=0i
  jump m=0i
  jump m=1i
round n=1i
  jump m=0i
round n=2i
  jump m=0i
  jump m=1i
span given=1i late=\"value\"
  in the span
first
  second
after
";
    assert_eq!(tree, expected);
}

/// What a session does not take is not evaluated either.
#[test]
fn level_and_filter_decide_before_the_values_do() {
    let options = zprof::ProfilerOptions::default().host_tracer_level(2).host_traceme_filter_mask(1 << 5);
    let tree = record(options, || {
        let calls = Cell::new(0);
        let count = || {
            calls.set(calls.get() + 1);
            calls.get()
        };
        zprof::scope!("critical", calls = count());
        zprof::scope!("info", level = info, calls = count());
        zprof::scope!("verbose", level = verbose, calls = count());
        zprof::scope!("its bit", filter = 5, calls = count());
        zprof::scope!("another bit", filter = 6, calls = count());
        zprof::scope!("root", root = calls.get() == 4, calls = count());
        zprof::scope!("no root", root = calls.get() == 0);
        assert_eq!(calls.get(), 4);
    });
    let expected = "\
critical calls=1i
  info calls=2i
    its bit calls=3i
      root calls=4i _r=1i
        no root
";
    assert_eq!(tree, expected);
}

/// Metadata is read by reference: what it names is there afterwards, and effects keep their order.
#[test]
fn effects_are_those_of_the_plain_function() {
    #[zprof::trace(length = log.len())]
    fn traced(log: &mut Vec<&'static str>, last: String) -> String {
        log.push("first");
        zprof::scope!("inside", last, length = log.len());
        log.push("second");
        last
    }
    let tree = record(everything(), || {
        let mut log = vec!["before"];
        let text = String::from("moved through");
        let address = text.as_ptr();
        let text = traced(&mut log, text);
        assert_eq!((text.as_ptr(), text.as_str()), (address, "moved through"));
        assert_eq!(log, ["before", "first", "second"]);
        let mut caught = Vec::new();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            zprof::scope!("unwinds", { caught.push(1) });
            panics();
        }));
        assert_eq!((panic.is_err(), caught), (true, vec![1]));
    });
    let expected = "\
traced length=1i
  inside last=\"moved through\" length=2i
unwinds
panics
  deep
";
    assert_eq!(tree, expected);
}

/// Tools that read the program's file find the labels in it.
#[test]
fn the_static_part_of_a_label_is_in_the_binary() {
    zprof::scope!("label.found", kept = 7, step = std::process::id(), late = 1);
    zprof::scope!("label.whole", kept = 7, text = "in full");
    let program = std::env::current_exe().and_then(std::fs::read).expect("this test's own file");
    // Put together here, so that the only copies in the file are the labels.
    for (name, rest) in [("label.found", "kept=7,step="), ("label.whole", "kept=7,text=in full#")] {
        let label = [name, rest].join("#");
        assert!(program.windows(label.len()).any(|bytes| bytes == label.as_bytes()), "no {label}");
    }
}
