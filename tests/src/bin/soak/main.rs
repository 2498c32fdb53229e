//! An hour's worth of a service's life in minutes: `soak FOLDER ROUNDS SEED FAULTS`, where FAULTS is `none`, `memory`, `files` or `all`.
//!
//! Eight threads open scopes without pause, end, and are replaced. Meanwhile sessions start and stop, snapshots are taken, the
//! process forks, and allocations and file operations fail at random. Each round is one session. After it every number must
//! add up, every file must be sound, and nothing may lie beside the files. At the end the memory must be back.
//!
//! The threads work in batches that they begin under a lock for reading. In an *exact* round the driver holds that lock for
//! writing while it starts and stops the session, so no scope crosses either, and kept and dropped scopes must be exactly
//! those that were made. In a *free* round nobody waits for anybody; then the numbers of each thread's scopes must ascend,
//! and must have no gap where nothing was dropped.

#[allow(unsafe_code)] // replaces the allocator and functions of the C library
mod faults;
#[allow(unsafe_code)] // forks
mod process;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::{env, fs};

use zprof::{Platform, Profile, Profiler, ProfilerOptions};
use zprof_runtime::export::{CheckOptions, Severity, check};
use zprof_tests::profile::{Line, Stat, read};

#[global_allocator]
static ALLOCATOR: faults::Faulty = faults::Faulty;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const WORKERS: usize = 8;
/// A worker ends and is replaced after so many batches.
const BATCHES: u64 = 400;

/// A logger for a program that does not want to see what is logged.
struct Discard;

impl log::Log for Discard {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        false
    }

    fn log(&self, _: &log::Record<'_>) {}

    fn flush(&self) {}
}

/// Numbers of the driver's own generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// State that the workers and the driver share.
struct Work {
    /// Workers hold it for reading while they work on a batch.
    gate: RwLock<()>,
    is_over: AtomicBool,
    /// Scopes made since the driver last set it to 0.
    made: AtomicU64,
    /// Workers that have been started, and that have ended.
    started: AtomicU64,
    ended: AtomicU64,
    /// The next number of a scope. Ascends on each thread.
    number: AtomicU64,
}

/// Opens `count` scopes, nested and in a row, with metadata of several kinds.
fn batch(work: &Work, count: u64, first: u64) {
    for step in 0..count {
        let n = first + step;
        match step % 4 {
            0 => {
                zprof::scope!("static", n);
            }
            1 => {
                let mut span = zprof::span!("span", n, text = "some text");
                span.record("later", n * 2);
            }
            2 => {
                zprof::scope!("block", n, ratio = 0.5, { std::hint::black_box(n) });
            }
            _ => nested(n, 6),
        }
    }
    work.made.fetch_add(count / 4 * 9 + [0, 1, 2, 3][(count % 4) as usize], Ordering::Relaxed);
}

fn nested(n: u64, depth: u32) {
    zprof::scope!("nested", n, depth);
    if depth > 1 {
        nested(n, depth - 1);
    }
}

fn worker(work: &Arc<Work>) -> JoinHandle<()> {
    let work = Arc::clone(work);
    work.started.fetch_add(1, Ordering::Relaxed);
    thread::spawn(move || {
        for _ in 0..BATCHES {
            if work.is_over.load(Ordering::Relaxed) {
                break;
            }
            let _inside = work.gate.read().unwrap_or_else(PoisonError::into_inner);
            let first = work.number.fetch_add(40, Ordering::Relaxed);
            batch(&work, 40, first);
        }
        work.ended.fetch_add(1, Ordering::Relaxed);
    })
}

