//! Plays a part of a test in a process of its own: `actor PART FOLDER [ARGUMENT...]`.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::{env, fs, thread};

use zprof::{Platform, Profiler, ProfilerOptions};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["spill", folder] => spill(Path::new(folder)),
        ["fork", folder] => fork(Path::new(folder)),
        ["fork-storm", folder] => fork_storm(Path::new(folder)),
        ["rewrite", folder] => rewrite(Path::new(folder)),
        ["file-limit", folder] => file_limit(Path::new(folder)),
        ["many", folder, threads, scopes, limit] => {
            many(Path::new(folder), threads.parse()?, scopes.parse()?, limit.parse()?)
        }
        _ => Err(format!("no such part: {arguments:?}").into()),
    }
}

fn profiler(folder: &Path, options: ProfilerOptions) -> Result<Profiler, zprof::Error> {
    Platform::host().profiler(options.repository_path(folder))
}

/// More scopes on the main thread than the recorder may keep, in a program without a logger.
fn spill(folder: &Path) -> Outcome {
    const SCOPES: u64 = 20_000;
    let mut profiler = profiler(folder, ProfilerOptions::default().max_buffer_bytes(64 << 10))?;
    profiler.start()?;
    for n in 0..SCOPES {
        zprof::scope!("spill", n);
    }
    let profile = profiler.stop()?.ok_or("no session")?;
    assert_eq!(profile.scopes + profile.dropped_scopes, SCOPES);
    println!("{}", profile.dropped_scopes);
    Ok(())
}

/// Rewrites one run again and again; each time all scopes have one more `generation`. Ends by being killed.
fn rewrite(folder: &Path) -> Outcome {
    let mut profiler = profiler(folder, ProfilerOptions::default().prefault_bytes(0))?;
    for generation in 0_u64.. {
        profiler.start()?;
        for _ in 0..2000 {
            zprof::scope!("rewrite", generation);
        }
        println!("{generation}");
        profiler.stop()?;
    }
    Ok(())
}

/// `threads` threads with `scopes` nested scopes each, under a memory limit in bytes.
fn many(folder: &Path, threads: u64, scopes: u64, limit: usize) -> Outcome {
    const DEPTH: u64 = 10;
    fn nest(thread: u64, n: &mut u64, depth: u64) {
        zprof::scope!("nested", thread, n = *n);
        *n += 1;
        if depth > 1 {
            nest(thread, n, depth - 1);
        }
    }
    let mut profiler = profiler(folder, ProfilerOptions::default().max_buffer_bytes(limit))?;
    profiler.start()?;
    thread::scope(|scope| {
        for thread in 0..threads {
            let work = move || {
                let mut n = 0;
                while n < scopes {
                    let depth = DEPTH.min(scopes - n);
                    nest(thread, &mut n, depth);
                }
            };
            thread::Builder::new().name(format!("worker {thread}")).spawn_scoped(scope, work)?;
        }
        Ok::<(), std::io::Error>(())
    })?;
    let profile = profiler.stop()?.ok_or("no session")?;
    println!("{} {} {}", profile.scopes, profile.dropped_scopes, profile.warnings.len());
    for (phase, took) in profile.phases {
        println!("{phase}: {took:?}");
    }
    Ok(())
}

/// Runs `body` in the child of a fork and waits for its end.
#[allow(unsafe_code)] // there is no safe fork
fn in_child(body: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: the child only runs code that tolerates a fork, which is what the test is about.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            // A child that hangs shall not take the test with it.
            // SAFETY: alarm only sets a timer.
            unsafe { libc::alarm(60) };
            let outcome =
                catch_unwind(AssertUnwindSafe(body)).map_err(|_| "a panic".into()).and_then(|outcome| outcome);
            if let Err(error) = &outcome {
                eprintln!("child: {error}");
            }
            // SAFETY: ends the process at once, without the destructors, which belong to the parent.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer is to a live integer.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            if waited != child || status != 0 {
                return Err(format!("the child ended with status {status:#x}").into());
            }
            Ok(())
        }
    }
}

