//! The export needs little memory, however large the file: shown in a process that may not have more.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::process::Command;

use super::wire::{bytes, event_metadata, int, key, message, stat_metadata, varint};

/// Address space that the process may have, its code and stack included; it starts with about half. The events below
/// would not fit the other half at 32 bytes each.
const LIMIT_KIB: u64 = 12 << 10;
/// Events of one block, which is written again and again.
const BLOCK: usize = 4_096;
const BLOCKS: usize = 48;
/// Bytes of the two values that are larger than the process may be; one takes the file beyond what 32 bits can count.
const HOLE: u64 = 5 << 30;
const TEXT: u64 = 13 << 20;

/// Writes a host plane of 5 GB in two lines: many events, and one with huge values, which are holes on the disk.
fn write_space(file: &mut File) {
    let stats = message(4, &[int(1, 1), int(4, 5)]);
    let event = |index: usize| message(4, &[int(1, 1), int(2, (index * 1_000) as i64), int(3, 999), stats.clone()]);
    let block: Vec<u8> = (0..BLOCK).flat_map(event).collect();
    let line_head = [int(1, 7), bytes(2, "many")].concat();
    let line_len = (line_head.len() + block.len() * BLOCKS) as u64;

    let value = |number: u64, len: u64| [int(1, 2), key(number, 2), varint(len)].concat();
    let (opaque, text) = (value(6, HOLE), value(5, TEXT));
    let (opaque_len, text_len) = (opaque.len() as u64 + HOLE, text.len() as u64 + TEXT);
    let opaque = [key(4, 2), varint(opaque_len), opaque].concat();
    let text = [key(4, 2), varint(text_len), text].concat();
    let event_len = opaque.len() as u64 + HOLE + text.len() as u64 + TEXT;
    let huge = [key(4, 2), varint(event_len)].concat();
    let huge_len = huge.len() as u64 + event_len;

    let many_head = [key(3, 2), varint(line_len), line_head].concat();
    let huge_head = [key(3, 2), varint(huge_len), huge, opaque].concat();
    let tail =
        [bytes(2, "/host:CPU"), event_metadata(1, &[bytes(2, "e")]), stat_metadata(1, "n"), stat_metadata(2, "s")]
            .concat();
    let plane_len = many_head.len() + block.len() * BLOCKS + huge_head.len() + text.len() + tail.len();
    let plane_len = plane_len as u64 + HOLE + TEXT;

    let mut put = |bytes: &[u8]| file.write_all(bytes).expect("is written");
    put(&[key(1, 2), varint(plane_len)].concat());
    put(&many_head);
    for _ in 0..BLOCKS {
        put(&block);
    }
    put(&huge_head);
    file.seek(SeekFrom::Current(HOLE.cast_signed())).expect("seeks");
    file.write_all(&text).expect("is written");
    file.seek(SeekFrom::Current(TEXT.cast_signed())).expect("seeks");
    file.write_all(&tail).expect("is written");
}

#[test]
fn a_file_many_times_larger_than_the_memory_is_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.xplane.pb");
    let mut file = File::create(&path).expect("is created");
    write_space(&mut file);
    let size = file.metadata().expect("is there").len();
    assert!(size > 400 * LIMIT_KIB * 1_024, "{size} bytes prove little");

    let done = Command::new("sh")
        .args(["-c", r#"ulimit -v "$1" && exec "$2" "$3""#, "sh", &LIMIT_KIB.to_string()])
        .arg(env!("CARGO_BIN_EXE_xspace_to_json"))
        .arg(&path)
        .output()
        .expect("sh starts");
    let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{}: {out}{error}", done.status);
    assert!(out.starts_with(&format!("{} events in ", BLOCK * BLOCKS + 1)), "{out}");

    // The limit is real: a process that may have even less cannot start its work.
    let starved = Command::new("sh")
        .args(["-c", r#"ulimit -v 2048 && exec "$1" "$2""#, "sh", env!("CARGO_BIN_EXE_xspace_to_json")])
        .arg(&path)
        .output()
        .expect("sh starts");
    assert!(!starved.status.success(), "ulimit has no effect here");
}
