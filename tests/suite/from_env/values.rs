//! What the variables are taken for, seen from outside.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message as _;
use zprof_proto::XSpace;
use zprof_tests::fake;
use zprof_tests::profile::{Line, read_hosts};

use super::{Program, names, read_file, told, worked};

#[test]
fn nothing_happens_unless_it_is_asked_for() {
    for value in ["", "0", "off", "false"] {
        let ended = Program::new("threads").with("ZPROF", value).with("ZPROF_LEVEL", "nonsense").run();
        assert_eq!(ended.stdout, "false\n[\"ended\"]\n0\n", "`{value}`");
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    }
    let mut program = Program::new("threads");
    program.command.env_remove("ZPROF");
    assert_eq!(program.run().stdout, "false\n[\"ended\"]\n0\n");
    // And so it is seen that this looks at the right things.
    let ended = Program::new("threads").run();
    assert_eq!(ended.stdout, "true\n[\"ended\", \"zprof-exit\", \"zprof-helper\"]\n2\n");
    // Threads of zprof's are no lines.
    assert_eq!(ended.profile().len(), 1);
}

#[test]
fn a_session_on_the_systems_clock_records_what_one_on_the_counter_does() {
    for part in ["return", "exit 3", "panic", "caught", "crowd"] {
        let [counter, system] = ["auto", "system"].map(|clock| Program::new(part).with("ZPROF_CLOCK", clock).run());
        let (lines, warnings, environment) = read_file(&system.path());
        assert_eq!(warnings, Vec::<String>::new(), "{part}");
        assert_eq!(environment["clock"], "monotonic".into(), "{part}");
        assert_eq!(system.status, counter.status, "{part}");
        let (on_counter, ..) = read_file(&counter.path());
        let names = |lines: &[Line]| lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&lines), names(&on_counter), "{part}");
        // Threads of a crowd go on until the process ends, so only their beginnings are the same.
        let most = if part == "crowd" { 100 } else { usize::MAX };
        for (line, on_counter) in lines.iter().zip(&on_counter) {
            let told = |line: &Line| line.events.iter().take(most).map(|event| event.name.clone()).collect::<Vec<_>>();
            assert_eq!(told(line), told(on_counter), "{part}");
            assert!(line.events.iter().all(|event| event.start_ps <= event.end_ps), "{part}");
        }
        assert_eq!(told(&lines, "main"), told(&on_counter, "main"), "{part}");
    }
    let wrong = Program::new("return").with("ZPROF_CLOCK", "tsc").run();
    assert_eq!(
        wrong.stdout,
        "InvalidInput: no profile: `ZPROF_CLOCK` is `tsc`; it may be `auto` for the processor's counter where it can be \
         trusted, or `system` for the system's clock\n"
    );
}

#[test]
fn two_runs_do_not_overwrite_each_other_unless_they_have_a_name() {
    let first = Program::new("return").run();
    let mut second = Program::new("return");
    second.command.env("ZPROF", first.folder.path());
    second.run();
    assert_eq!(first.runs().len(), 2);
    for _ in 0..2 {
        let mut named = Program::new("return").with("ZPROF_SESSION", "named");
        named.command.env("ZPROF", first.folder.path());
        named.run();
    }
    let runs = first.runs();
    assert_eq!((runs.len(), runs[2].file_name()), (3, Some("named".as_ref())));
}

#[test]
fn a_path_may_be_relative_and_the_program_move() {
    let mut program = Program::new("move").with("ZPROF", "a/b");
    let folder = program.folder.path().to_owned();
    program.command.current_dir(&folder);
    let ended = program.run();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let runs = super::runs(&folder.join("a/b"));
    assert_eq!(told(&read_file(&runs[0].join("profiling.xplane.pb")).0, "main"), worked(&[]));
}

#[test]
fn a_file_is_written_where_it_is_asked_for() {
    let mut program = Program::new("return").with("ZPROF", "new/run.xplane.pb");
    let folder = program.folder.path().to_owned();
    program.command.current_dir(&folder);
    // What a run of XProf's would be cleared of is a stranger's here.
    fs::create_dir(folder.join("new")).expect("it can be made");
    for name in ["model.hlo_proto.pb", "run.trace.json"] {
        fs::write(folder.join("new").join(name), "old").expect("it can be written");
    }
    let ended = program.run();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(names(&folder.join("new")), ["model.hlo_proto.pb", "run.trace.json", "run.xplane.pb"]);
    assert_eq!(told(&read_file(&folder.join("new/run.xplane.pb")).0, "main"), worked(&[]));
    let json = fs::read_to_string(folder.join("new/run.trace.json")).expect("it is there");
    assert!(json.contains("\"work\""), "{json}");
    assert!(ended.only_line().ends_with("/new/run.xplane.pb (3 scopes)"), "{}", ended.stderr);
}

/// What a program says that goes on without a profile; `…` stands for the folder that it was given.
fn refused(name: &str, value: &str) -> String {
    let ended = Program::new("return").with(name, value).run();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "the program goes on");
    assert_eq!(ended.runs(), Vec::<PathBuf>::new());
    ended.stdout.replace(&ended.folder.path().display().to_string(), "…")
}

