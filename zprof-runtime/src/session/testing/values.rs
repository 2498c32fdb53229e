//! What a test gets: plain values that compare, and print as a tree.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// What a session for a test has recorded. Times are those of its [`Clock`](super::Clock), from the start of the session.
///
/// What [`others`](Self::others) did is no part of `==` and of [`tree`](Self::tree): it may have been another test.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// The threads that recorded scopes or instants: the test's own first, the others by their names. What ended out of order
    /// on a thread stands in one more, called `<name> (overlap)`.
    pub threads: Vec<Thread>,
    /// The traced futures as wholes, in the order of their first polls; one that was awaited within another follows that. Their polls are scopes of the threads that ran them.
    pub tasks: Vec<Scope>,
    /// The samples of all counters, in the order of time.
    pub counters: Vec<Counter>,
    /// What would stand in the profile as warnings.
    pub warnings: Vec<String>,
    /// Scopes that found no room.
    pub dropped_scopes: u64,
    /// What threads did that the test has not [included](super::Clock::include_thread): those of other tests, and those of a pool
    /// that the test forgot. `None` where they recorded nothing, and where all threads are included.
    pub others: Option<Box<Recorded>>,
}

/// What one thread recorded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Thread {
    /// Its name; `thread <id>` where it has none.
    pub name: String,
    /// Whether it is the one that had the session.
    pub is_own: bool,
    /// Scopes and instants by their begins, so that what is within a scope follows it.
    pub scopes: Vec<Scope>,
}

/// A scope, an instant, a poll of a traced future, or the whole of one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Scope {
    /// Its name.
    pub name: String,
    /// The module it is marked in.
    pub module_path: String,
    /// The source file, as the compiler was given it.
    pub file: String,
    /// The line there.
    pub line: u32,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// How many scopes of its thread are around it; of a task, how many tasks of its line.
    pub depth: usize,
    /// Whether it is an instant.
    pub is_instant: bool,
    /// Whether it is a step, or a root by `root = true`.
    pub is_root: bool,
    /// Metadata, in the order in which it was given. `None` is left out, and `true` is 1, as in a profile.
    pub args: Vec<(String, Arg)>,
    /// The flow that begins here. Flows are numbered from 1, as they are met.
    pub sends: Option<u64>,
    /// The flow that ends here.
    pub receives: Option<u64>,
    /// Of a poll and of a task's whole, the number of the task. Tasks are numbered from 1, in the order of their first polls.
    pub task: Option<u64>,
    /// What became of it, where that is not the usual.
    pub marks: Vec<Mark>,
}

/// A sample of a counter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Counter {
    /// The counter.
    pub name: String,
    /// Its unit; `value` where none is given.
    pub unit: String,
    /// When it had the value.
    pub at: Duration,
    /// The value.
    pub value: Arg,
}

/// A value of metadata, as a profile has it: integers are `Int` where they fit, and text may have been a `char` or an enum.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Arg {
    /// An integer or a `bool`.
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
}

/// What became of a scope or a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// It was open when the session stopped, or its thread ended.
    Unfinished,
    /// It was open when the session started, at which it begins here.
    StartedBefore,
    /// Its guard was never dropped; it ends with the scope around it.
    Leaked,
    /// The future was dropped before it was ready.
    Cancelled,
    /// A poll of the future panicked.
    Panicked,
}

impl Mark {
    pub(super) const ALL: [(&'static str, Self); 5] = [
        ("unfinished", Self::Unfinished),
        ("started_before", Self::StartedBefore),
        ("leaked", Self::Leaked),
        ("cancelled", Self::Cancelled),
        ("panicked", Self::Panicked),
    ];
}

impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        let Self { threads, tasks, counters, warnings, dropped_scopes, others: _ } = self;
        *threads == other.threads
            && *tasks == other.tasks
            && *counters == other.counters
            && *warnings == other.warnings
            && *dropped_scopes == other.dropped_scopes
    }
}

