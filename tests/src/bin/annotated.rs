//! Opens and closes scopes in all ways, for tools to look at: `annotated PART`. Each part is the first to open a scope in its
//! process.
#![allow(unsafe_code)] // leaves a pointer to the constructor of a library

use std::cell::RefCell;
use std::error::Error;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};
use std::{env, mem, thread};

use zprof::{Platform, ProfilerOptions};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["values"] => values(),
        ["ways-out"] => ways_out(),
        ["threads"] => threads(),
        ["marks"] => marks(),
        ["names"] => names(),
        ["raw"] => raw(),
        ["destructor"] => destructor(),
        ["sessions", folder] => sessions(folder)?,
        ["constructor", library] => constructor(library)?,
        ["late", library] => late(library)?,
        _ => return Err(format!("no such part: {arguments:?}").into()),
    }
    Ok(())
}

#[derive(Clone, Copy, zprof::Value)]
enum Mode {
    #[allow(dead_code)] // its place is what counts
    Greedy,
    Sampled,
}

/// Every kind of value, and texts that no label may hold.
fn values() {
    zprof::scope!("all literal", a = 1, b = -2, c = "x,y=z", d = true, e = 'c', f = 1.5);
    zprof::scope!("line\nbreak", k = "a\r\nb");
    let (small, large, text) = (-5_i8, u64::MAX, String::from("owned"));
    zprof::scope!("numbers", small, large, half = 0.1_f32 + 0.2, whole = f64::from(3_u8), no = small > 0);
    zprof::scope!("texts", text, first = 'ä', mode = Mode::Sampled, some = Some(7), none = None::<u8>);
    zprof::scope!("mixed", fixed = 1, moving = large, end = "of it");
    for text in ["a#b", "nul\0nul", "two\nlines\r", "", "🦀 crab", "tab\tstays"] {
        zprof::scope!("text", text);
    }
    let long = "x".repeat(64 << 10);
    zprof::scope!("long", long, behind = 1);
    for (number, root) in [(1, true), (2, false)] {
        zprof::scope!("step", root = root, step_num = number);
    }
    zprof::scope!("only a root", root = large == 0);
    for name in ["conv#1", "add"] {
        zprof::scope!(dyn format!("{name}\n"), small, none = None::<u8>, end = "of it");
        zprof::scope!(dyn name);
    }
}

/// Scopes and marks of sites that are made here.
fn raw() {
    use zprof_runtime::raw::{Description, Level, NO_FILTER, RawSite, RawValue, begin, end, instant, open};
    let make = |name: &'static str, keys: &[&'static str]| {
        let keys: Vec<_> = keys.iter().map(|key| (*key).into()).collect();
        let (module_path, file) = (module_path!().into(), file!().into());
        let (level, filter, line) = (Level::Critical, NO_FILTER, line!());
        RawSite::make(Description { name: name.into(), keys: &keys, level, filter, module_path, file, line })
            .expect("there are few")
    };
    let (values, plain) = (make("raw", &["a", "b"]), make("a#b\nc", &[]));
    let outer = begin(values, &[RawValue::Text("x#y"), RawValue::Float(0.5)]);
    let inner = open(plain, &[RawValue::Absent; 0]);
    instant(values, &[RawValue::Absent, RawValue::Signed(-1)]);
    inner.end();
    let left = begin(values, &[RawValue::Bool(true), RawValue::Absent]);
    end(outer);
    end(left);
}

#[zprof::trace]
fn returns_early(early: bool) -> Option<u8> {
    zprof::scope!("before");
    if early {
        return None;
    }
    zprof::scope!("after");
    let value = None?;
    zprof::scope!("never");
    Some(value)
}

/// Instants in and out of scopes, and what tools do not see.
fn marks() {
    let flow = zprof::flow();
    zprof::instant!("whole", a = 1, b = "x");
    zprof::step!("step", 3, {
        for n in 0..2_u8 {
            zprof::instant!("in it", n, text = String::from("a#b"));
        }
        zprof::counter!("counter", 1);
    });
    zprof::instant!("plain", level = verbose, sends = None, receives = Some(flow).filter(|_| false));
}

/// Names of threads, before and after a tool is known of.
fn names() {
    zprof::name_thread("before any scope");
    zprof::scope!("first", {});
    zprof::name_thread("nul\0inside");
    zprof::scope!("second", {});
    thread::spawn(|| {
        zprof::name_worker("pool")(3);
        zprof::scope!("third", {});
    })
    .join()
    .expect("it does not panic");
    thread::spawn(|| zprof::name_thread("without a scope")).join().expect("it does not panic");
}

