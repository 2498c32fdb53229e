//! The one reader of environment variables, for the runtime and the command: it gives nothing in a process that runs with
//! raised privileges.
//!
//! A setuid, setgid or setcap program has rights that its caller lacks, and the caller chose its environment. Variables name
//! libraries to load, programs to run and files to write, so following one of them would lend these rights to the caller.
//! `secure_getenv` of the C library has the same rule. The rule lasts as long as the process: a program that gives its rights
//! up later still has the environment that its caller chose.
//!
//! How a process learns that its privileges were raised:
//!
//! | system | source |
//! |---|---|
//! | Linux, Android | `AT_SECURE`, which the kernel sets at `exec` for set-id bits, file capabilities and security modules |
//! | macOS, the BSDs | `issetugid` |
//! | Windows, WebAssembly, others | no program there can raise its privileges by being started; variables are read as usual |
//!
//! `sudo`, `su` and service managers start a program without that mark. They choose its environment themselves.

use std::env;
use std::ffi::OsString;
use std::path::Path;

/// The value of the variable `name`; `None` if it is not set, if it is empty, or if the process runs with raised privileges.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    if is_privileged() { None } else { unchecked(name) }
}

/// All variables with their values; none if the process runs with raised privileges.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "this is the reader that others must use")]
    (!is_privileged()).then(env::vars_os).into_iter().flatten()
}

/// Whether `name` is set to something that [`variable`] withholds because the process runs with raised privileges.
#[must_use]
pub fn is_withheld(name: &str) -> bool {
    is_privileged() && unchecked(name).is_some()
}

/// The value of a variable, whatever the privileges of the process are.
fn unchecked(name: &str) -> Option<OsString> {
    #[expect(clippy::disallowed_methods, reason = "this is the reader that others must use")]
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether this process got rights at its start that its caller may lack.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[must_use]
#[allow(unsafe_code)] // no safe binding
pub fn is_privileged() -> bool {
    // SAFETY: getauxval takes any number and reads a table that the kernel wrote before the program began. Every kernel
    // since Linux 2.6 has the entry `AT_SECURE` in it.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether this process got rights at its start that its caller may lack.
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd"
))]
#[must_use]
#[allow(unsafe_code)] // no safe binding
pub fn is_privileged() -> bool {
    // SAFETY: issetugid has no arguments and cannot fail.
    unsafe { libc::issetugid() != 0 }
}

/// Whether this process got rights at its start that its caller may lack. Nothing here can tell, or nothing here raises them.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd"
)))]
#[must_use]
pub fn is_privileged() -> bool {
    false
}

/// Whether root alone can replace the file at this canonical path: root owns it and every folder above it, and nobody else may
/// write to them. A link on the path counts as replaceable, because it may change after this check.
#[cfg(unix)]
#[must_use]
pub fn is_of_system(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    const OTHERS_MAY_WRITE: u32 = 0o022;
    path.ancestors().all(|part| {
        std::fs::symlink_metadata(part)
            .is_ok_and(|found| !found.is_symlink() && found.uid() == 0 && found.mode() & OTHERS_MAY_WRITE == 0)
    })
}

/// Whether the system alone can replace the file at this canonical path. Nothing here tells, so nothing counts as such.
#[cfg(not(unix))]
#[must_use]
pub fn is_of_system(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_is_of_the_system_if_root_alone_can_replace_it() {
        use std::fs;
        use std::os::unix::fs::PermissionsExt as _;

        let shell = fs::canonicalize("/bin/sh").expect("every Unix has one");
        assert!(is_of_system(&shell));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = fs::canonicalize(folder.path()).expect("it is there").join("libtpu.so");
        fs::write(&file, "").expect("the folder is ours");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        assert!(!is_of_system(&file));
        assert!(!is_of_system(&shell.with_file_name("a-name-that-nothing-has")));
    }

    // Processes with raised privileges are in the tests of the suite, since a test would have to be one.
    #[test]
    fn without_raised_privileges_variables_are_read() {
        let path = variable("PATH").expect("tests have a PATH");
        assert!(!is_privileged() && !is_withheld("PATH"));
        assert_eq!(variables().find(|(name, _)| name == "PATH"), Some(("PATH".into(), path)));
        assert_eq!(variable("ZPROF_A_NAME_THAT_NOBODY_SETS"), None);
    }
}
