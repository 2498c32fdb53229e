//! Plays a part of a test in a process of its own: `actor PART FOLDER [ARGUMENT...]`.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::{env, fs, thread};

use prost::Message as _;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use zprof::{Platform, Profiler, ProfilerOptions};
use zprof_proto::XLine;
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_tests::forked::in_child;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["spill", folder] => spill(Path::new(folder)),
        ["fork", folder] => fork(Path::new(folder)),
        ["fork-storm", folder] => fork_storm(Path::new(folder)),
        ["fork-early", _] => fork_early(),
        #[cfg(target_os = "linux")]
        ["fork-astray", folder] => zprof_tests::forked::without_handlers(Path::new(folder)),
        ["fork-handlers", folder] => zprof_tests::forked::handlers(Path::new(folder)),
        ["no-descriptors", folder] => no_descriptors(Path::new(folder)),
        ["fork-full", folder] => fork_full(Path::new(folder)),
        ["fork-resident", folder] => fork_resident(Path::new(folder)),
        ["fork-open", folder, keep] => fork_open(Path::new(folder), keep.parse()?),
        ["memory-returned", folder] => memory_returned(Path::new(folder)),
        ["rewrite", folder] => rewrite(Path::new(folder)),
        ["file-limit", folder] => file_limit(Path::new(folder)),
        ["once", folder] => once(Path::new(folder)),
        ["rename-main", folder] => rename_main(Path::new(folder)),
        ["json-limit", folder] => json_limit(Path::new(folder)),
        ["many", folder, threads, scopes, limit] => {
            many(Path::new(folder), threads.parse()?, scopes.parse()?, limit.parse()?)
        }
        ["check", folder, threads, scopes] => check(Path::new(folder), threads.parse()?, scopes.parse()?),
        ["storm", folder] => zprof_tests::interrupted::storm(Path::new(folder)),
        ["restarts", folder] => zprof_tests::interrupted::restarts(Path::new(folder)),
        #[cfg(target_arch = "x86_64")]
        ["steps", folder] => zprof_tests::interrupted::steps(Path::new(folder)),
        ["hot", folder, shape, count] => hot(Path::new(folder), shape, count.parse()?),
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

/// Two sessions of the main thread, which the system calls otherwise during the second one.
fn rename_main(folder: &Path) -> Outcome {
    for (run, name) in [("own", None), ("renamed", Some("a main thread"))] {
        let options = ProfilerOptions::default().repository_path(folder).session_id(run);
        let mut profiler = Platform::host().profiler(options)?;
        profiler.start()?;
        zprof::scope!("work", {});
        if let Some(name) = name {
            fs::write("/proc/thread-self/comm", name)?;
        }
        profiler.stop()?;
    }
    Ok(())
}

/// One session with one scope.
fn once(folder: &Path) -> Outcome {
    let mut profiler = profiler(folder, ProfilerOptions::default().prefault_bytes(0))?;
    profiler.start()?;
    zprof::scope!("once", {});
    profiler.stop()?.ok_or("no session")?;
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
    println!("{} {} {}", profile.scopes, profile.dropped_scopes, most_memory_kib()?);
    for (phase, took) in profile.phases {
        println!("{phase}: {took:?}");
    }
    Ok(())
}

/// The most memory that this process has had, in KiB.
fn most_memory_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Checks what `many` has written, one thread at a time: all that is there is whole and in its place.
fn check(folder: &Path, threads: i64, scopes: i64) -> Outcome {
    const DEPTH: i64 = 10;
    let bytes = fs::read(folder.join("plugins/profile/profiling/profiling.xplane.pb"))?;
    let mut total = 0;
    let lines = host_lines(&bytes)?;
    if i64::try_from(lines.len())? != threads {
        return Err(format!("{} lines", lines.len()).into());
    }
    for line in lines {
        let line = XLine::decode(line)?;
        let thread: i64 = line.name.strip_prefix("worker ").ok_or("a line of another name")?.parse()?;
        // Ends of the scopes that are open around the next one, by their depth.
        let mut open: Vec<i64> = Vec::new();
        let mut last = -1;
        for event in &line.events {
            let values: Vec<_> = event.stats.iter().map(|stat| stat.value.clone()).collect();
            let [Some(Value::Int64Value(of)), Some(Value::Int64Value(n))] = values[..] else {
                return Err(format!("metadata is missing: {event:?}").into());
            };
            let Some(Data::OffsetPs(start)) = event.data else { return Err("an event without a time".into()) };
            let end = start + event.duration_ps;
            // What was dropped leaves gaps; a scope whose parent was dropped stands in its grandparent, if that was kept.
            if n / DEPTH != last / DEPTH {
                open.clear();
            }
            open.truncate(usize::try_from(n % DEPTH)?);
            let around = open.last().copied().unwrap_or(i64::MAX);
            if of != thread || n <= last || end > around || (n % DEPTH == 0 && !open.is_empty()) {
                return Err(format!("out of place after {last}: {event:?}").into());
            }
            open.push(end);
            last = n;
            total += 1;
        }
        if last >= scopes {
            return Err(format!("scope {last} was never made").into());
        }
    }
    println!("{total}");
    Ok(())
}

