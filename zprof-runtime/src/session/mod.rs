//! The session: start, stop, and the two files. The one place that joins clock, recorder, XSpace and export.

mod copies;
mod counters;
mod device;
mod ends;
pub(crate) mod env;
mod exit;
mod files;
mod host;
mod linkage;
mod ongoing;
mod options;
mod place;
#[allow(unsafe_code)] // takes a caller's word for a pointer
mod platform;
mod rank;
mod run_names;
mod snapshot;
mod tasks;
pub mod testing;
mod warnings;
mod write;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::device::{Collected, Device, Piece, Taken};
pub use self::exit::{finish, init_from_env};
use self::files::RunFiles;
pub use self::linkage::Linkage;
use self::ongoing::{Content, Ongoing};
pub use self::options::{AdvancedValue, DeviceType, ProfilerOptions, SessionId};
use self::place::{Place, check_system};
pub use self::platform::Platform;
use self::snapshot::Running;
pub use self::snapshot::snapshot;
use self::warnings::{
    Unplaced, begins_at, cause_of_losses, crossings, faults_of_clock, gone_with_threads, own_windows, too_long,
    warnings,
};
use crate::ENABLED;
use crate::clock::realtime_ns;
use crate::error::{Error, ErrorKind, Result};
use crate::os::{self, FileLimit};
use crate::pjrt::Plugin;
use crate::record::directives::Directives;
use crate::record::is_astray;
use crate::record::recording::{Forked, Recorded, Recording, Settings, epoch, free};
use crate::room::{self, Room as _};
use crate::warn::warn;
use crate::xspace::join::Session;
use crate::xspace::names;
use crate::xspace::writer::{ERRORS, HOSTNAMES, Plane, StatValue, WARNINGS, put_text};

/// Records a session and writes its profile.
///
/// ```
/// # extern crate zprof_runtime as zprof;
/// use zprof::{ErrorKind, Platform, ProfilerOptions, SessionId};
///
/// # fn main() -> zprof::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let options = ProfilerOptions::default().repository_path(folder.path()).session_id(SessionId::Unique);
/// let mut profiler = Platform::host().profiler(options)?;
/// profiler.start()?;
/// # if zprof::ENABLED {
/// assert_eq!(profiler.start().expect_err("it runs already").kind(), ErrorKind::AlreadyActive);
/// # }
/// if let Some(profile) = profiler.stop()? {
///     println!("{} scopes in {}", profile.scopes, profile.protobuf_path.display());
/// }
/// # Ok(())
/// # }
/// ```
///
/// A profiler can be started again after a stop. One that is dropped while it runs is stopped and writes its files;
/// what fails then is logged.
///
/// # Exit
///
/// A session that is still running when the process exits is stopped and written then, with the files that `stop` would
/// have written. This holds for a profiler in a static, for one that was leaked, and where [`std::process::exit`] leaves
/// functions without running destructors. If the files cannot be written, a line on standard error says why.
///
/// | the process ends by | |
/// |---|---|
/// | return from `main`, C's `exit` | written |
/// | [`std::process::exit`] | written; on Windows it is lost: stop the profiler or call [`finish`] before |
/// | a panic that leaves `main` | written |
/// | a panic where panics abort (`panic = "abort"`) | written; then the process is aborted |
/// | [`std::process::abort`], signals, `_exit`, `quick_exit`, `exec` | lost. A library installs no signal handlers unasked: let the program's own handler stop the profiler, or use [`init_from_env`], which does catch signals and aborts. |
///
/// Exit waits for the files, and for a plugin up to 60 s. It also waits for another thread that is inside of `stop`. The
/// child of a fork does not write the session that its parent started, unless it calls `stop`. When zprof is part of a
/// shared library, the library stays loaded from the first start to the end of the process.
#[derive(Debug)]
pub struct Profiler {
    plugin: Option<Plugin>,
    options: ProfilerOptions,
    /// From its start until its profile has been handed out. The end of the process shares it.
    session: Option<Arc<Ongoing>>,
}

/// A session that is over.
#[derive(Debug)]
struct Unwritten {
    files: RunFiles,
    /// What the plugin collected.
    device: Vec<u8>,
    /// Whether that is no XSpace.
    broken: bool,
    /// Whether the JSON is written too.
    trace_json: bool,
    pieces: Vec<Piece>,
    profile: Profile,
}

