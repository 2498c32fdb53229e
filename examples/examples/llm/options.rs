//! The command line of the example.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

/// What the command line asks for.
pub(crate) struct Options {
    /// Folder that gets `plugins/profile/…`.
    pub(crate) output: PathBuf,
    /// Tokens to decode after the prompt.
    pub(crate) tokens: usize,
    /// Worker threads.
    pub(crate) threads: usize,
}

impl Options {
    /// Reads `--output DIR --tokens N --threads N`, all of them optional.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let threads = thread::available_parallelism().map_or(2, NonZero::get).min(8);
        let mut options = Self { output: PathBuf::from("/tmp/xprof"), tokens: 64, threads };
        while let Some(word) = words.next() {
            if !["--output", "--tokens", "--threads"].contains(&word.as_str()) {
                return Err(format!("`{word}` is not known; there are `--output`, `--tokens` and `--threads`"));
            }
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            match word.as_str() {
                "--output" => options.output = PathBuf::from(value),
                "--tokens" => options.tokens = number(&word, &value)?,
                _ => options.threads = number(&word, &value)?,
            }
        }
        Ok(options)
    }
}

fn number(word: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(number @ 1..=1_000) => Ok(number),
        _ => Err(format!("`{word} {value}`: expected a number from 1 to 1000")),
    }
}
