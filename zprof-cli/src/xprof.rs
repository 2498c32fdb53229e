//! `zprof view --xprof`: XProf is started on the log directory that holds a profile, or on one made for it.

use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::input::{self, Profile, RUNS, SUFFIX, Space};
use crate::output::signals::is_ignored;
use crate::output::tell;
use crate::serve;
use crate::view::{announce, open_browser};

const PORT: u16 = 6006;
/// The port that XProf takes besides, unless it is told another.
const GRPC_PORT: u16 = 50051;
/// How often XProf is asked whether it answers.
const POLL: Duration = Duration::from_millis(100);

/// Runs XProf until it ends or is ended.
pub(crate) fn run(input: &Path, port: Option<u16>, browse: bool) -> Result<ExitCode> {
    let log = LogDirectory::of(input)?;
    let port = free(port.unwrap_or(PORT))?;
    let (events, happened) = mpsc::channel();
    // From here on a signal waits for us, so that the temporary log directory is removed.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)))
        .context("failed to watch for signals")?;
    let xprof = start(&log.path, port)?;
    let group = Pid::from_child(&xprof);
    watch(xprof, events.clone())?;
    spawn("zprof-signals", move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;

    let mut announced = false;
    let mut ending = None;
    loop {
        match happened.recv_timeout(POLL) {
            Ok(Event::Signal(signal)) => {
                // XProf has a group of its own, which the terminal's Ctrl-C does not reach. If it is gone, it tells.
                let _ = kill_process_group(group, if ending.is_none() { Signal::TERM } else { Signal::KILL });
                ending = Some(signal);
            }
            Ok(Event::Ended(status)) => return ended(&status.context("failed to wait for `xprof`")?, ending),
            // The client's port, not the reply, is enough: XProf listens once it has loaded everything.
            Err(RecvTimeoutError::Timeout) if !announced && TcpStream::connect(("localhost", port)).is_ok() => {
                announced = true;
                let url = format!("http://localhost:{port}/");
                announce(&url)?;
                let (what, path) = (&log.what, log.path.display());
                tell(format_args!(
                    "XProf shows {what} from `{path}`, to whoever can reach this machine; Ctrl-C ends it"
                ));
                if browse {
                    open_browser(url)?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("nobody watches `xprof` any more"),
        }
    }
}

enum Event {
    Signal(i32),
    Ended(io::Result<ExitStatus>),
}

fn start(log: &Path, port: u16) -> Result<Child> {
    let mut command = Command::new("xprof");
    command.arg("--logdir").arg(log);
    command.args(["--max_concurrent_worker_requests", "32", "--port", &port.to_string()]);
    if serve::bind(GRPC_PORT).is_err() {
        command.args(["--grpc_port", &free(0)?.to_string()]);
    }
    command.arg("--hide_capture_profile_button").process_group(0);
    match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("`xprof` is not in PATH; `pip install xprof` brings it")
        }
        child => child.context("failed to start `xprof`"),
    }
}

/// The port, or for 0 any that is free. XProf takes it later; should somebody be faster, XProf says so.
fn free(port: u16) -> Result<u16> {
    let probe: TcpListener = serve::bind(port)?;
    Ok(probe.local_addr().context("failed to ask for the port that was taken")?.port())
}

fn watch(mut xprof: Child, events: Sender<Event>) -> Result<()> {
    spawn("zprof-xprof", move || {
        // Without a receiver the program is about to end.
        let _ = events.send(Event::Ended(xprof.wait()));
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .with_context(|| format!("failed to start the thread `{name}`"))?;
    Ok(())
}

/// The exit code: that of the signal which we were sent, as shells count it, or XProf's own.
fn ended(status: &ExitStatus, signal: Option<i32>) -> Result<ExitCode> {
    if let Some(signal) = signal {
        return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
    }
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        None => bail!("`xprof` ended: {status}"),
    }
}

/// A log directory, in which XProf finds its runs.
struct LogDirectory {
    path: PathBuf,
    /// What of it is meant, for people.
    what: String,
    /// Removes the directory in the end, where it is ours.
    _made: Option<TempDir>,
}

impl LogDirectory {
    /// The log directory of a profile: the one that it lies in, or a temporary one with links to it.
    fn of(input: &Path) -> Result<Self> {
        let Profile { spaces, .. } = input::open(input)?;
        let names = |path: &Path| path.to_string_lossy().ends_with(SUFFIX);
        let [Space { path: Some(path), .. }, ..] = spaces.as_slice() else {
            return Self::make(&spaces, "profile");
        };
        let path = path.canonicalize().with_context(|| format!("failed to find `{}`", path.display()))?;
        let run = path.parent().unwrap_or(Path::new("/"));
        let run_name = run.file_name().unwrap_or_default().to_string_lossy();
        match run.parent().filter(|runs| runs.ends_with(RUNS) && names(&path)).and_then(|runs| runs.ancestors().nth(2))
        {
            Some(log) => Ok(Self { path: log.to_owned(), what: format!("the run `{run_name}`"), _made: None }),
            None if input.is_dir() => Self::make(&spaces, &run_name),
            None => Self::make(&spaces, &spaces[0].host),
        }
    }

    fn make(spaces: &[Space], run: &str) -> Result<Self> {
        let made = tempfile::Builder::new().prefix("zprof-").tempdir();
        let made = made.context("failed to create a temporary log directory")?;
        // A file's name may leave no name of a run, or one that leads out of the folder of runs.
        let run = if matches!(run, "" | "." | "..") { "profile" } else { run };
        let folder = made.path().join(RUNS).join(run);
        fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
        for space in spaces {
            let host = if space.host.is_empty() { "profile" } else { &space.host };
            let link = folder.join(format!("{host}{SUFFIX}"));
            let placed = match &space.path {
                Some(path) => path.canonicalize().and_then(|path| symlink(path, &link)),
                None => File::create_new(&link).and_then(|mut to| space.copy(&mut to)),
            };
            placed.with_context(|| format!("failed to put {} into `{}`", space.name, folder.display()))?;
        }
        Ok(Self { path: made.path().to_owned(), what: format!("the run `{run}`"), _made: Some(made) })
    }
}
