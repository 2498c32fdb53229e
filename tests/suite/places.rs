//! Where profiles go on a machine with other users, and what those can do about it. Other users can be played by the
//! superuser alone; for others, these tests show what a user sees who is alone.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zprof_tests::profile::read_file;

/// Users besides the superuser.
const ALICE: u32 = 1000;
const MALLORY: u32 = 65534;

/// A machine: a root of a file system with a `tmp` that everybody may write to.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    /// A machine, if its users can be played here.
    fn new() -> Option<Self> {
        let root = tempfile::tempdir().expect("a temporary folder can be made");
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).expect("the folder is ours");
        fs::create_dir(root.path().join("tmp")).expect("the folder is writable");
        fs::set_permissions(root.path().join("tmp"), Permissions::from_mode(0o1777)).expect("the folder is ours");
        let is_superuser = fs::metadata(root.path()).expect("it is there").uid() == 0;
        is_superuser.then_some(Self { root })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Lets a user play a part on this machine.
    fn play(&self, user: u32, part: &[&str]) -> (String, String) {
        ended(guest(user, self.root.path(), part))
    }

    /// A folder of the superuser with files that nobody else shall change, each called like something that a session removes
    /// or replaces.
    fn precious(&self) -> BTreeMap<PathBuf, String> {
        let folder = self.at("precious");
        fs::create_dir_all(folder.join("deep")).expect("the folder is writable");
        for name in [
            "profiling.xplane.pb",
            "profiling.trace.json",
            "all.op_stats_v2.pb",
            "mine.hlo_proto.pb",
            "cache_version.txt",
            ".zprof-2147483647-0.tmp",
            ".zprof-profiling.lock",
            "deep/notes",
        ] {
            fs::write(folder.join(name), name).expect("the folder is writable");
        }
        files(&folder)
    }
}

fn guest(user: u32, root: &Path, part: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guest"));
    command.arg(user.to_string()).arg(root).args(part);
    for name in ["ZPROF", "ZPROF_SESSION", "RANK", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    command.env("ZPROF_PJRT", "off");
    command
}

fn ended(mut command: Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the guest can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}\n{stdout}\n{stderr}");
    (stdout.into_owned(), stderr.into_owned())
}

/// All files below a folder with what is in them.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = fs::read(&path).expect("it can be read");
            found.insert(path, String::from_utf8_lossy(&text).into_owned());
        }
    }
    found
}

/// Owner and permissions of everything below a folder, by its path from there.
fn modes(folder: &Path, from: &Path) -> BTreeMap<String, (u32, u32)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        let name = path.strip_prefix(from).expect("it is below").display().to_string();
        found.insert(name, (metadata.uid(), metadata.mode() & 0o7777));
        if metadata.is_dir() {
            found.extend(modes(&path, from));
        }
    }
    found
}

/// What a run's folder tree looks like when it is one user's alone.
fn private(user: u32, top: &str, run: &str) -> BTreeMap<String, (u32, u32)> {
    let folders = ["", "/plugins", "/plugins/profile"].map(|part| (format!("{top}{part}"), (user, 0o700)));
    let run = format!("{top}/plugins/profile/{run}");
    let files = ["profiling.trace.json", "profiling.xplane.pb"].map(|name| (format!("{run}/{name}"), (user, 0o600)));
    folders.into_iter().chain([(run.clone(), (user, 0o700))]).chain(files).collect()
}

#[test]
fn the_default_place_is_the_first_users_and_others_have_their_own() {
    let Some(machine) = Machine::new() else { return assert_alone() };
    let (told, warned) = machine.play(ALICE, &["sessions", "default", "2"]);
    let path = "/tmp/xprof/plugins/profile/profiling/profiling.xplane.pb";
    assert_eq!((told, warned.as_str()), (format!("{path}\n{path}\n"), ""));
    for (user, rounds) in [(MALLORY, 2), (0, 1)] {
        let (told, warned) = machine.play(user, &["sessions", "default", &rounds.to_string()]);
        let path = format!("/tmp/xprof-{user}/plugins/profile/profiling/profiling.xplane.pb\n");
        let reason = format!("`/tmp/xprof` belongs to user {ALICE}; profiles are written to `/tmp/xprof-{user}`");
        assert_eq!((told, warned), (path.repeat(rounds), format!("zprof: warning: {reason}\n")));
    }
    let expected = [("xprof", ALICE), ("xprof-65534", MALLORY), ("xprof-0", 0)];
    let expected: BTreeMap<_, _> = expected.iter().flat_map(|(top, user)| private(*user, top, "profiling")).collect();
    assert_eq!(modes(&machine.at("tmp"), &machine.at("tmp")), expected);
    // The first user goes on there.
    let (told, warned) = machine.play(ALICE, &["sessions", "default", "1"]);
    assert_eq!((told, warned.as_str()), (format!("{path}\n"), ""));
}

