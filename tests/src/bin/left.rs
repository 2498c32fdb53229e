//! A program that starts a profiler and ends without having stopped it: `left PART FOLDER`.
#![allow(unsafe_code)] // forks, and ends in ways that Rust has no safe function for

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock};
use std::{env, fs, hint, mem, process, thread};

use zprof::{Platform, Profiler, ProfilerOptions};

type Outcome = Result<(), Box<dyn Error>>;

/// A static has no destructor.
static PROFILER: OnceLock<Mutex<Profiler>> = OnceLock::new();

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [part, folder] = arguments.as_slice() else { return Err("left PART FOLDER".into()) };
    let folder = Path::new(folder);
    let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder))?;
    profiler.start()?;
    work();
    match part.as_str() {
        "stop" => drop(profiler.stop()?),
        "static" => keep(profiler)?,
        "forgotten" => mem::forget(profiler),
        "exit" => {
            zprof::scope!("open");
            process::exit(3);
        }
        "exit-in-thread" => {
            let _profiler = profiler;
            let exit = || {
                zprof::scope!("open");
                process::exit(4);
            };
            thread::Builder::new().name("leaving".to_owned()).spawn(exit)?.join().map_err(|_| "unreachable")?;
        }
        "beside-stop" => beside_stop(profiler)?,
        "beside-snapshots" => beside_snapshots(profiler)?,
        "in-stop" => {
            EXITS.set(true);
            drop(profiler.stop());
        }
        "fork" => fork(profiler, folder)?,
        "failed" => failed(profiler, folder)?,
        "lost" => lost(profiler, folder)?,
        "finish" => finish(profiler)?,
        "twice" => {
            profiler.stop()?;
            profiler.start()?;
            zprof::scope!("again", {});
            keep(profiler)?;
        }
        _ => return Err(format!("no such part: {part}").into()),
    }
    Ok(())
}

fn work() {
    for n in 0..3 {
        zprof::scope!("work", n);
        hint::black_box(n);
    }
}

fn keep(profiler: Profiler) -> Outcome {
    PROFILER.set(Mutex::new(profiler)).map_err(|_| "there is one already".into())
}

/// Returns from `main` while another thread stops the session: whoever comes first, the profile is whole.
fn beside_stop(mut profiler: Profiler) -> Outcome {
    // So much that its conversion takes a while.
    for n in 0..50_000 {
        zprof::scope!("much", n, {});
    }
    let (ready, is_ready) = channel();
    let stop = move || {
        let _ = ready.send(());
        let _ = profiler.stop();
    };
    thread::Builder::new().name("stopping".to_owned()).spawn(stop)?;
    is_ready.recv()?;
    Ok(())
}

/// Returns from `main` while another thread takes one snapshot after another.
fn beside_snapshots(profiler: Profiler) -> Outcome {
    let (ready, is_ready) = channel();
    let take = move || {
        while zprof::snapshot().is_ok() {
            let _ = ready.send(());
        }
    };
    thread::Builder::new().name("looking".to_owned()).spawn(take)?;
    is_ready.recv()?;
    keep(profiler)
}

thread_local! {
    /// The next allocation of the thread ends the process.
    static EXITS: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, for a program that ends when it finds no memory.
struct Exiting;

// SAFETY: what it gives is the system's allocator's.
unsafe impl GlobalAlloc for Exiting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if EXITS.try_with(|exits| exits.replace(false)).unwrap_or(false) {
            process::exit(5);
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
static ALLOCATOR: Exiting = Exiting;

/// The profile of a run in `folder`.
fn profile(folder: &Path) -> std::path::PathBuf {
    folder.join("plugins/profile/profiling/profiling.xplane.pb")
}

/// Children that exit: one that leaves the parent's session alone, and one that has started a session of its own.
fn fork(mut profiler: Profiler, folder: &Path) -> Outcome {
    let (own, path) = (folder.join("own"), profile(folder));
    for part in ["inherited", "own"] {
        // SAFETY: glibc has its locks in order in the child, and so must zprof.
        let id = unsafe { libc::fork() };
        if id == 0 {
            zprof::scope!("child", {});
            if part == "own" {
                // The parent still writes its run, so the child's profile of it has a name of its own.
                let beside = profiler.stop()?.ok_or("the child has a session")?;
                fs::remove_file(beside.protobuf_path)?;
                fs::remove_file(beside.perfetto_path.ok_or("no JSON")?)?;
                let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(&own))?;
                profiler.start()?;
                work();
                keep(profiler)?;
            } else {
                mem::forget(profiler);
            }
            process::exit(6);
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { libc::waitpid(id, &raw mut status, 0) };
        println!("{status:#x} {} {}", path.exists(), profile(&own).exists());
    }
    keep(profiler)
}

/// The first stop cannot write, and the program goes on. At exit the place is free.
fn failed(mut profiler: Profiler, folder: &Path) -> Outcome {
    let plugins = folder.join("plugins");
    fs::remove_dir_all(&plugins)?;
    fs::write(&plugins, "in the way")?;
    println!("{:?}", profiler.stop().map_err(|error| error.kind()).err());
    fs::remove_file(&plugins)?;
    keep(profiler)
}

/// At exit there is something in the way.
fn lost(profiler: Profiler, folder: &Path) -> Outcome {
    let plugins = folder.join("plugins");
    fs::remove_dir_all(&plugins)?;
    fs::write(&plugins, "in the way")?;
    keep(profiler)
}

/// Is about to end in a way that nobody is told of.
fn finish(mut profiler: Profiler) -> Outcome {
    zprof::finish();
    zprof::scope!("after the end", {});
    // Once more changes nothing.
    zprof::finish();
    println!("{} {:?}", profiler.is_running(), profiler.stop()?.map(|profile| profile.scopes));
    println!("{:?}", profiler.stop()?.map(|profile| profile.scopes));
    mem::forget(profiler);
    // SAFETY: it has no conditions.
    unsafe { libc::_exit(7) }
}
