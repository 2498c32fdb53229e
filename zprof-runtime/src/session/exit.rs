//! The session that the environment asks for: one for the process, until the process ends, in whichever way.

use std::cell::Cell;
use std::io;
use std::panic::{self, PanicHookInfo};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::env::{self, Request};
use super::snapshot::Inside as AtWork;
use super::{Profile, Profiler, ends, ongoing, snapshot};
use crate::ENABLED;
use crate::environment;
use crate::error::{Error, Result};
use crate::record::recording::keep_out;
use crate::record::{cut, hears, mark_at, word};
use crate::site::{Callsite, Level, Memo, NO_FILTER, Site};
use crate::value::Value as _;
use crate::warn::warn;

/// The session, or what became of it.
static STATE: Mutex<State> = Mutex::new(State::None);

/// Whether it runs, for one that must not take the lock.
static RUNS: AtomicBool = AtomicBool::new(false);

/// Whether panics are recorded: where the environment may ask for a session.
static RECORDS_PANICS: AtomicBool = AtomicBool::new(false);

/// How long exit waits for the plugin of a profiler.
const PLUGIN_LIMIT: Duration = Duration::from_secs(60);

/// How long exit waits for a snapshot that another thread writes.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(10);

/// How long the program's logger may take for what it is told at the end.
const LOGGER_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum State {
    None,
    Running(Box<Session>),
    /// It has ended, and so will the process.
    Over(u32),
}

#[derive(Debug)]
struct Session {
    profiler: Profiler,
    /// The process that has it: a fork's child has not.
    process: u32,
    plugin_limit: Duration,
    is_quiet: bool,
}