/// The checks that remain where no other user can be played.
fn assert_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = folder.path().join("xprof");
    let user = fs::metadata(folder.path()).expect("it is there").uid();
    assert_eq!(zprof_runtime::folder::default_place(&place).expect("it is free"), (place.clone(), None));
    fs::set_permissions(&place, Permissions::from_mode(0o777)).expect("it is ours");
    let own = folder.path().join(format!("xprof-{user}"));
    let reason = format!("`{}` can be written by other users", place.display());
    assert_eq!(zprof_runtime::folder::default_place(&place).expect("it is free"), (own, Some(reason)));
}

#[test]
fn a_default_place_that_is_not_this_users_alone_is_left_with_its_reason() {
    let Some(machine) = Machine::new() else { return assert_alone() };
    let first = machine.at("tmp/xprof");
    let own = "/tmp/xprof-1000/plugins/profile/profiling/profiling.xplane.pb\n";
    let check = |reason: &str| {
        let (told, warned) = machine.play(ALICE, &["sessions", "default", "1"]);
        let reason = format!("zprof: warning: `/tmp/xprof` {reason}; profiles are written to `/tmp/xprof-1000`\n");
        assert_eq!((told.as_str(), warned), (own, reason));
    };
    machine.play(ALICE, &["folder", "/tmp/xprof"]);
    check("can be written by other users");
    fs::remove_dir(&first).expect("it is empty");
    machine.play(ALICE, &["link", "/tmp/elsewhere", "/tmp/xprof"]);
    check("is a link");
    fs::remove_file(&first).expect("it is a link");
    fs::write(&first, "").expect("the folder is writable");
    check("is no folder");

    // Where the second choice is another user's too, there is no session.
    fs::remove_dir_all(machine.at("tmp/xprof-1000")).expect("it is there");
    machine.play(MALLORY, &["folder", "/tmp/xprof-1000"]);
    let expected = format!(
        "no folder for profiles: `/tmp/xprof-1000` belongs to user {MALLORY}, and `/tmp/xprof` is not this user's alone either; "
    );
    let (told, warned) = machine.play(ALICE, &["sessions", "default", "1"]);
    assert_eq!((told, warned.as_str()), (format!("start: {expected}set `repository_path`\n"), ""));
    let mut command = guest(ALICE, machine.root.path(), &["env"]);
    command.env("ZPROF", "1");
    let cure = "let `ZPROF` name a folder of yours";
    let expected = format!("no profile, which `ZPROF=1` asked for: {expected}{cure}\n");
    assert_eq!(ended(command), (expected, String::new()));
    assert_eq!(fs::read_dir(machine.at("tmp/xprof-1000")).expect("it is there").count(), 0);
}

