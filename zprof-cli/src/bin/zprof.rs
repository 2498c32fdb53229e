//! The `zprof` command.

fn main() -> std::process::ExitCode {
    zprof_cli::main(std::env::args_os())
}