/// Profiles the program from here to its end, if the environment variable `ZPROF` asks for it. That is all that a program
/// needs:
///
/// ```
/// # extern crate zprof_runtime as zprof;
/// fn main() {
///     if let Err(error) = zprof::init_from_env() {
///         eprintln!("{error}"); // such as a folder that cannot be written; the program goes on without a profile
///     }
///     // … the program, with its scopes …
/// }
/// ```
///
/// ```sh
/// ./program                      # nothing happens
/// ZPROF=1 ./program              # zprof: /tmp/xprof/plugins/profile/2026_11_29_16_22_52_4711/profiling.xplane.pb (1,234 scopes)
/// ZPROF=profiles ./program       # the same below `profiles`
/// ZPROF=a.xplane.pb ./program    # a.xplane.pb and a.trace.json
/// ```
///
/// There is nothing to hold and nothing to stop; call it first in `main`. `Ok(true)` says that the program is being
/// profiled. A second call finds the session running and changes nothing; one that the program's logger makes while it is
/// told something here is `Ok(false)`. Without the feature `enable`, this is nothing.
///
/// # Variables
///
/// They are read once, here. One that is empty is not there. All but the first are looked at only if that asks for a
/// profile. One that begins with `ZPROF_` and is none of these is warned of, with the one that may have been meant.
///
/// | variable | |
/// |---|---|
/// | `ZPROF` | not there, `0`, `off`, `false` or `no`: no profile, and nothing that costs anything. `1`, `on`, `true` or `yes`: a run's folder of its own below `/tmp/xprof`, or `/tmp/xprof-<uid>` where that is another user's, called by time and process, since two runs, or a program and those that it starts, must not overwrite each other. Else a path. A folder is a log directory, as `1` has `/tmp/xprof`: made if it is not there, relative to the current folder, and `./7` if it has digits alone. What ends in `.xplane.pb` is the file to write, in place of an older one, with the JSON beside it as `.trace.json`; XProf does not find it there, `zprof view` does. A process with a rank, as SLURM, MPI, torchrun and JAX give it, writes `<name>_rank<N>.xplane.pb`. Names that end in `.pb`, `.json`, `.gz` or `.pftrace` are refused. |
/// | `ZPROF_SESSION` | name of the run's folder, so that each run replaces the last, and processes with ranks write one run; not with a file |
/// | `ZPROF_LEVEL` | [`host_tracer_level`]: `critical`, `info`, `verbose`, or 0 to 255; all levels if not given |
/// | `ZPROF_FILTER` | [`directives`]: `my_crate::io=verbose,other=off` |
/// | `ZPROF_BUFFER` | [`max_buffer_bytes`]: `100000`, `64M`, `2G`; 256M if not given |
/// | `ZPROF_KEEP` | [`keep_last`]: `500ms`, `30s`, `10m`, `2h`; all is kept if not given |
/// | `ZPROF_KEEP_BYTES` | [`keep_last_bytes`]: as `ZPROF_BUFFER` |
/// | `ZPROF_CLOCK` | `system`: the system's monotonic clock, which takes longer to read. If not given, or `auto`, the processor's counter where the system trusts it |
/// | `ZPROF_PJRT` | `off`: the host alone. `on`: a plugin too, as [`Platform::auto`] finds it, and an error if there is none. Else the path of its library. If not given, the plugin that [`Platform::auto`] finds, if any; without the feature `pjrt`, the host alone. `SKIP_PJRT_PROFILER=true` leaves the plugin alone. |
/// | `ZPROF_PJRT_SECONDS` | how long the plugin's part of the profile is waited for at the end; 60 if not given |
/// | `ZPROF_JSON` | `off`: the XSpace alone is written, without the trace-viewer JSON, as with [`ProfilerOptions::trace_json`](crate::ProfilerOptions::trace_json) |
/// | `ZPROF_QUIET` | `1`: standard error is not told where the profile is, and the program's logger is, if it has one |
///
/// # Ends
///
/// | the process ends by | |
/// |---|---|
/// | return from `main`, `std::process::exit`, C's `exit` | written; the exit code stays |
/// | a panic that leaves `main` | written, with the panic as an instant; the exit code, 101, stays |
/// | SIGTERM, SIGINT, SIGHUP (Unix) | written; then the same signal ends the process, as its parent sees |
/// | `panic = "abort"`, a panic in a destructor during a panic, a stack overflow, `std::process::abort`, C's `abort` and `assert`, SIGABRT (Unix) | written within 20 s, the plugin's part within 5 s; then the process is aborted. Elsewhere `panic = "abort"` alone. |
/// | SIGKILL, SIGSEGV and other signals, `_exit` | nothing is written, and the run's folder stays empty |
/// | `exec` | likewise, for the program that is replaced; the next one reads the same variables |
///
/// Threads go on while the profile is written. What is open then is in it, marked `unfinished`. At the end one line on
/// standard error says where the profile is, or why there is none; if that is closed, nothing is said.
///
/// **Signals.** A signal that the program handles, blocks or ignores is the program's. If it has a handler when this is
/// called, that stays alone. If it installs one later, ours is gone; where that one calls the handler before it, as
/// signal-hook and tokio do, ours sees that the signal is no longer its own, and does nothing. A program that shuts down
/// by itself on SIGTERM therefore does, and is written when it exits. A second signal a second or more after the first
/// ends the process at once. `ctrlc::try_set_handler` finds a handler in place; `set_handler` does not mind.
///
/// **Snapshots.** SIGUSR2 writes what the session holds as a [`snapshot`](super::snapshot()) does, and the program goes on:
/// with `ZPROF_KEEP=30s`, the last 30 s. Where `ZPROF` names a file, the snapshot is one beside it, `a-snapshot-1.xplane.pb`. The
/// signal is the program's own where it handles, blocks or ignores it. A program that is not being profiled ends by it, as any does
/// that has no handler.
///
/// **Panics.** Each panic on any thread is an instant `panic` on its line, with `message` and `location`, also one that is
/// caught; its module is `zprof_runtime::session::exit`, where directives name modules. The panic hook is called as before; one that the program installs later takes the place of ours unless it
/// calls it, and all that is lost is the instant.
///
/// **Forks.** The child of a fork records nothing and writes nothing. It is profiled by a call of its own of this function, or by
/// a [`Profiler`]. A daemon calls this after it has forked.
///
/// **Privileges.** A program that runs with raised privileges, by a set-id bit or file capabilities, ignores its environment,
/// because its caller chose it: this function is `Ok(false)` then, and reports once that `ZPROF` is ignored. A variable would
/// otherwise let the caller load a library or write a file with the rights of the program. [`Platform::auto`] and live tools
/// ignore the environment of such a program too.
///
/// While it lasts, a thread `zprof-exit` sleeps until the end, and all of Unix's signals are blocked in it.
///
/// # Errors
///
/// [`InvalidInput`] names a variable, its value, and what it may be. [`AlreadyActive`] if a [`Profiler`] of the program
/// runs; as long as this session lasts, theirs is refused likewise. Besides, those of [`Platform::load`] and
/// [`Profiler::start`]. Nothing is profiled then, and the program may go on. The message has the system's cause too, so that
/// `{error}` is all that need be printed.
///
/// [`directives`]: super::ProfilerOptions::directives()
/// [`keep_last`]: super::ProfilerOptions::keep_last()
/// [`keep_last_bytes`]: super::ProfilerOptions::keep_last_bytes()
/// [`host_tracer_level`]: super::ProfilerOptions::host_tracer_level
/// [`max_buffer_bytes`]: super::ProfilerOptions::max_buffer_bytes
/// [`Platform::auto`]: super::Platform::auto
/// [`Platform::load`]: super::Platform::load
/// [`InvalidInput`]: crate::ErrorKind::InvalidInput
/// [`AlreadyActive`]: crate::ErrorKind::AlreadyActive
pub fn init_from_env() -> Result<bool> {
    // The program's logger is told things here, and may begin with this call itself.
    let Some(_inside) = Inside::enter().filter(|_| ENABLED) else { return Ok(false) };
    let mut state = lock();
    match &*state {
        State::Running(session) if session.process == process::id() => return Ok(true),
        State::Over(process) if *process == process::id() => return Ok(false),
        _ => forget(&mut state),
    }
    if environment::is_privileged() {
        report_withheld();
        return Ok(false);
    }
    let Some(request) = env::request(environment::variable)? else { return Ok(false) };
    for warning in env::unknown(environment::variables()) {
        warn(warning);
    }
    let main = environment::variable(env::MAIN).unwrap_or_default();
    let failed = |error: Error| {
        error.in_one().context(format_args!("no profile, which `ZPROF={}` asked for", main.to_string_lossy()))
    };
    let profiler = start(&request).map_err(failed)?;
    if let Err(error) = ends::watch() {
        profiler.abandon();
        return Err(failed(Error::io("the end of the program cannot be watched", error)));
    }
    RECORDS_PANICS.store(true, Ordering::Relaxed);
    watch_panics();
    let Request { plugin_limit, is_quiet, .. } = request;
    RUNS.store(true, Ordering::Relaxed);
    *state = State::Running(Box::new(Session { profiler, process: process::id(), plugin_limit, is_quiet }));
    Ok(true)
}

