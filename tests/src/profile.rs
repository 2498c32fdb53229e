//! Sessions of this process, one at a time, and what they leave as plain values that compare whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use tempfile::TempDir;
use zprof::{Platform, Profile, Profiler, ProfilerOptions};
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XPlane, XSpace, XStat};

/// A stat's value. Doubles are equal if their bits are.
#[derive(Clone, Debug)]
pub enum Stat {
    /// `int64_value`.
    Int(i64),
    /// `uint64_value`.
    Uint(u64),
    /// `double_value`.
    Double(f64),
    /// The text that a `ref_value` refers to.
    Text(String),
    /// `str_value`.
    Str(String),
    /// `bytes_value`.
    Bytes(Vec<u8>),
}

impl PartialEq for Stat {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) | (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            _ => false,
        }
    }
}

impl From<i64> for Stat {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Stat {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<&str> for Stat {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// Stats by name, in their order.
pub type Stats = Vec<(String, Stat)>;

/// Stats written down.
#[must_use]
pub fn stats<const N: usize>(pairs: [(&str, Stat); N]) -> Stats {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// An event of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Name of the scope.
    pub name: String,
    /// Begin, in picoseconds from the session's start.
    pub start_ps: i64,
    /// End, likewise.
    pub end_ps: i64,
    /// Metadata of the scope.
    pub stats: Stats,
    /// Metadata of the site.
    pub site: Stats,
}

/// The events of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Id of the line.
    pub id: i64,
    /// Name of the line.
    pub name: String,
    /// The events in order.
    pub events: Vec<Event>,
}

/// What a session has left.
#[derive(Debug)]
pub struct Recorded<T = ()> {
    /// Lines of the host plane, in order.
    pub lines: Vec<Line>,
    /// Warnings of the XSpace.
    pub warnings: Vec<String>,
    /// Stats of the plane `Task Environment`.
    pub environment: BTreeMap<String, Stat>,
    /// What the stop returned. Its files are gone with the session's folder.
    pub profile: Profile,
    /// What the body returned.
    pub value: T,
    /// The XSpace.
    pub space: Vec<u8>,
    /// Kernel id of the thread that stopped the session.
    pub tid: i64,
}

/// A profiler that writes into a temporary folder, with the process's one place for a session.
#[derive(Debug)]
pub struct Session {
    /// The profiler.
    pub profiler: Profiler,
    folder: TempDir,
    _place: MutexGuard<'static, ()>,
}

impl Session {
    /// A profiler with these options but for the path; it is not running.
    ///
    /// # Panics
    ///
    /// Panics if the options cannot work.
    #[must_use]
    pub fn new(options: ProfilerOptions) -> Self {
        let place = exclusive();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let options = options.repository_path(folder.path());
        Self { profiler: Platform::host().profiler(options).expect("the options can work"), folder, _place: place }
    }

    /// Starts a session.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub fn start(&mut self) {
        self.profiler.start().expect("the session starts");
    }

    /// Stops the session and reads what it has written.
    ///
    /// # Panics
    ///
    /// Panics if that fails.
    pub fn stop(&mut self) -> Recorded {
        let profile = self.profiler.stop().expect("the profile is written").expect("a session was running");
        Recorded::of(profile)
    }

