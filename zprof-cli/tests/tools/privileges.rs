//! The command as a setuid program, which it must not be: it would write files and start programs with rights that its caller
//! lacks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn the_command_does_not_run_with_raised_privileges() {
    let process = fs::metadata("/proc/self").expect("this process has an entry");
    if process.uid() != 0 {
        println!("skipped: only root can install a program with raised privileges");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    let program = folder.path().join("zprof");
    fs::copy(env!("CARGO_BIN_EXE_zprof"), &program).expect("the folder is ours");
    for (mode, expected) in [(0o755, (Some(0), "")), (0o4755, (Some(1), REFUSED)), (0o2755, (Some(1), REFUSED))] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("the folder is ours");
        let output = Command::new(&program).args(["nsys", "--dry-run", "--", "ls"]).uid(65_534).gid(65_534).output();
        let output = output.expect("everybody may run it");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), expected, "{mode:o} in {}", folder.path().display());
        assert_eq!(output.stdout.is_empty(), mode != 0o755);
    }
}

const REFUSED: &str = "zprof: this program has been given raised privileges (setuid, setgid or file capabilities) and does not \
                       run with them: it writes files and starts programs that its caller names\n";