/// Says once that the environment of a privileged program is ignored, if it asks for a profile.
fn report_withheld() {
    static REPORTED: Once = Once::new();
    if environment::is_withheld(env::MAIN) {
        // The value is the caller's own text, and standard error may be a log that the caller cannot write to.
        REPORTED.call_once(|| {
            warn(format_args!(
                "no profile: `{}` is ignored, because this program runs with raised privileges (setuid, setgid or file \
                 capabilities) and its caller chose the environment; run it without them, or let it start a `Profiler` \
                 itself",
                env::MAIN
            ));
        });
    }
}

thread_local! {
    /// The thread is in [`init_from_env`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The thread's only call of [`init_from_env`].
struct Inside;

impl Inside {
    fn enter() -> Option<Self> {
        (!INSIDE.replace(true)).then_some(Self)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(request: &Request) -> Result<Profiler> {
    let mut profiler = request.platform()?.profiler(request.options.clone())?;
    profiler.start()?;
    Ok(profiler)
}

/// Whether this process has such a session now.
pub(super) fn is_running() -> bool {
    match STATE.try_lock() {
        Ok(state) => matches!(&*state, State::Running(session) if session.process == process::id()),
        // It is about to have one, or to end it.
        Err(TryLockError::WouldBlock) => ends::is_watched(),
        Err(TryLockError::Poisoned(_)) => false,
    }
}

/// Whether such a session is the parent's, whose fork this process is: nothing is recorded here.
pub(super) fn is_inherited() -> bool {
    // As below, nothing is inherited where the lock is taken.
    let Ok(state) = STATE.try_lock() else { return false };
    matches!(&*state, State::Running(session) if session.process != process::id())
}

/// Ends the session that the child of a fork has from its parent, without a profile: whether there was one.
pub(super) fn give_up_inherited() -> bool {
    // The lock is taken where this very thread starts such a session, or another does: nothing is inherited then.
    let Ok(mut state) = STATE.try_lock() else { return false };
    let is_inherited = matches!(&*state, State::Running(session) if session.process != process::id());
    if is_inherited {
        forget(&mut state);
    }
    is_inherited
}

fn forget(state: &mut State) {
    if let State::Running(session) = std::mem::replace(state, State::None) {
        session.profiler.abandon();
    }
}

/// Ends the session of this process and writes its profile, as the end of the process would. Nothing happens where no
/// session runs.
///
/// Call this before an end that the process cannot see, such as [`std::process::exit`] on Windows, `_exit`, or `exec`:
///
/// ```
/// # extern crate zprof_runtime as zprof;
/// fn leave(code: i32) -> ! {
///     zprof::finish();
///     std::process::exit(code)
/// }
/// ```
///
/// It ends the session that [`init_from_env`] started and those of all [`Profiler`]s, wherever they are. A profiler that is
/// stopped afterwards gives the profile that was written here. Standard error says why a profile could not be written.
pub fn finish() {
    if !ENABLED {
        return;
    }
    ends::finish_now();
    finish_profilers();
}

/// Finishes the sessions of profilers: what runs, and what could not be written so far.
fn finish_profilers() {
    if ongoing::left().is_none() {
        return;
    }
    if AtWork::is_here() {
        ends::say(
            "zprof: no profile: the process exits from a thread that is inside of the profiler's `stop` or `snapshot`\n",
        );
        return;
    }
    // The storage of the thread that exits may be torn down already, which parts of the standard library do not expect. So
    // this has a thread of its own.
    let work = || {
        keep_out();
        while let Some(session) = ongoing::left() {
            match session.finish_at_exit(PLUGIN_LIMIT) {
                Ok(Some(profile)) => tell(profile, true),
                Ok(None) => {}
                Err(error) => {
                    ends::say(&format!("zprof: no profile: {}\n", error.told()));
                }
            }
            ongoing::forget(&session);
        }
        snapshot::settle(SNAPSHOT_LIMIT);
    };
    match thread::Builder::new().name("zprof-exit".to_owned()).spawn(work) {
        // If it panicked, the panic has been reported.
        Ok(thread) => drop(thread.join()),
        Err(_) => drop(panic::catch_unwind(work)),
    }
}

/// Sees to it that exit finishes the sessions of profilers, and so does a panic where that aborts.
pub(super) fn watch() -> io::Result<()> {
    ends::watch_exit()?;
    if cfg!(panic = "abort") {
        watch_panics();
    }
    Ok(())
}

/// Whether the session that the environment asked for runs. Takes no lock.
#[cfg_attr(not(windows), allow(dead_code))]
pub(super) fn runs_env() -> bool {
    RUNS.load(Ordering::Relaxed)
}

/// Stops the session and writes the profile; does nothing where there is none, or it is another process's. Waits for the
/// plugin no longer than `limit`, where one is given.
///
/// No lock is taken here that the program may hold for ever, such as that of standard error or of its logger.
pub(super) fn finish_env(limit: Option<Duration>) {
    let mut state = lock();
    match &*state {
        State::Running(session) if session.process == process::id() => {}
        _ => return,
    }
    let State::Running(session) = std::mem::replace(&mut *state, State::Over(process::id())) else { return };
    drop(state);
    let Session { mut profiler, plugin_limit, is_quiet, .. } = *session;
    // The thread that aborts waits, and may be the one that writes a snapshot.
    let is_abort = limit.is_some();
    let limit = limit.map_or(plugin_limit, |limit| limit.min(plugin_limit));
    match profiler.stop_quietly(Some(limit)) {
        Ok(Some(profile)) => tell(profile, is_quiet),
        Ok(None) => {}
        Err(error) => {
            ends::say(&format!("zprof: no profile: {}\n", error.told()));
        }
    }
    // It has nothing to write any more, and must not try once more.
    profiler.abandon();
    if !is_abort {
        snapshot::settle(SNAPSHOT_LIMIT);
    }
    RUNS.store(false, Ordering::Relaxed);
}

/// Writes what the session holds, and goes on.
#[cfg(unix)]
pub(super) fn take_snapshot() {
    let is_quiet = match &*lock() {
        State::Running(session) if session.process == process::id() => session.is_quiet,
        _ => return,
    };
    match snapshot::take_quietly() {
        Ok(Some(profile)) => tell(profile, is_quiet),
        Ok(None) => {}
        Err(error) => {
            ends::say(&format!("zprof: no snapshot: {}\n", error.told()));
        }
    }
}

/// Says where the profile is and what it lacks.
fn tell(profile: Profile, is_quiet: bool) {
    let Profile { protobuf_path, scopes, dropped_scopes, warnings, .. } = &profile;
    // Where nobody reads one line, nobody is waited for with the next.
    let mut is_read = true;
    // A logger that takes no warnings is none here.
    let is_logged = log::max_level() >= log::LevelFilter::Warn;
    if !is_logged {
        let told = warnings.iter().cloned().chain(profile.of_directives());
        is_read = told.map(|warning| format!("zprof: warning: {warning}\n")).all(|line| ends::say(&line));
    }
    if is_read && !is_quiet {
        let dropped =
            if *dropped_scopes == 0 { String::new() } else { format!(", {} dropped", grouped(*dropped_scopes)) };
        let (path, plural) = (protobuf_path.display(), if *scopes == 1 { "" } else { "s" });
        ends::say(&format!("zprof: {path} ({} scope{plural}{dropped})\n", grouped(*scopes)));
    }
    if is_logged {
        // The thread that ends the program may hold what the logger needs.
        let (told, is_told) = channel();
        let tell = move || {
            keep_out();
            profile.report_lacks();
            if is_quiet {
                // Who is not told on standard error is told here; nobody is told twice.
                profile.report_place();
            }
            let _ = told.send(());
        };
        if thread::Builder::new().name("zprof-log".to_owned()).spawn(tell).is_ok() {
            let _ = is_told.recv_timeout(LOGGER_LIMIT);
        }
    }
}

impl Profile {
    /// What to say of directives that decided nothing: of a few each, and of the others how many they are.
    pub(super) fn of_directives(&self) -> impl Iterator<Item = String> {
        const MOST: usize = 8;
        let rest = self.unmet_directives.len().saturating_sub(MOST);
        let of_rest = format!("{rest} more directives met none; `Profile::unmet_directives` has all");
        let told = self.unmet_directives.iter().take(MOST).map(|directive| {
            format!(
                "directive `{directive}` met no scope that ran; paths of modules are those of \
                 `module_path!()`, the crate first, and are no mistake where their scopes did not run"
            )
        });
        told.chain((rest != 0).then_some(of_rest))
    }
}

/// A number as people read it: `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Records panics, and writes where a panic is the end.
fn watch_panics() {
    static WATCHING: Once = Once::new();
    if thread::panicking() {
        // The hook cannot be changed now.
        return;
    }
    WATCHING.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = Noted::of(info);
            previous(info);
            drop(noted);
            if cfg!(panic = "abort") {
                finish();
            }
        }));
    });
}

