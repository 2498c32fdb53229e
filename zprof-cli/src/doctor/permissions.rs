//! What the system lets this user do, as far as zprof and the tools need it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use zprof_runtime::folder::existing_default_place;

use super::Check;

const GROUP: &str = "permissions";

/// Where a session writes unless it is told otherwise.
const REPOSITORY: &str = "/tmp/xprof";

/// All of them; those that only tools ask for count where there is such a tool, or use for one: for `samples`, nsys, and for
/// `attaches`, any.
pub(super) fn all(samples: bool, attaches: bool) -> Vec<Check> {
    let unless = |is_needed: bool, note: &str| {
        let note = note.to_owned();
        move |check: Check| {
            if is_needed { check } else { Check { cure: None, note: Some(note), ..check } }
        }
    };
    let root = is_root();
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
    let mut checks = vec![writable(&existing_default_place(Path::new(REPOSITORY)))];
    checks.extend(
        number("/proc/sys/kernel/perf_event_paranoid")
            .map(|level| perf(level, root))
            .map(unless(samples, "only nsys needs it, which is not here")),
    );
    checks.extend(
        number("/proc/sys/kernel/yama/ptrace_scope")
            .map(|scope| ptrace(scope, root))
            .map(unless(attaches, "only tools need it, of which none is here")),
    );
    checks.extend(fs::read_to_string("/proc/driver/nvidia/params").ok().and_then(|params| nvidia(&params, root)));
    checks.extend(Path::new("/dev/kfd").exists().then(|| amd(File::options().read(true).write(true).open("/dev/kfd"))));
    checks
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

/// Whether a session can write below `folder`, which is made on the way.
fn writable(folder: &Path) -> Check {
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    match tempfile::tempfile_in(there) {
        Ok(_) => Check::yes(GROUP, "profiles", format!("{} can be written", folder.display())),
        Err(error) => Check::no(
            GROUP,
            "profiles",
            format!("{} cannot be written: {error}", folder.display()),
            "give the session another `repository_path`, or remove what another user has left there",
        ),
    }
}

/// Nsight Systems samples processors through perf, at level 2 and below.
fn perf(level: i64, root: bool) -> Check {
    let name = "perf_event_paranoid";
    if level <= 2 || root {
        let why = if level <= 2 { "nsys can sample the processor" } else { "too strict for users, but this is root" };
        return Check::yes(GROUP, name, format!("{level}: {why}"));
    }
    Check::no(
        GROUP,
        name,
        format!("{level}: nsys cannot sample the processor or trace context switches"),
        "`sudo sysctl kernel.perf_event_paranoid=2`, or `zprof nsys --sudo`; ranges and GPU work show without",
    )
}

/// Attaching to a running process; programs that a tool starts by itself do not need it.
fn ptrace(scope: i64, root: bool) -> Check {
    let name = "ptrace_scope";
    match scope {
        0 => Check::yes(GROUP, name, "0: tools may attach to your processes"),
        1 | 2 if root => Check::yes(GROUP, name, format!("{scope}: root may attach to processes")),
        1 => Check::yes(GROUP, name, "1: tools may attach to what they have started, as the commands here do"),
        scope => Check::no(
            GROUP,
            name,
            format!("{scope}: tools cannot attach to a running process"),
            "the commands here start the program themselves and need it not; else `sudo sysctl kernel.yama.ptrace_scope=1` \
             (3 stays until the next start)",
        ),
    }
}

/// The driver's word on who may read the GPU's counters.
fn nvidia(params: &str, root: bool) -> Option<Check> {
    let name = "NVIDIA GPU counters";
    let value = params.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?.trim();
    Some(if value == "0" || root {
        Check::yes(
            GROUP,
            name,
            format!("RmProfilingAdminOnly is {value}{}", if root { ", and this is root" } else { "" }),
        )
    } else {
        Check::no(
            GROUP,
            name,
            format!("RmProfilingAdminOnly is {value}: for root alone"),
            "`zprof nsys --sudo`, or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into \
             /etc/modprobe.d/nvidia-profiling.conf and start the machine anew",
        )
    })
}

fn amd(opened: io::Result<File>) -> Check {
    match opened {
        Ok(_) => Check::yes(GROUP, "/dev/kfd", "AMD's driver can be opened"),
        Err(error) => Check::no(
            GROUP,
            "/dev/kfd",
            format!("AMD's driver cannot be opened: {error}"),
            "`sudo usermod -aG render,video $USER`, and log in anew",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_strict_for_users_is_not_for_root() {
        let works = |check: &Check| (check.works, check.cure.is_none());
        for (level, root, expected) in [(-1, false, true), (2, false, true), (3, false, false), (4, true, true)] {
            assert_eq!(works(&perf(level, root)), (expected, expected), "perf {level} {root}");
        }
        for (scope, root, expected) in
            [(0, false, true), (1, false, true), (2, false, false), (2, true, true), (3, true, false)]
        {
            assert_eq!(works(&ptrace(scope, root)), (expected, expected), "ptrace {scope} {root}");
        }
    }

    #[test]
    fn the_drivers_word_is_found() {
        let params = "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n";
        assert!(!nvidia(params, false).expect("it is there").works);
        assert!(nvidia(params, true).expect("it is there").works);
        assert!(nvidia(&params.replace(": 1", ": 0"), false).expect("it is there").works);
        assert_eq!(nvidia("Other: 1\n", false), None);
    }

    #[test]
    fn a_folder_that_is_none_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(writable(&folder.path().join("a/b")).works);
        assert!(!folder.path().join("a").exists(), "nothing is left");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("the folder is ours");
        assert!(!writable(&file.join("below")).works);
    }
}
