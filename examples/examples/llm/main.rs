//! A small transformer that reads a text and continues it, profiles itself, and says where its time went.
//!
//! `cargo run --release -p zprof-examples --example llm -- [--output DIR] [--tokens N] [--threads N]`
//!
//! The weights come from a fixed seed and mean nothing, and so does the continuation; the work is that of a real model.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

use rayon::{ThreadPool, ThreadPoolBuilder};

mod math;
mod model;
mod options;
mod report;
mod rng;
mod tokenizer;

use crate::model::{Config, Transformer};
use crate::options::Options;
use crate::report::Report;
use crate::tokenizer::{Token, Tokenizer};

/// The text that the tokenizer learns from; its first words are the prompt.
const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tide.txt");
const PROMPT_BYTES: usize = 160;
const VOCABULARY: usize = 512;
const SEED: u64 = 2_026;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;

    let platform = zprof::Platform::host();
    let mut profiler = platform.profiler(zprof::ProfilerOptions::default().repository_path(&options.output))?;
    profiler.start()?;
    let (prompt, tokens) = workers(options.threads)?.install(|| generate(options.tokens))?;
    let Some(profile) = profiler.stop()? else {
        return Err("the profiler was started and has no profile".into());
    };

    println!("{prompt} \u{2026}");
    println!("{} tokens: {tokens:?}", tokens.len());
    let json = profile.perfetto_path.as_deref().ok_or("the profile has no JSON")?;
    let report = Report::read(json)?;
    println!("\n{report}");
    println!("{}\n{}", profile.protobuf_path.display(), json.display());
    println!("\nPerfetto: open https://ui.perfetto.dev and drop the .json file on it; it stays in your browser");
    println!(
        "XProf:    pip install xprof, then xprof --logdir {} and open http://localhost:8791",
        options.output.display()
    );

    // What a profile must not change: the same tokens come out without one, and from one thread.
    let (_, unobserved) = workers(1)?.install(|| generate(options.tokens))?;
    assert_eq!(tokens, unobserved, "the tokens depend on the profiler or on the number of threads");
    check(&options, &profile.protobuf_path, &report)
}

fn workers(threads: usize) -> Result<ThreadPool, Box<dyn Error>> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("llm-worker-{index}"));
    Ok(pool.build()?)
}

/// Reads the text, builds the model and decodes `count` tokens, always the likeliest; returns the prompt and the tokens.
#[zprof::trace("llm.generate", tokens = count)]
fn generate(count: usize) -> io::Result<(String, Vec<Token>)> {
    let text = zprof::scope!("llm.read", path = TEXT, { fs::read_to_string(TEXT)? });
    let tokenizer = Tokenizer::train(&text, VOCABULARY);
    let prompt = tokenizer.encode(&text[..PROMPT_BYTES]);
    let config = Config { vocabulary: VOCABULARY, context: prompt.len() + count, ..Config::default() };
    let model = Transformer::new(config, SEED);

    let mut cache = model.cache();
    let mut logits = zprof::scope!("llm.prefill", seqlen = prompt.len(), { model.forward(&prompt, &mut cache) });
    let mut tokens = Vec::with_capacity(count);
    for step in 0..count {
        zprof::scope!("llm.step", root = true, step_num = step);
        let token = math::argmax(&logits);
        logits = model.forward(&[token], &mut cache);
        tokens.push(token);
    }
    Ok((tokenizer.decode(&prompt), tokens))
}

/// What this program promises of its own profile; it runs in CI as a test.
fn check(options: &Options, protobuf: &Path, report: &Report) -> Result<(), Box<dyn Error>> {
    let tokens = u64::try_from(options.tokens)?;
    assert!(fs::metadata(protobuf)?.len() > 0, "{} is empty", protobuf.display());
    assert_eq!(report.count("llm.step"), tokens, "one step scope per token");
    assert_eq!(report.count("llm.forward"), tokens + 1, "one forward pass per token, and one for the prompt");
    for index in 0..options.threads {
        let name = format!("llm-worker-{index}");
        assert!(report.threads.contains(&name), "the profile has no thread `{name}` among {:?}", report.threads);
    }
    Ok(())
}