/// The lines of the first plane of a space, not decoded.
fn host_lines(space: &[u8]) -> Result<Vec<&[u8]>, Box<dyn Error>> {
    const PLANES: u32 = 1;
    const LINES: u32 = 3;
    let plane = fields(space)?.into_iter().find(|(field, _)| *field == PLANES).ok_or("no plane")?.1;
    Ok(fields(plane)?.into_iter().filter(|(field, _)| *field == LINES).map(|(_, line)| line).collect())
}

/// Number and body of length-delimited fields.
type Fields<'a> = Vec<(u32, &'a [u8])>;

/// The length-delimited fields of a message.
fn fields(mut message: &[u8]) -> Result<Fields<'_>, Box<dyn Error>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (field, kind) = decode_key(&mut message)?;
        if kind == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut message)?)?;
            let (body, rest) = message.split_at_checked(length).ok_or("a field is cut off")?;
            fields.push((field, body));
            message = rest;
        } else {
            skip_field(kind, field, &mut message, DecodeContext::default())?;
        }
    }
    Ok(fields)
}

/// `count` scopes of a shape with a session, or with none where the shape is `off`, and nothing else that depends on
/// `count`: the profile is not even written.
fn hot(folder: &Path, shape: &str, count: u64) -> Outcome {
    let options = ProfilerOptions::default().directives(match shape {
        "taken" => "actor=verbose,other=off",
        "left out" => "actor=off",
        _ => "",
    });
    let mut profiler = profiler(folder, options)?;
    if shape != "off" {
        profiler.start()?;
    }
    match shape {
        "off" | "none" | "taken" | "left out" => (0..count).for_each(|_| {
            zprof::scope!("none");
            black_box(());
        }),
        "ints" => (0..count).for_each(|n| {
            zprof::scope!("ints", a = n, b = n);
            black_box(());
        }),
        "text" => (0..count).for_each(|n| {
            let text = black_box("greedy");
            zprof::scope!("text", text, n);
            black_box(());
        }),
        _ => return Err(format!("no such shape: {shape}").into()),
    }
    end_at_once()
}

/// Ends the process without its exit functions, which would write the profile of a session that runs.
#[allow(unsafe_code)] // there is no safe function for it
fn end_at_once() -> ! {
    // SAFETY: the call ends the process and does not return, so nothing is used after it.
    unsafe { libc::_exit(0) }
}

/// Forks before any session, while another thread asks for snapshots in vain; the child asks too.
fn fork_early() -> Outcome {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = zprof::snapshot();
            }
        });
        let forked = (0..20).try_for_each(|_| {
            in_child(|| match zprof::snapshot() {
                Err(error) if error.kind() == zprof::ErrorKind::WrongState => Ok(()),
                other => Err(format!("a snapshot without a session: {other:?}").into()),
            })
        });
        is_over.store(true, Ordering::Relaxed);
        asking.join().map_err(|_| "a panic")?;
        forked
    })
}