#[test]
fn wrong_values_are_errors_that_name_them_and_the_program_goes_on() {
    assert_eq!(
        refused("ZPROF_LEVEL", "loud"),
        "InvalidInput: no profile: `ZPROF_LEVEL` is `loud`; it may be `critical`, `info`, `verbose`, or a number from 0, \
         nothing of the host, to 255\n"
    );
    assert_eq!(
        refused("ZPROF_SESSION", "a/b"),
        "InvalidInput: no profile, which `ZPROF=…` asked for: `ZPROF_SESSION` is a path; give a plain name: \"a/b\"\n"
    );
    assert_eq!(
        refused("ZPROF_SESSION", "a:b"),
        "InvalidInput: no profile, which `ZPROF=…` asked for: `ZPROF_SESSION` holds `:`, which no file name on Windows can have; \
         leave it out: \"a:b\"\n"
    );
    for (path, folder, cause) in [
        ("/proc/nowhere", "/proc/nowhere/plugins/profile", "No such file or directory (os error 2)"),
        ("/dev/null/x.xplane.pb", "/dev/null", "Not a directory (os error 20)"),
    ] {
        assert_eq!(
            refused("ZPROF", path),
            format!(
                "Io: no profile, which `ZPROF={path}` asked for: failed to create the profile folder `{folder}`: {cause}; \
                 let `ZPROF` name a place that this program can write to\n"
            )
        );
    }
    let said = refused("ZPROF_PJRT", "/nonexistent/plugin.so");
    let start = "Plugin: no profile, which `ZPROF=…` asked for: failed to load PJRT plugin `/nonexistent/plugin.so`: \
                 /nonexistent/plugin.so: cannot open shared object file";
    assert!(said.starts_with(start), "{said}");
}

/// Sets a terminal's title, begins a line of its own and turns the writing around.
const ACTING: &str = "a\u{1b}]0;t\u{7}\nzprof: well\u{202e}";

#[test]
fn a_run_has_no_name_that_acts_on_a_terminal() {
    let allowed = "the name of a run's folder without control characters and invisible ones";
    for (name, shown) in [(ACTING, "a ]0;t  zprof: well\u{fffd}"), ("a\tb", "a b"), ("a\u{200b}b", "a\u{fffd}b")] {
        assert_eq!(
            refused("ZPROF_SESSION", name),
            format!("InvalidInput: no profile: `ZPROF_SESSION` is `{shown}`; it may be {allowed}\n")
        );
    }
    let shown = "a ]0;t  zprof: well\u{fffd}";
    let said = refused("ZPROF", &format!("/dev/null/{ACTING}"));
    let start =
        format!("Io: no profile, which `ZPROF=/dev/null/{shown}` asked for: failed to create the profile folder ");
    assert!(said.starts_with(&start) && said.lines().count() == 1, "{said}");
}

#[test]
fn what_is_said_at_the_end_is_one_line_whatever_the_folder_is_called() {
    let mut program = Program::new("return");
    let folder = program.folder.path().join(ACTING);
    program.command.env("ZPROF", &folder);
    let ended = program.run();
    let runs = super::runs(&folder);
    let path = runs[0].join("profiling.xplane.pb").display().to_string();
    assert_eq!(ended.only_line(), format!("zprof: {} (3 scopes)", path.replace(ACTING, "a ]0;t  zprof: well\u{fffd}")));
}

/// Planes of a space, in order.
fn planes(path: &Path) -> Vec<String> {
    let space = XSpace::decode(fs::read(path).expect("it is there").as_slice()).expect("it is a space");
    space.planes.into_iter().map(|plane| plane.name).collect()
}

