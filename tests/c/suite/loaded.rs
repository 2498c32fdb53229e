//! Libraries that are loaded while the program runs: one that uses the program's zprof, and one that is a second copy of it.

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::process::Command;
use std::ptr;

use libloading::{Library, Symbol};
use zprof::{Platform, ProfilerOptions};
use zprof_c::Handle;
use zprof_c::abi::{OPTIONS_INIT, Options, Profile, Scope, Site, status};
use zprof_tests::profile::{Recorded, exclusive, read_file, recorded, stats};

use crate::build::{C99, Linked, WARNINGS, installed, package, program, run};

#[test]
fn a_library_in_c_records_into_the_program_that_loads_it() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let library = folder.path().join("libloaded.so");
    let mut command = Command::new(C99[0]);
    command.args(&C99[1..]).args(WARNINGS).args(["-shared", "-fPIC"]).arg(package().join("programs/loaded.c"));
    run(command.arg("-I").arg(installed().join("include")).arg("-o").arg(&library));
    // SAFETY: the library has no initialisers.
    let library = unsafe { Library::new(library) }.expect("it can be loaded");
    // SAFETY: the library declares the symbol with this type.
    let work: Symbol<'_, extern "C" fn(c_int)> = unsafe { library.get(b"loaded_work") }.expect("it is there");
    let recorded = recorded(|| {
        zprof::scope!("program");
        work(7);
    });
    assert_eq!(recorded.own_line().tree(), "program(loaded)");
    assert_eq!(recorded.own_line().event("loaded").stats, stats([("number", 7.into())]));
    // Its sites are in it.
    std::mem::forget(library);
}

/// The second copy's functions.
struct Copy(Library);

impl Copy {
    fn get<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: each use below names the type that the library declares.
        unsafe { self.0.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// The warning of a profile about another copy, which is in this file.
fn other_copy(object: &Path) -> String {
    format!(
        "another copy of zprof in this process, in `{}`, has sessions of its own: its scopes are in its own profiles and not in \
         this one",
        object.display()
    )
}

/// This text with the whole path of the program, which the loader may call as it was called.
fn real(text: &str) -> String {
    let mut parts: Vec<String> = text.split('`').map(str::to_owned).collect();
    let path = std::fs::canonicalize(&parts[1]).expect("it is a file");
    parts[1] = path.display().to_string();
    parts.join("`")
}

/// Of two copies that write one run, the later one has a name of its own.
#[test]
fn two_copies_do_not_replace_the_files_of_each_other() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // SAFETY: the library's initialisers are those of Rust.
    let copy = Copy(unsafe { Library::new(installed().join("lib/libzprof.so")) }.expect("it can be loaded"));
    let path = CString::new(folder.path().to_str().expect("it is UTF-8")).expect("no NUL in it");
    let options = Options { repository_path: path.as_ptr(), ..OPTIONS_INIT };
    let new: Symbol<'_, unsafe extern "C" fn(*const Options, *mut *mut Handle) -> c_int> =
        copy.get("zprof_profiler_new");
    let start: Symbol<'_, unsafe extern "C" fn(*mut Handle) -> c_int> = copy.get("zprof_profiler_start");
    let stop: Symbol<'_, unsafe extern "C" fn(*mut Handle, *mut Profile) -> c_int> = copy.get("zprof_profiler_stop");
    let free: Symbol<'_, unsafe extern "C" fn(*mut Handle)> = copy.get("zprof_profiler_free");
    let _place = exclusive();
    let ours = ProfilerOptions::default().repository_path(folder.path());
    let mut ours = Platform::host().profiler(ours).expect("the options can work");
    ours.start().expect("the place is free");
    let mut theirs: *mut Handle = ptr::null_mut();
    // SAFETY: options and place are there.
    assert_eq!(unsafe { new(&raw const options, &raw mut theirs) }, status::OK);
    // SAFETY: the profiler was made above.
    assert_eq!(unsafe { start(theirs) }, status::OK);
    zprof::scope!("in the program", {});
    // SAFETY: the profiler was made above, and no profile is wanted.
    assert_eq!(unsafe { stop(theirs, ptr::null_mut()) }, status::OK);
    // SAFETY: it is not used any more.
    unsafe { free(theirs) };
    let ours = Recorded::of(ours.stop().expect("it is written").expect("it ran"));
    assert_eq!(ours.own_line().tree(), "in the program");

    let run = folder.path().join("plugins/profile/profiling");
    let own = std::process::id();
    let files = [format!("profiling_{own}"), "profiling".to_owned()].map(|host| run.join(format!("{host}.xplane.pb")));
    assert_eq!(ours.profile.protobuf_path, files[1]);
    let (lines, warnings, _) = read_file(&files[0]);
    assert_eq!(lines.len(), 0);
    let [_, taken] = warnings.as_slice() else { panic!("{warnings:?}") };
    let said = format!(
        "another copy of zprof in this process, in `{}`, writes `{}`; this profile is beside it, in `{}`",
        std::env::current_exe().expect("a running program has a path").display(),
        files[1].display(),
        files[0].display()
    );
    assert_eq!(real(taken), said);
    std::mem::forget(copy);
}

#[test]
fn a_second_copy_in_the_process_has_a_recorder_and_a_session_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // SAFETY: the library's initialisers are those of Rust.
    let copy = Copy(unsafe { Library::new(installed().join("lib/libzprof.so")) }.expect("it can be loaded"));
    let path = CString::new(folder.path().to_str().expect("it is UTF-8")).expect("no NUL in it");
    let options = Options { repository_path: path.as_ptr(), ..OPTIONS_INIT };
    let site = Site {
        name: c"in the copy".as_ptr(),
        module: ptr::null(),
        file: ptr::null(),
        cache: ptr::null_mut::<zprof_c::Variant>().into(),
        filter: 0,
        line: 0,
        level: 1,
    };
    let mut profiler: *mut Handle = ptr::null_mut();
    let new: Symbol<'_, unsafe extern "C" fn(*const Options, *mut *mut Handle) -> c_int> =
        copy.get("zprof_profiler_new");
    // SAFETY: options and place are there.
    assert_eq!(unsafe { new(&raw const options, &raw mut profiler) }, status::OK);
    let start: Symbol<'_, unsafe extern "C" fn(*mut Handle) -> c_int> = copy.get("zprof_profiler_start");
    let named: Symbol<'_, unsafe extern "C" fn(*const c_char, *const u8, usize) -> Scope> =
        copy.get("zprof_begin_named");
    let begin: Symbol<'_, unsafe extern "C" fn(*const Site, *const u8, usize) -> Scope> = copy.get("zprof_begin");
    let end: Symbol<'_, unsafe extern "C" fn(Scope) -> bool> = copy.get("zprof_end");
    let ours = recorded(|| {
        // SAFETY: the profiler was made above.
        assert_eq!(unsafe { start(profiler) }, status::OK);
        zprof::scope!("in the program");
        // SAFETY: the site lives until the session is read, and there are no arguments.
        let outer = unsafe { begin(&raw const site, ptr::null(), 0) };
        // SAFETY: the name ends at a NUL, and there are no arguments.
        let inner = unsafe { named(c"by name".as_ptr(), ptr::null(), 0) };
        // A number of one copy means nothing to the other.
        // SAFETY: it is a scope.
        assert!(!unsafe { zprof_c::zprof_end(inner) });
        // SAFETY: they are the copy's.
        assert!(unsafe { end(inner) });
        // SAFETY: as above.
        assert!(unsafe { end(outer) });
    });
    assert_eq!(ours.own_line().tree(), "in the program");
    let library = installed().join("lib/libzprof.so");
    assert_eq!(ours.warnings, [other_copy(&library)]);
    let stop: Symbol<'_, unsafe extern "C" fn(*mut Handle, *mut Profile) -> c_int> = copy.get("zprof_profiler_stop");
    // SAFETY: the profiler was made above, and no profile is wanted.
    assert_eq!(unsafe { stop(profiler, ptr::null_mut()) }, status::OK);
    let free: Symbol<'_, unsafe extern "C" fn(*mut Handle)> = copy.get("zprof_profiler_free");
    // SAFETY: it is not used any more.
    unsafe { free(profiler) };
    let (lines, warnings, _) = read_file(&folder.path().join("plugins/profile/profiling/profiling.xplane.pb"));
    let program = std::env::current_exe().expect("a running program has a path");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(real(&warnings[0]), other_copy(&program));
    let trees: Vec<String> = lines.iter().map(|line| line.tree()).collect();
    assert_eq!(trees, ["in the copy(by name)"]);
    // It has left destructors with this thread.
    std::mem::forget(copy);
}

