//! Input and output that cannot be: a message that names it, exit code 1, or 2 for usage, and nothing written.

use std::fs;

use super::{arguments, convert, convert_input, fixture, names, read, run};

#[test]
fn bad_input_is_named_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = read(&fixture("jax_cpu_small.xplane.pb"));
    let gzip = read(&fixture("jax_cpu_small.trace.json.gz"));
    let trace = convert(arguments([&fixture("jax_cpu_small.xplane.pb"), &"-o", &"-"])).quiet("");
    let mut broken = whole.clone();
    // Inside an event of a line: what is found only when the events are read.
    let at = broken.len() / 3;
    broken[at..at + 400].fill(0xff);
    let files: [(&str, &[u8], &str); 6] = [
        ("empty.xplane.pb", b"", "is empty; an XSpace holds at least one plane"),
        ("text.xplane.pb", b"hello world\n", "not an XSpace: "),
        ("cut.xplane.pb", &whole[..30_000], "but the file ends at byte 30000"),
        ("broken.xplane.pb", &broken, "not an XSpace: "),
        ("old.trace.json", &trace, "is not an XSpace: it is JSON; a trace cannot be turned back into a profile"),
        ("old.trace.json.gz", &gzip, "is not an XSpace: it is compressed with gzip; unpack it first"),
    ];
    for (name, bytes, _) in files {
        fs::write(folder.path().join(name), bytes).expect("is written");
    }
    let before = names(folder.path());
    let out = folder.path().join("out.json");
    let zipped = folder.path().join("out.json.gz");
    for (name, bytes, reason) in files {
        let path = folder.path().join(name);
        for message in [
            convert([&path]).refused(),
            convert(arguments([&path, &"-o", &out])).refused(),
            convert(arguments([&path, &"-o", &zipped])).refused(),
            convert(arguments([&path, &"-o", &"-"])).refused(),
            convert(arguments([&path, &"-o", &"-", &"--format", &"json.gz"])).refused(),
            convert(arguments([&path, &"-o", &"-", &"--tsl"])).refused(),
            convert(arguments([&path, &"-o", &"-", &"--format", &"pftrace"])).refused(),
        ] {
            assert!(message.contains(&format!("`{}`", path.display())) && message.contains(reason), "{message}");
        }
        let message = convert_input(bytes.to_vec(), &["-"]).refused();
        assert!(message.contains("standard input") && message.contains(reason), "{message}");
    }
    assert_eq!(names(folder.path()), before);
    let cut = folder.path().join("cut.xplane.pb");
    assert_eq!(
        convert(arguments([&cut, &"-o", &out])).refused(),
        format!(
            "failed to convert `{}` to `{}`: not an XSpace: plane at byte 8603 claims 38109 bytes, but the file ends at \
             byte 30000",
            cut.display(),
            out.display()
        )
    );

    // What was there before stays as it was.
    fs::write(&out, "old").expect("is written");
    convert(arguments([&folder.path().join("broken.xplane.pb"), &"-o", &out])).refused();
    assert_eq!(read(&out), b"old");
}

#[test]
fn places_without_a_profile_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = folder.path().display();
    let missing = folder.path().join("missing.xplane.pb");
    let message = convert([&missing]).refused();
    assert!(message.starts_with(&format!("failed to open `{}`: No such file", missing.display())), "{message}");
    assert_eq!(
        convert([folder.path()]).refused(),
        format!(
            "no profile in `{shown}`: a run's folder holds `<host>.xplane.pb`, and a log directory `plugins/profile/<run>`"
        )
    );
    fs::create_dir_all(folder.path().join("plugins/profile/run")).expect("is created");
    assert!(convert([folder.path()]).refused().starts_with("no profile in "));
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let (folder, profile) = run();
    let refused = |out: &str| convert(arguments([&profile, &"--format", &"json", &"-o", &out])).refused();
    let there =
        |name: &str| folder.path().canonicalize().expect("is there").join(name).to_str().expect("is UTF-8").to_owned();

    let message = refused(&there("vm.xplane.pb"));
    assert_eq!(message, format!("`{}` is the profile itself; name another file with `-o`", profile.display()));
    std::os::unix::fs::symlink(&profile, there("link.json")).expect("is linked");
    assert!(refused(&there("link.json")).contains("is the profile itself"));
    assert!(refused(&there("other.xplane.pb")).contains("would pass for a profile"));
    assert_eq!(refused(&there("")), format!("`{}` is a folder; name a file in it", there("").trim_end_matches('/')));
    assert_eq!(read(&profile), read(&fixture("jax_cpu_small.xplane.pb")));

    let nowhere = there("no/out.json");
    let message = refused(&nowhere);
    assert!(
        message.contains(&format!("failed to create `{nowhere}`: ")) && message.contains("/no` does not exist"),
        "{message}"
    );
    // A folder where nobody may make a file, whoever runs this.
    #[cfg(target_os = "linux")]
    {
        let message = refused("/proc/out.json");
        assert!(message.contains("failed to create `/proc/out.json`: "), "{message}");
        let message = refused("/dev/full");
        assert!(message.contains("to `/dev/full`: ") && message.contains("No space left"), "{message}");
    }
    assert_eq!(names(folder.path()), ["link.json", "vm.xplane.pb"]);
}

#[test]
fn what_cannot_be_asked_is_usage() {
    let (folder, profile) = run();
    let rows: [(&[&str], &str); 12] = [
        (&[], "<IN>"),
        (
            &["-o", "out.txt"],
            "`out.txt` does not tell the format; end it in .json, .json.gz or .pftrace, or add --format",
        ),
        (&["--format", "xml"], "invalid value 'xml'"),
        (&["--min-duration", "10"], "as in `1.5ms`; `10` has none"),
        (&["--time-range", "2s..1s"], "the range ends before it begins: `2s..1s`"),
        (&["--time-range", "5..1"], "`5` has none"),
        (&["--max-events", "-1"], "unexpected argument '-1'"),
        (&["--tsl", "--planes", "x"], "cannot be used with"),
        (&["--tsl", "--min-duration", "1s"], "cannot be used with"),
        (&["--tsl", "--format", "pftrace"], "--tsl is for JSON"),
        (&["--nonsense"], "unexpected argument '--nonsense'"),
        (&["a", "b"], "unexpected argument"),
    ];
    for (further, reason) in rows {
        let mut all = arguments([&profile]).to_vec();
        if further.is_empty() {
            all.clear();
        }
        all.extend(further.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
        let done = convert(all);
        assert_eq!((done.code, done.out.as_slice()), (Some(2), &b""[..]), "{further:?}: {}", done.error);
        assert!(done.error.contains(reason), "{further:?}: {}", done.error);
    }
    assert_eq!(names(folder.path()), ["vm.xplane.pb"]);
}
