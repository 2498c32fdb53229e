//! The export needs little memory, however many events there are and in whatever order: shown in a process that may not
//! have more.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use crate::json::wire::{bytes, event_metadata, int, key, message, stat_metadata, varint};

/// Address space that the process may have, its code and stack included. The events below would not fit it at 40 bytes.
const LIMIT_KIB: u64 = 40 << 10;
const EVENTS: u64 = 1_100_000;

/// Writes a host plane of one line. Every fourth event overlaps that before it; with `late`, so many events before the
/// last are the earliest.
fn write_space(path: &Path, late: u64) {
    let stats = message(4, &[int(1, 1), int(4, 5)]);
    let event = |number: u64| {
        let start = if number >= EVENTS - late { number - (EVENTS - late) } else { 10_000 + number * 1_000 };
        let duration = if number.is_multiple_of(4) { 1_500 } else { 999 };
        message(4, &[int(1, 1), int(2, start.cast_signed()), int(3, duration), stats.clone()])
    };
    let head = [int(1, 7), bytes(2, "many")].concat();
    let line_len = head.len() as u64 + (0..EVENTS).map(|number| event(number).len() as u64).sum::<u64>();
    let tail = [bytes(2, "/host:CPU"), event_metadata(1, &[bytes(2, "e")]), stat_metadata(1, "n")].concat();
    let line_head = [key(3, 2), varint(line_len), head.clone()].concat();
    let plane_len = (line_head.len() + tail.len() - head.len()) as u64 + line_len;
    let mut file = BufWriter::new(File::create(path).expect("is created"));
    let mut put = |bytes: &[u8]| file.write_all(bytes).expect("is written");
    put(&[key(1, 2), varint(plane_len)].concat());
    put(&line_head);
    for number in 0..EVENTS {
        put(&event(number));
    }
    put(&tail);
}

fn run(path: &Path, limit_kib: u64) -> std::process::Output {
    Command::new("sh")
        .args(["-c", r#"ulimit -v "$1" && exec "$2" "$3""#, "sh", &limit_kib.to_string()])
        .arg(env!("CARGO_BIN_EXE_xspace_to_perfetto"))
        .arg(path)
        .output()
        .expect("sh starts")
}

#[test]
fn a_line_with_more_events_than_fit_memory_is_converted_sorted_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.xplane.pb");
    // Sorting half a million at a time takes 20 MiB more.
    for (late, limit) in [(0, LIMIT_KIB / 2), (50, LIMIT_KIB)] {
        write_space(&path, late);
        let done = run(&path, limit);
        let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{}: {out}{error}", done.status);
        assert!(out.starts_with(&format!("{EVENTS} events in ")), "{out}");
    }
    // The limit is real: a process that may have even less cannot start its work.
    assert!(!run(&path, 2_048).status.success(), "ulimit has no effect here");
}
