//! Refuses a compile-time ceiling that is none: rustc takes any value of a `--cfg`, so that a slip would have no effect and no message.

use std::env;
use std::process::ExitCode;

const LEVELS: [&str; 4] = ["off", "critical", "info", "verbose"];

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script what it builds by variables")]
fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CARGO_CFG_ZPROF_MAX_LEVEL");
    // Cargo gives the values of one name with commas between, and none as an empty text.
    let Ok(given) = env::var("CARGO_CFG_ZPROF_MAX_LEVEL") else { return ExitCode::SUCCESS };
    if LEVELS.contains(&given.as_str()) {
        return ExitCode::SUCCESS;
    }
    let wrong = match given.as_str() {
        "" => "`--cfg zprof_max_level` has no value".to_owned(),
        several if several.split(',').all(|level| LEVELS.contains(&level)) => {
            format!("`--cfg zprof_max_level` is given more than once, as {several}")
        }
        other => format!("`--cfg zprof_max_level=\"{other}\"` names no level"),
    };
    println!("cargo::error={wrong}; give it once, as one of {}", LEVELS.map(|level| format!("\"{level}\"")).join(", "));
    ExitCode::FAILURE
}
