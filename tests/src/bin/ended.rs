//! A program that profiles itself if the environment asks for it, and ends in the way that it is told: `ended PART`.
#![allow(unsafe_code)] // forks, and makes signals and handlers of its own

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::{env, hint, panic};

use zprof::{ErrorKind, Platform, Profiler, ProfilerOptions};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["handler-before"] => handle(libc::SIGTERM),
        ["explicit-first", folder] => return explicit_first(folder),
        ["panics-long", folder] => return panics_long(folder),
        ["logger"] => log_under_a_lock()?,
        ["logged"] => log_to_stderr()?,
        ["fork-at-end", _] => leave_late(),
        ["panics-first", folder] => drop(with_panics(folder)?),
        _ => {}
    }
    println!("{}", init());
    work();
    match arguments.as_slice() {
        ["return" | "logged"] => {}
        ["exit", code] => exit(code.parse()?),
        ["exit-in-thread"] => thread::spawn(|| exit(6)).join().map_err(|_| "unreachable")?,
        ["panic"] => {
            zprof::scope!("open");
            panic!("the end, {} of {}", 1, 1);
        }
        ["caught"] => caught(),
        ["wait"] => wait()?,
        ["abort"] => process::abort(),
        ["c-abort"] => abort_in_thread()?,
        ["no-unwind"] => no_unwind(),
        ["overflow"] => println!("{}", deep(0)),
        ["kill"] => raise(libc::SIGKILL),
        ["twice"] => println!("{} {}", init(), thread::spawn(init).join().map_err(|_| "a panic")?),
        ["explicit", folder] => explicit(folder),
        ["fork", folder] => fork(folder)?,
        ["fork-at-end", folder] => fork_at_end(folder)?,
        ["panics-first" | "panics-last", folder] => panics(folder)?,
        ["crowd"] => crowd(),
        ["handler-before"] => wait_for_handler()?,
        ["handler-after"] => {
            handle(libc::SIGTERM);
            wait_for_handler()?;
        }
        ["handler-chains"] => {
            chain(libc::SIGTERM);
            wait_for_handler()?;
        }
        ["closed"] => (0..3).for_each(close),
        ["locked"] => {
            let _lock = io::stderr().lock();
            exit(4);
        }
        ["logger"] => {
            let _lock = LOCK.lock();
            exit(5);
        }
        ["interrupted"] => interrupted_in_allocator()?,
        ["exec"] => return Err(Command::new(env::current_exe()?).arg("return").exec().into()),
        ["move"] => env::set_current_dir("/")?,
        ["threads"] => threads()?,
        ["copies", library] => {
            println!("{}", plugin(library, c"copy_from_env", false)?);
            wait()?;
        }
        ["unloaded", library] => println!("{}", plugin(library, c"copy_start", true)?),
        _ => return Err(format!("no such part: {arguments:?}").into()),
    }
    Ok(())
}

fn init() -> String {
    match zprof::init_from_env() {
        Ok(is_profiled) => is_profiled.to_string(),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

fn work() {
    for n in 0..3 {
        zprof::scope!("work", n);
        hint::black_box(n);
    }
}

fn exit(code: i32) {
    zprof::scope!("open", code);
    process::exit(code);
}

/// Panics in two threads that the program survives.
fn caught() {
    let named = |name: &str, body: fn()| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread starts");
        assert!(thread.join().is_err(), "it panics");
    };
    named("first", || {
        zprof::scope!("before");
        panic!("caught");
    });
    named("second", || panic::panic_any(7));
    zprof::scope!("after", {});
}

/// Says that it is ready, and does nothing until its input ends.
fn wait() -> Outcome {
    zprof::scope!("open");
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn abort_in_thread() -> Outcome {
    let abort = || -> () {
        zprof::scope!("open");
        // SAFETY: abort has no arguments.
        unsafe { libc::abort() }
    };
    let thread = thread::Builder::new().name("aborting".to_owned()).spawn(abort)?;
    thread.join().map_err(|_| "unreachable".into())
}

extern "C" fn no_unwind() {
    zprof::scope!("open");
    panic!("cannot leave");
}

#[allow(unconditional_recursion)] // that is the point
fn deep(level: u64) -> u64 {
    let mut room = [level; 512];
    hint::black_box(&mut room);
    deep(level + 1) + room[7]
}

/// Calls a function of a plugin that has a copy of zprof of its own, on a thread that ends then, and closes the plugin.
fn plugin(library: &str, name: &'static CStr, closes: bool) -> Result<bool, Box<dyn Error>> {
    let library = CString::new(library)?;
    let call = move || {
        // SAFETY: the name ends at a NUL, and the plugin's initialisers are those of Rust's library.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "the plugin can be loaded");
        // SAFETY: the handle is one, and the name ends at a NUL.
        let function = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!function.is_null(), "the plugin has the function");
        // SAFETY: the function of this name is of this type.
        let function: extern "C" fn() -> bool = unsafe { std::mem::transmute(function) };
        (handle.expose_provenance(), function())
    };
    let (handle, answer) = thread::spawn(call).join().map_err(|_| "the thread panicked")?;
    if closes {
        // SAFETY: the handle is one, and nothing of the plugin is used after this.
        assert_eq!(unsafe { libc::dlclose(std::ptr::with_exposed_provenance_mut(handle)) }, 0);
    }
    Ok(answer)
}

fn raise(signal: i32) {
    // SAFETY: raise only sends a signal.
    unsafe { libc::raise(signal) };
}

fn close(descriptor: i32) {
    // SAFETY: what comes after copes with what it has not got.
    unsafe { libc::close(descriptor) };
}

/// A profiler's session besides that of the environment.
fn explicit(folder: &str) {
    let profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder));
    match profiler.and_then(|mut profiler| profiler.start()) {
        Ok(()) => println!("started"),
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
}

