//! Running processes: who is whose child, and which of them is the program that a tool was asked to run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) words: Words,
}

/// What a process was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Word by word.
    Exact(Vec<OsString>),
    /// With blanks between them, as `ps` tells.
    Joined(String),
}

/// Every process that can be seen.
pub(super) fn all() -> Vec<Process> {
    if Path::new("/proc/self/stat").exists() { from_proc() } else { from_ps() }
}

/// Linux: a folder for each process.
fn from_proc() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read_process(&entry.path(), entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn read_process(folder: &Path, pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The second field is the name in brackets, which may hold brackets and blanks: state, parent, group follow it.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().skip(1);
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let words = fs::read(folder.join("cmdline")).ok()?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0).map(os_string).collect();
    Some(Process { pid, parent, group, words: Words::Exact(words) })
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt;

    OsStr::from_bytes(bytes).to_owned()
}

#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> OsString {
    OsString::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Other systems: what `ps` tells.
fn from_ps() -> Vec<Process> {
    let output = std::process::Command::new("ps").args(["-axww", "-o", "pid=,ppid=,pgid=,command="]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(parse_ps).collect()
}

fn parse_ps(line: &str) -> Option<Process> {
    let mut rest = line;
    let mut number = || {
        let (word, after) = rest.trim_start().split_once(char::is_whitespace)?;
        rest = after;
        word.parse().ok()
    };
    let (pid, parent, group) = (number()?, number()?, number()?);
    Some(Process { pid, parent, group, words: Words::Joined(rest.trim_start().to_owned()) })
}

/// A process and what it has started, directly or not: parents come before children.
pub(super) fn tree(all: &[Process], root: i32) -> Vec<&Process> {
    let mut found: Vec<&Process> = all.iter().filter(|process| process.pid == root).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(all.iter().filter(|process| process.parent == parent && process.pid != parent));
        next += 1;
    }
    found
}

/// What the program's process looks like.
#[derive(Debug)]
pub(super) struct Program {
    words: Vec<OsString>,
    /// What a script's first line puts before its words, if it is a script.
    interpreter: Vec<OsString>,
}

impl Program {
    pub(super) fn new(words: &[OsString]) -> Self {
        let interpreter = words.first().and_then(|name| resolve(name)).map(|path| shebang(&path)).unwrap_or_default();
        Self { words: words.to_vec(), interpreter }
    }

    /// The program among what a tool has started: the first that was started with its words.
    pub(super) fn among<'a>(&self, tree: &[&'a Process]) -> Option<&'a Process> {
        tree.iter().find(|process| self.is(&process.words)).copied()
    }

    fn is(&self, words: &Words) -> bool {
        match words {
            Words::Exact(words) => {
                let Some(before) = words.len().checked_sub(self.words.len()) else { return false };
                let (start, end) = words.split_at(before);
                let same = same_file_name(&end[0], &self.words[0]) && end[1..] == self.words[1..];
                same && (start.is_empty() || self.is_interpreter(start))
            }
            Words::Joined(text) => {
                let words = |words: &[OsString]| {
                    words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
                };
                let own = words(&self.words);
                // The path before the name may have been added.
                let rest = text.strip_suffix(&own);
                let interpreter = words(&self.interpreter);
                rest.is_some_and(|rest| {
                    rest.is_empty()
                        || rest.ends_with('/') && !rest.contains(' ')
                        || !interpreter.is_empty() && rest.starts_with(&interpreter)
                })
            }
        }
    }

    /// `#!/usr/bin/env python3` is seen as `/usr/bin/env python3` at first and as `python3` then.
    fn is_interpreter(&self, start: &[OsString]) -> bool {
        let Some(skipped) = self.interpreter.len().checked_sub(start.len()) else { return false };
        let same = |(a, b): (&OsString, &OsString)| same_file_name(a, b);
        start.iter().zip(&self.interpreter[skipped..]).all(same)
    }
}