/// What a session has left.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// The XSpace, for XProf and all that reads its format: absolute.
    pub protobuf_path: PathBuf,
    /// The trace-viewer JSON, for Perfetto and `chrome://tracing`: absolute. `None` if [`trace_json`](ProfilerOptions::trace_json) is
    /// off, or if the JSON could not be written, as on a disk that is full, which a warning says. `zprof convert` makes the JSON from
    /// the XSpace.
    pub perfetto_path: Option<PathBuf>,
    /// Scopes in the profile.
    pub scopes: u64,
    /// Threads that recorded any.
    pub threads: usize,
    /// Scopes that found no room and are not in the profile.
    pub dropped_scopes: u64,
    /// How long the time is that the profile shows: from start to stop or snapshot, without the writing; with
    /// [`keep_last`](ProfilerOptions::keep_last) or [`keep_last_bytes`](ProfilerOptions::keep_last_bytes) only what was
    /// kept.
    pub duration: Duration,
    /// Bytes of records that were let go because a session that keeps the last of them has gone on. In memory, a usual
    /// scope takes 24 to 48.
    pub released_bytes: u64,
    /// What went wrong without ending the session. It went to the log, and stands in the XSpace, but for what went wrong when
    /// that was written already.
    pub warnings: Vec<String>,
    /// The [`directives`](ProfilerOptions::directives) that no scope met, as they were given, by path: those of modules none of whose
    /// scopes ran, and those that are misspelt. They went to the log; the XSpace has nothing of it. None of a snapshot, after which the
    /// scopes may come.
    pub unmet_directives: Vec<String>,
    /// How long each phase of the stop took, in order: `stop`, `convert`, `plugin`, `write XSpace`, and `write JSON` unless that is
    /// off.
    pub phases: Vec<(&'static str, Duration)>,
}

impl Profiler {
    fn new(plugin: Option<Plugin>, options: ProfilerOptions) -> Result<Self> {
        check(&options)?;
        Ok(Self { plugin, options, session: None })
    }

    /// The options it was made with.
    #[must_use]
    pub fn options(&self) -> &ProfilerOptions {
        &self.options
    }

    /// Whether it is recording.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_running())
    }

    /// Starts to record.
    ///
    /// # Errors
    ///
    /// [`AlreadyActive`](ErrorKind::AlreadyActive) while any profiler of this process runs, this one included; the
    /// running session is left as it is. [`WrongState`](ErrorKind::WrongState) while a stopped session waits to be
    /// written. [`InvalidInput`](ErrorKind::InvalidInput) or [`Io`](ErrorKind::Io) where the run's folder cannot be
    /// used. [`OutOfMemory`](ErrorKind::OutOfMemory) where there is too little for the recorder. With
    /// `raise_error_on_start_failure`, whatever keeps the platform's plugin from profiling.
    /// [`Unsupported`](ErrorKind::Unsupported) on WebAssembly, where marks work and do nothing.
    pub fn start(&mut self) -> Result<()> {
        if let Some(path) = self.session.as_ref().and_then(|session| session.unwritten_path()) {
            return Err(Error::new(
                ErrorKind::WrongState,
                format!(
                    "failed to start the profiler: its last session is not written yet to `{}`; call stop",
                    path.display()
                ),
            ));
        }
        if !ENABLED {
            log::warn!("nothing is recorded: zprof is built without its feature `enable`");
            return Ok(());
        }
        check_system("failed to start the profiler")?;
        let place = Place::take()?;
        exit::watch().map_err(|error| {
            Error::io("failed to start the profiler: the exit of the process cannot be watched", error)
        })?;
        copies::announce();
        let files = {
            let _limit = FileLimit::block();
            RunFiles::prepare(&self.options, realtime_ns())?
        };
        if self.options.is_from_env {
            copies::warnings_of_end().for_each(warn);
        }
        let settings = settings(&self.options)?;
        let recording = Recording::start(settings).map_err(no_start)?;
        match Device::start(self.plugin.as_ref(), &self.options, files.session()) {
            Ok(device) => {
                Running::publish(recording.live(), &self.options, &files, device.name());
                place.settle();
                let (recording, device, files) = (Box::new(recording), Box::new(device), Box::new(files));
                self.session =
                    Some(Ongoing::begin(Content::Running { recording, device, files, place }, &self.options));
                Ok(())
            }
            Err(error) => {
                // Nobody asked for the host alone.
                discard(recording);
                Err(error)
            }
        }
    }

    /// Writes what the running session holds, and lets it go on. It is [`zprof::snapshot`](snapshot) for the session of
    /// this profiler: that one can be called anywhere.
    ///
    /// # Errors
    ///
    /// As there; [`WrongState`](ErrorKind::WrongState) where this profiler is not running.
    pub fn snapshot(&self) -> Result<Option<Profile>> {
        if ENABLED && !self.is_running() {
            return Err(Error::new(
                ErrorKind::WrongState,
                "failed to take a snapshot: this profiler is not running; start it first",
            ));
        }
        snapshot()
    }

    /// Stops recording and writes the profile. `None` where nothing was started, or where zprof is built without
    /// `enable`.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) where the XSpace cannot be written. The session is kept then, an older profile of the run stays as
    /// it was, and calling this again tries again. Where only the JSON cannot be written, there is a profile without it:
    /// [`perfetto_path`](Profile::perfetto_path) is `None`. [`OutOfMemory`](ErrorKind::OutOfMemory) where there was too little
    /// memory to make the profile, which is lost then.
    pub fn stop(&mut self) -> Result<Option<Profile>> {
        let profile = self.stop_quietly(None)?;
        if let Some(profile) = &profile {
            profile.report();
        }
        Ok(profile)
    }

    /// [`stop`](Self::stop) that tells nobody, and waits for the plugin no longer than `limit`.
    fn stop_quietly(&mut self, limit: Option<Duration>) -> Result<Option<Profile>> {
        let Some(session) = &self.session else { return Ok(None) };
        if is_astray() {
            // What it has is the parent's, and was wiped here.
            std::mem::forget(self.session.take());
            check_system("failed to stop the profiler")?;
            return Ok(None);
        }
        let outcome = session.finish(limit);
        if session.is_over() {
            ongoing::forget(session);
            self.session = None;
        }
        outcome
    }

    /// Ends the session, or what is left of it, without a profile.
    fn abandon(mut self) {
        if let Some(session) = self.session.take() {
            session.abandon();
            ongoing::forget(&session);
        }
    }
}