/// The environment's session besides that of a profiler.
fn explicit_first(folder: &str) -> Outcome {
    let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder))?;
    profiler.start()?;
    println!("{}", init());
    work();
    profiler.stop()?;
    // There is room now.
    println!("{}", init());
    work();
    Ok(())
}

/// Children that exit, that have a session of the environment of their own, and that have a profiler.
fn fork(folder: &str) -> Outcome {
    let children: [&dyn Fn(); 4] = [
        &|| {
            zprof::scope!("child");
            let error = zprof::snapshot().expect_err("what runs is the parent's");
            assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
            process::exit(3);
        },
        &|| {
            println!("{}", init());
            zprof::scope!("own", {});
            process::exit(4);
        },
        &|| {
            let profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder));
            let mut profiler = profiler.expect("the options can work");
            profiler.start().expect("the place is free");
            zprof::scope!("explicit", {});
            profiler.stop().expect("it is written");
            process::exit(5);
        },
        &|| raise(libc::SIGTERM),
    ];
    for child in children {
        io::stdout().flush()?;
        // SAFETY: glibc has its locks in order in the child, and so must zprof.
        let id = unsafe { libc::fork() };
        if id == 0 {
            child();
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { libc::waitpid(id, &raw mut status, 0) };
        println!("{status:#x}");
    }
    zprof::scope!("parent", {});
    Ok(())
}

/// The last child has been waited for.
static LAST: AtomicBool = AtomicBool::new(false);

extern "C" fn wait_for_last() {
    while !LAST.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

/// What the environment asks for is written, and then the process waits for a thread.
fn leave_late() {
    // SAFETY: the function is `extern "C"`, never unwinds, and lives as long as the program.
    assert_eq!(unsafe { libc::atexit(wait_for_last) }, 0);
}

/// Forks while another thread ends the process, and writes the profile of the session that the environment asked for.
fn fork_at_end(folder: &str) -> Outcome {
    let profiler = || Platform::host().profiler(ProfilerOptions::default().repository_path(folder));
    // So much that its conversion takes a while.
    for n in 0..50_000 {
        zprof::scope!("much", n, {});
    }
    let mut own = profiler()?;
    let fork = move || {
        loop {
            let Err(error) = own.start() else { process::exit(1) };
            if !error.to_string().contains("ZPROF") {
                break;
            }
        }
        // SAFETY: as above.
        let id = unsafe { libc::fork() };
        if id == 0 {
            own.start().expect("the place is free");
            zprof::scope!("explicit", {});
            own.stop().expect("it is written");
            // SAFETY: it has no conditions. The other thread is in `exit`, which is not entered twice.
            unsafe { libc::_exit(5) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { libc::waitpid(id, &raw mut status, 0) };
        println!("{status:#x}");
        LAST.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("forking".to_owned()).spawn(fork)?;
    Ok(())
}

/// A running profiler that leaves a snapshot when a thread panics.
fn with_panics(folder: &str) -> Result<Profiler, Box<dyn Error>> {
    let options = ProfilerOptions::default().repository_path(folder).snapshot_on_panic(true);
    let mut profiler = Platform::host().profiler(options)?;
    profiler.start()?;
    Ok(profiler)
}

/// A panic in the environment's session, and one in a child with a session that has snapshots of panics.
fn panics(folder: &str) -> Outcome {
    let panics = |name: &str| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(|| panic!("caught")).expect("a thread starts");
        assert!(thread.join().is_err(), "it panics");
    };
    panics("first");
    // SAFETY: as above.
    let id = unsafe { libc::fork() };
    if id == 0 {
        let mut profiler = with_panics(folder).expect("the place is free");
        panics("second");
        profiler.stop().expect("it is written");
        process::exit(6);
    }
    let mut status = 0;
    // SAFETY: as above.
    unsafe { libc::waitpid(id, &raw mut status, 0) };
    println!("{status:#x}");
    Ok(())
}

/// A panic whose message takes longer than records are kept: meanwhile its thread records more than its ring holds, and takes a
/// snapshot of its own.
fn panics_long(folder: &str) -> Outcome {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        for line in 0..20_000 {
            zprof::scope!("print", line, {});
        }
        zprof::snapshot().expect("it is written");
        print(info);
    }));
    let options = ProfilerOptions::default().repository_path(folder).keep_last_bytes(16 << 10).snapshot_on_panic(true);
    let mut profiler = Platform::host().profiler(options)?;
    profiler.start()?;
    let doomed = || {
        work();
        zprof::scope!("open");
        panic!("caught");
    };
    let thread = thread::Builder::new().name("doomed".to_owned()).spawn(doomed)?;
    assert!(thread.join().is_err(), "it panics");
    profiler.stop()?;
    Ok(())
}

