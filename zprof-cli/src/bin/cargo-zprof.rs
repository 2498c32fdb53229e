//! The `zprof` command as cargo runs it: `cargo zprof …` calls `cargo-zprof zprof …`.

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os();
    let own = arguments.next().unwrap_or_else(|| "cargo-zprof".into());
    let rest = arguments.enumerate().filter(|(place, argument)| !(*place == 0 && argument == "zprof"));
    zprof_cli::main(std::iter::once(own).chain(rest.map(|(_, argument)| argument)))
}
