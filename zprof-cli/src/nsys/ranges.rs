//! Whether zprof's ranges are in a report of Nsight Systems, as nsys itself tells.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::run::Printed;
use crate::units::{counted, counted_all};

/// The NVTX domain of zprof's ranges, as a summary writes it before their names.
const DOMAIN: &str = "TSL:";

/// Names of the summary of NVTX ranges: newer versions have the first.
const SUMMARIES: [&str; 2] = ["nvtx_sum", "nvtxsum"];

/// What is to be said of the ranges in a report. `nsys` runs the tool with arguments.
pub(super) fn look(report: &Path, nsys: impl Fn(&[&str]) -> io::Result<Printed>) -> String {
    // nsys writes a database to answer; beside the report it would be in the way.
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return format!("ranges: unknown, because no temporary folder can be made: {error}"),
    };
    let database = folder.path().join("report.sqlite");
    let (report, database) = (report.to_string_lossy(), database.to_string_lossy());
    let mut why = String::new();
    for summary in SUMMARIES {
        match nsys(&["stats", "-q", "-r", summary, "--format", "csv", "--sqlite", &database, &report]) {
            // A version that does not know the summary says so and ends well.
            Ok(printed) if printed.status.success() && !unknown(&printed) => return told(&printed.out),
            Ok(printed) => {
                let mut lines = printed.err.lines().chain(printed.out.lines()).map(str::trim);
                lines.find(|line| !line.is_empty()).unwrap_or("it says nothing").clone_into(&mut why);
            }
            Err(error) => why = error.to_string(),
        }
    }
    format!("ranges: unknown, because `nsys stats` failed: {why}")
}

fn unknown(printed: &Printed) -> bool {
    [&printed.err, &printed.out].iter().any(|text| text.contains("could not be found"))
}

/// Counts the ranges and scopes of our domain in a summary, whose last column is their names.
fn told(csv: &str) -> String {
    let ours: Vec<(u64, &str)> = csv.lines().filter_map(instances).collect();
    if ours.is_empty() {
        return "ranges: none of zprof's in the report; was the program built with zprof's feature `nvtx`?".to_owned();
    }
    let ranges = ours.iter().map(|(instances, _)| instances).sum();
    let scopes: BTreeSet<&str> = ours.iter().map(|(_, scope)| *scope).collect();
    format!("ranges: {} of {} of zprof's in the report", counted(ranges, "range"), counted_all(scopes.len(), "scope"))
}

/// How often the range of a line was entered, and its scope's name, which metadata may follow, if it is of our domain.
fn instances(line: &str) -> Option<(u64, &str)> {
    let fields: Vec<&str> = line.split(',').collect();
    let range = fields.iter().find_map(|field| field.trim_matches('"').strip_prefix(DOMAIN))?;
    // Time in percent, total time, instances.
    Some((fields.get(2)?.parse().ok()?, range.split('#').next().unwrap_or(range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
60.0,600,3,200.0,200.0,100,300,1.0,PushPop,TSL:llm.step
30.0,300,1,300.0,300.0,300,300,0.0,PushPop,\"TSL:llm.forward#tokens=1,layers=2#\"
30.0,300,1,300.0,300.0,300,300,0.0,PushPop,\"TSL:llm.forward#tokens=2,layers=2#\"
10.0,100,1,100.0,100.0,100,100,0.0,PushPop,other:TSL
";

    #[test]
    fn ranges_of_our_domain_are_counted() {
        assert_eq!(told(CSV), "ranges: 5 ranges of 2 scopes of zprof's in the report");
        assert!(told("Time (%),Range\n").starts_with("ranges: none of zprof's"));
    }
}
