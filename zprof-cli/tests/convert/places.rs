//! What IN and OUT may be, and that every way gives the same trace.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{arguments, convert, convert_input, elements, fixture, names, read, run, unzipped, zprof};

/// The traces that TSL wrote of the fixtures.
const TRACES: [(&str, &str); 3] = [
    ("jax_cpu_small.xplane.pb", "jax_cpu_small.trace.json.gz"),
    ("jax_cpu_mid.xplane.pb", "jax_cpu_mid.trace.json.gz"),
    ("raw_host_planes.post.xplane.pb", "raw_host_planes.post.trace.json"),
];

fn tsl(name: &str) -> Vec<u8> {
    let bytes = read(&fixture(name));
    if name.ends_with(".gz") { unzipped(&bytes) } else { bytes }
}

/// Name and arguments of each slice, sorted.
fn shown(json: &[u8]) -> Vec<String> {
    let slices = elements(json).into_iter().filter(|element| element["ph"] == "X");
    let mut shown: Vec<String> = slices.map(|slice| format!("{} {}", slice["name"], slice["args"])).collect();
    shown.sort_unstable();
    shown
}

#[test]
fn fixtures_read_as_tsl_wrote_them() {
    for (profile, trace) in TRACES {
        let json = convert(arguments([&fixture(profile), &"-o", &"-"])).quiet("");
        assert!(json.ends_with(b"]}") && !json.ends_with(b",{}]}"));
        let theirs = tsl(trace);
        // Ours has other threads and times where slices overlap; the suite of the libraries compares those.
        assert_eq!(shown(&json), shown(&theirs), "{profile}");
        let json = convert(arguments([&fixture(profile), &"-o", &"-", &"--tsl"])).quiet("");
        assert!(json == theirs, "{profile}");
    }
    // Those without a trace of TSL's beside them convert as well.
    for (profile, events) in [("raw_host_planes.xplane.pb", 6), ("host_events.xplane.pb", 3)] {
        let done = convert(arguments([&fixture(profile), &"-o", &"-"]));
        // The raw planes of a host have times before any session could be, and say so.
        let is_raw = profile.starts_with("raw");
        assert_eq!(
            (done.code, done.error.contains(" more than a day before the session ")),
            (Some(0), is_raw),
            "{}",
            done.error
        );
        assert_eq!(elements(&done.out).iter().filter(|element| element["ph"] == "X").count(), events, "{profile}");
    }
}

#[test]
fn the_trace_lies_beside_the_profile_unless_said() {
    let (folder, profile) = run();
    let json = convert(arguments([&profile, &"-o", &"-"])).quiet("");
    let wrote = |name: &str| {
        format!("zprof: wrote `{}`\n", folder.path().canonicalize().expect("is there").join(name).display())
    };

    assert_eq!(convert([&profile]).quiet(&wrote("vm.trace.json")), b"");
    convert([folder.path()]).quiet(&wrote("vm.trace.json"));
    convert(arguments([&profile, &"--format", &"json.gz"])).quiet(&wrote("vm.trace.json.gz"));
    let out = folder.path().join("x.json");
    assert_eq!(convert(arguments([&profile, &"-o", &out])).quiet(""), b"");
    let zipped = folder.path().join("X.JSON.GZ");
    convert(arguments([&profile, &"-o", &zipped])).quiet("");
    let odd = folder.path().join("odd");
    convert(arguments([&folder.path(), &"-o", &odd, &"--format", &"json"])).quiet("");
    let relative = zprof().arg("convert").args(["vm.xplane.pb", "-o", "here.json"]).current_dir(folder.path()).output();
    assert!(relative.expect("zprof starts").status.success());

    let expected = ["X.JSON.GZ", "here.json", "odd", "vm.trace.json", "vm.trace.json.gz", "vm.xplane.pb", "x.json"];
    assert_eq!(names(folder.path()), expected);
    for name in ["here.json", "odd", "vm.trace.json", "x.json"] {
        assert!(read(&folder.path().join(name)) == json, "{name}");
    }
    for name in ["X.JSON.GZ", "vm.trace.json.gz"] {
        let bytes = read(&folder.path().join(name));
        assert!(unzipped(&bytes) == json, "{name}");
        assert!(bytes.len() * 5 < json.len(), "{name} has {} of {} bytes", bytes.len(), json.len());
    }
}