/// The error of a start that the system refused. What it refuses is memory, as a rule: a new thread needs a stack, and where the
/// address space is limited, the system says no more than that the resource is unavailable.
#[cold]
fn no_start(error: io::Error) -> Error {
    const ADVICE: &str = "failed to start the profiler: the system has no memory for its helper thread, or allows no more threads; \
                          give the process more memory, as by a higher `ulimit -v`, or more threads, as by a higher `ulimit -u`";
    let kind = if matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock) {
        ErrorKind::OutOfMemory
    } else {
        ErrorKind::Io
    };
    Error::with_source(kind, ADVICE, error)
}

fn discard(recording: Recording) {
    // Dropped, a record gives its chunks back; one that there was no memory for has none.
    drop(recording.stop());
}

/// The error of a stop that found too little memory.
#[cold]
fn lost(error: &Error, options: &ProfilerOptions) -> Error {
    let option = options.named("max_buffer_bytes");
    error.said(format_args!(
        "failed to stop the profiler: {error} while the profile was made, so the profile is lost; give the process more memory, or \
         lower `{option}`, which is {}",
        options.max_buffer_bytes
    ))
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            warn(format_args!("{}; the profile is lost", error.told()));
        }
        if let Some(session) = self.session.take() {
            ongoing::forget(&session);
        }
        if is_astray() {
            return;
        }
        // In this order: the session of that number is over then, and a session that starts meanwhile has another one.
        let epoch = epoch();
        if Place::is_free() {
            free(epoch);
        }
    }
}

/// Says what of these options cannot work.
fn check(options: &ProfilerOptions) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
    if options.host_tracer_level > u32::from(u8::MAX) {
        return invalid(format!("`host_tracer_level` is {}; the highest is 255", options.host_tracer_level));
    }
    if options.max_buffer_bytes < MIN_BUFFER_BYTES {
        let (given, least) = (options.max_buffer_bytes, MIN_BUFFER_BYTES);
        return invalid(format!("`max_buffer_bytes` is {given}; the least that works is {least}"));
    }
    if options.keep_last == Some(Duration::ZERO) {
        return invalid("`keep_last` is nothing; give the time that a snapshot shall show".to_owned());
    }
    if options.keep_last_bytes == Some(0) {
        return invalid("`keep_last_bytes` is 0; give what a snapshot shall have of each thread".to_owned());
    }
    Directives::parse(&options.directives).map(drop)
}