#[test]
fn two_copies_that_the_environment_asks_for_say_what_a_signal_does() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = program(C99, "copies.c", Linked::Static, &["-ldl"], folder.path());
    let library = installed().join("lib/libzprof.so");
    let logs = folder.path().join("logs");
    let mut command = Command::new(&program);
    command.arg(&library).env("ZPROF", &logs).env("ZPROF_SESSION", "run").env("ZPROF_PJRT", "off");
    for name in ["RANK", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    let (stdout, stderr) = run(&mut command);
    assert_eq!(stdout, "1 1\n");
    let run = logs.join("plugins/profile/run");
    let mut names: Vec<String> = std::fs::read_dir(&run)
        .expect("the run is there")
        .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let process = names[2].strip_prefix("profiling_").and_then(|rest| rest.strip_suffix(".trace.json"));
    let host = format!("profiling_{}", process.expect("a number stands there"));
    let pair = |host: &str| [format!("{host}.trace.json"), format!("{host}.xplane.pb")];
    assert_eq!(names, [pair("profiling"), pair(&host)].concat());

    let [first, second] = ["profiling", &host].map(|host| run.join(format!("{host}.xplane.pb")));
    let place = format!(
        "another copy of zprof in this process, in `{}`, writes `{}`; this profile is beside it, in `{}`",
        program.display(),
        first.display(),
        second.display()
    );
    let signal = format!(
        "another copy of zprof in this process, in `{}`, has a session of its own: a signal that ends the process may finish that \
         one's profile alone",
        program.display()
    );
    let mut lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.remove(0), format!("zprof: warning: {signal}"), "at its start");
    let mut expected = vec![
        format!("zprof: warning: {}", other_copy(&program)),
        format!("zprof: warning: {}", other_copy(&library)),
        format!("zprof: warning: {place}"),
        format!("zprof: {} (0 scopes)", first.display()),
        format!("zprof: {} (0 scopes)", second.display()),
    ];
    expected.sort();
    // The copies finish in an order of their own.
    lines.sort_unstable();
    assert_eq!(lines, expected);
}
