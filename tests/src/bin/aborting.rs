//! A program that profiles itself and panics: a test builds it with `-C panic=abort`. `aborting profiler FOLDER` has a
//! profiler of its own; otherwise the environment may ask for a session.

use zprof::{Platform, ProfilerOptions};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let _profiler = if let [_, folder] = arguments.as_slice() {
        let profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder));
        let mut profiler = profiler.expect("the options can work");
        profiler.start().expect("the place is free");
        Some(profiler)
    } else {
        zprof::init_from_env().expect("the environment is right");
        None
    };
    zprof::scope!("open");
    zprof::scope!("work", {});
    println!("{}", cfg!(panic = "abort"));
    panic!("the end");
}