#[test]
fn a_plugin_that_is_asked_for_is_profiled() {
    let program = |pjrt: &Path| Program::new("return").with("ZPROF_PJRT", pjrt).with("ZPROF_FAKE", "space=gpu");
    let whole = ["/host:CPU", "Task Environment", "/device:GPU:0"].map(str::to_owned);
    let host = &whole[..2];
    let ended = program(&fake::library()).run();
    assert_eq!(sorted(planes(&ended.path())), sorted(whole.to_vec()));
    assert_eq!(told(&read_hosts(&ended.path()).0, "main")[..3], worked(&[]));

    let ended = program("on".as_ref()).with("PJRT_PLUGIN_LIBRARY_PATH", fake::library()).run();
    assert_eq!(sorted(planes(&ended.path())), sorted(whole.to_vec()));
    let ended = program("off".as_ref()).with("PJRT_PLUGIN_LIBRARY_PATH", fake::library()).run();
    assert_eq!(sorted(planes(&ended.path())), host);
    let ended = program(&fake::library()).with("SKIP_PJRT_PROFILER", "true").run();
    assert_eq!(sorted(planes(&ended.path())), host);
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[test]
fn levels_buffers_and_silence_reach_the_session() {
    let nothing = Program::new("return").with("ZPROF_LEVEL", "0").with("ZPROF_QUIET", "1").run();
    assert_eq!((nothing.status.code(), nothing.stderr.as_str()), (Some(0), ""));
    assert_eq!(read_file(&nothing.path()).0.len(), 0);

    let small = Program::new("crowd").with("ZPROF_BUFFER", "64K").run();
    let (_, warnings, _) = read_file(&small.path());
    assert!(!warnings.is_empty() && warnings.iter().all(|warning| warning.contains("65536 bytes")), "{warnings:?}");
    assert!(warnings[0].ends_with("; raise `ZPROF_BUFFER`"), "{warnings:?}");
    let told: Vec<String> = warnings.iter().map(|warning| format!("zprof: warning: {warning}")).collect();
    let lines: Vec<&str> = small.stderr.lines().collect();
    assert_eq!(lines[..lines.len() - 1], told);
    let last = lines[lines.len() - 1];
    assert!(last.contains(" scopes, ") && last.ends_with(" dropped)"), "{last}");
}

#[test]
fn what_changes_nothing_is_warned_of() {
    let module = "ended";
    let filter = format!("off,{module}=verbose,endde=verbose");
    let ended = Program::new("return").with("ZPROF_FILTER", filter).with("ZPROF_LEVLE", "info").run();
    let expected = format!(
        "zprof: warning: the variable `ZPROF_LEVLE` is none of zprof's and changes nothing; is `ZPROF_LEVEL` meant?\n\
         zprof: warning: directive `endde=verbose` met no scope that ran; paths of modules are \
         those of `module_path!()`, the crate first, and are no mistake where their scopes did not run\n\
         zprof: {} (3 scopes)\n",
        ended.path().display()
    );
    assert_eq!(ended.stderr, expected);
    // It is for whoever runs the program, and says nothing of what is in the profile.
    let (lines, warnings, _) = read_file(&ended.path());
    assert_eq!((told(&lines, "main"), warnings), (worked(&[]), vec![]));
}

#[test]
fn the_end_is_told_once_also_where_there_is_a_logger() {
    let ended = Program::new("logged").run();
    assert_eq!(ended.stderr, format!("zprof: {} (3 scopes)\n", ended.path().display()));
    let quiet = Program::new("logged").with("ZPROF_QUIET", "1").run();
    assert_eq!(quiet.stderr, format!("INFO: wrote 3 scopes of 1 threads to `{}`\n", quiet.path().display()));
}

#[test]
fn of_many_directives_that_met_nothing_a_few_are_told() {
    let directives: Vec<String> = (10..30).map(|n| format!("m{n}=info")).collect();
    let ended = Program::new("return").with("ZPROF_FILTER", directives.join(",")).run();
    let told: Vec<&str> = ended.stderr.lines().filter_map(|line| line.strip_prefix("zprof: warning: ")).collect();
    assert_eq!(told.len(), 9, "{}", ended.stderr);
    for (line, directive) in told.iter().zip(&directives).take(8) {
        assert!(line.starts_with(&format!("directive `{directive}` met no scope")), "{line}");
    }
    assert_eq!(told[8], "12 more directives met none; `Profile::unmet_directives` has all");
}

#[test]
fn a_logger_may_call_what_tells_it_something() {
    let ended = Program::new("logged").with("ZPROF_NONE", "1").run();
    let expected = format!(
        "WARN: the variable `ZPROF_NONE` is none of zprof's and changes nothing; `init_from_env` documents all\nzprof: {} (3 \
         scopes)\n",
        ended.path().display()
    );
    assert_eq!(ended.stderr, expected);
    assert_eq!(ended.stdout, "true\n");
}

#[test]
fn a_second_call_finds_the_session_running() {
    let ended = Program::new("twice").run();
    assert_eq!(ended.stdout, "true\ntrue true\n");
    assert_eq!(told(&ended.profile(), "main"), worked(&[]));
}

#[test]
fn a_profiler_besides_is_told_whose_the_session_is() {
    let ended = Program::new("explicit").with_folder("explicit").run();
    let expected = "true\nAlreadyActive: failed to start the profiler: the session that `ZPROF` asked for lasts to the end \
                    of the program; unset `ZPROF` to have others\n";
    assert_eq!(ended.stdout, expected);
    assert_eq!(told(&ended.profile(), "main"), worked(&[]));

    let ended = Program::new("explicit-first").with_folder("explicit").run();
    let expected = format!(
        "AlreadyActive: no profile, which `ZPROF={}` asked for: failed to start the profiler: another profiler of this \
         process is running; stop it first\ntrue\n",
        ended.folder.path().display()
    );
    assert_eq!(ended.stdout, expected);
    assert_eq!(told(&ended.profile(), "main"), worked(&[]));
    let explicit = ended.folder.path().join("explicit/plugins/profile/profiling/profiling.xplane.pb");
    assert_eq!(told(&read_file(&explicit).0, "main"), worked(&[]));
}
