//! `zprof nsys`: a program under NVIDIA's Nsight Systems.

mod known;
mod ranges;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::output::tell;
use crate::run::{
    CommandLine, Folder, Launch, Missing, Program, SKIP_PJRT, execute, find, is_set, on_path, output_of,
    print_commands, replaced,
};
use known::Known;

/// Where Nsight Systems is besides `PATH`.
const PLACES: [&str; 3] =
    ["/usr/local/cuda/bin", "/opt/nvidia/nsight-systems/*/bin", "/opt/nvidia/nsight-systems-cli/*/bin"];

/// What is traced: kinds of calls, as values of one option.
const TRACES: [&str; 9] =
    ["cuda", "syscall", "nvtx", "cublas", "cublas-verbose", "cusparse", "cusparse-verbose", "cudnn", "osrt"];

/// The other options: each a name, and the words that it is written in.
const OPTIONS: [(&str, &[&str]); 5] = [
    ("--inherit-environment", &["--inherit-environment=true"]),
    ("--cuda-memory-usage", &["--cuda-memory-usage", "true"]),
    ("--cuda-event-trace", &["--cuda-event-trace=false"]),
    ("--backtrace", &["--backtrace=dwarf"]),
    ("--cuda-graph-trace", &["--cuda-graph-trace=node"]),
];

/// Variables that forbid `--sudo`.
const FORBIDDING: [&str; 2] = ["ZPROF_NO_SUDO", "ZML_PROFILE_NO_SUDO"];

/// Run a program under NVIDIA Nsight Systems.
///
/// CUDA, cuBLAS, cuSPARSE, cuDNN, NVTX, system calls and the OS runtime are traced, as far as the installed nsys can.
/// `ZPROF_NSYS_ARGS` (or `ZML_NSYS_ARGS`) replaces `profile` and all of its options.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  A program with arguments:
    zprof nsys -- target/release/model --seqlen 128
  The same as root, for what only root may trace:
    zprof nsys --sudo -- target/release/model --seqlen 128
  The command only:
    zprof nsys --dry-run -- target/release/model")]
pub(crate) struct Args {
    /// Run nsys, and with it the program, as root: by `sudo -E`, with your whole environment.
    ///
    /// What the program and nsys write belongs to root then. `ZPROF_NO_SUDO=1` and `ZML_PROFILE_NO_SUDO=1` forbid it.
    #[arg(long)]
    sudo: bool,
    /// Without effect, since nsys runs as root only if that is asked for.
    #[arg(long, hide = true, conflicts_with = "sudo")]
    no_sudo: bool,
    /// Where the report goes; nsys adds the ending. Without it: report1, report2, … here.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a report of that name.
    #[arg(long)]
    force: bool,
    /// Do not look into the report for zprof's ranges; with large reports that takes a while.
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    program: Program,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let tool = tool();
    let known = tool.as_ref().and_then(|tool| Known::ask(tool.as_os_str()));
    let mut arguments = arguments(args.output.as_deref(), replaced("NSYS"), known.as_ref());
    if args.force {
        arguments.words.extend(["--force-overwrite", "true"].map(OsString::from));
    }
    let root = args.sudo && !is_root();
    if root && is_set(&FORBIDDING) {
        bail!("`--sudo` is forbidden by `{}` or `{}`; unset it, or leave the option out", FORBIDDING[0], FORBIDDING[1]);
    }
    for word in &arguments.left_out {
        tell(format_args!("this nsys does not know `{word}`, which is left out"));
    }
    let word = match (&tool, root) {
        // A path: the PATH that sudo sets may not have the tool's folder.
        (Some(tool), true) => on_path("nsys").unwrap_or_else(|| tool.clone()),
        (Some(tool), false) => tool.clone(),
        (None, _) => PathBuf::from("nsys"),
    };
    let command = command(word.as_os_str(), root, &arguments.words, &args.program.program);
    if args.program.dry_run {
        return print_commands(&[command]);
    }
    let tool = tool.ok_or_else(missing)?;
    if let Some(report) = in_the_way(&arguments.words) {
        bail!("`{}` exists; give another -o, or --force", report.display());
    }
    if root {
        if on_path("sudo").is_none() {
            bail!("`sudo` is not found in PATH; leave `--sudo` out, or run this as root");
        }
        tell("nsys and the program run as root, by `sudo -E`; what they write belongs to root");
    }

