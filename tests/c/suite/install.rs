//! Where `scripts/install-c` puts things, and what it says of that.

use std::fs;
use std::process::Command;

use crate::build::{package, run};

#[test]
fn a_folder_with_a_blank_is_a_place_whatever_cd_looks_through() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let libraries = folder.path().join("built");
    for path in [libraries.join("pre fix"), folder.path().join("pre fix")] {
        fs::create_dir_all(path).expect("the folder is writable");
    }
    for name in ["libzprof_c.a", "libzprof_c.so"] {
        fs::write(libraries.join(name), "").expect("the folder is writable");
    }
    let script = package().ancestors().nth(2).expect("the package lies two folders deep").join("scripts/install-c");
    let mut install = Command::new(script);
    // A shell with this variable takes a relative path for one below it.
    install.args(["pre fix", "built"]).current_dir(folder.path()).env("CDPATH", &libraries);
    assert_eq!(run(&mut install), (String::new(), String::new()));
    let installed = folder.path().join("pre fix");
    assert!(installed.join("include/zprof.h").is_file() && installed.join("lib/libzprof.a").is_file());
    assert_eq!(fs::read_dir(libraries.join("pre fix")).expect("it is there").count(), 0);
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "zprof"]).env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig"));
    let (flags, _) = run(&mut flags);
    let place = installed.display().to_string().replace(' ', "\\ ");
    assert_eq!(flags.trim_end(), format!("-I{place}/include -L{place}/lib -lzprof"));
}
