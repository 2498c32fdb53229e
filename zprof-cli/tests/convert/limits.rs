//! Large profiles in little memory, and signals in the middle of a conversion.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use tempfile::TempDir;

use super::space::{bytes, int, key, message, varint, write_blocks};
use super::{names, zprof};

/// Address space that the program may have, its code and stacks included.
const LIMIT_KIB: u64 = 64 << 10;
const EVENTS: u64 = 190_000;
const BLOCKS: u64 = 100;
const BLOCK: i64 = 1_900;

/// Writes 300 MB of events: each twentieth has a text of 31 KB, the others a number.
fn write_large(path: &Path) {
    let text = "the same text again and again, ".repeat(1_000);
    let event = |index: i64| {
        let stat = if index % 20 == 0 { bytes(5, &text) } else { int(4, 7_000 + index) };
        let stat = message(4, &[int(1, if index % 20 == 0 { 2 } else { 1 }), stat]);
        message(4, &[int(1, 1), int(2, 1_000 * index), int(3, 999), stat])
    };
    let block: Vec<u8> = (0..BLOCK).flat_map(event).collect();
    let mut file = BufWriter::new(File::create(path).expect("is created"));
    write_blocks(&mut file, &block, BLOCKS);
    file.flush().expect("is written");
    let size = path.metadata().expect("is there").len();
    assert!(size > 280_000_000, "{size} bytes prove little");
}

