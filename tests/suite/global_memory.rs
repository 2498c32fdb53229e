//! The memory limit: whole scopes are dropped, each is counted, and the count stands everywhere it is looked for.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use zprof::ProfilerOptions;
use zprof_tests::profile::{Recorded, Stat, record, stats};

#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_session_is_the_systems_again_once_its_profiler_is_dropped() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (stdout, _) = crate::actor::play("memory-returned", folder.path());
    let (grown, left) = stdout.trim_end().split_once(' ').expect("two numbers");
    let (grown, left): (u64, u64) = (grown.parse().expect("a number"), left.parse().expect("a number"));
    assert!(grown > 24 << 20, "the session takes too little to tell: {grown}");
    assert!(left < 8 << 20, "of {grown} bytes, {left} are left");
}

/// What has been logged in this process, as `LEVEL message`.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Capture;

impl log::Log for Capture {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = format!("{} {}", record.level(), record.args());
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn flush(&self) {}
}

/// Installs the capturing logger, once.
fn capture() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        log::set_logger(&Capture).expect("no other test installs a logger");
        log::set_max_level(log::LevelFilter::Info);
    });
}

/// The warnings among what was logged that speak of `thread`.
fn logged_of(thread: &str) -> Vec<String> {
    let logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    let warnings = logged.iter().filter_map(|text| text.strip_prefix("WARN "));
    warnings.filter(|text| text.contains(thread)).map(str::to_owned).collect()
}

fn limited(bytes: usize) -> ProfilerOptions {
    ProfilerOptions::default().max_buffer_bytes(bytes)
}

/// `scopes` nested scopes at a time, until `count` were opened.
fn nest(thread: i64, n: &mut i64, count: i64, depth: u32) {
    if *n < count && depth > 0 {
        zprof::scope!("nested", thread, n = *n, text = "some text");
        *n += 1;
        nest(thread, n, count, depth - 1);
    }
}

/// The number behind `before` in a text.
fn number_after(text: &str, before: &str) -> u64 {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no `{before}` in `{text}`"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("no number after `{before}` in `{text}`"))
}

/// Every scope is in the profile, whole, or counted: in all three places, per thread.
fn all_told<T>(recorded: &Recorded<T>, threads: i64, scopes: i64) {
    let made = u64::try_from(threads * scopes).expect("small numbers");
    let dropped = recorded.profile.dropped_scopes;
    assert_eq!(recorded.profile.scopes + dropped, made);
    assert!(dropped > 0, "the limit was not reached");
    assert_eq!(recorded.environment["dropped_scopes"], Stat::Uint(dropped));
    assert_eq!(recorded.profile.warnings, recorded.warnings);
    let per_thread: Vec<u64> = recorded.warnings.iter().map(|text| number_after(text, " dropped ")).collect();
    assert_eq!(per_thread.iter().sum::<u64>(), dropped, "{:?}", recorded.warnings);
    for warning in &recorded.warnings {
        let thread = warning.split('`').nth(1).expect("the warning names a thread");
        assert_eq!(logged_of(&format!("`{thread}`")), std::slice::from_ref(warning));
    }

    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &recorded.lines {
        assert!(!line.tree().is_empty());
        let thread = number_after(&line.name, " worker ");
        let mut last = -1;
        for event in &line.events {
            let Some((_, Stat::Int(n))) = event.stats.get(1) else { panic!("no number in {event:?}") };
            let thread = Stat::Int(i64::try_from(thread).expect("a small number"));
            let whole = stats([("thread", thread), ("n", (*n).into()), ("text", "some text".into())]);
            assert_eq!(event.stats, whole);
            assert!(last < *n, "{n} after {last}");
            last = *n;
        }
        kept.insert(&line.name, line.events.len());
    }
    let in_all: u64 = kept.values().map(|&count| count as u64).sum();
    assert_eq!(in_all, recorded.profile.scopes);
}

fn work(prefix: &str, options: ProfilerOptions, threads: i64, scopes: i64) -> Recorded<()> {
    record(options, || {
        thread::scope(|scope| {
            for index in 0..threads {
                let work = move || {
                    let mut n = 0;
                    while n < scopes {
                        nest(index, &mut n, scopes, 10);
                    }
                };
                let name = format!("{prefix} worker {index}");
                thread::Builder::new().name(name).spawn_scoped(scope, work).expect("a thread can be had");
            }
        });
    })
}

#[test]
fn many_threads_in_little_memory() {
    capture();
    let recorded = work("little", limited(64 << 10), 24, 2000);
    all_told(&recorded, 24, 2000);
    assert!(recorded.profile.scopes > 500, "only {} fitted", recorded.profile.scopes);
}

#[test]
fn a_few_threads_in_more_memory() {
    capture();
    let recorded = work("more", limited(2 << 20), 4, 20_000);
    all_told(&recorded, 4, 20_000);
    // 64 bytes a scope, and no more than a large chunk a thread unused.
    let bytes = 2 << 20;
    assert!(recorded.profile.scopes > (bytes - 4 * (64 << 10)) / 64, "only {} fitted", recorded.profile.scopes);
}

#[test]
fn what_was_dropped_is_not_counted_in_the_next_session() {
    capture();
    let recorded = work("first", limited(64 << 10), 2, 5000);
    assert!(recorded.profile.dropped_scopes > 0);
    let recorded = work("second", ProfilerOptions::default(), 2, 500);
    let profile = recorded.profile;
    assert_eq!((profile.scopes, profile.dropped_scopes, profile.warnings), (1000, 0, vec![]));
    assert_eq!(recorded.environment["dropped_scopes"], Stat::Uint(0));
}

#[test]
fn ends_and_what_is_open_fit_whatever_is_dropped() {
    let recorded = record(limited(64 << 10), || {
        zprof::scope!("outer", n = 1);
        for i in 0..20_000_u32 {
            zprof::scope!("inner", i);
        }
    });
    let line = recorded.own_line();
    let outer = line.event("outer");
    assert_eq!(outer.stats, stats([("n", 1.into())]));
    let kept = line.events.len();
    assert!(line.events.iter().all(|event| event.is_inside(outer)));
    let last = line.events[kept - 1].end_ps;
    assert!(outer.end_ps - last > last - outer.start_ps, "the outer scope ends long after the last that fitted");
    assert_eq!(recorded.profile.dropped_scopes + kept as u64, 20_001);
}

#[test]
fn a_scope_that_does_not_fit_leaves_room_for_small_ones() {
    let big = "x".repeat(1 << 20);
    let recorded = record(limited(1 << 20), || {
        zprof::scope!("small", {});
        zprof::scope!("big", text = big.as_str(), {
            zprof::scope!("inside", {});
        });
        let mut span = zprof::span!("span");
        span.record("big", big.as_str());
        span.record("n", 1);
    });
    let told = [("small", &stats([])), ("inside", &stats([])), ("span", &stats([("n", 1.into())]))];
    let line = recorded.own_line();
    assert_eq!(line.told(), told);
    assert_eq!(recorded.profile.dropped_scopes, 1);
    let thread = format!("thread `{}` ({})", line.name, line.id);
    let limit = "the recorder's memory limit of 1048576 bytes was reached";
    let warnings = [
        format!("{thread} dropped 1 scopes: {limit}; raise `max_buffer_bytes`"),
        format!("{thread} dropped 1 values added to open spans: {limit}"),
    ];
    assert_eq!(recorded.warnings, warnings);
}
