//! A command: what it adds to the environment, and its words; and the same as a line that a shell takes.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use anyhow::{Context, Result};

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    environment: Vec<(String, OsString)>,
    words: Vec<OsString>,
}

impl CommandLine {
    pub(crate) fn new(tool: impl Into<OsString>) -> Self {
        Self { environment: Vec::new(), words: vec![tool.into()] }
    }

    /// With a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// With a word more.
    pub(crate) fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    /// With more words.
    pub(crate) fn args<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// The same command with words before it.
    pub(crate) fn under(mut self, words: &[&str]) -> Self {
        self.words.splice(0..0, words.iter().map(OsString::from));
        self
    }

    /// The program, and what it is given.
    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Ready to be run.
    pub(crate) fn to_command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The line that makes a shell run it: assignments, then words, each quoted where it must be.
    pub(crate) fn shell(&self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        for (name, value) in &self.environment {
            line.extend_from_slice(name.as_bytes());
            line.push(b'=');
            // An empty value needs no quotes after the sign, and with them it is the same.
            line.extend_from_slice(&quoted(value)?);
            line.push(b' ');
        }
        for (place, word) in self.words.iter().enumerate() {
            if place > 0 {
                line.push(b' ');
            }
            line.extend_from_slice(&quoted(word)?);
        }
        Ok(line)
    }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &OsStr) -> Result<Vec<u8>> {
    let bytes = word.as_encoded_bytes();
    let quoted = shlex::bytes::try_quote(bytes).with_context(|| format!("{word:?} cannot be written for a shell"))?;
    Ok(quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_assignments_then_words_quoted() {
        let command = CommandLine::new("tool").env("FLAGS", "--a --b").env("EMPTY", "").arg("-t").args([
            "two words",
            "it's",
            "\"",
            "",
            "$HOME `x` !",
            "line\nbreak",
            "a=b",
            "~",
            "é",
        ]);
        let line = String::from_utf8(command.under(&["sudo", "-E"]).shell().expect("no NUL")).expect("UTF-8");
        let words = shlex::split(&line).expect("a shell takes it");
        assert_eq!(
            words,
            [
                "FLAGS=--a --b",
                "EMPTY=",
                "sudo",
                "-E",
                "tool",
                "-t",
                "two words",
                "it's",
                "\"",
                "",
                "$HOME `x` !",
                "line\nbreak",
                "a=b",
                "~",
                "é"
            ]
        );
        assert!(line.starts_with("FLAGS='--a --b' EMPTY='' sudo -E tool -t 'two words' \"it's\" "), "{line}");
    }
}
