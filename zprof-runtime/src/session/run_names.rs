//! Names of runs and hosts: which ones a profile may have.
//!
//! A session id becomes a folder and a host name becomes the first part of file names. Both are checked before the first
//! file is made, and every system has the same rule: a name is refused where any supported system cannot have it. So a log
//! directory can be copied to any machine, and a program that starts on one system does not fail on another.

use crate::error::{Error, ErrorKind, Result};

/// The longest name, in bytes. File systems take 255 bytes. The 55 others are for what follows the name: a process id
/// (11 bytes), `-snapshot-<n>` (20 bytes for ten digits) and `.device.pb.broken` (17 bytes), the longest ending.
const MAX_BYTES: usize = 200;

/// Devices that Windows has in every folder, with any extension. `COM` and `LPT` with a digit are devices too.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// Refuses a name that would leave the folder it is meant for, or that a file of some system cannot have. `what` is how
/// the caller calls the name, such as `session_id`.
///
/// A name that passes is one component of a path on every system, and the file system keeps it as it is.
pub(super) fn check(what: &str, name: &str) -> Result<()> {
    refusal(name).map_or(Ok(()), |reason| refuse(what, name, &reason))
}

/// Like [`check`], for the name in a path that the user gave. The system of the path decides what it may be, so only Windows
/// asks for the whole rule.
pub(super) fn check_in_path(what: &str, name: &str) -> Result<()> {
    let reason = if cfg!(windows) { refusal(name) } else { leaves_folder(name).or_else(|| exceeds(name)) };
    reason.map_or(Ok(()), |reason| refuse(what, name, &reason))
}

fn refuse(what: &str, name: &str, reason: &str) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidInput, format!("`{what}` {reason}: {name:?}")))
}

/// Why no profile may have this name, or `None` if it may.
fn refusal(name: &str) -> Option<String> {
    leaves_folder(name).or_else(|| unknown_to_windows(name)).or_else(|| exceeds(name))
}

