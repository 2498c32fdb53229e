//! What annotation tools saw of a program, in the same values whichever tool it was: the fake one, or Nsight Systems.

pub mod nsys;
pub mod tool;

use std::path::Path;
use std::process::Command;

/// A range by push and pop, with what it encloses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its message; empty where it has none.
    pub label: String,
    /// Whether that was a registered string.
    pub registered: bool,
    /// ARGB.
    pub color: Option<u32>,
    /// Number of its category, 0 for none.
    pub category: u32,
    /// In the order of their begins.
    pub children: Vec<Range>,
}

/// What one thread pushed and popped in one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number.
    pub id: u32,
    /// The name that reached the tool.
    pub name: Option<String>,
    /// In the order of their begins.
    pub ranges: Vec<Range>,
    /// Ranges that were never popped; they stand among the others.
    pub open: usize,
    /// Pops without a range.
    pub surplus: usize,
}

/// A range by start and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its message; empty where it has none.
    pub label: String,
    /// Whether that was a registered string.
    pub registered: bool,
    /// ARGB.
    pub color: Option<u32>,
    /// Number of its category, 0 for none.
    pub category: u32,
    /// Thread that started it.
    pub started_on: u32,
    /// Threads that ended it: one, if all is well.
    pub ended_on: Vec<u32>,
}

impl Thread {
    /// The name that reached the tool, or an empty one.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The labels as a tree: a line each, indented by two spaces a level.
    #[must_use]
    pub fn tree(&self) -> String {
        let mut text = String::new();
        write_tree(&self.ranges, 0, &mut text);
        text
    }

    /// All ranges, each before what it encloses.
    #[must_use]
    pub fn all(&self) -> Vec<&Range> {
        let mut found = Vec::new();
        let mut next: Vec<&Range> = self.ranges.iter().rev().collect();
        while let Some(range) = next.pop() {
            found.push(range);
            next.extend(range.children.iter().rev());
        }
        found
    }

    /// The labels of all ranges, each before what it encloses.
    #[must_use]
    pub fn labels(&self) -> Vec<&str> {
        self.all().into_iter().map(|range| range.label.as_str()).collect()
    }
}

fn write_tree(ranges: &[Range], depth: usize, text: &mut String) {
    for range in ranges {
        text.extend(std::iter::repeat_n("  ", depth));
        text.push_str(&range.label);
        text.push('\n');
        write_tree(&range.children, depth + 1, text);
    }
}

/// The thread of that name.
///
/// # Panics
///
/// Panics if there is not exactly one.
#[must_use]
pub fn thread<'a>(threads: &'a [Thread], name: &str) -> &'a Thread {
    let mut found = threads.iter().filter(|thread| thread.name.as_deref() == Some(name));
    match (found.next(), found.next()) {
        (Some(thread), None) => thread,
        _ => panic!("there is not one thread `{name}`: {threads:#?}"),
    }
}

/// The path that a script of this repository prints; the script fetches what it names, unless it is there.
fn fetched(script: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(script);
    run(&mut Command::new(path)).0.trim_end().to_owned()
}

/// Runs a command to its end, which must be a good one: what it wrote to standard output and to standard error.
fn run(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{stdout}\n{stderr}", output.status);
    (stdout.into_owned(), stderr.into_owned())
}
