//! Where the time went, read back from the trace that the profiler wrote: the ten most expensive scopes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde_json::Value;

/// What one trace says of every scope.
pub(crate) struct Report {
    /// Names of the threads that recorded something.
    pub(crate) threads: Vec<String>,
    scopes: BTreeMap<String, Totals>,
}

#[derive(Default)]
struct Totals {
    count: u64,
    /// Of the outermost runs: a run inside another run of the scope is part of that one.
    total_ps: u64,
    self_ps: u64,
    /// Of all runs.
    runs_ps: u64,
}

/// One scope of one thread that is still open where the walk stands.
struct Open {
    name: String,
    end_ps: u64,
    duration_ps: u64,
    children_ps: u64,
    is_outermost: bool,
}

struct Slice {
    name: String,
    start_ps: u64,
    duration_ps: u64,
}

impl Report {
    /// Reads a trace in Chrome's JSON format.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let trace: Value = serde_json::from_reader(BufReader::new(File::open(path)?))?;
        let events = trace["traceEvents"].as_array().ok_or("the trace has no traceEvents")?;

        let mut threads = Vec::new();
        let mut lines = BTreeMap::<(u64, u64), Vec<Slice>>::new();
        for event in events {
            let name = event["name"].as_str().unwrap_or_default();
            if event["ph"] == "M" && name == "thread_name" {
                threads.push(event["args"]["name"].as_str().unwrap_or_default().to_owned());
            }
            if event["ph"] == "X" {
                let ps =
                    |key: &str| picoseconds(&event[key]).ok_or_else(|| format!("an event `{name}` has no `{key}`"));
                let slice = Slice { name: name.to_owned(), start_ps: ps("ts")?, duration_ps: ps("dur")? };
                let line = (event["pid"].as_u64().unwrap_or_default(), event["tid"].as_u64().unwrap_or_default());
                lines.entry(line).or_default().push(slice);
            }
        }

        let mut report = Self { threads, scopes: BTreeMap::new() };
        for slices in lines.into_values() {
            report.walk(slices);
        }
        Ok(report)
    }

    /// How often the scope `name` was entered.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.scopes.get(name).map_or(0, |totals| totals.count)
    }

    /// Adds one thread: a scope that lies within another is its child, and its time is not the parent's own.
    fn walk(&mut self, mut slices: Vec<Slice>) {
        slices.sort_by(|a, b| a.start_ps.cmp(&b.start_ps).then(b.duration_ps.cmp(&a.duration_ps)));
        let mut stack: Vec<Open> = Vec::new();
        for slice in slices {
            while let Some(closed) = stack.pop_if(|open| open.end_ps <= slice.start_ps) {
                self.close(closed);
            }
            if let Some(parent) = stack.last_mut() {
                parent.children_ps += slice.duration_ps;
            }
            let is_outermost = stack.iter().all(|open| open.name != slice.name);
            stack.push(Open {
                end_ps: slice.start_ps + slice.duration_ps,
                duration_ps: slice.duration_ps,
                children_ps: 0,
                is_outermost,
                name: slice.name,
            });
        }
        while let Some(closed) = stack.pop() {
            self.close(closed);
        }
    }

    fn close(&mut self, scope: Open) {
        let totals = self.scopes.entry(scope.name).or_default();
        totals.count += 1;
        totals.runs_ps += scope.duration_ps;
        totals.total_ps += if scope.is_outermost { scope.duration_ps } else { 0 };
        totals.self_ps += scope.duration_ps.saturating_sub(scope.children_ps);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<(&String, &Totals)> = self.scopes.iter().collect();
        rows.sort_by(|a, b| b.1.self_ps.cmp(&a.1.self_ps).then(a.0.cmp(b.0)));
        writeln!(f, "{:<24} {:>8} {:>12} {:>12} {:>12}", "by self time", "count", "total ms", "self ms", "mean us")?;
        for (name, Totals { count, total_ps, self_ps, runs_ps }) in rows.into_iter().take(10) {
            let (total, own) = (thousandths(total_ps / 1_000_000), thousandths(self_ps / 1_000_000));
            let mean = thousandths(runs_ps / count / 1_000);
            writeln!(f, "{name:<24} {count:>8} {total:>12} {own:>12} {mean:>12}")?;
        }
        Ok(())
    }
}

/// A time of the trace, which is in microseconds with six decimals: rounding gives back the exact picoseconds.
fn picoseconds(microseconds: &Value) -> Option<u64> {
    let picoseconds = (microseconds.as_f64()? * 1e6).round();
    // CAST: a whole number, and a trace of less than two hours has fewer than 2^53 picoseconds
    (picoseconds >= 0.0).then_some(picoseconds as u64)
}

fn thousandths(number: u64) -> String {
    format!("{}.{:03}", number / 1_000, number % 1_000)
}