/// Forks in the middle of a session: the child goes on with it, stops it, and has one of its own; then the parent stops.
fn fork(folder: &Path) -> Outcome {
    let mut parent = profiler(folder, ProfilerOptions::default())?;
    parent.start()?;
    let (quit, may_quit) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let other = thread::Builder::new().name("other".to_owned()).spawn(move || {
        zprof::scope!("of the other thread");
        let sent = ready.send(());
        sent.is_ok() && may_quit.recv().is_ok()
    })?;
    is_ready.recv()?;
    zprof::scope!("before", {});
    let across = zprof::span!("across", n = 1);
    in_child(|| {
        for i in 0..3000_u32 {
            zprof::scope!("in child", i);
        }
        drop(across);
        thread::Builder::new()
            .name("of the child".to_owned())
            .spawn(|| {
                zprof::scope!("thread of the child");
            })?
            .join()
            .map_err(|_| "a thread of the child")?;
        let profile = parent.stop()?.ok_or("no session")?;
        fs::copy(profile.protobuf_path, folder.join("inherited.pb"))?;
        let mut own = profiler(&folder.join("own"), ProfilerOptions::default())?;
        own.start()?;
        zprof::scope!("own session", {});
        let profile = own.stop()?.ok_or("no session")?;
        fs::copy(profile.protobuf_path, folder.join("own.pb"))?;
        Ok(())
    })?;
    zprof::scope!("after", {});
    quit.send(())?;
    other.join().map_err(|_| "the other thread")?;
    let profile = parent.stop()?.ok_or("no session")?;
    fs::copy(profile.protobuf_path, folder.join("parent.pb"))?;
    Ok(())
}

/// Forks again and again while other threads take every lock that the recorder has.
fn fork_storm(folder: &Path) -> Outcome {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..2 {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    // Short threads register, take chunks and end.
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            for n in 0..200 {
                                zprof::scope!("storm", worker, n);
                            }
                        });
                    });
                }
            });
        }
        let round = |round: u32| -> Outcome {
            // So little memory that the pool is asked for more at nearly every scope.
            let options = ProfilerOptions::default().prefault_bytes(0).max_buffer_bytes(1 << 20);
            let mut profiler = profiler(folder, options)?;
            profiler.start()?;
            zprof::scope!("parent", round);
            in_child(|| {
                for n in 0..2000 {
                    zprof::scope!("child", round, n);
                }
                let profile = profiler.stop()?.ok_or("no session")?;
                let counted = profile.scopes + profile.dropped_scopes;
                if counted < 2000 { Err("scopes of the child are missing".into()) } else { Ok(()) }
            })?;
            profiler.stop()?.ok_or("no session")?;
            Ok(())
        };
        let outcome = (0..30).try_for_each(round);
        over.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Stops while no file may grow past a few bytes, says how that failed, and stops again when files may grow.
#[allow(unsafe_code)] // there is no safe setrlimit
fn file_limit(folder: &Path) -> Outcome {
    let limit = |bytes: libc::rlim_t| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live rlimit.
        unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
        limit.rlim_cur = bytes.min(limit.rlim_max);
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }
    };
    // SAFETY: the signal is ignored, so that writes past the limit fail in place of ending the process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut profiler = profiler(folder, ProfilerOptions::default())?;
    profiler.start()?;
    for n in 0..5000 {
        zprof::scope!("big", n);
    }
    // The first fits neither file, the second only the protobuf, which is the smaller.
    for bytes in [1000, 150_000] {
        assert_eq!(limit(bytes), 0);
        let error = profiler.stop().err().ok_or("a full disk went unnoticed")?;
        println!("{:?}: {error}: {}", error.kind(), error.source().map(ToString::to_string).unwrap_or_default());
        let refused = profiler.start().err().ok_or("a session that is not written was given up")?;
        println!("{:?}: {refused}", refused.kind());
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(folder.join("plugins/profile/profiling"))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        println!("{names:?}");
    }
    assert_eq!(limit(libc::RLIM_INFINITY), 0);
    let profile = profiler.stop()?.ok_or("no session")?;
    println!("{}", profile.scopes);
    Ok(())
}
