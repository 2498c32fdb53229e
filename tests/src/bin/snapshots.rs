//! Takes snapshots of threads that record as fast as they can, and checks that each one has every thread, every open scope and every count.
//!
//! usage: `snapshots THREADS (SECONDS"s" | SNAPSHOTS) [KIB]`
//!
//! The threads share `KIB` of memory for each of them, 1024 if it is not said. Sessions follow one another; each has ten snapshots at most
//! and is stopped while its threads record. Nothing here depends on how fast the machine is or on what else it does: threads may be so fast
//! that one moment for all cannot be had, and may be put aside for so long that scopes find no memory, but then the profile has to say so.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message as _;
use tempfile::TempDir;
use zprof::{Platform, Profile, ProfilerOptions};
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XLine, XPlane, XSpace};

const SNAPSHOTS_A_SESSION: usize = 10;
/// Items in a batch.
const BATCH: i64 = 1000;

fn main() {
    let mut args = std::env::args().skip(1);
    let usage = "usage: snapshots THREADS (SECONDS\"s\" | SNAPSHOTS) [KIB]";
    let threads: usize = args.next().and_then(|threads| threads.parse().ok()).expect(usage);
    let how_long = args.next().expect(usage);
    let end = match how_long.strip_suffix('s') {
        Some(seconds) => End::At(Instant::now() + Duration::from_secs(seconds.parse().expect(usage))),
        None => End::After(how_long.parse().expect(usage)),
    };
    let kib: usize = args.next().map_or(1024, |kib| kib.parse().expect(usage));
    let mut found = Found::default();
    let mut sessions = 0;
    while !end.is_here(&found) {
        session(threads, (threads * kib) << 10, &end, &mut found);
        sessions += 1;
    }
    let Found { profiles, scopes, with_windows, windows, latest_ns, dropped, lost_guests } = found;
    println!(
        "{threads} threads, {kib} KiB each: {profiles} profiles in {sessions} sessions have every thread and every open scope, and {scopes} \
         scopes without a gap that is not counted; {with_windows} have {windows} windows of their own, at most {latest_ns} ns after the others; \
         {dropped} scopes found no memory; {lost_guests} threads that had ended were let go"
    );
}

enum End {
    At(Instant),
    After(usize),
}

impl End {
    fn is_here(&self, found: &Found) -> bool {
        match self {
            Self::At(end) => Instant::now() >= *end,
            Self::After(profiles) => found.profiles >= *profiles,
        }
    }
}

/// The contents of all profiles together.
#[derive(Default)]
struct Found {
    profiles: usize,
    scopes: u64,
    with_windows: usize,
    windows: usize,
    latest_ns: u64,
    dropped: u64,
    lost_guests: u64,
}

fn session(threads: usize, memory: usize, end: &End, found: &mut Found) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = ProfilerOptions::default()
        .repository_path(folder.path())
        .keep_last(Duration::from_secs(24 * 3600))
        .max_buffer_bytes(memory)
        .prefault_bytes(0);
    let mut profiler = Platform::host().profiler(options).expect("good options");
    profiler.start().expect("no other session");
    let load = Load::start(threads);
    // Each thread has filled its share of the memory, or would have without the others.
    load.wait_for(i64::try_from(memory / threads / 64).expect("small"));
    let mut guests = 0;
    for _ in 0..SNAPSHOTS_A_SESSION {
        guest(guests);
        guests += 1;
        let begun = load.begun();
        let profile = zprof::snapshot().expect("it is written").expect("zprof is enabled");
        Checked::of(&profile).check(&profile, &begun, guests, found);
        remove(&profile, &folder);
        if end.is_here(found) {
            break;
        }
    }
    let begun = load.begun();
    let profile = profiler.stop().expect("it is written").expect("it ran");
    drop(load);
    let before = found.dropped;
    Checked::of(&profile).check(&profile, &begun, guests, found);
    found.dropped = before + profile.dropped_scopes;
}

/// Removes the files of a profile, which take as much as those of all others together may not.
fn remove(profile: &Profile, folder: &TempDir) {
    let run = profile.protobuf_path.parent().expect("it is in a run's folder");
    assert!(run.starts_with(folder.path()));
    for file in [Some(&profile.protobuf_path), profile.perfetto_path.as_ref()].into_iter().flatten() {
        std::fs::remove_file(file).expect("it was written");
    }
}

/// A thread that has ended when the next snapshot is taken.
fn guest(n: i64) {
    let work = move || {
        zprof::scope!("guest", n);
    };
    thread::Builder::new().name("guest".to_owned()).spawn(work).expect("a thread").join().expect("it ends well");
}

