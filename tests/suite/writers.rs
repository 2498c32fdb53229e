//! Several processes that write one run: at the same time, one after the other, and as ranks of a job.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use prost::Message as _;
use zprof_proto::XSpace;
use zprof_tests::profile::{Line, Stat, read_file};

/// A guest as the user of this test.
fn guest(part: &[&str]) -> Command {
    let mut command = zprof_tests::program(env!("CARGO_BIN_EXE_guest"));
    command.args(["0", "-"]).args(part);
    for name in ["ZPROF", "ZPROF_SESSION", "RANK", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    command.env("ZPROF_PJRT", "off").env("RUST_BACKTRACE", "0");
    command
}

fn temporary() -> (tempfile::TempDir, String, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().to_string_lossy().into_owned();
    let run = folder.path().join("plugins/profile/profiling");
    (folder, path, run)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A session that lasts until it is ended.
struct Waiting(Child);

impl Waiting {
    fn start(part: &[&str]) -> Self {
        Self::begin(guest(part))
    }

    fn begin(mut command: Command) -> Self {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = pipes.expect("the guest can be run");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        stdout.read_line(&mut line).expect("it writes UTF-8");
        assert_eq!(line, "ready\n");
        child.stdout = Some(stdout.into_inner());
        Self(child)
    }

    /// Its number, and what it said at its end.
    fn end(mut self) -> (u32, String) {
        drop(self.0.stdin.take());
        let mut told = String::new();
        self.0.stdout.take().expect("it is a pipe").read_to_string(&mut told).expect("it writes UTF-8");
        assert!(self.0.wait().expect("it is a child").success());
        (self.0.id(), told)
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it is a child");
    }
}

/// The process whose scope is in a profile.
fn process_of(path: &Path) -> i64 {
    match read_file(path).0.as_slice() {
        [Line { events, .. }] => match events[0].stats.as_slice() {
            [(name, Stat::Int(process))] if name == "process" => *process,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_writer_of_a_run_has_a_name_of_its_own_and_says_so() {
    let (_folder, path, run) = temporary();
    let first = Waiting::start(&["wait", &path, "profiling"]);
    let second = Waiting::start(&["wait", &path, "profiling"]);
    let (taken, owner) = (run.join("profiling.xplane.pb"), first.0.id());
    let (process, told) = second.end();
    let own = run.join(format!("profiling_{process}.xplane.pb"));
    let said =
        format!("process {owner} writes `{}`; this profile is beside it, in `{}`", taken.display(), own.display());
    assert_eq!(told, format!("{}\nwarning: {said}\n", own.display()));
    assert_eq!(read_file(&own).1, [said]);
    let space = XSpace::decode(fs::read(&own).expect("it is there").as_slice()).expect("it is a space");
    assert_eq!(space.hostnames, [format!("profiling_{process}")]);

    let (first, told) = first.end();
    assert_eq!(told, format!("{}\n", taken.display()));
    assert_eq!((process_of(&taken), process_of(&own)), (first.into(), process.into()));
    let pair = |host: &str| [format!("{host}.trace.json"), format!("{host}.xplane.pb")];
    let mut expected = [pair("profiling"), pair(&format!("profiling_{process}"))].concat();
    expected.sort();
    assert_eq!(names(&run), expected);

    // A later run replaces the one that is finished.
    let (third, told) = Waiting::start(&["wait", &path, "profiling"]).end();
    assert_eq!((told, process_of(&taken)), (format!("{}\n", taken.display()), third.into()));
    assert_eq!(names(&run), expected);
}

#[test]
fn folders_in_the_place_of_files_lose_no_profile() {
    for name in ["profiling.xplane.pb", "profiling.trace.json"] {
        let (_folder, path, run) = temporary();
        fs::create_dir_all(run.join(name)).expect("the folder is writable");
        let (process, told) = Waiting::start(&["wait", &path, "profiling"]).end();
        let own = run.join(format!("profiling_{process}.xplane.pb"));
        let said =
            format!("`{}` is a folder; this profile is beside it, in `{}`", run.join(name).display(), own.display());
        assert_eq!(told, format!("{}\nwarning: {said}\n", own.display()));
        assert_eq!(process_of(&own), i64::from(process));
    }
    // One that comes later, where the JSON was to be, and one in the place of a cache.
    let (_folder, path, run) = temporary();
    let cache = run.join("all.op_stats_v2.pb");
    fs::create_dir_all(&cache).expect("the folder is writable");
    let waiting = Waiting::start(&["wait", &path, "profiling"]);
    let json = run.join("profiling.trace.json");
    fs::create_dir(&json).expect("the name is free");
    let (process, told) = waiting.end();
    let protobuf = run.join("profiling.xplane.pb");
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some(protobuf.display().to_string().as_str()));
    for place in [&cache, &json] {
        let removed = format!("warning: the old `{}` cannot be removed: Is a directory (os error 21)", place.display());
        assert_eq!(lines.next(), Some(removed.as_str()));
    }
    let missing = format!("warning: the profile is in `{}`; only its JSON is missing: ", protobuf.display());
    let last = lines.next().expect("a line");
    assert!(last.starts_with(&missing), "{last}");
    assert_eq!((lines.next(), process_of(&protobuf)), (None, i64::from(process)));
    assert_eq!(names(&run), ["all.op_stats_v2.pb", "profiling.trace.json", "profiling.xplane.pb"]);
}

#[test]
#[cfg(target_os = "linux")] // elsewhere the signal goes to the whole process
fn a_limit_of_file_sizes_ends_no_program() {
    let (folder, path, run) = temporary();
    let limited = |limit: u32, command: &Command| {
        // Without a file for the process's memory, which the limit is for, too.
        let script = format!("ulimit -c 0; ulimit -f {limit}; exec \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let output = shell.output().expect("sh starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, told, said) = limited(0, &guest(&["sessions", &path, "2"]));
    let failed = format!(
        "failed to write the profile `{}`: File too large (os error 27)",
        run.join("profiling.xplane.pb").display()
    );
    assert_eq!((code, told.lines().next()), (Some(0), Some(format!("stop: {failed}").as_str())), "{said}");
    let mut command = guest(&["env"]);
    command.env("ZPROF", folder.path().join("x.xplane.pb"));
    let (code, told, said) = limited(0, &command);
    assert_eq!((code, told.as_str()), (Some(0), "true\n"), "{said}");
    assert!(said.contains("File too large (os error 27)"), "{said}");
    assert_eq!(names(folder.path()), ["plugins"]);
    assert_eq!(names(&run), [""; 0]);
}

#[test]
fn processes_of_two_containers_are_told_apart() {
    let (_folder, path, run) = temporary();
    // Each has the number 1 in a space of its own, where this user can make one.
    let contained = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child"]).args(command);
        for name in ["ZPROF", "ZPROF_SESSION", "RANK", "SLURM_PROCID"] {
            unshare.env_remove(name);
        }
        unshare.env("ZPROF_PJRT", "off").env("RUST_BACKTRACE", "0");
        unshare
    };
    let part = ["0", "-", "wait", &path, "profiling"];
    let guest = [&[env!("CARGO_BIN_EXE_guest")][..], &part].concat();
    let can_contain = contained(&["true"]).output().is_ok_and(|output| output.status.success());
    let start = || if can_contain { Waiting::begin(contained(&guest)) } else { Waiting::start(&part[2..]) };
    let first = start();
    let owner = first.0.id();
    let (process, told) = start().end();
    let (who, process) =
        if can_contain { ("another process".to_owned(), 1) } else { (format!("process {owner}"), process) };
    let (taken, own) = (run.join("profiling.xplane.pb"), run.join(format!("profiling_{process}.xplane.pb")));
    let said = format!("{who} writes `{}`; this profile is beside it, in `{}`", taken.display(), own.display());
    assert_eq!(told, format!("{}\nwarning: {said}\n", own.display()));
    assert_eq!(first.end().1, format!("{}\n", taken.display()));
    assert_eq!(names(&run).len(), 4);
}

#[test]
fn a_killed_process_has_no_run() {
    let (_folder, path, run) = temporary();
    Waiting::start(&["wait", &path, "profiling"]).kill();
    assert_eq!(names(&run), [".zprof-profiling.lock"]);
    let (_, told) = Waiting::start(&["wait", &path, "profiling"]).end();
    assert_eq!(told, format!("{}\n", run.join("profiling.xplane.pb").display()));
    assert_eq!(names(&run), ["profiling.trace.json", "profiling.xplane.pb"]);
}

#[test]
fn a_run_that_a_session_has_made_for_itself_is_not_shared() {
    let (folder, path, _) = temporary();
    let first = guest(&["env"]).env("ZPROF", &path).output().expect("the guest can be run");
    assert_eq!(String::from_utf8_lossy(&first.stdout), "true\n");
    let runs = names(&folder.path().join("plugins/profile"));
    // While a session has made it and is at work, another that names it is a second writer.
    let run = folder.path().join("plugins/profile").join(&runs[0]);
    let open = zprof_runtime::folder::Folder::open(&run).expect("it is there");
    let alone = open.lock_whole(true).expect("folders can be locked here").expect("it is free");
    let (process, told) = Waiting::start(&["wait", &path, &runs[0]]).end();
    let own = run.join(format!("profiling_{process}.xplane.pb"));
    let taken = run.join("profiling.xplane.pb");
    let said =
        format!("another process writes `{}`; this profile is beside it, in `{}`", taken.display(), own.display());
    assert_eq!(told, format!("{}\nwarning: {said}\n", own.display()));
    drop(alone);
}

/// The one generation that all scopes of a file have.
fn space_generation(path: &Path) -> Option<i64> {
    let (lines, ..) = zprof_tests::profile::read(&fs::read(path).ok()?);
    let generations: Vec<_> = lines.iter().flat_map(|line| &line.events).map(|event| &event.stats).collect();
    assert!(generations.len() == 200 && generations.iter().all(|stats| *stats == generations[0]));
    match generations[0].as_slice() {
        [(_, Stat::Int(generation))] => Some(*generation),
        other => panic!("{other:?}"),
    }
}

fn json_generation(path: &Path) -> Option<i64> {
    let text = fs::read(path).ok()?;
    let document: serde_json::Value = serde_json::from_slice(&text).expect("the document is whole");
    let events = document["traceEvents"].as_array().expect("a list");
    let scopes: Vec<_> = events.iter().filter(|event| event["name"] == "rewrite").collect();
    let generation = &scopes[0]["args"]["generation"];
    assert!(scopes.len() == 200 && scopes.iter().all(|event| event["args"]["generation"] == *generation));
    Some(generation.as_str().expect("a text").parse().expect("a number"))
}

#[test]
fn files_of_a_pair_are_of_one_session_whoever_reads_and_however_many_write() {
    const WRITERS: usize = 3;
    let (_folder, path, run) = temporary();
    let mut children: Vec<Child> = (0..WRITERS)
        .map(|_| guest(&["rewrite", &path, "25"]).stderr(Stdio::null()).spawn().expect("the guest can be run"))
        .collect();
    let is_over = AtomicBool::new(false);
    let pairs = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (protobuf, json) = (run.join("profiling.xplane.pb"), run.join("profiling.trace.json"));
            let mut pairs = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                let before = space_generation(&protobuf);
                let json = json_generation(&json);
                // Where the XSpace is the same before and after, it was there all the while.
                if let (Some(space), Some(json)) = (before.filter(|_| before == space_generation(&protobuf)), json) {
                    assert_eq!(space, json);
                    pairs += 1;
                }
            }
            pairs
        });
        let ended: Vec<bool> =
            children.iter_mut().map(|child| child.wait().expect("it is a child").success()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ended, [true; WRITERS]);
        reader.join().expect("the reader finds no two sessions")
    });
    // The remaining files are pairs, too: that of the usual name, and those of second writers.
    let mut left: BTreeMap<String, [Option<i64>; 2]> = BTreeMap::new();
    for name in names(&run) {
        if let Some(host) = name.strip_suffix(".xplane.pb") {
            left.entry(host.to_owned()).or_default()[0] = space_generation(&run.join(&name));
        } else if let Some(host) = name.strip_suffix(".trace.json") {
            left.entry(host.to_owned()).or_default()[1] = json_generation(&run.join(&name));
        } else {
            panic!("`{name}` is no file of a pair");
        }
    }
    assert!(left.contains_key("profiling"), "{left:?}");
    assert!(
        left.values().all(|[space, json]| space.is_some() && space == json),
        "{left:?}, and {pairs} pairs were read"
    );
}

