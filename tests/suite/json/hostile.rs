//! Bytes that nobody means: cut, flipped, huge, nested, mangled. An error that says where, or a document; never a panic.

use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

use proptest::prelude::*;
use zprof_runtime::ErrorKind;
use zprof_runtime::export::{JsonOptions, export_json_file, write_json};

use super::wire::{Kind, Wire, bytes, event_metadata, fields, int, key, message, respell, stat_metadata, varint};
use super::{convert, elements, fixture, fixture_bytes};

/// The error of bytes that are not an XSpace.
fn refusal(xspace: &[u8]) -> String {
    let error = convert(xspace).expect_err("is no XSpace");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    error.to_string()
}

/// Converts, and holds the outcome to what is promised of any bytes.
fn survive(xspace: &[u8]) {
    match convert(xspace) {
        Ok((json, summary)) => {
            let events = elements(&json).iter().filter(|element| element["ph"] == "X").count();
            assert_eq!(events as u64, summary.events);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            let message = error.to_string();
            assert!(message.starts_with("not an XSpace: ") && message.contains("at byte "), "{message}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_whole_planes() {
    let whole = fixture_bytes("jax_cpu_small.xplane.pb");
    let mut ends = vec![0];
    for field in fields(&whole) {
        let Wire::Bytes(content) = field.value else { panic!("an XSpace holds only messages and texts") };
        ends.push(ends[ends.len() - 1] + bytes(field.number, content).len());
    }
    for end in 0..whole.len() {
        let cut = &whole[..end];
        assert_eq!(convert(cut).is_ok(), ends.contains(&end), "cut at {end}");
    }
}

#[test]
fn a_plane_cut_anywhere_is_survived() {
    for (name, step) in [("raw_host_planes.post.xplane.pb", 1), ("jax_cpu_small.xplane.pb", 151)] {
        for field in fields(&fixture_bytes(name)) {
            let Wire::Bytes(content) = field.value else { continue };
            for end in (0..content.len()).step_by(step) {
                survive(&bytes(field.number, &content[..end]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_are_survived(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut space = fixture_bytes("raw_host_planes.post.xplane.pb");
        for (place, byte) in flips {
            let place = place.index(space.len());
            space[place] = byte;
        }
        survive(&space);
    }

    #[test]
    fn any_bytes_are_survived(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        survive(&content);
        survive(&bytes(1, [bytes(2, "/host:CPU"), content].concat()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_of_a_real_profile_are_survived(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut space = fixture_bytes("jax_cpu_small.xplane.pb");
        for (place, byte) in flips {
            let place = place.index(space.len());
            space[place] = byte;
        }
        survive(&space);
    }
}

#[test]
fn lengths_beyond_what_holds_them_are_named_with_their_place() {
    let hostname = bytes(4, "host name!");
    assert_eq!(
        refusal(&[hostname.clone(), key(1, 2), varint(4_096), vec![0; 100]].concat()),
        "not an XSpace: plane at byte 12 claims 4096 bytes, but the file ends at byte 115"
    );
    let huge = [key(1, 2), varint(u64::MAX)].concat();
    assert_eq!(
        refusal(&huge),
        format!("not an XSpace: plane at byte 0 claims {} bytes, but the file ends at byte 11", u64::MAX)
    );
    let host = |content: Vec<u8>| bytes(1, [bytes(2, "/host:CPU"), content].concat());
    assert_eq!(
        refusal(&host([key(3, 2), varint(u64::MAX >> 1)].concat())),
        format!("not an XSpace: line at byte 13 claims {} bytes, but the plane ends at byte 23", u64::MAX >> 1)
    );
    // An event that claims what follows its line.
    let line = bytes(3, [key(4, 2), varint(9), int(2, 5)].concat());
    assert_eq!(
        refusal(&host([line, bytes(2, "/host:CPU")].concat())),
        "not an XSpace: event at byte 15 claims 9 bytes, but the line ends at byte 19"
    );
    for number in 1..8 {
        let stat = [key(number, 2), varint(1 << 40)].concat();
        let message = refusal(&host(bytes(3, bytes(4, bytes(4, stat)))));
        assert!(message.contains("claims 1099511627776 bytes, but the stat ends at byte"), "{message}");
    }
}

#[test]
fn what_is_no_protobuf_is_named_with_its_place() {
    let host = |content: Vec<u8>| bytes(1, [bytes(2, "/host:CPU"), content].concat());
    let number_cut = |what: &str, at: u64| {
        format!("not an XSpace: a number does not end within 10 bytes and within the {what}, at byte {at}")
    };
    let no_number = |at: u64| {
        let reason = "begins with no field number: it is 0 or beyond 29 bits";
        format!("not an XSpace: what should be a field of the file {reason}, at byte {at}")
    };
    // A zero after the end, as some plugins leave it there.
    assert_eq!(refusal(&[host(Vec::new()), vec![0]].concat()), no_number(13));
    assert_eq!(refusal(&[0xff; 20]), number_cut("file", 0));
    assert_eq!(refusal(&[key(1, 2), vec![0x80; 3]].concat()), number_cut("file", 1));
    assert_eq!(refusal(&varint(1 << 40)), no_number(0));
    // The number ends, but not in the message that it belongs to.
    let space = [bytes(1, [key(1, 0), vec![0x80]].concat()), bytes(4, "x")].concat();
    assert_eq!(refusal(&space), number_cut("plane", 3));
    assert_eq!(refusal(&[0x0e]), "not an XSpace: field 1 has the unknown wire type 6, at byte 0");
    assert_eq!(refusal(&key(1, 4)), "not an XSpace: the end of a group that was not open, at byte 0");
    assert_eq!(refusal(&key(9, 3)), "not an XSpace: a group does not end within the file, at byte 0");
    assert_eq!(
        refusal(&[key(9, 3), key(8, 4)].concat()),
        "not an XSpace: the end of a group that was not open, at byte 1"
    );
    assert_eq!(refusal(&key(9, 3).repeat(101)), "not an XSpace: groups nest deeper than 100, at byte 100");
    let nested = [key(9, 3).repeat(100), key(9, 4).repeat(100), host(Vec::new())].concat();
    convert(&nested).expect("a hundred groups are within the limit");
    refusal(&key(1, 2).repeat(100_000));
}

#[test]
fn a_text_is_not_an_xspace() {
    let texts: [&[u8]; 5] = [
        b"hello world\n",
        b"# Profile\n\nThis is no profile.\n",
        b"{\"traceEvents\":[]}",
        b"((((((((",
        b"\x28\x01\x28\x02",
    ];
    for text in texts {
        refusal(text);
    }
    // A profile that went through something that takes it for text.
    let xspace = fixture_bytes("jax_cpu_small.xplane.pb");
    refusal(String::from_utf8_lossy(&xspace).as_bytes());
    let windows: Vec<u8> =
        xspace.iter().flat_map(|byte| if *byte == b'\n' { b"\r\n".to_vec() } else { vec![*byte] }).collect();
    refusal(&windows);
    let unix: Vec<u8> = xspace.iter().copied().filter(|byte| *byte != b'\r').collect();
    assert!(unix == xspace || convert(&unix).is_err());
}

#[test]
fn a_known_field_of_another_wire_type_is_unknown() {
    let metadata = event_metadata(1, &[bytes(2, "plain")]);
    let plain = |more: Vec<u8>| {
        let event = message(4, &[int(1, 1), int(2, 5), more.clone()]);
        message(1, &[bytes(2, "/host:CPU"), message(3, &[int(1, 7), event, more]), metadata.clone()])
    };
    let expected = convert(&plain(Vec::new())).expect("is an XSpace").0;
    for number in 1..12 {
        for field in [
            [key(number, 5), vec![1; 4]].concat(),
            [key(number, 1), vec![1; 8]].concat(),
            [key(number, 3), int(1, 1), key(number, 4)].concat(),
        ] {
            assert_eq!(convert(&plain(field)).expect("is an XSpace").0, expected, "field {number}");
        }
    }
}

#[test]
fn the_last_of_repeated_ids_counts() {
    let space = message(
        1,
        &[
            bytes(2, "/device:GPU:0"),
            event_metadata(1, &[bytes(2, "old"), bytes(4, "old display")]),
            stat_metadata(1, "old key"),
            event_metadata(1, &[bytes(2, "new")]),
            bytes(2, "/host:CPU"),
            message(3, &[message(4, &[int(1, 9), int(1, 1), message(4, &[int(1, 1), int(4, 5)])])]),
            stat_metadata(1, "new key"),
        ],
    );
    let (json, _) = convert(&space).expect("is an XSpace");
    assert!(json.contains(r#""name":"new","args":{"new key":"5"}"#), "{json}");
    assert!(!json.contains("old"), "{json}");
}

#[test]
fn events_larger_than_any_buffer_are_whole() {
    // A value of 3 MB with characters across every border, bytes of 3 MB, and 300,000 stats of which the last counts.
    let long = "x日😀\"é".repeat(250_000);
    let many: Vec<u8> = (0..300_000).flat_map(|value| message(4, &[int(1, 2), int(4, value)])).collect();
    let stats = [
        message(4, &[int(1, 1), bytes(5, &long)]),
        message(4, &[int(1, 3), bytes(6, vec![7; 3_000_000])]),
        many,
        message(4, &[int(1, 4), bytes(5, [long.as_bytes(), &[0xe6, 0x97]].concat())]),
    ]
    .concat();
    let name = "name😀".repeat(100_000);
    let space = message(
        1,
        &[
            bytes(2, "/host:CPU"),
            message(3, &[int(1, 7), message(4, &[int(1, 1), stats, int(2, 6)]), bytes(2, &name)]),
            event_metadata(1, &[bytes(2, &name), message(5, &[int(1, 5), bytes(5, &long)])]),
            stat_metadata(1, "a"),
            stat_metadata(2, "b"),
            stat_metadata(3, "c"),
            stat_metadata(4, &name),
            stat_metadata(5, "z"),
        ],
    );
    let (json, _) = convert(&space).expect("is an XSpace");
    let expected = serde_json::json!({
        "ph": "X", "pid": 701, "tid": 7, "ts": 0, "dur": 0.000_001, "name": name,
        "args": { "a": long, "b": "299999", "c": "<opaque bytes>", "z": long, name.clone(): format!("{long}\u{fffd}") },
    });
    let elements = elements(&json);
    assert!(elements[elements.len() - 1] == expected, "the event differs");
    assert!(elements[2]["args"]["name"] == name.as_str(), "the thread's name differs");
}

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(folder).expect("is a folder").map(|entry| entry.expect("is readable").file_name()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_bad_file_leaves_no_json_and_the_error_names_both_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (xspace, json) = (folder.path().join("cut.xplane.pb"), folder.path().join("cut.json"));
    let whole = fixture_bytes("jax_cpu_small.xplane.pb");
    fs::write(&xspace, &whole[..30_000]).expect("is written");
    let error = export_json_file(&xspace, &json).expect_err("is cut");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let message = error.to_string();
    let head =
        format!("failed to convert `{}` to `{}`: not an XSpace: plane at byte ", xspace.display(), json.display());
    assert!(message.starts_with(&head) && message.ends_with("but the file ends at byte 30000"), "{message}");
    assert_eq!(names(folder.path()), ["cut.xplane.pb"]);

    // An older file stays until the new one is whole.
    fs::write(&json, "old").expect("is written");
    export_json_file(&xspace, &json).expect_err("is cut");
    assert_eq!(fs::read_to_string(&json).expect("is there"), "old");
    fs::write(&xspace, &whole).expect("is written");
    let summary = export_json_file(&xspace, &json).expect("is whole");
    assert_eq!(summary.events, 903);
    assert_eq!(fs::read_to_string(&json).expect("is there"), convert(&whole).expect("is whole").0);
    assert_eq!(names(folder.path()), ["cut.json", "cut.xplane.pb"]);
}

#[test]
fn files_that_cannot_be_read_or_written_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.xplane.pb");
    let json = folder.path().join("out.json");
    let error = export_json_file(&missing, &json).expect_err("there is no such file");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.to_string(), format!("failed to open `{}`", missing.display()));

    let error = export_json_file(folder.path(), &json).expect_err("a folder is no file");
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");

    let nowhere = folder.path().join("no/out.json");
    let error = export_json_file(&fixture("host_events.xplane.pb"), &nowhere).expect_err("there is no such folder");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains(&nowhere.display().to_string()), "{error}");

    let copy = folder.path().join("same.xplane.pb");
    fs::copy(fixture("host_events.xplane.pb"), &copy).expect("is copied");
    let error = export_json_file(&copy, &copy).expect_err("would overwrite the profile");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(fs::read(&copy).expect("is there"), fixture_bytes("host_events.xplane.pb"));
    assert_eq!(names(folder.path()), ["same.xplane.pb"]);
}

/// Takes so many bytes and no more.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.min(bytes.len());
        self.0 -= count;
        if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_gets_full() {
    let xspace = fixture_bytes("jax_cpu_small.xplane.pb");
    let whole = convert(&xspace).expect("is an XSpace").0.len();
    for room in [0, 1, 70_000, whole - 1] {
        let error = write_json(&xspace.as_slice(), &mut Full(room), &JsonOptions::default()).expect_err("is full");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Io, "failed to write the JSON"), "{room}");
    }
    write_json(&xspace.as_slice(), &mut Full(whole), &JsonOptions::default()).expect("is just enough");
}

#[test]
fn respelling_is_not_the_identity() {
    let space = fixture_bytes("raw_host_planes.post.xplane.pb");
    let other = respell(Kind::Space, &space, &mut super::wire::Random(1));
    assert!(other.len() > space.len());
}