/// What these options mean for the recorder.
fn settings(options: &ProfilerOptions) -> Result<Settings> {
    let level = u8::try_from(options.host_tracer_level).unwrap_or(u8::MAX);
    // The largest number means that nothing is let go. A bound that is larger than any record still makes rings, which let the
    // oldest records go at the memory limit.
    let bound = |given: u64| given.min(u64::MAX - 1);
    Ok(Settings {
        directives: Directives::parse(&options.directives)?.with_default(level),
        filter: options.host_traceme_filter_mask.unwrap_or(u64::MAX),
        max_bytes: options.max_buffer_bytes,
        prefault_bytes: options.prefault_bytes,
        keep_ns: options.keep_last.map(|time| bound(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))),
        system_clock: options.system_clock,
        keep_bytes: options.keep_last_bytes.map(|bytes| bound(u64::try_from(bytes).unwrap_or(u64::MAX))),
    })
}

/// Room for the first chunks of a few threads.
const MIN_BUFFER_BYTES: usize = 64 << 10;

/// Stops the recording and makes the XSpace of it.
fn convert(
    recording: Recording,
    device: Device,
    mut files: RunFiles,
    options: &ProfilerOptions,
    limit: Option<Duration>,
) -> room::Result<Unwritten> {
    let told = Running::withdraw();
    let started = Instant::now();
    let recorded = recording.stop();
    let stopped = Instant::now();
    let has_device = device.name().is_some();
    // At once: until then the plugin goes on tracing.
    let mut collected = device.collect(limit);
    collected.warnings.extend(told);
    // The XSpace says where it is. What fails here fails again when it is written.
    let _ = files.hold();
    collected.warnings.extend(files.take_notes());
    let mut recorded = recorded?;
    if !has_device {
        // What a plugin brings counts from the start of the session.
        recorded.cut()?;
    }
    let assembled = assemble(&mut recorded, collected, &files, options, [stopped - started, stopped.elapsed()])?;
    Ok(assembled.for_files(files))
}

/// What is to be written of a session.
struct Assembled {
    device: Vec<u8>,
    broken: bool,
    trace_json: bool,
    pieces: Vec<Piece>,
    profile: Profile,
}

impl Assembled {
    /// The same with the files that it was made for.
    fn for_files(self, files: RunFiles) -> Unwritten {
        let Self { device, broken, trace_json, pieces, profile } = self;
        Unwritten { files, device, broken, trace_json, pieces, profile }
    }
}

