//! Converts an XSpace file to trace-viewer JSON and says how long it took: `xspace_to_json IN.xplane.pb [OUT.json]`.
//! Without a second file the JSON is made and thrown away. Tests run it with little memory; people, as a stopwatch.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use std::{env, io};

use zprof_runtime::export::{JsonOptions, export_json_file, write_json};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let start = Instant::now();
    let summary = match arguments.as_slice() {
        [xspace] => write_json(&File::open(xspace)?, &mut io::sink(), &JsonOptions::default())?,
        [xspace, json] => export_json_file(Path::new(xspace), Path::new(json))?,
        _ => return Err("usage: xspace_to_json IN.xplane.pb [OUT.json]".into()),
    };
    println!("{} events in {:.2} ms", summary.events, start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
