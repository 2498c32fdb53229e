//! `zprof view`: a profile is opened in Perfetto's web page, or in XProf.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use zprof_runtime::export::JsonOptions;
use zprof_runtime::folder::SizeSignalHeld;

use crate::cli::usage;
use crate::format::Format;
use crate::input;
use crate::output::{print, tell};
use crate::serve::Server;
use crate::units::count;

const PERFETTO: &str = "https://ui.perfetto.dev";
/// The port of this machine that Perfetto's page may reach: its content security policy names no other.
const PERFETTO_PORT: u16 = 9001;
/// How long a program that opens browsers may take to say that it cannot.
const LAUNCH_TIME: Duration = Duration::from_secs(5);

/// Open a profile in Perfetto, or in XProf.
///
/// The profile is converted to a temporary file without a name, which is served to https://ui.perfetto.dev and to nobody
/// else, on port 9001 of 127.0.0.1, until Ctrl-C. The page runs in the browser; the trace does not leave this machine.
/// Chrome asks whether the page may reach this machine: allow it.
///
/// The address that is printed has a secret path; whoever has it can read the trace. What the browser is started with leads
/// there once, and on Linux only for you.
///
/// On a machine without a browser, forward the port, `ssh -L 9001:127.0.0.1:9001 HOST`, and open the printed address where the
/// browser is.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  A profile in Perfetto:
    zprof view vm.xplane.pb
  The newest run of a log directory in XProf:
    zprof view --xprof /tmp/xprof
  On a machine without a browser:
    zprof view --no-open vm.xplane.pb")]
pub(crate) struct Args {
    /// The profile: an `.xplane.pb` file, a run's folder, a log directory, or `-` for standard input; or a trace, which is
    /// served as it is.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Format that the profile is converted to [default: pftrace].
    #[arg(long, value_enum, conflicts_with = "xprof")]
    format: Option<Format>,
    /// Start XProf on the profile, on port 6006.
    #[arg(long)]
    xprof: bool,
    /// Serve on this port [default: 9001, or 6006 for XProf].
    ///
    /// ui.perfetto.dev reaches no other than 9001 unless its flag "Relax Content Security Policy for 127.0.0.1:*" is on.
    #[arg(long)]
    port: Option<u16>,
    /// Print the address and open no browser.
    #[arg(long)]
    no_open: bool,
    /// End once the trace has been fetched.
    #[arg(long, conflicts_with = "xprof")]
    once: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.xprof {
        return xprof(args);
    }
    let (file, name) = match args.format {
        Some(_) if is_trace(&args.input) => usage("view", "--format is for profiles: a trace is served as it is"),
        None if is_trace(&args.input) => existing(&args.input)?,
        format => converted(&args.input, format.unwrap_or(Format::Pftrace))?,
    };
    let server = Server::new(args.port.unwrap_or(PERFETTO_PORT), file, &name, PERFETTO)?;
    let url = page(server.port(), &server.url());
    announce(&url)?;
    tell(format_args!(
        "serving {} bytes of {} to {PERFETTO} from 127.0.0.1:{}; Ctrl-C ends it",
        count(server.size()),
        called(&args.input),
        server.port()
    ));
    if server.port() != PERFETTO_PORT {
        tell(format_args!(
            "the page reaches ports other than {PERFETTO_PORT} only with its flag \"Relax Content Security Policy for \
             127.0.0.1:*\" on: {PERFETTO}/#!/flags"
        ));
    }
    if !args.no_open {
        // Others see the arguments of the programs that open it, so these get an address without the secret path.
        open_browser(server.entrance(url)?)?;
    }
    server.run(args.once)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(unix)]
fn xprof(args: &Args) -> Result<ExitCode> {
    crate::xprof::run(&args.input, args.port, !args.no_open)
}

