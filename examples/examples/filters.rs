//! Records one part of a program in detail and leaves another out, by directives, and checks what the session has.

use std::error::Error;

mod reader {
    #[zprof::trace(bytes, level = info)]
    pub(crate) fn read(bytes: usize) -> Vec<u8> {
        (0..bytes).map(byte).collect()
    }

    #[zprof::trace(at, level = verbose)]
    fn byte(at: usize) -> u8 {
        at.to_le_bytes()[0]
    }
}

mod sums {
    #[zprof::trace]
    pub(crate) fn add(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |sum, &byte| {
            zprof::instant!("add", byte, level = verbose);
            sum + u64::from(byte)
        })
    }
}

/// How many scopes a session with these directives has, and the sum.
fn work(directives: &str) -> Result<(u64, u64), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("zprof-filters-{}", std::process::id()));
    let options =
        zprof::ProfilerOptions::default().repository_path(&folder).host_tracer_level(1).directives(directives);
    let mut profiler = zprof::Platform::host().profiler(options)?;
    profiler.start()?;
    let sum = sums::add(&reader::read(10));
    let profile = profiler.stop()?.ok_or("no profile: was zprof built without `enable`?")?;
    std::fs::remove_dir_all(&folder)?;
    Ok((profile.scopes, sum))
}

fn main() -> Result<(), Box<dyn Error>> {
    let cases = [
        ("", 1, "`add` alone is critical"),
        ("filters::reader=info", 2, "and `read` is info"),
        ("filters::reader=verbose, filters::sums=off", 11, "`read` and ten of `byte`, nothing of the other module"),
        ("verbose, filters::reader=off", 11, "`add` and ten instants"),
        ("off", 0, "nothing"),
    ];
    for (directives, scopes, what) in cases {
        println!("{directives:45} {scopes:2} scopes: {what}");
        assert_eq!(work(directives)?, (scopes, 45));
    }
    let Err(error) = zprof::Platform::host().profiler(zprof::ProfilerOptions::default().directives("filters=loud"))
    else {
        return Err("a level that is none is accepted".into());
    };
    println!("{error}");
    Ok(())
}