/// Stops while no more files can be opened, and again when they can. Says how the first stop failed, and the warnings of the
/// second.
fn no_descriptors(folder: &Path) -> Outcome {
    let mut profiler = profiler(folder, ProfilerOptions::default())?;
    profiler.start()?;
    zprof::scope!("once", {});
    let mut files = Vec::new();
    let full = loop {
        match fs::File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!(full.raw_os_error(), Some(libc::EMFILE));
    let error = profiler.stop().err().ok_or("files could be opened")?;
    drop(files);
    let profile = profiler.stop()?.ok_or("no session")?;
    println!("{:?} {} {:?}", error.kind(), profile.scopes, profile.warnings);
    Ok(())
}

/// Forks when another thread has filled all memory: what that thread has is not the child's.
fn fork_full(folder: &Path) -> Outcome {
    let options = ProfilerOptions::default().max_buffer_bytes(1 << 20).prefault_bytes(0);
    let mut parent = profiler(folder, options.clone())?;
    parent.start()?;
    let (quit, may_quit) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let other = thread::spawn(move || {
        (0..100_000).for_each(|_| zprof::scope!("filling", {}));
        ready.send(()).is_ok() && may_quit.recv().is_ok()
    });
    is_ready.recv()?;
    in_child(|| {
        parent.stop()?;
        let mut own = profiler(folder, options)?;
        own.start()?;
        (0..10_000).for_each(|_| zprof::scope!("own", {}));
        let profile = own.stop()?.ok_or("no profile")?;
        match (profile.scopes, profile.dropped_scopes) {
            (10_000, 0) => Ok(()),
            other => Err(format!("scopes and dropped ones of the child: {other:?}").into()),
        }
    })?;
    quit.send(())?;
    other.join().map_err(|_| "a panic")?;
    parent.stop()?;
    Ok(())
}

/// Bytes of memory that this process has in pages.
fn resident() -> Result<u64, Box<dyn Error>> {
    let numbers = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = numbers.split(' ').nth(1).ok_or("no second number")?.parse()?;
    Ok(pages * 4096)
}

/// Prints by how many bytes the pages of this process have grown with a session of several full threads, one of which stays,
/// and how much of that is left once the profiler is dropped.
fn memory_returned(folder: &Path) -> Outcome {
    const THREADS: u32 = 4;
    const SCOPES: u32 = 200_000;
    // So many that their last chunks are more than may stay; each records more than small chunks hold.
    const WAITING: u32 = 200;
    const A_FEW: u32 = 1000;
    let (quit, may_quit) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let stays = thread::spawn(move || {
        (0..SCOPES).for_each(|n| zprof::scope!("stays", n, {}));
        ready.send(()).is_ok() && may_quit.recv().is_ok()
    });
    is_ready.recv()?;
    let barrier = Arc::new(Barrier::new(WAITING as usize + 1));
    let wait = |barrier: Arc<Barrier>| {
        move || {
            // For the session to start, to stop, and to be over.
            barrier.wait();
            (0..A_FEW).for_each(|n| zprof::scope!("waits", n, {}));
            barrier.wait();
            barrier.wait();
        }
    };
    let waiting: Vec<_> = (0..WAITING).map(|_| thread::spawn(wait(Arc::clone(&barrier)))).collect();
    let before = resident()?;
    let mut profiler = profiler(folder, ProfilerOptions::default())?;
    profiler.start()?;
    barrier.wait();
    barrier.wait();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| thread::spawn(|| (0..SCOPES).for_each(|n| zprof::scope!("fills", n, twice = 2 * n, {}))))
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a panic")?;
    }
    let full = resident()?;
    let profile = profiler.stop()?.ok_or("no session")?;
    let scopes = THREADS * SCOPES + WAITING * A_FEW;
    assert_eq!((profile.scopes, profile.dropped_scopes), (u64::from(scopes), 0));
    drop(profiler);
    println!("{} {}", full.saturating_sub(before), resident()?.saturating_sub(before));
    barrier.wait();
    quit.send(())?;
    waiting.into_iter().try_for_each(|thread| thread.join()).map_err(|_| "a panic")?;
    stays.join().map_err(|_| "a panic")?;
    Ok(())
}

/// Prints how many bytes the pages of a process have grown with a session, and by how much fewer pages its child has.
fn fork_resident(folder: &Path) -> Outcome {
    let before = resident()?;
    let mut parent = profiler(folder, ProfilerOptions::default())?;
    parent.start()?;
    zprof::scope!("around", {
        (0..500_000_u32).for_each(|n| zprof::scope!("fills", n, {}));
        let full = resident()?;
        in_child(|| {
            println!("{} {}", full - before, full.saturating_sub(resident()?));
            Ok(())
        })
    })
}

