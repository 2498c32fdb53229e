//! Stand-ins for tools: scripts that write down their arguments and environment, run the program where they are asked to
//! run one, and leave a report.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with stand-ins in `bin`, a program, and a place to run in.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// Runs what follows the tool's own arguments: the words from the program's name on.
const RUNS: &str = r#"while [ $# -gt 0 ] && [ "${1##*/}" != prog ]; do shift; done
"$@"
"#;

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        fs::set_permissions(bench.root(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        for name in ["bin", "work"] {
            fs::create_dir(bench.root().join(name)).expect("the folder is ours");
            fs::set_permissions(bench.root().join(name), fs::Permissions::from_mode(0o777)).expect("it is ours");
        }
        bench
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.root().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// A script of `sh`.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
        fs::write(&path, format!("#!/bin/sh\n{text}")).expect("the folder is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// A stand-in for a tool: writes each call's words and environment down, then does `text`.
    pub(crate) fn tool(&self, name: &str, text: &str) {
        let record = self.path(&format!("{}.record", name.rsplit('/').next().expect("a name")));
        self.script(
            name,
            &format!(
                r#"{{ printf 'call\0'; for word in "$@"; do printf '%s\0' "$word"; done; }} >>{record}
env -0 >{record}.env
{text}"#
            ),
        );
    }

    /// A stand-in that runs the program, leaves a report and passes the program's exit code on.
    pub(crate) fn runner(&self, name: &str, report: &str) {
        self.tool(name, &format!("{RUNS}code=$?\n{report}\nexit $code\n"));
    }

    /// The program: it writes its words down and ends with 5.
    pub(crate) fn program(&self) -> String {
        self.tool("prog", "exit 5\n");
        self.path("prog")
    }

    /// The words of each call of a tool.
    pub(crate) fn calls(&self, name: &str) -> Vec<Vec<String>> {
        let record = fs::read_to_string(self.root().join(format!("{name}.record"))).unwrap_or_default();
        let mut calls: Vec<Vec<String>> = Vec::new();
        for word in record.split_terminator('\0') {
            if word == "call" {
                calls.push(Vec::new());
            } else {
                calls.last_mut().expect("a call comes first").push(word.to_owned());
            }
        }
        calls
    }

    /// The environment of the last call of a tool.
    pub(crate) fn environment(&self, name: &str) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.root().join(format!("{name}.record.env"))).expect("it was called");
        let pairs = text.split_terminator('\0').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// What a tool's environment has that the command's had not.
    pub(crate) fn added(&self, name: &str) -> BTreeMap<String, String> {
        let shell = ["_", "PWD", "OLDPWD", "SHLVL"];
        let own = self.base();
        let environment = self.environment(name).into_iter();
        environment.filter(|(name, value)| own.get(name) != Some(value) && !shell.contains(&name.as_str())).collect()
    }

    fn base(&self) -> BTreeMap<String, String> {
        let path = format!("{}/bin:/usr/bin:/bin", self.root().display());
        [("PATH", path), ("HOME", self.path("home")), ("LANG", "C".to_owned())]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    /// The `zprof` command, with the stand-ins on its PATH and nothing else in its environment.
    pub(crate) fn zprof(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zprof"));
        command.args(arguments).env_clear().envs(self.base()).current_dir(self.work());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.zprof(arguments).output().expect("zprof runs")
    }
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Pairs as a map, for comparing.
pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