/// Makes the XSpace of what was recorded and collected, which took those times.
fn assemble(
    recorded: &mut Recorded,
    collected: Collected,
    files: &RunFiles,
    options: &ProfilerOptions,
    [stopping, collecting]: [Duration; 2],
) -> room::Result<Assembled> {
    let started = Instant::now();
    let mut host = host::convert(recorded)?;
    let timeline = &recorded.timeline;
    let unplaced = Unplaced::of(recorded);
    let cause = &cause_of_losses(recorded.was_short, options);
    let mut warnings = warnings(&host.losses, unplaced, &timeline.steps_ns, cause);
    warnings.extend(gone_with_threads(recorded.gone, cause));
    warnings.extend(recorded.forked.map(begins_at));
    warnings.extend(own_windows(&host.parts, timeline.cursor().ps(recorded.stop), options));
    warnings.extend(faults_of_clock(recorded, host.unsteady));
    warnings.extend(crossings(&host));
    warnings.extend(copies::warnings());
    if host.unnamed != 0 {
        warnings.push(format!(
            "{} scopes had one name too many: a session keeps {} names that are given behind `dyn`; these scopes are called by the \
             expression that gave the name, which is their stat `name`",
            host.unnamed,
            host::MOST_NAMES
        ));
    }
    let unmet_directives = std::mem::take(&mut recorded.unmet);
    let (scopes, threads) = (host.plane.events() - host.samples, host.threads);
    let dropped_scopes =
        host.losses.iter().map(|loss| loss.scopes).sum::<u64>() + unplaced.scopes() + recorded.gone.lost;
    let released_bytes = host.parts.iter().map(|part| part.released).sum::<u64>() + recorded.gone.bytes;
    host.plane.stat(names::PROCESS_ID, StatValue::Int(i64::from(std::process::id())));

    let mut environment = Plane::new(names::TASK_ENVIRONMENT);
    environment.stat(names::PROFILE_START_TIME, StatValue::Uint(u64::try_from(timeline.start_ns).unwrap_or(0)));
    environment.stat(names::PROFILE_STOP_TIME, StatValue::Uint(u64::try_from(timeline.stop_ns()).unwrap_or(0)));
    if let Some(name) = os::program_name() {
        environment.stat(names::PROCESS_NAME, StatValue::Text(&name));
    }
    environment.stat(names::PROCESS_ID, StatValue::Int(i64::from(std::process::id())));
    environment.stat("clock", StatValue::Text(recorded.source.name()));
    environment.stat("clock_residual_ns", StatValue::Uint(timeline.residual_ns));
    environment.stat("dropped_scopes", StatValue::Uint(dropped_scopes));
    if let Some(Forked { process, ps }) = recorded.forked {
        environment.stat("forked_from", StatValue::Uint(process));
        environment.stat("forked_after_ns", StatValue::Uint(ps / 1000));
    }
    if !options.directives.is_empty() {
        environment.stat("directives", StatValue::Text(&options.directives));
    }
    if options.keep_last.is_some() || options.keep_last_bytes.is_some() {
        environment.stat("released_bytes", StatValue::Uint(released_bytes));
        environment.stat("released_threads", StatValue::Uint(recorded.gone.threads));
        for part in &host.parts {
            let name = format!("whole_since_ns of {} ({})", part.thread, part.id);
            environment.stat(&name, StatValue::Uint(part.since / 1000));
            if let Some(until) = part.until {
                let name = format!("whole_until_ns of {} ({})", part.thread, part.id);
                environment.stat(&name, StatValue::Uint(until / 1000));
            }
        }
    }
    environment.stat(names::PROFILE_OPTIONS, StatValue::Bytes(&options.to_proto(files.session())));

    let converted = Instant::now();
    let start_ns = u64::try_from(timeline.start_ns).unwrap_or(0);
    let process_id = i32::try_from(std::process::id()).unwrap_or(0);
    let session = Session { process_id, start_ns };
    let Taken { bytes, mut pieces, errors, warnings: told, broken } =
        collected.join(&mut host.plane, &mut environment, session, host.next_id);
    warnings.extend(told);
    for plane in [host.plane, environment] {
        let own = plane.into_pieces()?;
        pieces.room(own.len() + 1)?;
        pieces.extend(own.into_iter().map(Piece::Own));
    }
    let whole = pieces.iter().map(|piece| match piece {
        Piece::Own(bytes) => bytes.len(),
        Piece::Device(range) => range.len(),
    });
    warnings.extend(too_long(whole.sum()));
    let mut tail = Vec::new();
    for error in &errors {
        put_text(&mut tail, ERRORS, error)?;
    }
    for warning in &warnings {
        put_text(&mut tail, WARNINGS, warning)?;
    }
    put_text(&mut tail, HOSTNAMES, files.host())?;
    pieces.push(Piece::Own(tail));
    let profile = Profile {
        protobuf_path: files.protobuf(),
        perfetto_path: None, // until it is written
        scopes,
        threads,
        dropped_scopes,
        duration: Duration::from_nanos(timeline.end_ps.div_ceil(1000)),
        released_bytes,
        warnings,
        unmet_directives,
        phases: vec![
            ("stop", stopping),
            ("convert", converted - started),
            ("plugin", collecting + converted.elapsed()),
        ],
    };
    Ok(Assembled { device: bytes, broken, trace_json: options.trace_json, pieces, profile })
}

impl Profile {
    /// Tells the logger of it: what it lacks and where it is.
    fn report(&self) {
        self.report_lacks();
        self.report_place();
    }

    fn report_lacks(&self) {
        for warning in &self.warnings {
            warn(warning);
        }
        for warning in self.of_directives() {
            warn(warning);
        }
        for (phase, took) in &self.phases {
            log::debug!("profile phase `{phase}` took {took:?}");
        }
    }

    fn report_place(&self) {
        let Self { protobuf_path, scopes, threads, .. } = self;
        log::info!("wrote {scopes} scopes of {threads} threads to `{}`", protobuf_path.display());
    }
}