#[test]
fn every_rank_of_a_job_is_a_host_of_its_own() {
    let (folder, path, run) = temporary();
    let variables = ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK", "JAX_PROCESS_ID"];
    for (rank, variable) in variables.into_iter().enumerate() {
        let output = guest(&["sessions", &path, "1"]).env(variable, rank.to_string()).output().expect("it can be run");
        let expected = run.join(format!("rank{rank}.xplane.pb"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", expected.display()), "{variable}");
        let space = XSpace::decode(fs::read(&expected).expect("it is there").as_slice()).expect("it is a space");
        assert_eq!(space.hostnames, [format!("rank{rank}")]);
    }
    let files =
        (0..variables.len()).flat_map(|rank| [format!("rank{rank}.trace.json"), format!("rank{rank}.xplane.pb")]);
    assert_eq!(names(&run), files.collect::<Vec<_>>());

    // A file that was named is one for each rank, too.
    for rank in ["0", "1"] {
        let file = folder.path().join("own/run.xplane.pb");
        let output = guest(&["env"]).env("ZPROF", &file).env("RANK", rank).output().expect("it can be run");
        let written = folder.path().join(format!("own/run_rank{rank}.xplane.pb"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("zprof: {} (1 scope)\n", written.display()));
    }
    let expected = ["run_rank0.trace.json", "run_rank0.xplane.pb", "run_rank1.trace.json", "run_rank1.xplane.pb"];
    assert_eq!(names(&folder.path().join("own")), expected);
}