/// Forks inside of scopes that began at different times, and that have values from different times; the child ends the inner
/// ones, and stops the session in the outer ones. With a bound on the bytes that are kept, where that is not 0.
fn fork_open(folder: &Path, keep: usize) -> Outcome {
    let options = ProfilerOptions::default();
    let options = if keep == 0 { options } else { options.keep_last_bytes(keep) };
    let mut parent = profiler(folder, options)?;
    let fill = |name: &'static str, count: u32| (0..count).for_each(|n| zprof::scope!(dyn name, n, {}));
    parent.start()?;
    let mut outer = zprof::span!("outer", n = 1);
    fill("a", 5_000);
    let mut ended = zprof::span!("ended", n = 2);
    fill("b", 5_000);
    ended.record("later", 3);
    drop(ended);
    let mut middle = zprof::span!("middle", text = "as long as several words");
    outer.record("later", "also some words");
    fill("c", 20_000);
    let mut inner = zprof::span!("inner");
    inner.record("at once", true);
    fill("d", 20_000);
    let innermost = zprof::span!("innermost");
    in_child(|| {
        let first = zprof::span!("first in child");
        // The child of a child has them all, too.
        in_child(|| {
            drop(first);
            drop(innermost);
            inner.record("in child", 4);
            fill("e", 2_000);
            drop(inner);
            middle.record("in child", 5);
            let profile = parent.stop()?.ok_or("no session")?;
            fs::copy(profile.protobuf_path, folder.join("child.pb"))?;
            Ok(())
        })
    })?;
    Ok(())
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

/// Lets no file grow past so many bytes; writes fail then.
#[allow(unsafe_code)] // there is no safe setrlimit
fn limit(bytes: libc::rlim_t) -> i32 {
    // Linux lets a session block the signal of the limit.
    #[cfg(not(target_os = "linux"))]
    // SAFETY: the signal is ignored, so that writes past the limit fail in place of ending the process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN)
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur = bytes.min(limit.rlim_max);
    // SAFETY: the pointer is to a live rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }
}

/// Replaces a profile while there is room for an XSpace and for no JSON; does so by a stop, a snapshot and a drop.
fn json_limit(folder: &Path) -> Outcome {
    let mut profiler = profiler(folder, ProfilerOptions::default())?;
    for (round, bytes) in [libc::RLIM_INFINITY, 150_000, libc::RLIM_INFINITY].into_iter().enumerate() {
        profiler.start()?;
        (0..5000).for_each(|n| zprof::scope!("big", n, {}));
        assert_eq!(limit(bytes), 0);
        let profile = profiler.stop()?.ok_or("no session")?;
        assert_eq!(limit(libc::RLIM_INFINITY), 0);
        let json = profile.perfetto_path.unwrap_or_default();
        let json = json.display();
        println!("{round} {} {} `{json}` {:?}", profile.scopes, profile.protobuf_path.display(), names(folder)?);
        profile.warnings.iter().for_each(|warning| println!("{warning}"));
    }
    profiler.start()?;
    (0..5000).for_each(|n| zprof::scope!("big", n, {}));
    assert_eq!(limit(150_000), 0);
    let profile = profiler.snapshot()?.ok_or("no session")?;
    println!(
        "{} `{}` {:?}",
        profile.protobuf_path.display(),
        profile.perfetto_path.unwrap_or_default().display(),
        profile.warnings
    );
    drop(profiler);
    println!("{:?}", names(folder)?);
    Ok(())
}

/// Stops while no file may grow past a few bytes, says how that failed, and stops again when files may grow.
fn file_limit(folder: &Path) -> Outcome {
    let mut profiler = profiler(folder, ProfilerOptions::default())?;
    profiler.start()?;
    for n in 0..5000 {
        zprof::scope!("big", n);
    }
    // This is too little for both files.
    assert_eq!(limit(1000), 0);
    let error = profiler.stop().err().ok_or("a full disk went unnoticed")?;
    println!("{:?}: {error}: {}", error.kind(), error.source().map(ToString::to_string).unwrap_or_default());
    let refused = profiler.start().err().ok_or("a session that is not written was given up")?;
    println!("{:?}: {refused}", refused.kind());
    println!("{:?}", names(folder)?);
    assert_eq!(limit(libc::RLIM_INFINITY), 0);
    let profile = profiler.stop()?.ok_or("no session")?;
    println!("{} {:?}", profile.scopes, names(folder)?);
    Ok(())
}

/// Names in the folder of the run `profiling`, in order.
fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder.join("plugins/profile/profiling"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