/// Sums over all rounds.
#[derive(Default)]
struct Totals {
    made: u64,
    kept: u64,
    dropped: u64,
    snapshots: u64,
    forks: u64,
    failed_starts: u64,
    failed_stops: u64,
    failed_snapshots: u64,
    lost: u64,
}

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, rounds, seed, kinds] = arguments.as_slice() else {
        return Err("usage: soak FOLDER ROUNDS SEED FAULTS, with `none`, `memory`, `files` or `all` for FAULTS".into());
    };
    let (folder, rounds, seed) = (PathBuf::from(folder), rounds.parse::<u64>()?, seed.parse::<u64>()?);
    let kinds = match kinds.as_str() {
        "none" => Kinds { memory: false, files: false },
        "memory" => Kinds { memory: true, files: false },
        "files" => Kinds { memory: false, files: true },
        "all" => Kinds { memory: true, files: true },
        other => return Err(format!("`{other}` is no kind of faults").into()),
    };
    // Thousands of warnings are expected, and each stands in a profile as well.
    log::set_logger(&Discard).map_err(|error| error.to_string())?;
    log::set_max_level(log::LevelFilter::Warn);
    faults::seed(seed);
    let mut random = Random(seed | 1);
    let work = Arc::new(Work {
        gate: RwLock::new(()),
        is_over: AtomicBool::new(false),
        made: AtomicU64::new(0),
        started: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        number: AtomicU64::new(0),
    });
    let mut workers: Vec<JoinHandle<()>> = (0..WORKERS).map(|_| worker(&work)).collect();
    let mut totals = Totals::default();
    // The first rounds fill the allocator's own caches.
    for index in 0..rounds.min(8) {
        round(&folder.join(format!("warm-{index}")), &mut random, kinds, &work, &mut totals)
            .map_err(|error| format!("warm-up round {index} of seed {seed}: {error}"))?;
    }
    let before = process::resident_bytes()?;
    let mut peak = before;
    for index in 0..rounds {
        let place = folder.join(index.to_string());
        round(&place, &mut random, kinds, &work, &mut totals)
            .map_err(|error| format!("round {index} of seed {seed} in `{}`: {error}", place.display()))?;
        fs::remove_dir_all(&place)?;
        peak = peak.max(process::resident_bytes()?);
        for slot in &mut workers {
            if slot.is_finished() {
                let ended = std::mem::replace(slot, worker(&work));
                ended.join().map_err(|_| "a worker has panicked")?;
            }
        }
    }
    work.is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().map_err(|_| "a worker has panicked")?;
    }
    let after = process::resident_bytes()?;
    let Totals { made, kept, dropped, snapshots, forks, failed_starts, failed_stops, failed_snapshots, lost } = totals;
    let (memory, files) = faults::failed();
    println!(
        "{rounds} rounds: {made} scopes in exact ones, {kept} kept and {dropped} dropped in all, {snapshots} snapshots, \
         {forks} forks, {} threads",
        work.ended.load(Ordering::Relaxed)
    );
    println!(
        "{memory} allocations and {files} file operations failed: {failed_starts} starts, {failed_stops} stops and \
         {failed_snapshots} snapshots with them; {lost} profiles lost with an error"
    );
    println!("resident: {before} bytes before, {peak} at most, {after} after");
    const MOST_KEPT: u64 = 8 << 20;
    if after > before + MOST_KEPT {
        return Err(format!("{} bytes of memory are not back", after - before).into());
    }
    Ok(())
}

/// The faults that rounds may have.
#[derive(Clone, Copy)]
struct Kinds {
    memory: bool,
    files: bool,
}

/// How a round goes.
struct Plan {
    is_exact: bool,
    is_ring: bool,
    memory: u32,
    files: u32,
}

fn round(place: &Path, random: &mut Random, kinds: Kinds, work: &Arc<Work>, totals: &mut Totals) -> Outcome {
    let has_faults = random.one_in(2);
    let plan = Plan {
        is_exact: random.one_in(2),
        is_ring: random.one_in(3),
        memory: if kinds.memory && has_faults && random.one_in(2) { 2 + u32::try_from(random.below(60))? } else { 0 },
        files: if kinds.files && has_faults && random.one_in(2) { 2 + u32::try_from(random.below(40))? } else { 0 },
    };
    let sizes = [256 << 10, 1 << 20, 4 << 20, 64 << 20];
    let mut options = ProfilerOptions::default()
        .repository_path(place)
        .prefault_bytes(0)
        .max_buffer_bytes(sizes[usize::try_from(random.below(4))?]);
    if plan.is_ring {
        options = options.keep_last_bytes(64 << 10);
    }
    let mut profiler = Platform::host().profiler(options)?;
    fs::create_dir_all(place)?;
    if !start(&mut profiler, &plan, work, totals)? {
        return Ok(());
    }
    for _ in 0..random.below(4) {
        wait_for_scopes(work, random.below(10_000));
        if random.one_in(3) {
            fork(&mut profiler, random)?;
            totals.forks += 1;
        } else {
            snapshot(&plan, totals)?;
        }
    }
    wait_for_scopes(work, random.below(20_000));
    stop(profiler, &plan, work, totals)?;
    leaves_nothing_behind(place)
}

/// Waits until the workers have made about so many scopes more, or have ended.
fn wait_for_scopes(work: &Work, scopes: u64) {
    let end = work.number.load(Ordering::Relaxed) + scopes;
    let is_any_alive = || work.ended.load(Ordering::Relaxed) < work.started.load(Ordering::Relaxed);
    while work.number.load(Ordering::Relaxed) < end && is_any_alive() {
        thread::yield_now();
    }
}

fn start(profiler: &mut Profiler, plan: &Plan, work: &Work, totals: &mut Totals) -> Outcome<bool> {
    let _closed = plan.is_exact.then(|| work.gate.write().unwrap_or_else(PoisonError::into_inner));
    work.made.store(0, Ordering::Relaxed);
    let armed = faults::arm(plan.memory, plan.files);
    let started = profiler.start();
    drop(armed);
    match started {
        Ok(()) => Ok(true),
        Err(error) if plan.memory != 0 || plan.files != 0 => {
            is_clear(&error)?;
            totals.failed_starts += 1;
            // Without faults the same profiler starts.
            profiler.start().map_err(|error| format!("the second start: {error}"))?;
            Ok(true)
        }
        Err(error) => Err(format!("the start failed: {error}").into()),
    }
}

