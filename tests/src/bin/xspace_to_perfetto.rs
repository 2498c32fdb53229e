//! Converts an XSpace file to a Perfetto trace and says how long it took: `xspace_to_perfetto IN.xplane.pb [OUT.pftrace]`.
//! Without a second file the trace is made and thrown away. Tests run it with little memory; people, as a stopwatch.

use std::error::Error;
use std::fs::File;
use std::time::Instant;
use std::{env, io};

use zprof_runtime::export::{PerfettoOptions, write_perfetto};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let start = Instant::now();
    let (xspace, mut out): (_, Box<dyn io::Write>) = match arguments.as_slice() {
        [xspace] => (xspace, Box::new(io::sink())),
        [xspace, trace] => (xspace, Box::new(File::create(trace)?)),
        _ => return Err("usage: xspace_to_perfetto IN.xplane.pb [OUT.pftrace]".into()),
    };
    let summary = write_perfetto(&File::open(xspace)?, &mut out, &PerfettoOptions::default())?;
    println!("{} events in {:.2} ms", summary.events, start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
