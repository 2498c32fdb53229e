//! Sessions: one at a time, again and again, dropped while they run, named, and refused where they cannot work.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use zprof::{Error, ErrorKind, Platform, Profiler, ProfilerOptions, SessionId};
use zprof_tests::profile::{Recorded, Session, exclusive, read_file, stats};

fn profiler(folder: &Path) -> Profiler {
    Platform::host().profiler(ProfilerOptions::default().repository_path(folder)).expect("the options can work")
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Kind and text of an error with its causes.
fn told(error: &Error) -> (ErrorKind, String) {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    (error.kind(), format!("{error}{cause}"))
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("failed to list {}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("the listing can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_second_start_is_refused_and_changes_nothing() {
    let other = temporary();
    let mut first = Session::new(ProfilerOptions::default().host_traceme_filter_mask(1 << 3));
    let options = ProfilerOptions::default().host_tracer_level(1).session_id("other").repository_path(other.path());
    let mut second = Platform::host().profiler(options).expect("the options can work");
    first.start();
    let refused = (
        ErrorKind::AlreadyActive,
        "failed to start the profiler: another profiler of this process is running; stop it first".to_owned(),
    );
    assert_eq!(told(&second.start().expect_err("one session at a time")), refused);
    assert_eq!(told(&first.profiler.start().expect_err("it is running already")), refused);
    assert_eq!((first.profiler.is_running(), second.is_running()), (true, false));
    assert!(second.stop().expect("there is nothing to stop").is_none());
    zprof::scope!("passes", level = verbose, filter = 3, {});
    zprof::scope!("does not", filter = 4, {});
    assert_eq!(first.stop().own_line().told(), [("passes", &stats([]))]);
    assert_eq!(names(other.path()), [""; 0]);

    second.start().expect("the place is free again");
    zprof::scope!("critical", {});
    zprof::scope!("info", level = info, {});
    let recorded = Recorded::of(second.stop().expect("it is written").expect("it ran"));
    assert_eq!(recorded.own_line().told(), [("critical", &stats([]))]);
    assert!(recorded.profile.protobuf_path.ends_with("plugins/profile/other/profiling.xplane.pb"));
}

#[test]
fn stop_without_start_is_none() {
    let mut session = Session::new(ProfilerOptions::default());
    assert!(session.profiler.stop().expect("there is nothing to stop").is_none());
    session.start();
    session.stop();
    assert!(session.profiler.stop().expect("it is stopped").is_none());
    assert_eq!(names(session.folder()), ["plugins"]);
}

#[test]
fn a_profile_says_what_it_has() {
    let mut session = Session::new(ProfilerOptions::default().session_id("run 7").override_hostname("node-1"));
    session.start();
    std::thread::spawn(|| {
        zprof::scope!("elsewhere");
    })
    .join()
    .expect("the thread ends well");
    for _ in 0..3 {
        zprof::scope!("here");
    }
    let recorded = session.stop();
    let profile = &recorded.profile;
    let folder = session.folder().join("plugins/profile/run 7");
    assert_eq!(profile.protobuf_path, folder.join("node-1.xplane.pb"));
    assert_eq!(profile.perfetto_path, Some(folder.join("node-1.trace.json")));
    assert_eq!(names(&folder), ["node-1.trace.json", "node-1.xplane.pb"]);
    assert_eq!((profile.scopes, profile.threads, profile.dropped_scopes, &profile.warnings), (4, 2, 0, &vec![]));
    let phases: Vec<&str> = profile.phases.iter().map(|(name, _)| *name).collect();
    assert_eq!(phases, ["stop", "convert", "plugin", "write XSpace", "write JSON"]);
    let length_ps = i128::from(recorded.length_ps());
    let duration_ps = i128::try_from(profile.duration.as_nanos() * 1000).expect("sessions are short");
    assert_eq!(duration_ps, length_ps);
}

#[test]
fn a_relative_path_gives_absolute_ones() {
    let _place = exclusive();
    let folder = temporary();
    // Tests of other threads read relative paths too, so that the working directory stays: a way to the folder from it.
    let here = std::env::current_dir().expect("there is a working directory");
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(folder.path().strip_prefix("/").expect("temporary folders are absolute"));
    assert!(relative.is_relative());
    let mut profiler = profiler(&relative);
    profiler.start().expect("it starts");
    let profile = profiler.stop().expect("it is written").expect("it ran");
    for path in [&profile.protobuf_path, profile.perfetto_path.as_ref().expect("there is a JSON")] {
        assert!(path.is_absolute() && path.is_file(), "{profile:?}");
    }
}

#[test]
fn without_trace_json_there_is_the_xspace_alone_and_an_older_json_goes() {
    let folder = temporary();
    let run = folder.path().join("plugins/profile/profiling");
    let _place = exclusive();
    let record = |trace_json: bool| {
        let options = ProfilerOptions::default().repository_path(folder.path()).trace_json(trace_json);
        let mut profiler = Platform::host().profiler(options).expect("the options are right");
        profiler.start().expect("nothing else runs");
        zprof::scope!("work", {});
        let snapshot = profiler.snapshot().expect("it is written").expect("it runs");
        let profile = profiler.stop().expect("it is written").expect("it ran");
        assert_eq!(profile.phases.iter().any(|phase| phase.0 == "write JSON"), trace_json);
        assert_eq!((snapshot.warnings, profile.warnings), (vec![], vec![]));
        [snapshot.perfetto_path.is_some(), profile.perfetto_path.is_some()]
    };
    assert_eq!(
        (record(true), names(&run)),
        ([true; 2], vec!["profiling.trace.json".to_owned(), "profiling.xplane.pb".to_owned()])
    );
    assert_eq!((record(false), names(&run)), ([false; 2], vec!["profiling.xplane.pb".to_owned()]));
}

#[test]
fn a_profiler_that_is_dropped_while_it_runs_writes() {
    let _place = exclusive();
    let folder = temporary();
    let mut running = profiler(folder.path());
    running.start().expect("it starts");
    zprof::scope!("kept", {});
    drop(running);
    let (lines, ..) = read_file(&folder.path().join("plugins/profile/profiling/profiling.xplane.pb"));
    assert_eq!(lines.iter().map(|line| line.names()).collect::<Vec<_>>(), [["kept"]]);
    assert!(folder.path().join("plugins/profile/profiling/profiling.trace.json").is_file());
    let mut next = profiler(folder.path());
    next.start().expect("the place is free again");
}

#[test]
fn unique_runs_differ_however_fast_they_follow() {
    let mut session = Session::new(ProfilerOptions::default().session_id(SessionId::Unique));
    for round in 0..5 {
        session.start();
        zprof::scope!("round", round, {});
        assert_eq!(session.stop().own_line().told(), [("round", &stats([("round", round.into())]))]);
    }
    let runs = names(&session.folder().join("plugins/profile"));
    assert_eq!(runs.len(), 5, "{runs:?}");
    let process = std::process::id().to_string();
    for run in &runs {
        let parts: Vec<&str> = run.split('_').collect();
        assert_eq!(parts.iter().take(7).map(|part| part.len()).collect::<Vec<_>>(), [4, 2, 2, 2, 2, 2, process.len()]);
        assert_eq!(parts[6], process);
        let files = names(&session.folder().join("plugins/profile").join(run));
        assert_eq!(files, ["profiling.trace.json", "profiling.xplane.pb"]);
    }
}

#[test]
fn what_was_derived_of_an_older_profile_goes_and_nothing_else() {
    let mut session = Session::new(ProfilerOptions::default());
    let run = session.folder().join("plugins/profile/profiling");
    fs::create_dir_all(&run).expect("the folder can be made");
    let derived = [
        "ALL_HOSTS.op_stats_v2.pb",
        "cache_version.txt",
        "module_1.hlo_proto.pb",
        "profiling.SSTABLE",
        "profiling.metadata.SSTABLE",
        "profiling.trace.json.gz",
        "profiling.trie.SSTABLE",
        ".cached_tools.json",
        "x.dcn_collective_stats.pb",
        "y.smart_suggestion.pb",
    ];
    let foreign = ["notes.txt", "other.SSTABLE", "other.trace.json", "other.xplane.pb", "profiling.trace.json.bak"];
    for name in derived.iter().chain(&foreign).chain(&["profiling.trace.json", "profiling.xplane.pb"]) {
        fs::write(run.join(name), "old").expect("the folder is writable");
    }
    session.start();
    zprof::scope!("new", {});
    assert_eq!(session.stop().own_line().names(), ["new"]);
    let mut expected = [&foreign[..], &["profiling.trace.json", "profiling.xplane.pb"]].concat();
    expected.sort_unstable();
    assert_eq!(names(&run), expected);
    for name in foreign {
        assert_eq!(fs::read(run.join(name)).expect("it is left"), b"old", "{name}");
    }
}

#[test]
#[cfg(target_os = "linux")] // other systems do not show which processes there are
fn what_killed_processes_were_writing_goes_at_the_next_run() {
    let mut session = Session::new(ProfilerOptions::default());
    let run = session.folder().join("plugins/profile/profiling");
    fs::create_dir_all(&run).expect("the folder can be made");
    // No process has the highest number that a process can have; the parent lives.
    let (dead, alive) = (u32::MAX >> 1, std::os::unix::process::parent_id());
    let plant = |name: &str| fs::write(run.join(name), dead.to_string()).expect("the folder is writable");
    let kept = [format!(".zprof-{alive}-0.tmp"), ".zprof-x-0.tmp".to_owned(), "other.lock".to_owned()];
    let gone = [format!(".zprof-{dead}-0.tmp"), format!(".zprof-{dead}-probe.tmp"), ".zprof-other.lock".to_owned()];
    kept.iter().chain(&gone).for_each(|name| plant(name));
    session.start();
    let mut expected = kept.to_vec();
    expected.push(".zprof-profiling.lock".to_owned());
    expected.sort();
    assert_eq!(names(&run), expected);
    session.stop();
    expected = kept.to_vec();
    expected.extend(["profiling.trace.json".to_owned(), "profiling.xplane.pb".to_owned()]);
    expected.sort();
    assert_eq!(names(&run), expected);
}

#[test]
fn options_that_cannot_work_are_refused() {
    let _place = exclusive();
    let folder = temporary();
    let invalid = |options: ProfilerOptions| {
        let error = match Platform::host().profiler(options) {
            Ok(mut profiler) => profiler.start().expect_err("the options cannot work"),
            Err(error) => error,
        };
        assert_eq!((error.kind(), error.source().is_none()), (ErrorKind::InvalidInput, true), "{error:?}");
        error.to_string()
    };
    let options = || ProfilerOptions::default().repository_path(folder.path());
    assert_eq!(invalid(options().session_id("")), "`session_id` is empty: \"\"");
    assert_eq!(invalid(options().session_id("../up")), "`session_id` is a path; give a plain name: \"../up\"");
    assert_eq!(invalid(options().session_id("a\0b")), "`session_id` holds a NUL: \"a\\0b\"");
    assert_eq!(
        invalid(options().override_hostname("a/b")),
        "`override_hostname` is a path; give a plain name: \"a/b\""
    );
    assert_eq!(
        invalid(options().session_id("12:30")),
        "`session_id` holds `:`, which no file name on Windows can have; leave it out: \"12:30\""
    );
    assert_eq!(
        invalid(options().session_id("v1.")),
        "`session_id` ends in a dot or a space, which Windows drops from file names; leave it out: \"v1.\""
    );
    assert_eq!(
        invalid(options().override_hostname("aux.7")),
        "`override_hostname` is the device `aux` on Windows; give another name: \"aux.7\""
    );
    assert_eq!(
        invalid(ProfilerOptions::default().repository_path("")),
        "`repository_path` is empty; give the folder that shall hold `plugins/profile`"
    );
    assert_eq!(invalid(options().host_tracer_level(256)), "`host_tracer_level` is 256; the highest is 255");
    assert_eq!(
        invalid(options().max_buffer_bytes(65_535)),
        "`max_buffer_bytes` is 65535; the least that works is 65536"
    );
    assert_eq!(names(folder.path()), [""; 0], "nothing was made");

    profiler(folder.path()).start().expect("the place is free after a start that failed");
}

#[test]
fn a_folder_that_cannot_be_used_fails_at_the_start() {
    let _place = exclusive();
    let folder = temporary();
    let file = folder.path().join("file");
    fs::write(&file, "a file").expect("the folder is writable");
    // Not even root can make a folder below the last one.
    for path in [&file, &file.join("below"), Path::new("/proc/self")] {
        let error = profiler(path).start().expect_err("the path cannot work");
        let expected = format!(
            "failed to create the profile folder `{}`; check `repository_path`",
            path.join("plugins/profile/profiling").display()
        );
        assert_eq!((error.kind(), error.to_string(), error.source().is_some()), (ErrorKind::Io, expected, true));
    }
    assert_eq!(fs::read(&file).expect("it is left"), b"a file");

    let run = folder.path().join("plugins/profile/profiling");
    fs::create_dir_all(run.parent().expect("it has one")).expect("the folder is writable");
    fs::write(&run, "in the way").expect("the folder is writable");
    let (kind, text) = told(&profiler(folder.path()).start().expect_err("a file is in the way"));
    assert_eq!(kind, ErrorKind::Io);
    assert!(text.contains(&run.display().to_string()), "{text}");
}

#[test]
#[cfg(unix)] // Windows removes no folder that holds a locked file
fn a_folder_that_has_gone_is_made_again() {
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    zprof::scope!("kept", {});
    fs::remove_dir_all(session.folder().join("plugins")).expect("the folder is there");
    assert_eq!(session.stop().own_line().names(), ["kept"]);
}

#[test]
fn a_stop_that_fails_keeps_the_session_for_another() {
    let mut session = Session::new(ProfilerOptions::default());
    let run = session.folder().join("plugins/profile/profiling");
    session.start();
    zprof::scope!("kept", {});
    // The name is taken by a folder that holds something.
    fs::create_dir_all(run.join("profiling.xplane.pb/in the way")).expect("the folder is writable");
    let failed = session.profiler.stop().expect_err("the name is taken");
    let path = run.join("profiling.xplane.pb");
    let draft = run.join(format!(".zprof-{}-0.tmp", std::process::id()));
    assert_eq!(
        (failed.kind(), failed.to_string()),
        (ErrorKind::Io, format!("failed to rename `{}` to `{}`", draft.display(), path.display()))
    );
    assert_eq!(names(&run), [".zprof-profiling.lock", "profiling.xplane.pb"], "no half file is left");
    let refused = (
        ErrorKind::WrongState,
        format!("failed to start the profiler: its last session is not written yet to `{}`; call stop", path.display()),
    );
    assert_eq!(told(&session.profiler.start().expect_err("it would lose the session")), refused);
    assert!(!session.profiler.is_running());

    // Another profiler need not wait for it.
    let other = temporary();
    let mut second = profiler(other.path());
    second.start().expect("the place is free");
    zprof::scope!("second", {});
    let recorded = Recorded::of(second.stop().expect("it is written").expect("it ran"));
    assert_eq!(recorded.own_line().names(), ["second"]);

    fs::remove_dir_all(&path).expect("the folder can be removed");
    assert_eq!(session.stop().own_line().names(), ["kept"]);
    assert_eq!(names(&run), ["profiling.trace.json", "profiling.xplane.pb"]);
    session.start();
}