fn snapshot(plan: &Plan, totals: &mut Totals) -> Outcome {
    let armed = faults::arm(plan.memory, plan.files);
    let taken = zprof::snapshot();
    drop(armed);
    match taken {
        Ok(profile) => {
            totals.snapshots += 1;
            is_sound(&profile.ok_or("zprof is built without `enable`")?, plan)
        }
        Err(error) if plan.memory != 0 || plan.files != 0 => {
            totals.failed_snapshots += 1;
            is_clear(&error)
        }
        Err(error) => Err(format!("the snapshot failed: {error}").into()),
    }
}

fn stop(mut profiler: Profiler, plan: &Plan, work: &Work, totals: &mut Totals) -> Outcome {
    let closed = plan.is_exact.then(|| work.gate.write().unwrap_or_else(PoisonError::into_inner));
    let armed = faults::arm(plan.memory, plan.files);
    let stopped = profiler.stop();
    drop(armed);
    let made = work.made.load(Ordering::Relaxed);
    drop(closed);
    let profile = match stopped {
        Ok(profile) => profile.ok_or("there was a session")?,
        Err(error) if plan.memory != 0 || plan.files != 0 => {
            is_clear(&error)?;
            totals.failed_stops += 1;
            match profiler.stop() {
                Ok(Some(profile)) => profile,
                // Where the memory for the conversion was not to be had, the first error has said so.
                Ok(None) => {
                    totals.lost += 1;
                    return Ok(());
                }
                Err(error) => return Err(format!("the second stop failed without a fault: {error}").into()),
            }
        }
        Err(error) => return Err(format!("the stop failed: {error}").into()),
    };
    is_sound(&profile, plan)?;
    totals.kept += profile.scopes;
    totals.dropped += profile.dropped_scopes;
    if plan.is_exact && !plan.is_ring {
        totals.made += made;
        let told = profile.scopes + profile.dropped_scopes;
        if told != made {
            return Err(format!("{made} scopes were made, {told} are told: {profile:?}").into());
        }
    }
    Ok(())
}

/// Whether an error of an injected fault says what failed.
fn is_clear(error: &zprof::Error) -> Outcome {
    let text = error.to_string();
    let says = text.contains("failed to") || text.contains("memory");
    if says { Ok(()) } else { Err(format!("this error says too little: {text}").into()) }
}

/// Reads a profile and checks what must hold for it.
fn is_sound(profile: &Profile, plan: &Plan) -> Outcome {
    let bytes = fs::read(&profile.protobuf_path)?;
    let checked = check(&bytes.as_slice(), &CheckOptions::default())?;
    if checked.count(Severity::Error) != 0 {
        return Err(format!("`{}` is not sound: {:?}", profile.protobuf_path.display(), checked.findings).into());
    }
    let (lines, _, _) = read(&bytes);
    let is_whole = profile.dropped_scopes == 0 && plan.memory == 0;
    for line in lines.iter().filter(|line| !line.name.contains("(overlap")) {
        numbers_ascend(line, is_whole)?;
    }
    Ok(())
}

/// On a thread, the scopes of a name come in the order of their numbers. Where nothing is missing, the numbers of a batch
/// follow one another.
fn numbers_ascend(line: &Line, is_whole: bool) -> Outcome {
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    let mut all: Vec<i64> = Vec::new();
    for event in &line.events {
        let number = event.stats.iter().find_map(|(name, value)| match value {
            Stat::Int(number) if name == "n" => Some(*number),
            _ => None,
        });
        let Some(number) = number else { continue };
        if last.insert(&event.name, number).is_some_and(|before| before > number) {
            return Err(format!("`{}` of {number} comes late on `{}`", event.name, line.name).into());
        }
        all.push(number);
    }
    all.dedup();
    let gap = all.windows(2).find(|pair| pair[1] != pair[0] + 1 && pair[1] % 40 != 0);
    match gap.filter(|_| is_whole) {
        Some(pair) => Err(format!("between {} and {} on `{}` scopes are missing", pair[0], pair[1], line.name).into()),
        None => Ok(()),
    }
}

/// Forks; the child records, stops the session that it has inherited, and checks its own profile.
fn fork(profiler: &mut Profiler, random: &mut Random) -> Outcome {
    let first = random.below(1 << 30);
    process::fork(|| {
        for step in 0..100 {
            zprof::scope!("in the child", n = first + step);
        }
        let profile = profiler.stop()?.ok_or("the child has a session")?;
        let bytes = fs::read(&profile.protobuf_path)?;
        let (lines, _, _) = read(&bytes);
        let found = lines.iter().flat_map(|line| &line.events).filter(|event| event.name == "in the child").count();
        if found as u64 + profile.dropped_scopes < 100 {
            return Err(format!("{found} of 100 scopes are in the child's profile: {:?}", profile.warnings).into());
        }
        Ok(())
    })
}

/// No temporary file stays in a round's folder.
fn leaves_nothing_behind(folder: &Path) -> Outcome {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            leaves_nothing_behind(&path)?;
            continue;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_profile = name.ends_with(".xplane.pb") || name.ends_with(".trace.json") || name.ends_with(".lock");
        if !is_profile {
            return Err(format!("`{}` was left behind", path.display()).into());
        }
    }
    Ok(())
}
