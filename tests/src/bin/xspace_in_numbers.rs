//! Looks into an XSpace file: `xspace_in_numbers summary|check IN.xplane.pb`. Tests run it with little memory.

use std::env;
use std::error::Error;
use std::fs::File;

use zprof_runtime::export::{CheckOptions, Severity, SummaryOptions, check, summarise};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [what, path] = arguments.as_slice() else { return Err("usage: xspace_in_numbers WHAT IN.xplane.pb".into()) };
    let source = File::open(path)?;
    match what.as_str() {
        "summary" => {
            let summary = summarise(&source, &SummaryOptions::default())?;
            for scope in summary.planes.iter().flat_map(|plane| &plane.scopes) {
                println!("{} runs of {}, {} ps", scope.count, scope.name, scope.total_ps);
            }
        }
        "check" => {
            let checked = check(&source, &CheckOptions::default())?;
            let (errors, warnings) = (checked.count(Severity::Error), checked.count(Severity::Warning));
            println!("{} events, {errors} errors, {warnings} warnings", checked.events);
        }
        _ => return Err("WHAT is summary or check".into()),
    }
    Ok(())
}
