//! Builds programs in C and C++ against the installed C API.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;
use zprof_tests::fake::built;

/// What programs are linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Static,
}

pub(crate) const C99: &[&str] = &["gcc", "-std=c99", "-D_POSIX_C_SOURCE=200809L"];
pub(crate) const CXX11: &[&str] = &["g++", "-std=c++11"];
pub(crate) const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn repository() -> &'static Path {
    package().ancestors().nth(2).expect("the package lies two folders deep")
}

/// Where the C API is installed, for this process.
pub(crate) fn installed() -> &'static Path {
    static INSTALLED: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let library = built("zprof_c");
        let libraries = library.parent().expect("it lies in a folder");
        let script = repository().join("scripts/install-c");
        run(Command::new(script).arg(folder.path()).arg(libraries));
        folder
    });
    INSTALLED.path()
}

/// Runs a program that must end well; gives what it wrote to standard output and to standard error.
pub(crate) fn run(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap_or_else(|error| panic!("failed to run {command:?}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes UTF-8");
    let (told, complained) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}:\n{told}{complained}", output.status);
    (told, complained)
}

/// What pkg-config says.
fn flags(of: &[&str]) -> Vec<String> {
    let path = installed().join("lib/pkgconfig");
    let (flags, _) = run(Command::new("pkg-config").args(of).arg("zprof").env("PKG_CONFIG_PATH", path));
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Compiles and links a program of the folder `programs` into `folder`.
pub(crate) fn program(compiler: &[&str], source: &str, linked: Linked, more: &[&str], folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(WARNINGS).args(["-g", "-O1", "-pthread"]).args(more);
    command.arg(package().join("programs").join(source)).arg("-o").arg(&program).args(flags(&["--cflags"]));
    match linked {
        Linked::Shared => {
            let lib = installed().join("lib");
            command.args(flags(&["--libs"])).arg(format!("-Wl,-rpath,{}", lib.display()));
        }
        // As its name, so that the linker does not take the shared one that lies beside it.
        Linked::Static => {
            let flags = flags(&["--static", "--libs"]);
            command.args(flags.iter().map(|flag| if flag == "-lzprof" { "-l:libzprof.a" } else { flag }));
        }
    }
    run(&mut command);
    program
}