thread_local! {
    /// The panic that this thread is in is an instant already.
    static IS_NOTED: Cell<bool> = const { Cell::new(false) };
}

/// A panic that is recorded as an instant, where the environment asked for a session. There are two hooks of ours, one of which
/// may call the other: whichever comes first records the panic, and holds this until the hooks after it have returned.
pub(super) struct Noted(bool);

impl Noted {
    pub(super) fn of(info: &PanicHookInfo<'_>) -> Self {
        // A thread whose thread-locals are gone says nothing twice, since it can record nothing either.
        let is_first = RECORDS_PANICS.load(Ordering::Relaxed)
            && IS_NOTED.try_with(|is_noted| !is_noted.replace(true)).unwrap_or(true);
        if is_first {
            record_panic(info);
        }
        Self(is_first)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if self.0 {
            let _ = IS_NOTED.try_with(|is_noted| is_noted.set(false));
        }
    }
}

struct Panic;

impl Callsite for Panic {
    const LEVEL: Level = Level::Critical;
    const FILTER: u64 = NO_FILTER;

    fn site() -> &'static Site {
        static SITE: Site = Site {
            name: "panic",
            label: "panic#message=\0",
            given: 0,
            keys: &["message", "location"],
            level: Panic::LEVEL,
            filter: Panic::FILTER,
            module_path: module_path!(),
            file: file!(),
            line: line!(),
            memo: Memo::new(),
        };
        &SITE
    }
}

fn record_panic(info: &PanicHookInfo<'_>) {
    let word = word();
    if hears::<Panic>(word) {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.map(|text| cut(&text));
        let location = info.location().map(ToString::to_string);
        mark_at(Panic, word, (message.raw(), location.raw()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_grouped_by_thousands() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (100_000, "100,000")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