    let folder = Folder::watch(report_folder(&arguments.words), &[".nsys-rep", ".qdstrm"], 0);
    let ended = execute(&Launch { tool: "nsys", command: &command, program: &args.program.program, is_root: root })?;
    if ended.aborted {
        tell("aborted; there is no report");
    } else {
        report(&folder, tool.as_os_str(), args.no_check);
    }
    Ok(ExitCode::from(ended.code))
}

/// The word that runs nsys.
pub(crate) fn tool() -> Option<PathBuf> {
    find("nsys", &PLACES)
}

pub(crate) fn missing() -> Missing {
    Missing {
        tool: "nsys",
        places: format!("PATH, {}", PLACES.join(", ")),
        cure: "install NVIDIA Nsight Systems, from https://developer.nvidia.com/nsight-systems, with the CUDA toolkit, or \
               as the package `nsight-systems` or `nsight-systems-cli` of NVIDIA's or Debian's (non-free) repository",
    }
}

/// What nsys is given, and what was left out because it does not know it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    words: Vec<OsString>,
    left_out: Vec<String>,
}

/// The arguments: what replaces the defaults as it is, else the defaults, as far as they are known.
fn arguments(output: Option<&Path>, replaced: Option<Vec<OsString>>, known: Option<&Known>) -> Arguments {
    let mut arguments = match replaced {
        Some(words) => Arguments { words, left_out: Vec::new() },
        None => defaults(known),
    };
    if let Some(output) = output {
        arguments.words.extend([OsString::from("-o"), output.into()]);
    }
    arguments
}

fn defaults(known: Option<&Known>) -> Arguments {
    let mut arguments = Arguments { words: vec!["profile".into()], left_out: Vec::new() };
    let knows = |option: &str, value: &str| known.is_none_or(|known| known.has_value(option, value));
    let (kept, dropped): (Vec<&str>, Vec<&str>) = TRACES.iter().partition(|trace| knows("--trace", trace));
    arguments.left_out.extend(dropped.iter().map(|trace| format!("-t {trace}")));
    if !kept.is_empty() {
        arguments.words.extend([OsString::from("-t"), kept.join(",").into()]);
    }
    for (name, words) in OPTIONS {
        let value = words.last().and_then(|word| word.rsplit('=').next()).unwrap_or_default();
        if known.is_none_or(|known| known.has(name)) && knows(name, value) {
            arguments.words.extend(words.iter().map(OsString::from));
        } else {
            arguments.left_out.push(words.join(" "));
        }
    }
    arguments
}

/// The whole command.
fn command(nsys: &OsStr, sudo: bool, arguments: &[OsString], program: &[OsString]) -> CommandLine {
    let command = CommandLine::new(nsys).args(arguments).args(program);
    let command = if sudo { command.under(&["sudo", "-E"]) } else { command };
    command.env(SKIP_PJRT.0, SKIP_PJRT.1)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Elsewhere there is no sudo to be left out.
#[cfg(not(unix))]
fn is_root() -> bool {
    true
}

/// Where the report will be: the folder of `-o`, or the present one.
fn report_folder(arguments: &[OsString]) -> PathBuf {
    let here = || env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let Some(output) = output_argument(arguments) else { return here() };
    let output = here().join(output);
    if output.is_dir() {
        return output;
    }
    output.parent().map(Path::to_owned).unwrap_or_else(here)
}

/// The value of the last `-o FILE`, `-oFILE`, `--output FILE` or `--output=FILE`.
fn output_argument(arguments: &[OsString]) -> Option<PathBuf> {
    let mut output = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "-o" || text == "--output" {
            output = words.next().map(PathBuf::from);
        } else if let Some(value) = text.strip_prefix("--output=") {
            output = Some(PathBuf::from(value));
        } else if let Some(value) = text.strip_prefix("-o") {
            output = Some(PathBuf::from(value));
        }
    }
    output
}