#[test]
fn snapshots_beside_a_profile_are_not_merged_into_it() {
    let (folder, profile) = run();
    let alone = convert(arguments([&folder.path(), &"-o", &"-"])).quiet("");
    let snapshots = [1, 2, 3].map(|number| folder.path().join(format!("vm-snapshot-{number}.xplane.pb")));
    let said = |rest: &str| {
        let (first, profile) = (snapshots[0].display(), profile.display());
        format!(
            "zprof: `{first}`{rest} left out: a snapshot of the same process as `{profile}`; name a file to read it\n"
        )
    };
    let others =
        [" is".to_owned(), format!(" and `{}` are", snapshots[1].display()), " and 2 more snapshots are".to_owned()];
    for (snapshot, rest) in snapshots.iter().zip(&others) {
        fs::copy(&profile, snapshot).expect("is copied");
        assert!(convert(arguments([&folder.path(), &"-o", &"-"])).quiet(&said(rest)) == alone, "{rest}");
    }
    assert!(convert(arguments([&snapshots[2], &"-o", &"-"])).quiet("") == alone);
}

#[test]
fn standard_input_is_a_profile_too() {
    let (folder, profile) = run();
    let bytes = read(&profile);
    let json = convert(arguments([&profile, &"-o", &"-"])).quiet("");
    assert!(convert_input(bytes.clone(), &["-"]).quiet("") == json);
    assert!(convert_input(bytes.clone(), &["-", "-o", "-"]).quiet("") == json);
    assert!(unzipped(&convert_input(bytes.clone(), &["-", "--format", "json.gz"]).quiet("")) == json);
    let out = folder.path().join("x.json");
    assert_eq!(convert_input(bytes.clone(), &["-", "-o", out.to_str().expect("is UTF-8")]).quiet(""), b"");
    assert!(read(&out) == json);
    // A pipe by name, as a shell's `<(…)` is.
    #[cfg(target_os = "linux")]
    assert!(convert_input(bytes, &["/dev/stdin"]).quiet("") == json);
}

#[test]
#[cfg(target_os = "linux")] // elsewhere these names stand for the descriptors themselves
fn standard_output_by_its_name_is_what_the_caller_has_open() {
    let (folder, profile) = run();
    let json = convert(arguments([&profile, &"-o", &"-"])).quiet("");
    let into = |file: &File| {
        let mut command = zprof();
        command.arg("convert").arg(&profile).args(["--format", "json", "-o", "/dev/stdout"]);
        let status = command.stdout(file.try_clone().expect("is open")).status().expect("zprof starts");
        assert!(status.success());
    };
    let read = |file: &mut File| {
        let mut text = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut text)).expect("is readable");
        text
    };
    // A file that has no name any more, and one that holds something already.
    let path = folder.path().join("held");
    let options = File::options().read(true).append(true).create(true).clone();
    let mut nameless = options.open(&path).expect("is created");
    fs::remove_file(&path).expect("is there");
    into(&nameless);
    assert!(read(&mut nameless) == json);
    let mut log = options.open(&path).expect("is created");
    log.write_all(b"head\n").expect("is written");
    into(&log);
    assert!(read(&mut log) == [b"head\n", json.as_slice()].concat());
    // By another descriptor.
    let mut other = File::options().read(true).write(true).create_new(true).open(folder.path().join("other"));
    let other = other.as_mut().expect("is created");
    other.write_all(&vec![b'x'; json.len() + 10]).expect("is written");
    fs::remove_file(folder.path().join("other")).expect("is there");
    let line = r#""$1" convert "$2" --format json -o /dev/fd/3 3<&0"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", line, "sh", env!("CARGO_BIN_EXE_zprof")]).arg(&profile);
    assert!(shell.stdin(other.try_clone().expect("is open")).status().expect("sh starts").success());
    assert!(read(other) == json);
    assert_eq!(names(folder.path()), ["held", "vm.xplane.pb"]);
}

#[test]
#[cfg(target_os = "linux")] // a file by this name is opened anew
fn nothing_is_written_beside_standard_input_by_its_name() {
    let (folder, profile) = run();
    let json = convert(arguments([&profile, &"-o", &"-"])).quiet("");
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let output = zprof().args(["convert", name]).stdin(File::open(&profile).expect("is there")).output();
        let output = output.expect("zprof starts");
        assert!(output.status.success() && output.stdout == json, "{name}: {output:?}");
    }
    assert_eq!(names(folder.path()), ["vm.xplane.pb"]);
}

#[test]
fn a_folder_that_does_not_exist_is_no_file() {
    let (folder, profile) = run();
    let out = folder.path().join("new/");
    let out = format!("{}/", out.display());
    let expected = format!("`{out}` is a folder that does not exist; make it, and name a file in it");
    assert_eq!(convert(arguments([&profile, &"--format", &"json", &"-o", &out])).refused(), expected);
    assert_eq!(names(folder.path()), ["vm.xplane.pb"]);
}

