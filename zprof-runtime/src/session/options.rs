//! What a session records and where it writes.

use std::path::PathBuf;
use std::time::Duration;

use zprof_proto::prost::Message as _;
use zprof_proto::{AdvancedConfigValue, ProfileOptions, TraceOptions, advanced_config_value};

/// Where profiles go if nobody says where.
pub(crate) const DEFAULT_PLACE: &str = "/tmp/xprof";

/// Options of a profiling session. Field names and defaults are those of ZML's profiler, which mirror TensorFlow's
/// `ProfileOptions`; each field but `version` has a setter of its own name, which takes the bare value.
///
/// ```
/// # extern crate zprof_runtime as zprof;
/// use zprof::ProfilerOptions;
///
/// let options = ProfilerOptions::default().repository_path("/tmp/profiles").session_id("run-7").host_tracer_level(2);
/// assert_eq!(options.device_tracer_level, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfilerOptions {
    /// Version of the options, 1; plugins discard options of version 0.
    pub version: u32,
    /// Folder that holds `plugins/profile/<session_id>/`: the log directory that XProf is pointed at.
    /// `/tmp/xprof` if not given; where that is not this user's alone, `/tmp/xprof-<uid>` takes its place.
    pub repository_path: PathBuf,
    /// Name of the run's folder. `profiling` if not given; a second run of one name replaces the first. The start refuses a
    /// name that a file of Windows cannot have, on every system: `12:30`, `a/b`, `CON` or `a.`, for example.
    pub session_id: SessionId,
    /// Which accelerator the plugin should profile. Unspecified if not given.
    pub device_type: DeviceType,
    /// Whether to keep `tf.data` operations (a plugin's option). True if not given.
    pub include_dataset_ops: bool,
    /// Level up to which host scopes are recorded: 0 none, 1 critical, 2 info, 3 and above all. 3 if
    /// not given; 255 at most.
    pub host_tracer_level: u32,
    /// Level of the plugin's device tracer: 0 off. 3 if not given.
    pub device_tracer_level: u32,
    /// Level of the plugin's Python tracer: 0 off. 1 if not given.
    pub python_tracer_level: u32,
    /// Whether the plugin puts HLO modules into the profile. True if not given.
    pub enable_hlo_proto: bool,
    /// Unix time at which the plugin's session shall start, in ns.
    pub start_timestamp_ns: Option<u64>,
    /// How long the plugin's session shall last, in ms; until the stop if not given.
    pub duration_ms: Option<u64>,
    /// Filter mask: a scope with `filter = N` is recorded only if bit N is set, a scope without a filter if any is. All
    /// scopes are recorded if no mask is given.
    pub host_traceme_filter_mask: Option<u64>,
    /// Levels of single modules, as `my_crate::io=verbose,other=off`; see [the setter](Self::directives()). None if not
    /// given.
    pub directives: String,
    /// A plugin's own options. None if not given.
    pub advanced_configuration: Vec<(String, AdvancedValue)>,
    /// Whether a plugin that cannot start is an error; else it is a warning, and the host is profiled alone. False if
    /// not given.
    pub raise_error_on_start_failure: bool,
    /// Host part of the file names; several hosts that write one run need one each. The rule for names is that of
    /// `session_id`. If not given, it is `rank<N>` where a launcher has told the process its rank, as SLURM, MPI, torchrun and
    /// JAX do by variables of the environment, and else `profiling`. While another session writes under the same name, `_<pid>`
    /// is added.
    pub override_hostname: Option<String>,
    /// How long records are kept, for sessions that run on and on: what is older goes, and its memory is used anew. What is
    /// open stays, however long. All is kept if not given.
    pub keep_last: Option<Duration>,
    /// How many bytes of records are kept of each thread, 24 to 48 for a usual scope; of that thread the rest goes, the
    /// oldest first. Two chunks of 64 KiB more may be kept. Threads that have ended have together as much as the most threads
    /// that have recorded at once; those that ended first go. All is kept if not given. Where `keep_last` is given too, the
    /// tighter of the two holds.
    pub keep_last_bytes: Option<usize>,
    /// Whether a panic leaves a [`snapshot`](crate::snapshot) of what was recorded until it began. The program's panic hook runs
    /// next, however long it prints a backtrace, and then the snapshot is written before the panic goes on. A hook that is set after
    /// the first start of such a session replaces this; one that then calls the earlier hook should do so first. Of panics that follow one another within ten seconds the first, and 16 in a
    /// session. False if not given.
    pub snapshot_on_panic: bool,
    /// Whether the trace-viewer JSON is written beside the XSpace at a stop and at a snapshot. It takes several times the XSpace's bytes
    /// and most of a stop; `zprof convert` makes it later. True if not given.
    pub trace_json: bool,
    /// What the recorder may allocate in the whole process, in bytes. Scopes beyond are dropped and counted.
    /// 256 MiB if not given; 64 KiB at least. With `keep_last` or `keep_last_bytes`, rings have 7/16 of it, and the oldest
    /// records go where that is not enough; what snapshots hold has as much again.
    pub max_buffer_bytes: usize,
    /// How much of it is made ready at start, in bytes, so that the first scopes meet no page fault. 32 MiB if
    /// not given; `max_buffer_bytes` is the most.
    pub prefault_bytes: usize,
    /// The one file that shall hold the XSpace, in place of one in a run's folder. Asked for by the environment only.
    pub(crate) file: Option<PathBuf>,
    /// Whether the environment has set them, so that messages are to name its variables.
    pub(crate) is_from_env: bool,
    /// Takes ticks from the system's clock, also where there is a counter that can be trusted: the environment may say so.
    pub(crate) system_clock: bool,
}