/// The report that nsys would leave as it is: it puts the new one elsewhere, and does not fail.
fn in_the_way(arguments: &[OsString]) -> Option<PathBuf> {
    let forced = arguments.iter().any(|word| {
        let word = word.to_string_lossy();
        word.starts_with("--force-overwrite") || word.starts_with("-f")
    });
    let output = output_argument(arguments).filter(|output| !forced && !output.is_dir())?;
    let mut report = output.into_os_string();
    if !report.to_string_lossy().ends_with(".nsys-rep") {
        report.push(".nsys-rep");
    }
    Some(PathBuf::from(report)).filter(|report| report.exists())
}

/// Says where the report is and whether zprof's ranges are in it.
fn report(folder: &Folder, nsys: &OsStr, no_check: bool) {
    let changed = folder.changed();
    let (reports, streams): (Vec<PathBuf>, Vec<PathBuf>) =
        changed.iter().cloned().partition(|path| path.extension() == Some(OsStr::new("nsys-rep")));
    for stream in streams.iter().filter(|stream| !reports.contains(&stream.with_extension("nsys-rep"))) {
        tell(format_args!("report: {} (not imported yet: `nsys-ui` or QdstrmImporter reads it)", stream.display()));
    }
    for path in &reports {
        tell(format_args!("report: {}", path.display()));
        if !no_check {
            tell(ranges::look(path, |arguments| output_of(nsys, arguments, Duration::from_secs(600))));
        }
    }
    if changed.is_empty() {
        tell(format_args!("nsys has left no report in {}", folder.path().display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arguments: &[OsString]) -> String {
        arguments.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_defaults_are_whole_where_nsys_knows_all() {
        let all = "profile -t cuda,syscall,nvtx,cublas,cublas-verbose,cusparse,cusparse-verbose,cudnn,osrt \
                   --inherit-environment=true --cuda-memory-usage true --cuda-event-trace=false --backtrace=dwarf \
                   --cuda-graph-trace=node";
        let defaults = defaults(None);
        assert_eq!((words(&defaults.words).as_str(), defaults.left_out), (all, Vec::new()));
    }

    #[test]
    fn what_replaces_them_is_not_looked_at() {
        let known = Known::parse("--trace=\n");
        let replaced = arguments(Some(Path::new("a b")), Some(vec!["x".into(), "--bogus".into()]), Some(&known));
        assert_eq!(
            replaced,
            Arguments { words: ["x", "--bogus", "-o", "a b"].map(OsString::from).into(), left_out: Vec::new() }
        );
    }

    #[test]
    fn the_whole_command_is_as_asked() {
        let program = ["./my prog".into(), "--".into(), "".into()];
        let line = |sudo| command(OsStr::new("nsys"), sudo, &["profile".into()], &program).shell().expect("no NUL");
        assert_eq!(line(false), b"SKIP_PJRT_PROFILER=true nsys profile './my prog' -- ''");
        assert_eq!(line(true), b"SKIP_PJRT_PROFILER=true sudo -E nsys profile './my prog' -- ''");
    }

    #[test]
    fn the_reports_folder_is_that_of_the_last_output() {
        let here = env::current_dir().expect("there is one");
        let folder = |text: &str| report_folder(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(folder("profile -t nvtx"), here);
        assert_eq!(folder("profile -o sub/name"), here.join("sub"));
        assert_eq!(folder("profile -o a/x --output=/b/y"), Path::new("/b"));
        assert_eq!(folder("profile --output /b/y -oname"), here);
    }
}