/// Threads that record as fast as they can until this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    /// The last item that each has begun.
    begun: Vec<Arc<AtomicI64>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(count: usize) -> Self {
        let (stop, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(count + 1)));
        let begun: Vec<_> = (0..count).map(|_| Arc::new(AtomicI64::new(-1))).collect();
        let spawn = |(index, begun): (usize, &Arc<AtomicI64>)| {
            let (stop, begun, ready) = (Arc::clone(&stop), Arc::clone(begun), Arc::clone(&ready));
            let work = move || {
                let mut server = zprof::span!("server", index);
                server.record("port", 8000 + index);
                zprof::scope!("main loop", text = "as long as the thread");
                ready.wait();
                record(&stop, &begun, &mut server);
            };
            thread::Builder::new().name(format!("load {index}")).spawn(work).expect("a thread")
        };
        let threads = begun.iter().enumerate().map(spawn).collect();
        ready.wait();
        Self { stop, begun, threads }
    }

    fn begun(&self) -> Vec<i64> {
        self.begun.iter().map(|begun| begun.load(Ordering::Acquire)).collect()
    }

    fn wait_for(&self, items: i64) {
        while self.begun().iter().any(|&begun| begun < items) {
            thread::yield_now();
        }
    }
}

fn record(stop: &AtomicBool, begun: &AtomicI64, server: &mut zprof::Span) {
    for number in 0.. {
        zprof::scope!("batch", n = number);
        for n in number * BATCH..(number + 1) * BATCH {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            zprof::scope!("item", n);
            begun.store(n, Ordering::Release);
            zprof::scope!("inner", n, {});
        }
        server.record("seen", number);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a thread ends well");
        }
    }
}

/// A profile that is read back.
struct Checked {
    plane: XPlane,
    environment: XPlane,
}

/// An event of a line.
struct Read<'a> {
    name: &'a str,
    begin: i64,
    end: i64,
    event: &'a XEvent,
}

impl Checked {
    fn of(profile: &Profile) -> Self {
        let bytes = std::fs::read(&profile.protobuf_path).expect("it was written");
        let space = XSpace::decode(bytes.as_slice()).expect("it is an XSpace");
        assert_eq!(space.warnings, profile.warnings);
        let [plane, environment] = space.planes.try_into().expect("the host and its environment");
        Self { plane, environment }
    }

    fn number(plane: &XPlane, event: &XEvent, key: &str) -> Option<i64> {
        let mut stats = event.stats.iter().rev().filter(|stat| plane.stat_metadata[&stat.metadata_id].name == key);
        match stats.next()?.value.as_ref()? {
            Value::Int64Value(value) => Some(*value),
            other => panic!("`{key}` is {other:?}"),
        }
    }

    /// The numbers of this name in the environment, by the rest of their names.
    fn environment(&self, prefix: &str) -> Vec<(&str, u64)> {
        let named = self.environment.stats.iter().filter_map(|stat| {
            let name = self.environment.stat_metadata[&stat.metadata_id].name.strip_prefix(prefix)?;
            match stat.value.as_ref()? {
                Value::Uint64Value(value) => Some((name, *value)),
                Value::Int64Value(value) => Some((name, value.unsigned_abs())),
                other => panic!("`{prefix}` is {other:?}"),
            }
        });
        named.collect()
    }

    fn one(&self, name: &str) -> u64 {
        match self.environment(name).as_slice() {
            [("", value)] => *value,
            other => panic!("`{name}` is {other:?}"),
        }
    }

    fn events<'a>(&'a self, line: &'a XLine) -> impl Iterator<Item = Read<'a>> {
        line.events.iter().map(|event| {
            let Some(Data::OffsetPs(begin)) = event.data else { panic!("an event without a time: {event:?}") };
            let name = self.plane.event_metadata[&event.metadata_id].name.as_str();
            Read { name, begin, end: begin + event.duration_ps, event }
        })
    }

    fn numbers(&self, line: &XLine, name: &str) -> Vec<i64> {
        let named = self.events(line).filter(|event| event.name == name);
        named.map(|read| Self::number(&self.plane, read.event, "n").expect("it has a number")).collect()
    }

