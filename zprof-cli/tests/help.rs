//! Help texts, manual pages and completions: how they read, and that those in the repository are what the command makes.
//!
//! After a change of the command line, `UPDATE_GOLDEN=1 cargo test -p zprof-cli --test help` writes them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zprof_runtime::environment::variable;

const SHELLS: [(&str, &str); 3] = [("bash", "zprof.bash"), ("zsh", "_zprof"), ("fish", "zprof.fish")];

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What `zprof` prints for `arguments`, on no terminal.
fn zprof(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_zprof"))
        .args(arguments)
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .expect("zprof runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).expect("is text")
}

/// Compares what is in the repository with what was made, file by file; or replaces it.
fn check(folder: &str, made: &BTreeMap<String, String>) {
    let folder = package().join(folder);
    if variable("UPDATE_GOLDEN").is_some() {
        // What is no longer made goes with it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("is created");
        for (name, text) in made {
            fs::write(folder.join(name), text).expect("is written");
        }
    }
    let stored: BTreeMap<String, String> = files(&folder);
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    let cure = "run `UPDATE_GOLDEN=1 cargo test -p zprof-cli --test help` and look at the difference";
    assert_eq!(names(&stored), names(made), "{cure}");
    for (name, text) in made {
        assert!(stored[name] == *text, "{} is not what zprof makes; {cure}", folder.join(name).display());
    }
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("failed to list {}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("can be read").path());
    let name = |path: &PathBuf| path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    paths.map(|path| (name(&path), fs::read_to_string(&path).expect("is text"))).collect()
}

/// The names in the list of commands of a help text, but `help` itself.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    list.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// Every command, the commands of commands too, as its words.
fn all() -> Vec<Vec<String>> {
    let mut found = vec![vec![]];
    let mut next = 0;
    while next < found.len() {
        let words: Vec<String> = found[next].clone();
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = zprof(&arguments);
        found.extend(commands(&help).iter().map(|name| [&words[..], &[(*name).to_owned()]].concat()));
        next += 1;
    }
    found
}

#[test]
fn the_help_is_as_it_was_read_last() {
    let help = zprof(&["help"]);
    assert_eq!(help, zprof(&["--help"]));
    check("tests/golden/help", &BTreeMap::from([("zprof.txt".to_owned(), help)]));
}

#[test]
fn help_texts_fit_80_columns() {
    let all = all();
    assert!(all.len() > 3, "{all:?}");
    for words in all {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut texts = vec![zprof(&[&words[..], &["-h"]].concat()), zprof(&[&words[..], &["--help"]].concat())];
        if !words.is_empty() {
            texts.push(zprof(&[&["help"], &words[..]].concat()));
        }
        for text in texts {
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
            assert_eq!(wide, Vec::<&str>::new(), "{words:?}");
            let first = text.split("\n\n").next().unwrap_or_default();
            assert!(first.len() > 15 && !first.starts_with("Usage"), "{words:?} does not say what it is for");
        }
    }
}

#[test]
fn manual_pages_are_current_and_plain() {
    let folder = tempfile::tempdir().expect("a folder");
    zprof(&["man", folder.path().join("new/man").to_str().expect("is text")]);
    let pages = files(&folder.path().join("new/man"));
    let mut expected: Vec<String> =
        all().iter().map(|words| format!("{}.1", [&["zprof".to_owned()], &words[..]].concat().join("-"))).collect();
    expected.sort();
    assert_eq!(pages.keys().cloned().collect::<Vec<_>>(), expected, "a page a command");
    for (name, page) in &pages {
        for mark in ["`", "see a summary", "see more", "<subcommands>", "SUBCOMMANDS", " \n", ".TH zprof 1  "] {
            assert!(!page.contains(mark), "{name} has {mark:?}");
        }
        assert!(page.contains(&format!(".TH {} 1 \"\" \"zprof ", name.trim_end_matches(".1"))), "{name}: {page}");
    }
    check("man", &pages);
}

#[test]
fn completions_are_current() {
    let made = SHELLS.map(|(shell, file)| (file.to_owned(), zprof(&["completions", shell])));
    check("completions", &BTreeMap::from(made));
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("zprof.bash");
    fs::write(&script, zprof(&["completions", "bash"])).expect("is written");
    let complete = |words: &str| {
        let program = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _zprof zprof \"${{COMP_WORDS[COMP_CWORD]}}\" x; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &program]).output().expect("bash runs");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("is text").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("zprof vie"), ["view"]);
    assert_eq!(complete("zprof view --on"), ["--once"]);
    assert_eq!(complete("zprof completions fi"), ["fish"]);
}