/// Why the name is not one component of a path on Unix, or, with a backslash, on Windows.
fn leaves_folder(name: &str) -> Option<String> {
    let reason = if name.is_empty() {
        "is empty"
    } else if name == "." || name == ".." || name.contains(['/', '\\']) {
        "is a path; give a plain name"
    } else if name.contains('\0') {
        "holds a NUL"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// Why a file of Windows cannot have the name. A colon there begins an alternate data stream or follows a drive's letter, and
/// a dot or a space at the end is dropped, so that the file has another name than asked for.
fn unknown_to_windows(name: &str) -> Option<String> {
    if let Some(letter) = name.chars().find(|&letter| r#"<>:"|?*"#.contains(letter)) {
        return Some(format!("holds `{letter}`, which no file name on Windows can have; leave it out"));
    }
    if let Some(letter) = name.chars().find(|letter| letter.is_control()) {
        return Some(format!("holds the control character U+{:04X}; leave it out", u32::from(letter)));
    }
    if name.ends_with(['.', ' ']) {
        return Some("ends in a dot or a space, which Windows drops from file names; leave it out".to_owned());
    }
    device(name).map(|device| format!("is the device `{device}` on Windows; give another name"))
}

/// The device that Windows opens in place of a file of this name: the part before the first dot counts, without the spaces
/// at its end, in capital or small letters.
fn device(name: &str) -> Option<&str> {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let is_named = DEVICES.iter().any(|device| stem.eq_ignore_ascii_case(device));
    // Windows also takes the superscripts of Latin-1 for digits.
    let is_numbered = || {
        let number = stem.strip_suffix(|digit| matches!(digit, '1'..='9' | '¹' | '²' | '³'));
        number.is_some_and(|kind| kind.eq_ignore_ascii_case("COM") || kind.eq_ignore_ascii_case("LPT"))
    };
    (is_named || is_numbered()).then_some(stem)
}

fn exceeds(name: &str) -> Option<String> {
    (name.len() > MAX_BYTES).then(|| format!("is longer than {MAX_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::fs;
    use std::path::{Component, Path};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::session::files::RunFiles;
    use crate::session::options::ProfilerOptions;

    /// What [`check`] says after the name of the option.
    fn reason(name: &str) -> String {
        let error = check("x", name).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let message = error.to_string();
        let reason = message.strip_prefix("`x` ").and_then(|rest| rest.strip_suffix(&format!(": {name:?}")));
        reason.unwrap_or_else(|| panic!("`{message}` names the option and the name")).to_owned()
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        assert_eq!(reason(""), "is empty");
        for name in [".", "..", "/", "/etc", "a/b", "../a", "a\\b", "..\\a", "C:\\a", "\\\\server\\share", "\\\\?\\C:"]
        {
            assert_eq!(reason(name), "is a path; give a plain name");
        }
        assert_eq!(reason("a\0b"), "holds a NUL");
    }

    #[test]
    fn names_that_windows_cannot_have_are_refused_on_every_system() {
        for letter in ['<', '>', ':', '"', '|', '?', '*'] {
            let expected = format!("holds `{letter}`, which no file name on Windows can have; leave it out");
            for name in [format!("{letter}"), format!("C{letter}"), format!("a{letter}b"), format!("{letter}b")] {
                assert_eq!(reason(&name), expected);
            }
        }
        for (name, code) in [("a\nb", "000A"), ("\u{1b}[31m", "001B"), ("a\u{7f}", "007F"), ("a\u{85}", "0085")] {
            assert_eq!(reason(name), format!("holds the control character U+{code}; leave it out"));
        }
        for name in ["...", "a.", "a..", "a ", " ", "a. ", "a .", "CON."] {
            assert_eq!(reason(name), "ends in a dot or a space, which Windows drops from file names; leave it out");
        }
        for (name, device) in [
            ("CON", "CON"),
            ("con", "con"),
            ("Prn.x", "Prn"),
            ("aux.tar.gz", "aux"),
            ("NUL .txt", "NUL"),
            ("COM1", "COM1"),
            ("com9.7", "com9"),
            ("LPT³", "LPT³"),
            ("CONIN$", "CONIN$"),
            ("conout$.x", "conout$"),
        ] {
            assert_eq!(reason(name), format!("is the device `{device}` on Windows; give another name"));
        }
    }

    #[test]
    fn usual_names_are_taken() {
        for name in [
            "2026_11_30_12_00_00",
            "2026_11_30_12_00_00_4711_2",
            "node-1.rack-7.example.com",
            "localhost_6009",
            "profiling",
            "run 7 é",
            ".hidden",
            "..a",
            "a..b",
            " a",
            "CONSOLE",
            "COM",
            "COM0",
            "COM10",
            "xCON",
            "a.CON",
            "rank0",
            "{a}=b,c;d+e~1#%&$!'()[]@^`",
        ] {
            check("x", name).expect(name);
            check_in_path("x", name).expect(name);
        }
    }

    #[test]
    fn a_name_has_200_bytes_at_most() {
        for name in ["x".repeat(200), "é".repeat(100)] {
            check("x", &name).expect("it is short enough");
        }
        for name in ["x".repeat(201), "é".repeat(101)] {
            assert_eq!(reason(&name), "is longer than 200 bytes");
            check_in_path("x", &name).expect_err("a path's name is as long at most");
        }
    }

    #[test]
    fn a_name_in_a_path_may_be_what_its_system_allows() {
        for name in ["12:30", "a?", "CON", "a."] {
            assert_eq!(check_in_path("x", name).is_err(), cfg!(windows), "{name}");
        }
        for name in ["", "..", "a\\b", "a\0"] {
            check_in_path("x", name).expect_err("it is no name on any system");
        }
    }

    /// The rule once more, in the words of Windows' documentation of file names.
    fn has_every_system(name: &str) -> bool {
        const RESERVED: &str = "CON PRN AUX NUL CONIN$ CONOUT$ COM1 COM2 COM3 COM4 COM5 COM6 COM7 COM8 COM9 COM¹ COM² COM³ \
                                LPT1 LPT2 LPT3 LPT4 LPT5 LPT6 LPT7 LPT8 LPT9 LPT¹ LPT² LPT³";
        let letters = name.chars().all(|letter| !letter.is_control() && !"<>:\"/\\|?*".contains(letter));
        let stem = name.find('.').map_or(name, |dot| &name[..dot]).trim_end_matches(' ').to_ascii_uppercase();
        let ending = name.chars().next_back();
        letters
            && ending.is_some_and(|letter| letter != '.' && letter != ' ')
            && !RESERVED.split_whitespace().any(|device| device == stem)
            && name.len() <= 200
    }

    /// Names of which about a half can be had: words, devices and separators in any order.
    fn name() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[a-z0-9_é-]{1,8}",
            1 => "(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9¹²³]|conin\\$|conout\\$)",
            2 => "[. ]{1,2}",
            1 => r#"[/\\:<>"|?*]"#,
            1 => any::<char>().prop_map(String::from),
            1 => "[a-z]{60,120}",
        ];
        vec(piece, 0..5).prop_map(|pieces| pieces.concat())
    }

    fn listed(folder: &Path) -> BTreeSet<OsString> {
        fs::read_dir(folder)
            .expect("it can be listed")
            .map(|entry| entry.expect("it is readable").file_name())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_name_is_taken_if_every_system_has_it_and_stays_in_its_folder(session in name(), host in name()) {
            let folder = tempfile::tempdir().expect("a temporary folder can be made");
            for name in [&session, &host] {
                prop_assert_eq!(check("x", name).is_ok(), has_every_system(name), "{:?}", name);
            }
            let options = ProfilerOptions::default().repository_path(folder.path());
            let options = options.session_id(session.as_str()).override_hostname(host.as_str());
            match RunFiles::prepare(&options, 0) {
                Err(error) => {
                    prop_assert!(check("x", &session).and(check("x", &host)).is_err(), "{:?}", error);
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    prop_assert_eq!(listed(folder.path()), BTreeSet::new());
                }
                Ok(files) => {
                    check("x", &session).expect("a run has it");
                    check("x", &host).expect("a run has it");
                    let snapshot = files.snapshot().expect("its folder can be made");
                    for run in [&files, &snapshot] {
                        fs::write(run.protobuf(), "").expect("it can be written");
                        fs::write(run.json(), "").expect("it can be written");
                        fs::write(run.broken(), "").expect("it can be written");
                    }
                    // With them go the files that lock the runs.
                    drop((files, snapshot));
                    let runs = folder.path().join("plugins").join("profile");
                    let snapshot = format!("{session}-snapshot-1");
                    prop_assert_eq!(listed(&runs), [&session, &snapshot].map(OsString::from).into());
                    let endings = ["xplane.pb", "trace.json", "device.pb.broken"];
                    for run in [session.as_str(), snapshot.as_str()] {
                        let component: Vec<_> = Path::new(run).components().collect();
                        prop_assert_eq!(component, [Component::Normal(run.as_ref())]);
                        let expected = endings.map(|ending| OsString::from(format!("{host}.{ending}")));
                        prop_assert_eq!(listed(&runs.join(run)), expected.into());
                    }
                }
            }
        }
    }
}
