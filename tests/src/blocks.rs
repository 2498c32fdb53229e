//! Fenced blocks of the project's documents, so that tests run what the documents say.

use std::fs;
use std::path::Path;

/// A block between two fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The word after the first fence, such as `sh`; without what follows a comma.
    pub language: String,
    /// The lines between the fences, each with its line break.
    pub text: String,
}

impl Block {
    /// The first line, by which a block is found.
    #[must_use]
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// The blocks of a document, in its order.
///
/// # Panics
///
/// Panics if the file cannot be read, or if a block has no end.
#[must_use]
pub fn blocks(root: &Path, file: &str) -> Vec<Block> {
    let text = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("failed to read `{file}`: {error}"));
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let language = info.split([',', ' ']).next().unwrap_or_default().to_owned();
        let mut text = String::new();
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("a block `{language}` of `{file}` has no end"));
            if line.trim_start().starts_with("```") {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        blocks.push(Block { language, text });
    }
    blocks
}

/// The text of the only block of a document that begins with this line.
///
/// # Panics
///
/// Panics if there is none, or more than one.
#[must_use]
pub fn block(root: &Path, file: &str, first_line: &str) -> String {
    let mut found = blocks(root, file).into_iter().filter(|block| block.first_line() == first_line);
    let block = found.next().unwrap_or_else(|| panic!("no block of `{file}` begins with `{first_line}`"));
    assert_eq!(found.next(), None, "two blocks of `{file}` begin with `{first_line}`");
    block.text
}