#[test]
fn links_that_another_user_has_made_lead_nowhere() {
    let Some(machine) = Machine::new() else { return assert_alone() };
    let precious = machine.precious();
    let refused = |link: &str, folder: &str| {
        let name = Path::new(link).file_name().expect("it has one").to_string_lossy();
        let what = if name == "profiling" {
            "is a link, which is not followed; remove it".to_owned()
        } else {
            format!("is a link that user {MALLORY} has made, which is not followed; remove it")
        };
        format!(
            "start: failed to create the profile folder `{folder}/plugins/profile/profiling`; check `repository_path`: `{name}` \
             {what}\n"
        )
    };
    for (number, below) in ["", "/plugins", "/plugins/profile", "/plugins/profile/profiling"].into_iter().enumerate() {
        // A folder that the victim names, in the folder of all users.
        let folder = format!("/tmp/given-{number}");
        machine.play(MALLORY, &["link", "/precious", &format!("{folder}{below}")]);
        for user in [0, ALICE] {
            let (told, _) = machine.play(user, &["sessions", &folder, "1"]);
            let expected = refused(&format!("{folder}{below}"), &folder);
            assert_eq!(told, expected, "{below}");
        }
        // One that Mallory has made elsewhere, and that all may write to.
        let folder = format!("/open-{number}");
        fs::create_dir(machine.at(&folder)).expect("the folder is writable");
        fs::set_permissions(machine.at(&folder), Permissions::from_mode(0o777)).expect("it is ours");
        if !below.is_empty() {
            machine.play(MALLORY, &["link", "/precious", &format!("{folder}{below}")]);
            let (told, _) = machine.play(0, &["sessions", &folder, "1"]);
            assert_eq!(told, refused(&format!("{folder}{below}"), &folder), "{below}");
        }
        assert_eq!(files(&machine.at("precious")), precious, "{below}");
    }
    // The default place, as a whole and below.
    machine.play(MALLORY, &["link", "/precious", "/tmp/xprof/plugins/profile/profiling"]);
    let (told, _) = machine.play(0, &["sessions", "default", "1"]);
    assert_eq!(told, "/tmp/xprof-0/plugins/profile/profiling/profiling.xplane.pb\n");
    assert_eq!(files(&machine.at("precious")), precious);
}

#[test]
fn links_in_the_place_of_files_are_replaced_and_not_followed() {
    let Some(machine) = Machine::new() else { return assert_alone() };
    let precious = machine.precious();
    let run = "/open/plugins/profile/profiling";
    fs::create_dir(machine.at("open")).expect("the folder is writable");
    fs::set_permissions(machine.at("open"), Permissions::from_mode(0o777)).expect("it is ours");
    machine.play(MALLORY, &["folder", run]);
    let names = ["profiling.xplane.pb", "profiling.trace.json", "mine.hlo_proto.pb", "cache_version.txt"];
    for name in names {
        machine.play(MALLORY, &["link", &format!("/precious/{name}"), &format!("{run}/{name}")]);
    }
    // Snapshots take the first number that is free, whatever has it.
    machine.play(MALLORY, &["link", "/precious", "/open/plugins/profile/profiling-snapshot-1"]);
    let (told, _) = machine.play(0, &["snapshot", "/open"]);
    let expected = format!("{run}-snapshot-2/profiling.xplane.pb\n{run}/profiling.xplane.pb\n");
    assert_eq!(told, expected);
    assert_eq!(files(&machine.at("precious")), precious);
    let mut left = files(&machine.at(run)).into_keys().map(|path| {
        assert!(!path.is_symlink(), "{}", path.display());
        path.file_name().expect("it has one").to_string_lossy().into_owned()
    });
    assert_eq!((left.next(), left.next(), left.next()), (Some(names[1].into()), Some(names[0].into()), None));

    // A link in the place of the lock is an error, not a file of the victim's.
    let lock = format!("{run}/.zprof-profiling.lock");
    machine.play(MALLORY, &["link", "/precious/notes", &lock]);
    let (told, _) = machine.play(0, &["sessions", "/open", "1"]);
    let cause = format!("`{lock}` is a link; remove it");
    let expected = format!("cannot lock the profile `{run}/profiling.xplane.pb`; check `repository_path`: {cause}\n");
    assert_eq!(told, format!("start: {expected}"));
    assert_eq!(files(&machine.at("precious")), precious);
}

