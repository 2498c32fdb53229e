//! A program that tests run with raised privileges: it does all that would follow the environment.

fn main() {
    println!("raised: {}", zprof_runtime::environment::is_privileged());
    // Twice, since what is reported must be reported once.
    for _ in 0..2 {
        println!("profiled: {}", zprof::init_from_env().map_or_else(|error| error.to_string(), |is| is.to_string()));
    }
    // Asks live tools.
    zprof::scope!("work", {});
    let platform = zprof::Platform::auto().expect("it never fails");
    println!("platform: {}", platform.describe());
}
