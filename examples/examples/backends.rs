//! A few threads with scopes of every form, and no session: for a look at them in a live tool.
//!
//! ```sh
//! cargo build --release -p zprof-examples --features nvtx,roctx,signpost --example backends
//! nsys profile -t nvtx target/release/examples/backends
//! rocprofv3 --marker-trace -- target/release/examples/backends
//! xcrun xctrace record --template 'Points of Interest' --launch -- target/release/examples/backends
//! ```

use std::hint::black_box;
use std::thread;

#[derive(Clone, Copy, zprof::Value)]
enum Mode {
    Greedy,
    Sampled,
}

#[zprof::trace(layer, tokens = tokens.len(), level = info)]
fn attend(layer: usize, tokens: &[u32]) -> u64 {
    (0..20_000).fold(layer as u64, |sum, n| black_box(sum.wrapping_mul(31) + n)) + tokens.len() as u64
}

fn sample(mode: Mode) -> u32 {
    zprof::scope!("sample", mode, temperature = 0.8, level = verbose);
    black_box(match mode {
        Mode::Greedy => 7,
        Mode::Sampled => 11,
    })
}

fn generate(prompt: &str, steps: u32) -> Vec<u32> {
    zprof::scope!("generate", prompt, steps);
    let mut tokens: Vec<u32> = zprof::scope!("tokenize", { prompt.bytes().map(u32::from).collect() });
    for step in 0..steps {
        zprof::scope!("step", root = true, step_num = step);
        for layer in 0..2 {
            black_box(attend(layer, &tokens));
        }
        tokens.push(sample(if step % 2 == 0 { Mode::Greedy } else { Mode::Sampled }));
    }
    tokens
}

fn main() {
    zprof::scope!("main");
    let prompts = ["a crab's tale", "naïve #1"];
    let lengths = thread::scope(|scope| {
        let threads = prompts.map(|prompt| {
            let builder = thread::Builder::new().name(format!("gen {}", prompt.len()));
            builder.spawn_scoped(scope, move || generate(prompt, 3).len()).expect("a thread starts")
        });
        threads.map(|thread| thread.join().expect("a thread ends"))
    });
    // Two bytes make an ï.
    assert_eq!(lengths, [13 + 3, 9 + 3]);
    println!("generated {lengths:?} tokens");
}
