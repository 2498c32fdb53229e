//! Arguments that several commands take.

use std::path::PathBuf;

/// Rows of a table for people, unless they say how many.
pub(crate) const ROWS: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// The profile: an `.xplane.pb` file, a run's folder, a log directory, or `-` for standard input.
    ///
    /// Of a log directory with several runs the newest is taken.
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Planes {
    /// Only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) planes: Vec<String>,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Exclude {
    /// Leave out scopes, asynchronous spans, steps and counters with this in their names, or with names that match it if it
    /// has `*` or `?`; several with commas.
    ///
    /// Shares are those of what is left. The time of what is left out stays in the totals of the scopes around it.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) exclude: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV.
    #[arg(long)]
    pub(crate) csv: bool,
    /// Rows of each table, 0 for all [default: 20; all in JSON and CSV].
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

impl Answer {
    /// How many rows a table has at most.
    pub(crate) fn rows(&self) -> usize {
        match self.top {
            Some(0) => usize::MAX,
            Some(top) => top,
            None if self.json || self.csv => usize::MAX,
            None => ROWS,
        }
    }
}