/// Name of a run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionId {
    /// This name; a second run of the same name replaces the first.
    Named(String),
    /// A name of the session's UTC start time and the process id, such as `2026_11_29_16_22_52_4711`, and `_2` and so on
    /// behind it where a run of that name is there already.
    Unique,
}

impl<S: Into<String>> From<S> for SessionId {
    fn from(name: S) -> Self {
        Self::Named(name.into())
    }
}

/// Kinds of accelerators, as `ProfileOptions.device_type` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceType {
    /// Whatever the plugin drives.
    #[default]
    Unspecified,
    /// The processor.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// A tensor processing unit.
    Tpu,
    /// A device of a pluggable kind.
    PluggableDevice,
}

/// A value of `ProfileOptions.advanced_configuration`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdvancedValue {
    /// Text.
    String(String),
    /// A switch.
    Bool(bool),
    /// A number.
    Int64(i64),
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self {
            version: 1,
            repository_path: PathBuf::from(DEFAULT_PLACE),
            session_id: SessionId::Named("profiling".to_owned()),
            device_type: DeviceType::Unspecified,
            include_dataset_ops: true,
            host_tracer_level: 3,
            device_tracer_level: 3,
            python_tracer_level: 1,
            enable_hlo_proto: true,
            start_timestamp_ns: None,
            duration_ms: None,
            host_traceme_filter_mask: None,
            directives: String::new(),
            advanced_configuration: Vec::new(),
            raise_error_on_start_failure: false,
            override_hostname: None,
            max_buffer_bytes: 256 << 20,
            prefault_bytes: 32 << 20,
            file: None,
            is_from_env: false,
            system_clock: false,
            keep_last: None,
            keep_last_bytes: None,
            snapshot_on_panic: false,
            trace_json: true,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $value:expr;)*) => {
        /// Setters, each of which sets the field of its name.
        impl ProfilerOptions {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $value;
                self
            }
        )*}
    };
}