#[test]
fn what_is_called_like_a_host_and_cannot_be_read_is_told() {
    let (folder, profile) = run();
    let alone = convert(arguments([&profile, &"-o", &"-"])).quiet("");
    let link = folder.path().join("gone.xplane.pb");
    std::os::unix::fs::symlink("nowhere", &link).expect("is linked");
    let pipe = folder.path().join("pipe.xplane.pb");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    fs::create_dir(folder.path().join("folder.xplane.pb")).expect("is created");
    let expected = format!(
        "zprof: `{}` is left out: No such file or directory (os error 2)\nzprof: `{}` is left out: it is no file; name it to \
         read it\n",
        link.display(),
        pipe.display()
    );
    assert!(convert(arguments([&folder.path(), &"-o", &"-"])).quiet(&expected) == alone);
}

#[test]
fn hosts_of_a_run_become_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    for host in ["b", "a"] {
        let profile = folder.path().join(format!("{host}.xplane.pb"));
        fs::copy(fixture("jax_cpu_small.xplane.pb"), profile).expect("is copied");
    }
    let done = convert([folder.path()]);
    assert!(done.error.ends_with("all_hosts.trace.json`\n"), "{}", done.error);
    let all = elements(&read(&folder.path().join("all_hosts.trace.json")));
    let one = elements(&convert(arguments([&folder.path().join("a.xplane.pb"), &"-o", &"-"])).quiet(""));
    // Each host's elements are the file's own but for process ids and names.
    for (host, start) in [("a", 1_000_u64), ("b", 2_000)] {
        let mut expected = one.clone();
        for element in &mut expected {
            let pid = element["pid"].as_u64().expect("is a number") + start;
            if element["name"] == "process_sort_index" {
                element["args"]["sort_index"] = pid.into();
            }
            if element["name"] == "process_name" {
                let name = element["args"]["name"].as_str().expect("is text");
                element["args"]["name"] = format!("{host} {name}").into();
            }
            element["pid"] = pid.into();
        }
        let of_host =
            |element: &&Value| element["pid"].as_u64().is_some_and(|pid| (start..start + 1_000).contains(&pid));
        assert!(all.iter().filter(of_host).eq(&expected), "{host}");
    }
    assert_eq!(all.len(), 2 * one.len());
    assert!(
        convert(arguments([&folder.path(), &"--tsl"]))
            .refused()
            .ends_with("has 2 hosts, and TSL converts one; name its file")
    );
}

#[test]
fn of_a_log_directory_the_newest_run_is_taken() {
    let (folder, profile) = run();
    let logs = folder.path().join("logs");
    for (run, minutes) in [("2024_01_01", 1_u64), ("2024_01_02", 5)] {
        let place = logs.join("plugins/profile").join(run);
        fs::create_dir_all(&place).expect("is created");
        let copy = place.join("vm.xplane.pb");
        fs::copy(&profile, &copy).expect("is copied");
        let file = File::options().write(true).open(&copy).expect("is there");
        file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).expect("is changed");
    }
    let done = convert([&logs]);
    let newest = logs.join("plugins/profile/2024_01_01");
    let said = format!("zprof: `{}` has 2 runs; taking the newest, `{}`\n", logs.display(), newest.display());
    assert!(done.error.starts_with(&said), "{}", done.error);
    assert_eq!(names(&newest), ["vm.trace.json", "vm.xplane.pb"]);

    fs::remove_dir_all(logs.join("plugins/profile/2024_01_02")).expect("is removed");
    let done = convert([&logs]);
    assert_eq!((done.code, done.error.lines().count()), (Some(0), 1), "{}", done.error);
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_written() {
    let (folder, profile) = run();
    let (link, file) = (folder.path().join("link.json"), folder.path().join("file.json"));
    fs::write(&file, "old").expect("is written");
    std::os::unix::fs::symlink(&file, &link).expect("is linked");
    convert(arguments([&profile, &"-o", &link])).quiet("");
    assert!(fs::symlink_metadata(&link).expect("is there").is_symlink());
    assert_eq!(elements(&read(&file)).len(), elements(&read(&link)).len());
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let mut command = zprof();
    let mut child =
        command.arg("convert").arg(fixture("jax_cpu_mid.xplane.pb")).args(["-o", "-"]).spawn().expect("starts");
    let mut out = child.stdout.take().expect("is a pipe");
    let mut head = [0; 100];
    out.read_exact(&mut head).expect("is read");
    drop(out);
    let mut error = String::new();
    child.stderr.take().expect("is a pipe").read_to_string(&mut error).expect("is read");
    assert_eq!((child.wait().expect("ends").code(), error.as_str()), (Some(0), ""));
    assert!(head.starts_with(br#"{"displayTimeUnit":"ns""#));
}

#[test]
fn cargo_zprof_is_the_same_command() {
    let cargo = Command::new(env!("CARGO_BIN_EXE_cargo-zprof"))
        .args(["zprof", "convert", "-o", "-"])
        .arg(fixture("jax_cpu_small.xplane.pb"))
        .output()
        .expect("starts");
    assert!(
        cargo.stdout == convert(arguments([&fixture("jax_cpu_small.xplane.pb"), &Path::new("-o"), &"-"])).quiet("")
    );
}