/// Runs `zprof convert` with no more address space than this.
fn limited(kib: u64, arguments: &[&OsStr]) -> Child {
    Command::new("sh")
        .args([
            "-c",
            r#"ulimit -v "$1" && shift && exec "$@""#,
            "sh",
            &kib.to_string(),
            env!("CARGO_BIN_EXE_zprof"),
            "convert",
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh starts")
}

/// Counts events of JSON that is too long to keep; asserts that it ends.
fn count_events(json: impl Read) -> u64 {
    let mut json = BufReader::with_capacity(1 << 16, json);
    let (mut count, mut piece) = (0, Vec::new());
    loop {
        let before = piece.ends_with(b"]}");
        piece.clear();
        if json.read_until(b'{', &mut piece).expect("is read") == 0 {
            assert!(before);
            return count;
        }
        count += u64::from(piece.starts_with(br#""ph":"X""#));
    }
}

#[test]
fn a_profile_larger_than_the_memory_is_converted_to_any_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("large.xplane.pb");
    write_large(&profile);
    let zipped = folder.path().join("large.trace.json.gz");

    let mut child = limited(LIMIT_KIB, &[profile.as_ref(), "-o".as_ref(), "-".as_ref()]);
    assert_eq!(count_events(child.stdout.take().expect("is a pipe")), EVENTS);
    let done = child.wait_with_output().expect("ends");
    assert!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr));

    let done =
        limited(LIMIT_KIB, &[profile.as_ref(), "-o".as_ref(), zipped.as_ref()]).wait_with_output().expect("ends");
    assert!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    assert_eq!(count_events(GzDecoder::new(File::open(&zipped).expect("is there"))), EVENTS);

    let native = folder.path().join("large.pftrace");
    let done =
        limited(LIMIT_KIB, &[profile.as_ref(), "-o".as_ref(), native.as_ref()]).wait_with_output().expect("ends");
    assert!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    assert!(native.metadata().expect("is there").len() > 1_000_000);

    // The limit is real: a program that may have even less cannot start its work.
    let starved = limited(3 << 10, &[profile.as_ref(), "-o".as_ref(), "-".as_ref()]).wait_with_output().expect("ends");
    assert!(!starved.status.success(), "ulimit has no effect here");
}

/// A profile whose conversion takes long: one text of 256 MB, a hole on the disk, of which each byte becomes six.
fn slow_profile() -> (TempDir, File) {
    const TEXT: u32 = 256 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = File::create(folder.path().join("vm.xplane.pb")).expect("is created");
    let stat = [int(1, 2), key(5, 2), varint(TEXT.into())].concat();
    let mut head = stat.clone();
    for (number, what) in [(4, Vec::new()), (4, Vec::new()), (3, Vec::new()), (1, bytes(2, "/host:CPU"))] {
        let len = head.len() as u64 + what.len() as u64 + u64::from(TEXT);
        head = [key(number, 2), varint(len), what, head].concat();
    }
    file.write_all(&head).expect("is written");
    file.seek(SeekFrom::Current(i64::from(TEXT) - 1)).expect("seeks");
    file.write_all(&[0]).expect("is written");
    (folder, file)
}

fn kill(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill starts");
    assert!(status.success());
}

/// Waits until the folder holds a draft with something in it.
fn wait_for_draft(folder: &Path, child: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_draft = |name: &String| {
        name.starts_with(".zprof-") && folder.join(name).metadata().is_ok_and(|metadata| metadata.len() > 0)
    };
    while !names(folder).iter().any(is_draft) {
        assert!(child.try_wait().expect("can be asked").is_none(), "the conversion ended before its signal");
        assert!(Instant::now() < deadline, "no draft in {:?}", names(folder));
        thread::yield_now();
    }
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let (folder, _file) = slow_profile();
    for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        let mut child = zprof().arg("convert").arg(folder.path()).spawn().expect("starts");
        wait_for_draft(folder.path(), &mut child);
        kill(&child, name);
        // The shell sees that a signal ended it, and no message.
        let done = child.wait_with_output().expect("ends");
        assert_eq!((done.status.signal(), done.stderr.as_slice()), (Some(number), &b""[..]), "{name}");
        assert_eq!(names(folder.path()), ["vm.xplane.pb"], "{name}");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_so() {
    let (folder, _file) = slow_profile();
    let mut child = Command::new("sh")
        .args(["-c", r#"trap "" HUP INT; exec "$0" convert "$1""#, env!("CARGO_BIN_EXE_zprof")])
        .arg(folder.path())
        .spawn()
        .expect("starts");
    wait_for_draft(folder.path(), &mut child);
    kill(&child, "-HUP");
    kill(&child, "-INT");
    kill(&child, "-TERM");
    assert_eq!(child.wait().expect("ends").signal(), Some(15));
    assert_eq!(names(folder.path()), ["vm.xplane.pb"]);
}

#[test]
fn a_file_of_any_size_is_refused_by_its_bytes() {
    // A file system in memory has files of 2^63 - 1 bytes, and none of these takes any.
    let folder = tempfile::tempdir_in("/dev/shm").expect("Linux has it");
    let profile = folder.path().join("vm.xplane.pb");
    for size in [1 << 62, (1 << 63) - 4096] {
        std::fs::copy(super::fixture("jax_cpu_small.xplane.pb"), &profile).expect("is copied");
        let file = File::options().write(true).open(&profile).expect("is there");
        file.set_len(size).expect("files may be as long");
        for format in ["json", "pftrace"] {
            let error = super::convert([
                profile.as_os_str(),
                "--format".as_ref(),
                format.as_ref(),
                "-o".as_ref(),
                "-".as_ref(),
            ]);
            let error = error.refused();
            assert!(error.contains("begins with no field number: it is 0 or beyond 29 bits"), "{error}");
        }
    }
}

#[test]
fn a_limit_of_file_sizes_is_an_error_that_leaves_nothing() {
    let (folder, profile) = super::run();
    let output = Command::new("sh")
        .args(["-c", "ulimit -c 0; ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_zprof"), "convert"])
        .arg(&profile)
        .output()
        .expect("sh starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.starts_with("zprof: failed to convert ") && error.ends_with(": File too large (os error 27)\n"),
        "{error}"
    );
    assert_eq!(names(folder.path()), ["vm.xplane.pb"]);
}