setters! {
    /// Sets [`repository_path`](Self#structfield.repository_path).
    repository_path: impl Into<PathBuf> => repository_path.into();
    /// Sets [`session_id`](Self#structfield.session_id).
    session_id: impl Into<SessionId> => session_id.into();
    /// Sets [`device_type`](Self#structfield.device_type).
    device_type: DeviceType => device_type;
    /// Sets [`include_dataset_ops`](Self#structfield.include_dataset_ops).
    include_dataset_ops: bool => include_dataset_ops;
    /// Sets [`host_tracer_level`](Self#structfield.host_tracer_level).
    host_tracer_level: u32 => host_tracer_level;
    /// Sets [`device_tracer_level`](Self#structfield.device_tracer_level).
    device_tracer_level: u32 => device_tracer_level;
    /// Sets [`python_tracer_level`](Self#structfield.python_tracer_level).
    python_tracer_level: u32 => python_tracer_level;
    /// Sets [`enable_hlo_proto`](Self#structfield.enable_hlo_proto).
    enable_hlo_proto: bool => enable_hlo_proto;
    /// Sets [`start_timestamp_ns`](Self#structfield.start_timestamp_ns).
    start_timestamp_ns: u64 => Some(start_timestamp_ns);
    /// Sets [`duration_ms`](Self#structfield.duration_ms).
    duration_ms: u64 => Some(duration_ms);
    /// Sets [`host_traceme_filter_mask`](Self#structfield.host_traceme_filter_mask).
    host_traceme_filter_mask: u64 => Some(host_traceme_filter_mask);
    /// Sets [`directives`](Self#structfield.directives): `module::path=level`, with commas between. A module goes by the
    /// longest path that is its own or leads to it, by whole names, and `level` alone is for all that no path leads to; where
    /// that is not said, they go by `host_tracer_level`. A level is `off`, `critical`, `info` or `verbose`, and may be more
    /// detailed than `host_tracer_level` or less. A package's name may be written with `-`, as it is in `Cargo.toml`.
    ///
    /// A mark's module is the one it stands in. `host_traceme_filter_mask` is asked as well; tools see all marks.
    /// [`Platform::profiler`](crate::Platform::profiler) refuses what it cannot read.
    ///
    /// ```
    /// # extern crate zprof_runtime as zprof;
    /// use zprof::{Platform, ProfilerOptions};
    ///
    /// let options = ProfilerOptions::default().directives("off, my_crate=info, my_crate::io=verbose");
    /// assert!(Platform::host().profiler(options).is_ok());
    /// let error = Platform::host().profiler(ProfilerOptions::default().directives("my_crate=loud")).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "failed to read directive 1 of `my_crate=loud`: `loud` in `my_crate=loud` is no level; write `off`, `critical`, `info` \
    ///      or `verbose`"
    /// );
    /// ```
    directives: impl Into<String> => directives.into();
    /// Sets [`advanced_configuration`](Self#structfield.advanced_configuration).
    advanced_configuration: Vec<(String, AdvancedValue)> => advanced_configuration;
    /// Sets [`raise_error_on_start_failure`](Self#structfield.raise_error_on_start_failure).
    raise_error_on_start_failure: bool => raise_error_on_start_failure;
    /// Sets [`override_hostname`](Self#structfield.override_hostname).
    override_hostname: impl Into<String> => Some(override_hostname.into());
    /// Sets [`max_buffer_bytes`](Self#structfield.max_buffer_bytes).
    max_buffer_bytes: usize => max_buffer_bytes;
    /// Sets [`prefault_bytes`](Self#structfield.prefault_bytes).
    prefault_bytes: usize => prefault_bytes;
    /// Sets [`keep_last`](Self#structfield.keep_last).
    keep_last: Duration => Some(keep_last);
    /// Sets [`keep_last_bytes`](Self#structfield.keep_last_bytes).
    keep_last_bytes: usize => Some(keep_last_bytes);
    /// Sets [`snapshot_on_panic`](Self#structfield.snapshot_on_panic).
    snapshot_on_panic: bool => snapshot_on_panic;
    /// Sets [`trace_json`](Self#structfield.trace_json).
    trace_json: bool => trace_json;
}

