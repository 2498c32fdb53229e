//! The clock: begin and end of scopes against the system's wall clock, and what the trace says of its own precision.

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zprof_tests::profile::{Recorded, Stat, recorded, stats};

/// How far a time of a scope may be off, besides the reading of the wall clock around it.
const ALLOWED_NS: i64 = 1000;

fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    i64::try_from(since.as_nanos()).expect("before the year 2262")
}

/// The wall clock before and after the begin of a scope, and before and after its end.
struct Around {
    begin: (i64, i64),
    end: (i64, i64),
}

fn one(n: u32) -> Around {
    let before_begin = wall_ns();
    let span = zprof::span!("timed", n);
    let after_begin = wall_ns();
    let before_end = wall_ns();
    span.end();
    Around { begin: (before_begin, after_begin), end: (before_end, wall_ns()) }
}

/// Scopes over about `seconds`; none is recorded in between.
fn timed(seconds: u64) -> Recorded<Vec<Around>> {
    const A_SECOND: u64 = 10;
    const AT_ONCE: u32 = 5;
    let (_never, nothing) = mpsc::channel::<()>();
    recorded(|| {
        let mut taken = Vec::new();
        for _ in 0..seconds * A_SECOND {
            taken.extend((0..AT_ONCE).map(one));
            assert!(nothing.recv_timeout(Duration::from_millis(1000 / A_SECOND)).is_err());
        }
        taken
    })
}

fn uint(recorded: &Recorded<Vec<Around>>, name: &str) -> i64 {
    match recorded.environment.get(name) {
        Some(Stat::Uint(value)) => i64::try_from(*value).expect("a small number"),
        other => panic!("`{name}` is {other:?}"),
    }
}

/// How far `ns` is outside of what the wall clock showed around it.
fn off_by((before, after): (i64, i64), ns: i64) -> i64 {
    (before - ns).max(ns - after).max(0)
}

fn agrees(recorded: &Recorded<Vec<Around>>) {
    let start_ns = uint(recorded, "profile_start_time");
    let events = &recorded.own_line().events;
    assert_eq!(events.len(), recorded.value.len());
    let (mut worst, mut tightest) = (0, i64::MAX);
    for (index, (event, around)) in events.iter().zip(&recorded.value).enumerate() {
        let n = i64::try_from(index % 5).expect("a small number");
        assert_eq!((event.name.as_str(), &event.stats), ("timed", &stats([("n", n.into())])));
        let begin = off_by(around.begin, start_ns + event.start_ps / 1000);
        let end = off_by(around.end, start_ns + event.end_ps / 1000);
        assert!(begin <= ALLOWED_NS && end <= ALLOWED_NS, "scope {index} is off by {begin} and {end} ns");
        worst = worst.max(begin).max(end);
        tightest = tightest.min(around.begin.1 - around.begin.0).min(around.end.1 - around.end.0);
    }
    println!("worst {worst} ns outside, tightest reading {tightest} ns");
    // A wide reading would let anything pass.
    assert!(tightest <= ALLOWED_NS, "the tightest reading took {tightest} ns");
}

#[test]
fn scopes_agree_with_the_wall_clock_over_thirty_seconds() {
    let began = Instant::now();
    let recorded = timed(30);
    let elapsed = i64::try_from(began.elapsed().as_nanos()).expect("some seconds");
    agrees(&recorded);
    let residual = uint(&recorded, "clock_residual_ns");
    println!("residual {residual} ns");
    assert!(residual <= ALLOWED_NS, "{residual} ns");
    assert_eq!(recorded.warnings, Vec::<String>::new());
    let length = recorded.length_ps() / 1000;
    assert!((30_000_000_000..=elapsed).contains(&length), "{length} ns within {elapsed} ns");
}

#[test]
fn the_trace_names_the_clock() {
    let sources = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    let trusted = sources.is_ok_and(|sources| sources.split_whitespace().any(|source| source == "tsc"));
    let processor = fs::read_to_string("/proc/cpuinfo").expect("the system shows its processors");
    let invariant = processor.split_whitespace().any(|flag| flag == "nonstop_tsc");
    let expected = match std::env::consts::ARCH {
        "x86_64" if cfg!(target_os = "linux") && trusted && invariant => "tsc",
        "aarch64" => "cntvct",
        _ => "monotonic",
    };
    let recorded = timed(0);
    assert_eq!(recorded.environment["clock"], expected.into());
    let mut names: Vec<&str> = recorded.environment.keys().map(String::as_str).collect();
    names.sort_unstable();
    let all = [
        "clock",
        "clock_residual_ns",
        "dropped_scopes",
        "process_id",
        "process_name",
        "profile_options",
        "profile_start_time",
        "profile_stop_time",
    ];
    assert_eq!(names, all);
}
