//! The commands and the program of docs/c.md, run as they stand there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use zprof_tests::blocks::block;
use zprof_tests::fake::built;
use zprof_tests::profile::{line, read_file, stats};

use crate::build::{repository, run};

#[test]
fn the_commands_of_the_document_install_the_library_and_build_programs_that_run() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = |name: &str| folder.path().join(name);
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();

    // The program is that of the document: the function, and the session around a call of it.
    let function = block(repository(), "docs/c.md", "#include <zprof.h>");
    let session = block(repository(), "docs/c.md", "zprof_options options = ZPROF_OPTIONS_INIT;");
    let session = session.replace("/tmp/profiles", &text(&path("profiles"))).replace("// …", "decode(9, \"greedy\");");
    let program = format!("{function}\n#include <stdio.h>\n\nint main(void) {{\n{session}    return 0;\n}}\n");
    fs::write(path("program.c"), program).expect("the folder is ours");

    // Cargo has built the library already; the script finds it where cargo would have put it.
    let stand_in = "#!/bin/sh\n[ \"$*\" = 'build --release -p zprof-c' ]\n";
    fs::create_dir_all(path("bin")).expect("the folder is ours");
    fs::write(path("bin/cargo"), stand_in).expect("the folder is ours");
    fs::set_permissions(path("bin/cargo"), fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let libraries = built("zprof_c").parent().expect("it lies in a folder").to_owned();
    symlink(libraries, path("release")).expect("the folder is ours");
    for name in ["scripts", "zprof-c"] {
        symlink(repository().join(name), path(name)).expect("the folder is ours");
    }

    let commands = block(
        repository(),
        "docs/c.md",
        "scripts/install-c ~/.local                        # builds; libzprof.so, libzprof.a, zprof.h, and files for pkg-config",
    );
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &commands]).current_dir(folder.path()).env_clear();
    shell.env("HOME", folder.path()).env("CARGO_TARGET_DIR", folder.path());
    shell.env("PATH", format!("{}:/usr/bin:/bin", path("bin").display()));
    let (told, complained) = run(&mut shell);

    let space = path("profiles/plugins/profile/profiling/profiling.xplane.pb");
    let said = format!("5 scopes in {}\n", space.display());
    assert_eq!((told, complained.as_str()), (said.repeat(2), ""));
    let (lines, warnings, _) = read_file(&space);
    assert_eq!(warnings, Vec::<String>::new());
    let mut expected = vec![("decode", stats([("tokens", 9.into()), ("mode", "greedy".into())]))];
    expected.extend((0..4).map(|layer| ("attend", stats([("layer", layer.into())]))));
    let main = lines.iter().find(|line| line.name != "_counters_").expect("the main thread");
    assert_eq!(main.told().into_iter().map(|(name, stats)| (name, stats.clone())).collect::<Vec<_>>(), expected);
    assert_eq!(line(&lines, "_counters_").names(), ["queue"]);

    // One program looks for the library, and the other has it.
    let needs = |program: &str| {
        let (dynamic, _) = run(Command::new("readelf").arg("-d").arg(path(program)));
        dynamic.contains("Shared library: [libzprof.so")
    };
    assert_eq!(["program", "static-program"].map(needs), [true, false]);
}