#[test]
fn files_of_a_given_path_in_a_folder_of_all_users_are_their_owners_alone() {
    let Some(machine) = Machine::new() else { return assert_alone() };
    // The guests have no umask.
    machine.play(ALICE, &["sessions", "/tmp/a/b", "1"]);
    let mut expected = private(ALICE, "a/b", "profiling");
    expected.insert("a".to_owned(), (ALICE, 0o700));
    assert_eq!(modes(&machine.at("tmp"), &machine.at("tmp")), expected);
    fs::remove_dir_all(machine.at("tmp/a")).expect("it is there");

    let mut command = guest(ALICE, machine.root.path(), &["env"]);
    command.env("ZPROF", "/tmp/run.xplane.pb");
    let said = "zprof: /tmp/run.xplane.pb (1 scope)\n".to_owned();
    assert_eq!(ended(command), ("true\n".to_owned(), said));
    let files = ["run.trace.json", "run.xplane.pb"].map(|name| (name.to_owned(), (ALICE, 0o600)));
    assert_eq!(modes(&machine.at("tmp"), &machine.at("tmp")), files.into());

    // Elsewhere the umask says who may read, and there is none.
    machine.play(0, &["sessions", "/home", "1"]);
    let modes = modes(&machine.at("home"), &machine.at("home"));
    let run = "plugins/profile/profiling";
    let expected =
        [("plugins", 0o777), ("plugins/profile", 0o777), (run, 0o777)].map(|(name, mode)| (name.to_owned(), mode));
    let files = ["profiling.trace.json", "profiling.xplane.pb"].map(|name| (format!("{run}/{name}"), 0o666));
    let expected: BTreeMap<_, _> = expected.into_iter().chain(files).map(|(name, mode)| (name, (0, mode))).collect();
    assert_eq!(modes, expected);
}

#[test]
fn files_that_only_another_user_may_replace_are_known_at_the_start() {
    let Some(machine) = Machine::new() else { return assert_alone() };
    for name in ["run.xplane.pb", "run.trace.json", ".zprof-run.lock"] {
        let path = machine.at("tmp").join(name);
        fs::write(&path, "").expect("the folder is writable");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        let mut command = guest(ALICE, machine.root.path(), &["env"]);
        command.env("ZPROF", "/tmp/run.xplane.pb");
        let (told, said) = ended(command);
        assert_eq!(told, "true\n", "{name}");
        let own = fs::read_dir(machine.at("tmp")).expect("it can be listed");
        let own = own.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned());
        let mut own: Vec<String> = own.filter(|own| own != name).collect();
        own.sort();
        let [json, protobuf] = own.as_slice() else { panic!("{own:?}") };
        let why = if name.ends_with("lock") {
            "another process writes `/tmp/run.xplane.pb`".to_owned()
        } else {
            format!("`/tmp/{name}` belongs to user 0, who alone may replace it")
        };
        let expected = format!(
            "zprof: warning: {why}; this profile is beside it, in `/tmp/{protobuf}`\nzprof: /tmp/{protobuf} (1 scope)\n"
        );
        assert_eq!(said, expected);
        assert_eq!(json, &protobuf.replace("xplane.pb", "trace.json"));
        let (lines, ..) = read_file(&machine.at("tmp").join(protobuf));
        assert_eq!(lines.len(), 1);
        assert_eq!(fs::read(&path).expect("it is there"), b"");
        for name in own.iter().map(String::as_str).chain([name]) {
            fs::remove_file(machine.at("tmp").join(name)).expect("it is there");
        }
    }
}

#[test]
fn links_of_this_user_are_followed_above_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (disk, logs) = (folder.path().join("disk"), folder.path().join("logs"));
    fs::create_dir(&disk).expect("the folder is writable");
    fs::create_dir(&logs).expect("the folder is writable");
    symlink("../disk", logs.join("plugins")).expect("the name is free");
    symlink(&logs, folder.path().join("link")).expect("the name is free");
    let given = folder.path().join("link");
    // As the user of this test.
    let play = |part: &[&str]| ended(guest(0, Path::new("-"), part)).0;
    let told = play(&["sessions", &given.to_string_lossy(), "1"]);
    let path = given.join("plugins/profile/profiling/profiling.xplane.pb");
    assert_eq!(told, format!("{}\n", path.display()));
    let (lines, ..) = read_file(&disk.join("profile/profiling/profiling.xplane.pb"));
    assert_eq!(lines.len(), 1);

    // The run itself is never a link: what is removed there would be removed elsewhere.
    let run = disk.join("profile/profiling");
    fs::rename(&run, disk.join("profile/real")).expect("it is there");
    symlink("real", &run).expect("the name is free");
    let before = files(&disk.join("profile/real"));
    let told = play(&["sessions", &given.to_string_lossy(), "1"]);
    let expected = format!(
        "start: failed to create the profile folder `{}`; check `repository_path`: `profiling` is a link, which is not followed; \
         remove it\n",
        given.join("plugins/profile/profiling").display()
    );
    assert_eq!(told, expected);
    assert_eq!(files(&disk.join("profile/real")), before);
}
