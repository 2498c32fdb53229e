//! Plays a user of a machine that others use too: `guest USER ROOT PART [ARGUMENT...]`. USER 0 stays who started it. ROOT is
//! the folder that is the root of the file system for this process, or `-`.

use std::error::Error;
use std::ffi::{CString, c_int};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::{env, fs};

use zprof::{Platform, Profiler, ProfilerOptions, SessionId};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [user, root, part, rest @ ..] = arguments.as_slice() else { return Err("USER ROOT PART".into()) };
    become_user(user.parse()?, root)?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (part.as_str(), rest.as_slice()) {
        ("link", [target, name]) => {
            fs::create_dir_all(Path::new(name).parent().ok_or("a name without a folder")?)?;
            Ok(std::os::unix::fs::symlink(target, name)?)
        }
        ("folder", [name]) => Ok(fs::create_dir_all(name)?),
        ("sessions", [repository, rounds]) => sessions(repository, rounds.parse()?),
        ("unique", [repository]) => run(&mut profiler(repository, SessionId::Unique)?),
        ("wait", [repository, session]) => wait(repository, session),
        ("rewrite", [repository, rounds]) => rewrite(repository, rounds.parse()?),
        ("snapshot", [repository]) => snapshot(repository),
        ("env", []) => from_env(),
        _ => Err(format!("no such part: {arguments:?}").into()),
    }
}

fn checked(status: c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives up what the superuser may do, unless the user is the superuser.
#[allow(unsafe_code)] // there is no safe chroot
fn become_user(user: u32, root: &str) -> Outcome {
    // SAFETY: umask cannot fail.
    unsafe { libc::umask(0) };
    if root != "-" {
        let path = CString::new(root)?;
        // SAFETY: the path ends at its NUL.
        checked(unsafe { libc::chroot(path.as_ptr()) })?;
        env::set_current_dir("/")?;
    }
    if user != 0 {
        // SAFETY: no groups are read.
        checked(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: the call only changes the group.
        checked(unsafe { libc::setgid(user) })?;
        // SAFETY: the call only changes the user.
        checked(unsafe { libc::setuid(user) })?;
    }
    Ok(())
}

/// A profiler that writes to a folder, or to the default place for `default`.
fn profiler(repository: &str, session: impl Into<SessionId>) -> Result<Profiler, zprof::Error> {
    let options = ProfilerOptions::default().prefault_bytes(0).session_id(session);
    Platform::host().profiler(if repository == "default" { options } else { options.repository_path(repository) })
}

fn told(error: &zprof::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// One session; says where its files are, what they say of that, or what failed.
fn run(profiler: &mut Profiler) -> Outcome {
    if let Err(error) = profiler.start() {
        println!("start: {}", told(&error));
        return Ok(());
    }
    zprof::scope!("work", process = std::process::id(), {});
    finish(profiler)
}

fn finish(profiler: &mut Profiler) -> Outcome {
    match profiler.stop() {
        Ok(profile) => {
            let profile = profile.ok_or("no session")?;
            println!("{}", profile.protobuf_path.display());
            profile.warnings.iter().for_each(|warning| println!("warning: {warning}"));
        }
        Err(error) => println!("stop: {}", told(&error)),
    }
    Ok(())
}

fn sessions(repository: &str, rounds: u32) -> Outcome {
    let mut profiler = profiler(repository, "profiling")?;
    (0..rounds).try_for_each(|_| run(&mut profiler))
}

/// A session that lasts until the input ends.
fn wait(repository: &str, session: &str) -> Outcome {
    let mut profiler = profiler(repository, session)?;
    if let Err(error) = profiler.start() {
        println!("start: {}", told(&error));
        return Ok(());
    }
    zprof::scope!("work", process = std::process::id(), {});
    println!("ready");
    io::stdout().flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    finish(&mut profiler)
}

/// Writes one run again and again; each session has the process and a number that grows.
fn rewrite(repository: &str, rounds: u64) -> Outcome {
    let mut profiler = profiler(repository, "profiling")?;
    for round in 0..rounds {
        profiler.start()?;
        let generation = u64::from(std::process::id()) * 1_000_000 + round;
        for _ in 0..200 {
            zprof::scope!("rewrite", generation);
        }
        profiler.stop()?.ok_or("no session")?;
    }
    Ok(())
}

/// A session with a snapshot; says where both are.
fn snapshot(repository: &str) -> Outcome {
    let mut profiler = profiler(repository, "profiling")?;
    profiler.start()?;
    zprof::scope!("work", {});
    println!("{}", profiler.snapshot()?.ok_or("no session")?.protobuf_path.display());
    finish(&mut profiler)
}

fn from_env() -> Outcome {
    match zprof::init_from_env() {
        Ok(is_profiling) => println!("{is_profiling}"),
        Err(error) => println!("{error}"),
    }
    zprof::scope!("work", {});
    Ok(())
}