    /// Folder that the profiler was given.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Holds the process's one place for a session against the other tests of this process.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static PLACE: Mutex<()> = Mutex::new(());
    // A test that failed holding it has not harmed the next.
    PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records `body` in a session of its own, in a temporary folder.
///
/// # Panics
///
/// Panics if the session cannot start or stop, or if what it wrote is no XSpace.
pub fn record<T>(options: ProfilerOptions, body: impl FnOnce() -> T) -> Recorded<T> {
    let mut session = Session::new(options);
    session.start();
    let value = body();
    let Recorded { lines, warnings, environment, profile, value: (), space, tid } = session.stop();
    Recorded { lines, warnings, environment, profile, value, space, tid }
}

/// Records with default options.
///
/// # Panics
///
/// As [`record`].
pub fn recorded<T>(body: impl FnOnce() -> T) -> Recorded<T> {
    record(ProfilerOptions::default(), body)
}

/// The kernel's id of the calling thread.
///
/// # Panics
///
/// Panics where there is no `/proc`.
#[must_use]
pub fn tid() -> i64 {
    let link = fs::read_link("/proc/thread-self").expect("/proc shows this thread");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("the link ends in the thread's id")
}

impl Recorded {
    /// Reads the files of a profile.
    ///
    /// # Panics
    ///
    /// Panics if they are not there, or not an XSpace with host plane and environment.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let path = &profile.protobuf_path;
        let space = fs::read(path).unwrap_or_else(|error| panic!("failed to read `{}`: {error}", path.display()));
        let (lines, warnings, environment) = read(&space);
        Self { lines, warnings, environment, profile, value: (), space, tid: tid() }
    }
}

impl<T> Recorded<T> {
    /// The only line of this name.
    ///
    /// # Panics
    ///
    /// Panics if there is none, or more than one.
    #[must_use]
    pub fn line(&self, name: &str) -> &Line {
        line(&self.lines, name)
    }

    /// The line of the thread that stopped the session.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    #[must_use]
    pub fn own_line(&self) -> &Line {
        let found = self.lines.iter().find(|line| line.id == self.tid);
        found.unwrap_or_else(|| panic!("no line {} among {:?}", self.tid, self.lines))
    }

    /// Length of the session in picoseconds.
    ///
    /// # Panics
    ///
    /// Panics if the environment does not say.
    #[must_use]
    pub fn length_ps(&self) -> i64 {
        let time = |name: &str| match self.environment.get(name) {
            Some(Stat::Uint(time)) => *time,
            other => panic!("`{name}` is {other:?}"),
        };
        let length_ns = time("profile_stop_time") - time("profile_start_time");
        i64::try_from(length_ns * 1000).expect("sessions are short")
    }
}

/// The only line of this name.
///
/// # Panics
///
/// Panics if there is none, or more than one.
#[must_use]
pub fn line<'a>(lines: &'a [Line], name: &str) -> &'a Line {
    let mut found = lines.iter().filter(|line| line.name == name);
    let first = found.next().unwrap_or_else(|| panic!("no line `{name}` among {lines:?}"));
    assert!(found.next().is_none(), "two lines `{name}` among {lines:?}");
    first
}

impl Line {
    /// The only event of this name.
    ///
    /// # Panics
    ///
    /// Panics if there is none, or more than one.
    #[must_use]
    pub fn event(&self, name: &str) -> &Event {
        let mut found = self.events.iter().filter(|event| event.name == name);
        let first = found.next().unwrap_or_else(|| panic!("no event `{name}` in {self:?}"));
        assert!(found.next().is_none(), "two events `{name}` in {self:?}");
        first
    }

    /// Name and metadata of each event, in order.
    #[must_use]
    pub fn told(&self) -> Vec<(&str, &Stats)> {
        self.events.iter().map(|event| (event.name.as_str(), &event.stats)).collect()
    }

    /// Names of the events, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.name.as_str()).collect()
    }

    /// The events as a tree by their times: `a(b(c) d)`.
    ///
    /// # Panics
    ///
    /// Panics if two events overlap without one being inside the other.
    #[must_use]
    pub fn tree(&self) -> String {
        let mut text = String::new();
        let mut open: Vec<i64> = Vec::new();
        let mut fresh = true;
        for event in &self.events {
            while open.last().is_some_and(|&end| end <= event.start_ps && event.end_ps > end) {
                open.pop();
                text.push(')');
                fresh = false;
            }
            if let Some(&end) = open.last() {
                assert!(event.end_ps <= end, "`{}` crosses what is around it: {self:?}", event.name);
            }
            if !fresh {
                text.push(' ');
            }
            text.push_str(&event.name);
            text.push('(');
            open.push(event.end_ps);
            fresh = true;
        }
        text.extend(open.iter().map(|_| ')'));
        text.replace("()", "")
    }
}