impl Recorded {
    /// What to tell of threads that are not included, where they recorded anything.
    pub(super) fn told_of_others(&self) -> Option<String> {
        const MOST: usize = 3;
        let others = self.others.as_deref()?;
        let threads: Vec<String> =
            others.threads.iter().map(|thread| format!("`{}` ({})", thread.name, thread.scopes.len())).collect();
        let rest = threads.len().saturating_sub(MOST);
        let (named, and) = (threads[..threads.len() - rest].join(", "), if rest == 0 { "" } else { " and others" });
        Some(format!(
            "zprof: threads recorded that this test has not included: {named}{and}; what they did is in `Recorded::others`, and \
             `Clock::include_thread` includes the thread that calls it"
        ))
    }

    /// The thread of this name.
    #[must_use]
    pub fn thread(&self, name: &str) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.name == name)
    }

    /// The scopes and instants of all threads.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.threads.iter().flat_map(|thread| &thread.scopes)
    }

    /// The first scope or instant of this name.
    #[must_use]
    pub fn scope(&self, name: &str) -> Option<&Scope> {
        self.scopes().find(|scope| scope.name == name)
    }

    /// All of it as text, for comparison: a line each, what is within a scope indented below it. The test's own thread comes
    /// first, others follow under their names, then tasks and counters.
    ///
    /// ```text
    /// outer 5ms
    ///   inner n=3 mode="fast" 2ms
    ///   event @4ms
    /// thread worker
    ///   job 1ms
    /// tasks
    ///   fetch task=#1 1ms
    /// counters
    ///   queue value=3 @1ms
    /// ```
    ///
    /// A scope ends in its length, if that is not zero, and an instant in its time.
    #[must_use]
    pub fn tree(&self) -> String {
        let mut text = String::new();
        for thread in &self.threads {
            let depth = if thread.is_own {
                0
            } else {
                line(&mut text, 0, format_args!("thread {}", thread.name));
                1
            };
            thread.scopes.iter().for_each(|scope| line(&mut text, depth + scope.depth, format_args!("{scope}")));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            if index == 0 {
                line(&mut text, 0, format_args!("tasks"));
            }
            line(&mut text, 1 + task.depth, format_args!("{task}"));
        }
        for (index, Counter { name, unit, at, value }) in self.counters.iter().enumerate() {
            if index == 0 {
                line(&mut text, 0, format_args!("counters"));
            }
            line(&mut text, 1, format_args!("{name} {unit}={value} @{at:?}"));
        }
        text
    }
}

/// Adds a line; there is no line break at the end.
fn line(text: &mut String, depth: usize, line: fmt::Arguments<'_>) {
    if !text.is_empty() {
        text.push('\n');
    }
    // A String takes all that is written to it.
    let _ = write!(text, "{:indent$}{line}", "", indent = 2 * depth);
}

impl Thread {
    /// Its scopes and instants as text; see [`Recorded::tree`].
    #[must_use]
    pub fn tree(&self) -> String {
        let mut text = String::new();
        self.scopes.iter().for_each(|scope| line(&mut text, scope.depth, format_args!("{scope}")));
        text
    }
}

impl Scope {
    /// The last value of this key.
    #[must_use]
    pub fn arg(&self, key: &str) -> Option<&Arg> {
        self.args.iter().rfind(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// A line of a [tree](Recorded::tree).
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.args.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))?;
        for (what, number) in [("sends", self.sends), ("receives", self.receives), ("task", self.task)] {
            number.map_or(Ok(()), |number| write!(f, " {what}=#{number}"))?;
        }
        for (name, _) in Mark::ALL.iter().filter(|(_, mark)| self.marks.contains(mark)) {
            write!(f, " [{name}]")?;
        }
        if self.is_instant {
            write!(f, " @{:?}", self.start)
        } else if self.duration.is_zero() {
            Ok(())
        } else {
            write!(f, " {:?}", self.duration)
        }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

macro_rules! from {
    ($($type:ty: $value:ident => $arg:expr;)*) => {$(
        impl From<$type> for Arg {
            fn from($value: $type) -> Self {
                $arg
            }
        }
    )*};
}

from! {
    bool: value => Self::Int(value.into());
    i32: value => Self::Int(value.into());
    i64: value => Self::Int(value);
    u32: value => Self::Int(value.into());
    u64: value => i64::try_from(value).map_or(Self::Uint(value), Self::Int);
    f64: value => Self::Float(value);
    &str: text => Self::Text(text.to_owned());
    String: text => Self::Text(text);
}