    /// Checks a profile for which each thread had begun these items before, and so many guests had ended.
    fn check(&self, profile: &Profile, begun: &[i64], guests: i64, found: &mut Found) {
        let untils = self.environment("whole_until_ns of ");
        let length_ns = self.one("profile_stop_time") - self.one("profile_start_time");
        let mut common_ends = BTreeSet::new();
        let mut missing = 0;
        for (index, &begun) in begun.iter().enumerate() {
            let name = format!("load {index}");
            let lines: Vec<&XLine> = self.plane.lines.iter().filter(|line| line.name == name).collect();
            let [line] = lines.as_slice() else { panic!("{} lines of thread `{name}`", lines.len()) };
            let until = untils.iter().find(|(of, _)| *of == format!("{name} ({})", line.id)).map(|(_, until)| *until);
            let end = self.check_open(line, index);
            match until {
                Some(until) => assert_eq!(u64::try_from(end / 1000), Ok(until), "`{name}`"),
                None => common_ends.extend([end]),
            }
            // Of what a thread shows, nothing is missing; one that shows no items has found no memory for any.
            match self.missing(line, begun) {
                Some(more) => missing += more,
                None => assert_ne!(profile.dropped_scopes, 0, "no items on `{}`", line.name),
            }
        }
        // All but those with windows of their own end at one moment.
        assert!(common_ends.len() <= 1, "{common_ends:?}");
        let latest = self.plane.lines.iter().flat_map(|line| self.events(line)).map(|event| event.end).max();
        assert_eq!(u64::try_from(latest.expect("there are events")).expect("positive").div_ceil(1000), length_ns);

        let shown: Vec<i64> = self.plane.lines.iter().flat_map(|line| self.numbers(line, "guest")).collect();
        let gone = i64::try_from(self.one("released_threads")).expect("few");
        let lost = guests - gone - i64::try_from(shown.len()).expect("few");
        assert!(lost >= 0 && shown.is_sorted(), "guests {shown:?} of {guests}, {gone} let go");
        missing += lost.unsigned_abs();

        // What is missing is counted; of what has gone since, scopes were dropped as well.
        assert!(missing <= profile.dropped_scopes, "{missing} missing, {} dropped", profile.dropped_scopes);
        assert_eq!(self.one("dropped_scopes"), profile.dropped_scopes);
        assert_eq!(self.one("released_bytes"), profile.released_bytes);
        let events = self.plane.lines.iter().map(|line| line.events.len() as u64).sum::<u64>();
        // A guest that found no memory is a thread without a line.
        assert_eq!(profile.scopes, events);
        assert_eq!(profile.threads as u64, self.plane.lines.len() as u64 + lost.unsigned_abs());

        let windows: Vec<&String> =
            profile.warnings.iter().filter(|warning| warning.contains("a moment of their own")).collect();
        match windows.as_slice() {
            [] => assert_eq!(untils, []),
            [warning] => assert!(warning.starts_with(&format!("{} threads ", untils.len())), "{warning}"),
            more => panic!("{more:?}"),
        }
        if profile.dropped_scopes == 0 {
            assert_eq!(profile.warnings.len(), windows.len(), "{:?}", profile.warnings);
        }
        found.profiles += 1;
        found.scopes += profile.scopes;
        found.with_windows += windows.len();
        found.windows += untils.len();
        let common = common_ends.first().map_or(0, |end| u64::try_from(end / 1000).expect("positive"));
        let latest_ns = untils.iter().map(|(_, until)| until.saturating_sub(common)).max().unwrap_or(0);
        found.latest_ns = found.latest_ns.max(latest_ns);
        found.lost_guests = found.lost_guests.max(gone.unsigned_abs());
    }

    /// Checks what a thread of the load has open from its start on, and returns where that ends, in picoseconds.
    fn check_open(&self, line: &XLine, index: usize) -> i64 {
        let only = |name: &str| {
            let mut named = self.events(line).filter(|event| event.name == name);
            let first = named.next().unwrap_or_else(|| panic!("no `{name}` on `{}`", line.name));
            assert!(named.next().is_none(), "two `{name}` on `{}`", line.name);
            assert_eq!(Self::number(&self.plane, first.event, "unfinished"), Some(1), "`{name}` on `{}`", line.name);
            first
        };
        let (server, main_loop) = (only("server"), only("main loop"));
        let number = |key| Self::number(&self.plane, server.event, key);
        let index = i64::try_from(index).expect("small");
        assert_eq!((number("index"), number("port")), (Some(index), Some(8000 + index)));
        assert!(server.begin <= main_loop.begin && server.end == main_loop.end);
        for event in self.events(line) {
            assert!(server.begin <= event.begin && event.end <= server.end, "`{}` on `{}`", event.name, line.name);
        }
        server.end
    }

    /// How many scopes are missing from the first item that a thread of the load shows to the last that it had begun; `None`
    /// where it shows no item.
    fn missing(&self, line: &XLine, begun: i64) -> Option<u64> {
        let items = self.numbers(line, "item");
        let (&first, &last) = (items.first()?, items.last()?);
        let whole = |numbers: &[i64], expected: std::ops::RangeInclusive<i64>| {
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "out of order on `{}`", line.name);
            let there = numbers.iter().filter(|number| expected.contains(number)).count() as u64;
            let all = u64::try_from(expected.end() - expected.start() + 1).unwrap_or(0);
            all - there
        };
        // What is around the first item may have begun before it, and what is in it may have ended before it is shown.
        let last = last.max(begun);
        let batches = whole(&self.numbers(line, "batch"), first / BATCH..=last / BATCH);
        Some(batches + whole(&items, first..=last) + whole(&self.numbers(line, "inner"), first + 1..=last - 1))
    }
}
