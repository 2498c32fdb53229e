//! Cost of one scope in C beside the same scope in Rust, in one program and one session: as ratios to two clock reads and a
//! 32-byte store.
//!
//! All rows run in turn, round by round, and the least of the rounds counts.

use std::hint::black_box;
use std::time::Instant;

use zprof::{Platform, ProfilerOptions};
use zprof_tests_c::spin;

const SCOPES: u64 = 100_000;
const ROUNDS: usize = 60;

fn time(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_nanos() as f64 / SCOPES as f64
}

fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has rdtsc; it touches no memory.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Instant::now().elapsed().as_nanos() as u64
    }
}

/// The physical limit: what any recorder with two time stamps must do.
fn floor() {
    let mut ring = vec![[1; 4]; 1 << 15];
    for index in 0..SCOPES {
        let begin = ticks();
        let slot = &mut ring[index as usize & ((1 << 15) - 1)];
        *black_box(slot) = [begin, ticks(), index, 7];
    }
}

/// A scope of each form in Rust, as `half.c` has them.
fn rust(form: i32) {
    let texts = ["greedy", "sample", "beam"];
    for index in 0..SCOPES {
        match form {
            0 => {
                zprof::scope!("none");
            }
            1 => {
                zprof::scope!("ints", a = index, b = 7);
            }
            2 => {
                zprof::scope!("text", mode = black_box(texts[index as usize % 3]), b = index);
            }
            _ => {
                black_box(index);
            }
        }
    }
}

/// The rows: form 3 is the loop alone.
const ROWS: [(&str, i32); 4] = [("loop alone", 3), ("none", 0), ("2 ints", 1), ("text + int", 2)];

fn table(title: &str, rounds: usize, mut around: impl FnMut(&mut dyn FnMut())) {
    let mut best = [[f64::INFINITY; 2]; ROWS.len()];
    let mut floor_ns = f64::INFINITY;
    for _ in 0..rounds {
        floor_ns = floor_ns.min(time(floor));
        for ((_, form), [in_rust, in_c]) in ROWS.iter().zip(&mut best) {
            around(&mut || *in_rust = in_rust.min(time(|| rust(black_box(*form)))));
            around(&mut || *in_c = in_c.min(time(|| spin(*form, SCOPES))));
        }
    }
    println!("\n{title}; 2 clock reads and a 32-byte store take {floor_ns:.2} ns");
    println!("{:<16}{:>10}{:>10}{:>10}{:>12}{:>12}", "", "Rust, ns", "ratio", "C, ns", "ratio", "C to Rust");
    for ((name, _), [in_rust, in_c]) in ROWS.iter().zip(best) {
        let (ratio_rust, ratio_c, ratio) = (in_rust / floor_ns, in_c / floor_ns, in_c / in_rust);
        println!("{name:<16}{in_rust:>10.2}{ratio_rust:>10.2}{in_c:>10.2}{ratio_c:>12.2}{ratio:>12.2}");
    }
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 5 } else { ROUNDS };
    table("off", rounds, |body| body());
    table("on", rounds, |body| {
        let memory = std::path::Path::new("/dev/shm");
        let folder = tempfile::tempdir_in(if memory.is_dir() { memory } else { "/tmp".as_ref() }).expect("a folder");
        let options = ProfilerOptions::default().repository_path(folder.path());
        let mut profiler = Platform::host().profiler(options).expect("good options");
        profiler.start().expect("no other session");
        body();
        let profile = profiler.stop().expect("writes").expect("was running");
        assert_eq!(profile.dropped_scopes, 0);
    });
}