impl Event {
    /// Whether this event lies inside the other.
    #[must_use]
    pub fn is_inside(&self, other: &Self) -> bool {
        other.start_ps <= self.start_ps && self.end_ps <= other.end_ps
    }
}

/// Reads a profile: lines of the host, warnings, environment.
///
/// # Panics
///
/// Panics if the file is no XSpace, or has other planes.
#[must_use]
pub fn read_file(path: &Path) -> (Vec<Line>, Vec<String>, BTreeMap<String, Stat>) {
    read(&fs::read(path).unwrap_or_else(|error| panic!("failed to read `{}`: {error}", path.display())))
}

/// [`read_file`] of a profile that may have further planes.
///
/// # Panics
///
/// Panics if the file is no XSpace, or has no host plane.
#[must_use]
pub fn read_hosts(path: &Path) -> (Vec<Line>, Vec<String>, BTreeMap<String, Stat>) {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("failed to read `{}`: {error}", path.display()));
    let mut space = XSpace::decode(bytes.as_slice()).expect("the file is an XSpace");
    space.planes.retain(|plane| ["/host:CPU", "Task Environment"].contains(&plane.name.as_str()));
    read(&space.encode_to_vec())
}

/// Reads the bytes of a profile as [`read_file`] does.
///
/// # Panics
///
/// As that.
#[must_use]
pub fn read(bytes: &[u8]) -> (Vec<Line>, Vec<String>, BTreeMap<String, Stat>) {
    let space = XSpace::decode(bytes).expect("the file is an XSpace");
    let names: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
    assert_eq!(names, ["/host:CPU", "Task Environment"]);
    assert_eq!(space.errors, Vec::<String>::new());
    let lines = lines(&space.planes[0]);
    let environment = stats_of(&space.planes[1].stats, &space.planes[1]).into_iter().collect();
    (lines, space.warnings, environment)
}

fn lines(plane: &XPlane) -> Vec<Line> {
    let event = |event: &zprof_proto::XEvent| {
        let kind = &plane.event_metadata[&event.metadata_id];
        let Some(Data::OffsetPs(start_ps)) = event.data else { panic!("an event without a time: {event:?}") };
        Event {
            name: kind.name.clone(),
            start_ps,
            end_ps: start_ps + event.duration_ps,
            stats: stats_of(&event.stats, plane),
            site: stats_of(&kind.stats, plane),
        }
    };
    let line = |line: &zprof_proto::XLine| {
        assert_eq!((line.timestamp_ns, &line.display_name), (0, &line.name));
        Line { id: line.id, name: line.name.clone(), events: line.events.iter().map(event).collect() }
    };
    plane.lines.iter().map(line).collect()
}

fn stats_of(stats: &[XStat], plane: &XPlane) -> Stats {
    let name = |id: i64| plane.stat_metadata[&id].name.clone();
    let stat = |stat: &XStat| {
        let value = match stat.value.clone().expect("a stat has a value") {
            Value::Int64Value(value) => Stat::Int(value),
            Value::Uint64Value(value) => Stat::Uint(value),
            Value::DoubleValue(value) => Stat::Double(value),
            Value::StrValue(value) => Stat::Str(value),
            Value::BytesValue(value) => Stat::Bytes(value),
            Value::RefValue(id) => Stat::Text(name(i64::try_from(id).expect("ids are positive"))),
        };
        (name(stat.metadata_id), value)
    };
    stats.iter().map(stat).collect()
}

/// Unix time of a session's start, in ns.
///
/// # Panics
///
/// Panics if the space does not say it.
#[must_use]
pub fn start_ns(space: &XSpace) -> i64 {
    let environment = space.planes.iter().find(|plane| plane.name == "Task Environment").expect("the session's plane");
    let stats = stats_of(&environment.stats, environment);
    match stats.into_iter().find(|(name, _)| name == "profile_start_time") {
        Some((_, Stat::Uint(start))) => i64::try_from(start).expect("this century"),
        other => panic!("the start is {other:?}"),
    }
}