impl ProfilerOptions {
    /// What messages call an option: the environment's variable where that has set it.
    pub(crate) fn named(&self, option: &'static str) -> &'static str {
        match option {
            "session_id" if self.is_from_env => "ZPROF_SESSION",
            "max_buffer_bytes" if self.is_from_env => "ZPROF_BUFFER",
            "directives" if self.is_from_env => "ZPROF_FILTER",
            _ => option,
        }
    }

    /// The options as a serialised `tensorflow.ProfileOptions`, for plugins and for the profile itself.
    pub(crate) fn to_proto(&self, session_id: &str) -> Vec<u8> {
        let mask = self.host_traceme_filter_mask;
        let advanced = self.advanced_configuration.iter().map(|(key, value)| (key.clone(), value.to_proto()));
        let options = ProfileOptions {
            version: self.version,
            device_type: self.device_type as i32,
            include_dataset_ops: self.include_dataset_ops,
            host_tracer_level: self.host_tracer_level,
            device_tracer_level: self.device_tracer_level,
            python_tracer_level: self.python_tracer_level,
            enable_hlo_proto: self.enable_hlo_proto,
            start_timestamp_ns: self.start_timestamp_ns.unwrap_or_default(),
            duration_ms: self.duration_ms.unwrap_or_default(),
            repository_path: self.repository_path.to_string_lossy().into_owned(),
            trace_options: mask.map(|host_traceme_filter_mask| TraceOptions { host_traceme_filter_mask }),
            advanced_configuration: advanced.collect(),
            raise_error_on_start_failure: self.raise_error_on_start_failure,
            session_id: session_id.to_owned(),
            override_hostname: self.override_hostname.clone().unwrap_or_default(),
            enable_multipass: false,
        };
        options.encode_to_vec()
    }
}

impl AdvancedValue {
    fn to_proto(&self) -> AdvancedConfigValue {
        use advanced_config_value::Value;
        let value = match self {
            Self::String(text) => Value::StringValue(text.clone()),
            Self::Bool(value) => Value::BoolValue(*value),
            Self::Int64(value) => Value::Int64Value(*value),
        };
        AdvancedConfigValue { value: Some(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_zmls() {
        let expected = b"\x08\x01\x10\x03\x18\x03\x20\x01\x28\x01\x38\x01\x52\x0a/tmp/xprof\x72\x09profiling";
        let written = ProfileOptions::decode(ProfilerOptions::default().to_proto("profiling").as_slice());
        assert_eq!(written, ProfileOptions::decode(expected.as_slice()));
    }

    #[test]
    fn every_field_goes_out() {
        let options = ProfilerOptions::default()
            .device_type(DeviceType::Gpu)
            .host_tracer_level(0)
            .start_timestamp_ns(5)
            .duration_ms(6)
            .host_traceme_filter_mask(1)
            .advanced_configuration(vec![("enable_continuous_profiling".to_owned(), AdvancedValue::Bool(true))])
            .raise_error_on_start_failure(true)
            .override_hostname("h");
        let written = ProfileOptions::decode(options.to_proto("s").as_slice()).expect("a message");
        let expected = ProfileOptions {
            version: 1,
            device_type: 2,
            include_dataset_ops: true,
            host_tracer_level: 0,
            device_tracer_level: 3,
            python_tracer_level: 1,
            enable_hlo_proto: true,
            start_timestamp_ns: 5,
            duration_ms: 6,
            repository_path: "/tmp/xprof".to_owned(),
            trace_options: Some(TraceOptions { host_traceme_filter_mask: 1 }),
            advanced_configuration: [("enable_continuous_profiling".to_owned(), AdvancedValue::Bool(true).to_proto())]
                .into(),
            raise_error_on_start_failure: true,
            session_id: "s".to_owned(),
            override_hostname: "h".to_owned(),
            enable_multipass: false,
        };
        assert_eq!(written, expected);
    }
}
