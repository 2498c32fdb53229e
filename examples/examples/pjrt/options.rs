//! The command line of the example.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "pjrt [PLUGIN] [--output DIR] [--steps N]";

/// What the command line asks for.
pub(crate) struct Options {
    /// The plugin's shared library, if one is named.
    pub(crate) plugin: Option<PathBuf>,
    /// Folder that gets `plugins/profile/…`.
    pub(crate) output: PathBuf,
    /// Executions to profile.
    pub(crate) steps: usize,
}

impl Options {
    /// Reads the plugin's path and the options, in any order.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut plugin, mut output, mut steps) = (None, PathBuf::from("/tmp/xprof"), 200);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value: {USAGE}"));
            match word.as_str() {
                "--output" => output = PathBuf::from(value()?),
                "--steps" => steps = number(&value()?)?,
                _ if word.starts_with('-') || plugin.is_some() => {
                    return Err(format!("`{word}` is not expected: {USAGE}"));
                }
                _ => plugin = Some(PathBuf::from(word)),
            }
        }
        Ok(Self { plugin, output, steps })
    }
}

fn number(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(number @ 1..=100_000) => Ok(number),
        _ => Err(format!("`--steps {value}`: expected a number from 1 to 100000")),
    }
}
