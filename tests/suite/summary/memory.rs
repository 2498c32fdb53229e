//! Looking into a profile needs little memory, however many events it has and in whatever order: shown in a process that
//! may not have more.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;

use crate::json::wire::{bytes, event_metadata, int, key, message, varint};

/// Address space that the process may have, its code and stack included.
const LIMIT_KIB: u64 = 64 << 10;
/// Events of the line that is not in order. Held at once they would not fit.
const UNSORTED: usize = 1_100_000;
const EVENT_BYTES: usize = 64;

/// Writes a host plane with one line whose events come from both ends.
fn write_space(file: &mut dyn Write) {
    let event = |index: usize| {
        let place = if index.is_multiple_of(2) { index } else { 2 * UNSORTED - index };
        // All numbers take the same room.
        let place = i64::try_from(place).expect("is small") + (1 << 22);
        message(4, &[int(1, 1), int(2, place << 10), int(3, 900)])
    };
    let name = bytes(2, "many");
    let line_len = name.len() + event(0).len() * UNSORTED;
    let tail = [bytes(2, "/host:CPU"), event_metadata(1, &[bytes(2, "e")])].concat();
    let line_head = [key(3, 2), varint(line_len as u64)].concat();
    let plane_len = line_head.len() + line_len + tail.len();
    let mut put = |bytes: &[u8]| file.write_all(bytes).expect("is written");
    put(&[key(1, 2), varint(plane_len as u64)].concat());
    put(&line_head);
    put(&name);
    (0..UNSORTED).for_each(|index| put(&event(index)));
    put(&tail);
}

#[test]
fn a_line_out_of_order_is_walked_in_runs() {
    assert!((UNSORTED * EVENT_BYTES) as u64 > LIMIT_KIB * 1_024, "the events would fit");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.xplane.pb");
    let mut file = BufWriter::new(File::create(&path).expect("is created"));
    write_space(&mut file);
    file.flush().expect("is written");

    // A check walks over everything that a summary does, and more.
    let done = Command::new("sh")
        .args(["-c", r#"ulimit -v "$1" && exec "$2" check "$3""#, "sh", &LIMIT_KIB.to_string()])
        .arg(env!("CARGO_BIN_EXE_xspace_in_numbers"))
        .arg(&path)
        .output()
        .expect("sh starts");
    let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{}: {out}{error}", done.status);
    assert_eq!(out.trim(), format!("{UNSORTED} events, 0 errors, 2 warnings"), "too many, and unsorted");
}