/// Threads that never stop to record: side by side at first, so that each has its hundred scopes, and then as they can.
fn crowd() {
    const THREADS: usize = 8;
    static TOGETHER: Barrier = Barrier::new(THREADS);
    let (ready, all_ready) = channel();
    for index in 0..THREADS {
        let ready = ready.clone();
        let record = move || {
            for n in 0_u64.. {
                zprof::scope!("outer", n);
                zprof::scope!("inner", index, {});
                if n <= 100 && TOGETHER.wait().is_leader() && n == 100 {
                    ready.send(()).expect("the main thread waits");
                }
                thread::yield_now();
            }
        };
        thread::Builder::new().name(format!("crowd {index}")).spawn(record).expect("a thread starts");
    }
    all_ready.recv().expect("the threads are ready");
}

/// The signal that a handler of the program has seen.
static SEEN: AtomicI32 = AtomicI32::new(0);
/// The handler that was there before.
static BEFORE: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(signal: i32) {
    SEEN.store(signal, Ordering::Relaxed);
}

extern "C" fn on_signal_too(signal: i32) {
    on_signal(signal);
    let before = BEFORE.load(Ordering::Relaxed);
    if before != 0 {
        // SAFETY: that is the handler that was there before, and it was given no further information.
        let before: extern "C" fn(i32) = unsafe { std::mem::transmute(before) };
        before(signal);
    }
}

fn handle(signal: i32) {
    let handler: extern "C" fn(i32) = on_signal;
    // SAFETY: the handler only stores a number.
    unsafe { libc::signal(signal, handler as usize) };
}

fn chain(signal: i32) {
    let handler: extern "C" fn(i32) = on_signal_too;
    // SAFETY: the handler only stores a number and calls the one before.
    let before = unsafe { libc::signal(signal, handler as usize) };
    assert!(before > 1, "there was a handler");
    BEFORE.store(before as u64, Ordering::Relaxed);
}

/// Waits until a handler of the program has seen the signal, and ends as the program means to.
fn wait_for_handler() -> Outcome {
    zprof::scope!("open");
    println!("ready");
    while SEEN.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    zprof::scope!("shutting down", {});
    process::exit(7);
}

static LOCK: Mutex<()> = Mutex::new(());

/// A logger that needs a lock, which this program ends with.
fn log_under_a_lock() -> Outcome {
    struct Logger;

    impl log::Log for Logger {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, _: &log::Record<'_>) {
            drop(LOCK.lock());
        }
        fn flush(&self) {}
    }

    log::set_logger(&Logger).map_err(|_| "there is a logger")?;
    log::set_max_level(log::LevelFilter::Trace);
    Ok(())
}

/// A logger as many programs have one.
fn log_to_stderr() -> Outcome {
    struct Logger;

    impl log::Log for Logger {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            // What each part of the program may begin with, as this one does.
            let _ = zprof::init_from_env();
            eprintln!("{}: {}", record.level(), record.args());
        }
        fn flush(&self) {}
    }

    log::set_logger(&Logger).map_err(|_| "there is a logger")?;
    log::set_max_level(log::LevelFilter::Info);
    Ok(())
}

/// Nobody is given memory while this is set.
static IN_ALLOCATOR: AtomicBool = AtomicBool::new(false);

/// The system's allocator, behind a lock.
struct Locked;

// SAFETY: what it gives is the system's allocator's.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        while IN_ALLOCATOR.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the block is the system's allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Locked = Locked;

/// Is in the allocator until a signal's handler has returned. One that comes before the wait is waited out.
fn interrupted_in_allocator() -> Outcome {
    println!("ready");
    let mut input = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    IN_ALLOCATOR.store(true, Ordering::Relaxed);
    // SAFETY: the pointer is to one live pollfd.
    unsafe { libc::poll(&raw mut input, 1, 2000) };
    IN_ALLOCATOR.store(false, Ordering::Relaxed);
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Names of the threads of this process, and where its descriptors lead.
fn threads() -> Outcome {
    let names = loop {
        let mut names = Vec::new();
        for task in fs::read_dir("/proc/self/task")? {
            names.push(fs::read_to_string(task?.path().join("comm"))?.trim_end().to_owned());
        }
        // A thread that has just begun has the name of the process yet.
        if names.iter().filter(|name| *name == "ended").count() == 1 {
            names.sort();
            break names;
        }
    };
    println!("{names:?}");
    let descriptors = fs::read_dir("/proc/self/fd")?.filter_map(Result::ok);
    let sockets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    println!("{}", sockets.filter(|path| path.to_string_lossy().starts_with("socket:")).count());
    Ok(())
}