fn same_file_name(a: &OsStr, b: &OsStr) -> bool {
    a == b || Path::new(a).file_name().is_some_and(|name| Some(name) == Path::new(b).file_name())
}

/// The file that a program's name stands for.
fn resolve(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name));
    }
    super::on_path(name.to_str()?)
}

/// The words of a script's first line, as Linux takes them: the interpreter, and all that follows as one word.
fn shebang(path: &Path) -> Vec<OsString> {
    use std::io::Read;

    // The kernel reads no more.
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    if read.is_err() || !start.starts_with(b"#!") {
        return Vec::new();
    }
    let line = start[2..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words = line.trim().split_once(char::is_whitespace);
    match words {
        Some((interpreter, argument)) => vec![interpreter.into(), argument.trim().into()],
        None => vec![line.trim().into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, words: &str) -> Process {
        let words = Words::Exact(words.split(' ').map(OsString::from).collect());
        Process { pid, parent, group: 1, words }
    }

    #[test]
    fn this_process_is_seen_both_ways() {
        let own = i32::try_from(std::process::id()).expect("numbers of processes are small");
        let find = |list: Vec<Process>| list.into_iter().find(|process| process.pid == own);
        let exact = find(from_proc()).expect("it runs");
        let expected: Vec<OsString> = std::env::args_os().collect();
        assert_eq!(exact.words, Words::Exact(expected.clone()));
        if super::super::on_path("ps").is_some() {
            let joined = find(from_ps()).expect("it runs");
            let expected = expected.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            assert_eq!(joined, Process { words: Words::Joined(expected), ..exact });
        }
    }

    #[test]
    fn the_program_is_found_below_its_tool() {
        let all = [
            process(1, 0, "init"),
            process(4, 3, "nsys-launcher /tmp/x"),
            process(5, 4, "/usr/bin/prog --n 1"),
            process(3, 2, "nsys profile -t cuda prog --n 1"),
            process(2, 1, "sudo -E nsys profile -t cuda prog --n 1"),
            process(6, 5, "/usr/bin/prog --n 1"),
            process(7, 1, "prog --n 1"),
        ];
        let tree = tree(&all, 2);
        assert_eq!(tree.iter().map(|process| process.pid).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
        let program = |words: &[&str]| Program::new(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let found = |words: &[&str]| program(words).among(&tree).map(|process| process.pid);
        assert_eq!(found(&["prog", "--n", "1"]), Some(5), "not its tool, whose last words are the same, nor its child");
        assert_eq!(found(&["prog", "--n", "2"]), None);
        assert_eq!(found(&["prog"]), None);
    }

    #[test]
    fn a_script_is_found_behind_its_interpreter() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("prog");
        fs::write(&script, "#! /usr/bin/env python3\nprint()\n").expect("the folder is ours");
        let path = script.to_str().expect("UTF-8");
        let program = Program::new(&[path.into(), "x".into()]);
        for (words, expected) in [
            (format!("/usr/bin/env python3 {path} x"), true),
            (format!("python3 {path} x"), true),
            (format!("/usr/bin/python3 {path} x"), true),
            (format!("{path} x"), true),
            (format!("nsys {path} x"), false),
            (format!("nsys python3 {path} x"), false),
        ] {
            assert_eq!(program.among(&[&process(1, 0, &words)]).is_some(), expected, "{words}");
            let joined = Process { words: Words::Joined(words.clone()), ..process(1, 0, "") };
            if !words.contains("python3 ") || words.starts_with("/usr/bin/env") {
                assert_eq!(program.among(&[&joined]).is_some(), expected, "{words}");
            }
        }
    }

    #[test]
    fn lines_of_ps_are_read() {
        let expected = Process { pid: 12, parent: 1, group: 12, words: Words::Joined("a b  c".to_owned()) };
        assert_eq!(parse_ps("   12     1    12 a b  c"), Some(expected));
        assert_eq!(parse_ps(""), None);
    }
}