/// Ends that are not the end of a block.
fn ways_out() {
    zprof::scope!("around");
    let _ = (returns_early(true), returns_early(false));
    let unwound = catch_unwind(|| {
        zprof::scope!("outer");
        zprof::scope!("inner", { panic_quietly() })
    });
    assert!(unwound.is_err());
    {
        zprof::scope!("leaks");
        mem::forget(zprof::span!("leaked"));
        zprof::scope!("in the leaked");
    }
    let first = zprof::span!("first");
    let second = zprof::span!("second");
    first.end();
    // At the depth where the second was, but not it.
    let third = zprof::span!("third");
    let fourth = zprof::span!("fourth");
    second.end();
    zprof::scope!("in the fourth");
    drop((fourth, third));
}

fn panic_quietly() {
    std::panic::set_hook(Box::new(|_| {}));
    std::panic::panic_any("expected");
}

struct Late(&'static str);

impl Drop for Late {
    fn drop(&mut self) {
        zprof::scope!("in a destructor", name = self.0);
    }
}

thread_local! {
    static HELD: RefCell<Option<zprof::Span>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

/// Ranges that are open when their thread ends; deep ones; many threads at once.
fn threads() {
    let named = |name: &str, body: fn()| {
        thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread starts").join()
    };
    named("holder", || {
        LATE.with_borrow_mut(|late| *late = Some(Late("before")));
        HELD.with_borrow_mut(|held| *held = Some(zprof::span!("held")));
        mem::forget(zprof::span!("forgotten"));
    })
    .expect("it does not panic");
    named("deep", || deep(300)).expect("it does not panic");
    thread::scope(|scope| {
        for index in 0..8 {
            scope.spawn(move || {
                for round in 0..100 {
                    zprof::scope!("busy", index, round);
                    zprof::scope!("within");
                }
            });
        }
    });
}

fn deep(depth: u32) {
    zprof::scope!("deep", depth);
    if depth > 0 {
        deep(depth - 1);
    }
}

/// The first scope of the process is opened while a thread is being torn down.
fn destructor() {
    thread::spawn(|| LATE.with_borrow_mut(|late| *late = Some(Late("first")))).join().expect("it does not panic");
    zprof::scope!("afterwards");
}

/// Sessions that start and stop in the middle of scopes.
fn sessions(folder: &str) -> Outcome {
    let options = ProfilerOptions::default().repository_path(folder).host_tracer_level(1);
    let mut profiler = Platform::host().profiler(options)?;
    {
        zprof::scope!("before");
        profiler.start()?;
        zprof::scope!("across", { profiler.stop()? });
    }
    profiler.start()?;
    {
        zprof::scope!("critical");
        zprof::scope!("verbose", level = verbose);
    }
    let open = zprof::span!("open at stop");
    let profile = profiler.stop()?.ok_or("no session")?;
    drop(open);
    println!("{}", profile.scopes);
    Ok(())
}

/// Variable that tells the library's constructor what to call.
const CONSTRUCTOR: &str = "ZPROF_TEST_CONSTRUCTOR";

/// The first scope of the process is opened by a library's constructor, which holds the loader's lock.
fn constructor(library: &str) -> Outcome {
    extern "C" fn run() {
        let begun = Instant::now();
        zprof::scope!("in a constructor");
        // Twice the limit that a scope sets itself, and more.
        assert!(begun.elapsed() < Duration::from_secs(5), "a scope waited for the loader");
    }
    // SAFETY: no other thread is there yet.
    unsafe { env::set_var(CONSTRUCTOR, (run as extern "C" fn() as usize).to_string()) };
    // SAFETY: the library is the test's own.
    let _library = unsafe { libloading::Library::new(library) }?;
    // The tool attaches once the lock is free, by a thread that may be put aside.
    let begun = Instant::now();
    while !zprof_runtime::__test::has_tools() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no tool attaches");
        zprof::scope!("afterwards");
        thread::yield_now();
    }
    zprof::scope!("afterwards");
    Ok(())
}

/// The library of a tool comes after the first scope; the next session finds it.
fn late(library: &str) -> Outcome {
    zprof::scope!("unseen", {});
    // SAFETY: AMD's library has no initialiser that minds.
    let _library = unsafe { libloading::Library::new(library) }?;
    zprof::scope!("still unseen", {});
    let folder = tempfile::tempdir()?;
    let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder.path()))?;
    profiler.start()?;
    zprof::scope!("seen", {});
    profiler.stop()?;
    zprof::scope!("seen without a session", {});
    Ok(())
}