#[cfg(not(unix))]
fn xprof(_: &Args) -> Result<ExitCode> {
    bail!(
        "XProf is started on Unix only; elsewhere run `xprof --logdir DIR`, where DIR is the folder that holds `plugins`"
    )
}

/// What the input is called in messages.
fn called(input: &Path) -> String {
    if input == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", input.display()) }
}

fn is_trace(input: &Path) -> bool {
    Format::of(input).is_some() && !input.is_dir()
}

fn existing(input: &Path) -> Result<(File, String)> {
    let what = || format!("failed to open `{}`", input.display());
    let file = File::open(input).with_context(what)?;
    if !file.metadata().with_context(what)?.is_file() {
        bail!("`{}` is not a file, so its size is not known; copy it into one first", input.display());
    }
    Ok((file, url_name(&input.file_name().unwrap_or_default().to_string_lossy())))
}

/// A temporary file, which is gone when the program is, and a name for it.
fn converted(input: &Path, format: Format) -> Result<(File, String)> {
    let profile = input::open(input)?;
    let mut file = tempfile::tempfile().context("failed to create a temporary file for the trace")?;
    let held = SizeSignalHeld::new();
    let converted = format.convert(&profile, &mut file, &JsonOptions::default());
    drop(held);
    let summary = converted.with_context(|| format!("failed to convert {}", profile.name))?;
    summary.notes.iter().for_each(tell);
    Ok((file, url_name(&format!("{}{}", profile.stem().unwrap_or("profile"), format.ending()))))
}

/// The name as an address may hold it, twice over: Perfetto takes the trace's address out of its own.
fn url_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

/// The address of Perfetto's page that fetches the trace from `url`.
fn page(port: u16, url: &str) -> String {
    // With the flag on, the policy names the port that this argument does.
    let rpc = if port == PERFETTO_PORT { String::new() } else { format!("rpc_port={port}&") };
    format!("{PERFETTO}/#!/?{rpc}url={url}")
}

/// Prints the address, for people and for programs.
pub(crate) fn announce(url: &str) -> Result<()> {
    print(|out| writeln!(out, "{url}"))
}

/// Asks the desktop to open `url`, and says so if it cannot. Does not wait for either.
pub(crate) fn open_browser(url: String) -> Result<()> {
    let ask = move || {
        if let Err(error) = open::that_detached_with_timeout(&url, LAUNCH_TIME) {
            tell(format_args!(
                "no browser could be opened ({}); open the address above in one",
                cause(&error.to_string())
            ));
        }
    };
    thread::Builder::new()
        .name("zprof-browser".to_owned())
        .spawn(ask)
        .context("failed to start the thread that opens the browser")?;
    Ok(())
}

/// Why no browser could be opened: of a launcher that failed, its name and exit code, which its error has as
/// `Launcher "xdg-open" "https://…" failed with ExitStatus(unix_wait_status(768))`.
fn cause(error: &str) -> String {
    let launcher = || {
        let name = error.strip_prefix("Launcher \"")?.split('"').next()?;
        let status = error.rsplit_once("unix_wait_status(")?.1.trim_end_matches(')').parse::<u32>().ok()?;
        Some(match (status >> 8, status & 0x7f) {
            (code, 0) => format!("{name} ended with {code}"),
            (_, signal) => format!("{name} was ended by signal {signal}"),
        })
    };
    launcher().unwrap_or_else(|| error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_failed_is_named_with_its_code() {
        let error = |status| {
            cause(&format!(
                "Launcher \"xdg-open\" \"https://x/#!/?(y)\" failed with ExitStatus(unix_wait_status({status}))"
            ))
        };
        assert_eq!(error(768), "xdg-open ended with 3");
        assert_eq!(error(9), "xdg-open was ended by signal 9");
        assert_eq!(cause("No such file"), "No such file");
    }

    #[test]
    fn standard_input_is_called_so() {
        assert_eq!([called(Path::new("-")), called(Path::new("a/-"))], ["standard input", "`a/-`"]);
    }
}
