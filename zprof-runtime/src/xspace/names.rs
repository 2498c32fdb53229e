//! Names of planes and stats that readers of an XSpace look for.

/// The plane of the host's threads.
pub(crate) const HOST_CPU: &str = "/host:CPU";
/// The host plane of NVTX ranges, whose line ids are not those of the other host planes.
pub(crate) const HOST_NVTX: &str = "/host:NVTX-CUPTI";
/// Planes whose lines are threads of the host and end up in [`HOST_CPU`].
pub(crate) const HOST_SOURCES: [&str; 5] =
    ["/host:TPU-runtime", "/host:CUPTI", "/host:python-tracer", "/host:ROCTRACER", HOST_CPU];
/// The plane that holds facts about the session and no lines.
pub(crate) const TASK_ENVIRONMENT: &str = "Task Environment";

/// Stat of a plane: the operating system's id of the process, as a signed integer.
pub(crate) const PROCESS_ID: &str = "process_id";
/// Stat of [`TASK_ENVIRONMENT`]: the name of the program that was profiled. Its process id is there as [`PROCESS_ID`].
pub(crate) const PROCESS_NAME: &str = "process_name";
/// Stat of [`TASK_ENVIRONMENT`]: the start of the session, in unsigned nanoseconds since the Unix epoch.
pub(crate) const PROFILE_START_TIME: &str = "profile_start_time";
/// Stat of [`TASK_ENVIRONMENT`]: the end of the session, in unsigned nanoseconds since the Unix epoch.
pub(crate) const PROFILE_STOP_TIME: &str = "profile_stop_time";
/// Stat of [`TASK_ENVIRONMENT`]: the serialised options of the session.
pub(crate) const PROFILE_OPTIONS: &str = "profile_options";

/// Stat of an event: the kernel's id of its thread, where the line has another.
pub(crate) const TID: &str = "tid";
