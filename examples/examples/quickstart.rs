//! The shortest honest program: mark what matters, record it, and print where the profile is.

use std::error::Error;

#[zprof::trace(limit = limit)]
fn count_primes(limit: u32) -> usize {
    (2..limit).filter(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0)).count()
}

fn main() -> Result<(), Box<dyn Error>> {
    let platform = zprof::Platform::host();
    let mut profiler = platform.profiler(zprof::ProfilerOptions::default())?;
    profiler.start()?;
    for round in 0..3 {
        zprof::scope!("round", root = true, step_num = round);
        println!("{} primes", count_primes(100_000));
    }
    let profile = profiler.stop()?.ok_or("no profile: was zprof built without `enable`?")?;
    for path in [Some(profile.protobuf_path), profile.perfetto_path].into_iter().flatten() {
        assert!(path.metadata()?.len() > 0);
        println!("{}", path.display());
    }
    Ok(())
}
