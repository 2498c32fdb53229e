//! What `--csv` prints: rows of one kind. Times are picoseconds; what is not known is empty.

use std::io::{self, Write};

use zprof_runtime::export::PlaneSummary;

use super::{Summed, part};
use crate::csv;
use crate::measured::Measured;

/// Column heads of [`runs_cells`].
const RUNS_HEAD: &str = "mean_ps,min_ps,p50_ps,p99_ps,max_ps,deviation_ps";

/// The mean, and how the runs lie around it; empty where that is not known.
fn runs_cells(row: Measured<'_>) -> [String; 6] {
    let known = |time| row.of_runs(time).map(|time| time.to_string()).unwrap_or_default();
    [
        row.mean_ps.to_string(),
        known(|runs| runs.min_ps),
        known(|runs| runs.p50_ps),
        known(|runs| runs.p99_ps),
        known(|runs| runs.max_ps),
        row.deviation_ps().map(|deviation| deviation.to_string()).unwrap_or_default(),
    ]
}

pub(super) fn write_scopes(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,scope,count,total_ps,self_ps,{RUNS_HEAD},share")?;
    for (space, plane) in planes(spaces) {
        let all_ps = plane.scopes.iter().map(|scope| scope.self_ps).sum();
        for scope in plane.scopes.iter().take(top) {
            let mut cells = vec![space.clone(), plane.name.clone(), scope.name.clone()];
            cells.extend([scope.count.to_string(), scope.total_ps.to_string(), scope.self_ps.to_string()]);
            cells.extend(runs_cells(Measured::of_scope(scope)));
            cells.push(part(scope.self_ps, all_ps).to_string());
            csv::write_row(out, &cells)?;
        }
    }
    Ok(())
}

pub(super) fn write_async(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,async,count,total_ps,polls,polled_ps,waiting_ps,{RUNS_HEAD}")?;
    for (space, plane) in planes(spaces) {
        for spans in plane.async_spans.iter().take(top) {
            let polls = spans.polls.as_ref();
            let mut cells = vec![space.clone(), plane.name.clone(), spans.name.clone()];
            cells.extend([spans.count.to_string(), spans.total_ps.to_string()]);
            cells.push(polls.map(|polls| polls.count.to_string()).unwrap_or_default());
            cells.push(polls.map(|polls| polls.total_ps.to_string()).unwrap_or_default());
            cells.push(spans.waiting_ps().map(|waiting| waiting.to_string()).unwrap_or_default());
            cells.extend(runs_cells(Measured::of_async(spans)));
            csv::write_row(out, &cells)?;
        }
    }
    Ok(())
}

pub(super) fn write_counters(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,counter,unit,samples,min,mean,max,last")?;
    let known = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    for (space, plane) in planes(spaces) {
        for counter in plane.counters.iter().take(top) {
            let mut cells = vec![space.clone(), plane.name.clone(), counter.name.clone(), counter.unit.clone()];
            cells.push(counter.samples.to_string());
            cells.extend([counter.min, counter.mean, counter.max, counter.last].map(known));
            csv::write_row(out, &cells)?;
        }
    }
    Ok(())
}

pub(super) fn write_steps(out: &mut dyn Write, spaces: &[Summed], top: usize) -> io::Result<()> {
    writeln!(out, "space,plane,steps,line_id,number,start_ps,duration_ps,self_ps,largest,largest_self_ps")?;
    for (space, plane) in planes(spaces) {
        for series in &plane.steps {
            for step in series.steps.iter().take(top) {
                let (largest, own) = match &step.largest {
                    Some((name, own)) => (name.clone(), own.to_string()),
                    None => (String::new(), String::new()),
                };
                csv::write_row(
                    out,
                    &[
                        space.clone(),
                        plane.name.clone(),
                        series.name.clone(),
                        step.line_id.to_string(),
                        step.number.map(|number| number.to_string()).unwrap_or_default(),
                        step.start_ps.to_string(),
                        step.duration_ps.to_string(),
                        step.self_ps.to_string(),
                        largest,
                        own,
                    ],
                )?;
            }
        }
    }
    Ok(())
}

fn planes(spaces: &[Summed]) -> impl Iterator<Item = (&String, &PlaneSummary)> {
    spaces.iter().flat_map(|Summed { space, summary, .. }| summary.planes.iter().map(|plane| (&space.label, plane)))
}
