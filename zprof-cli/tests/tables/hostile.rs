//! Names that would act on a terminal or a spreadsheet: they come from a profile, a file or a folder that anybody may have made.

use std::fs;
use std::process::Command;

use zprof_runtime::display::is_printable;

use super::profiles::{of_runs, write};
use super::{run, run_on};

/// Clears the screen, sets the title, begins a line that looks like another program's, and turns the writing around.
const EVIL: &str =
    "\u{1b}[2J\u{1b}]0;title\u{7}\nzprof: all is well\r\u{9b}1m\u{7f}\u{202e}gpj\u{2066}\u{200f}\u{61c}\u{200b}";

/// Runs a command with a terminal for all of its output.
const TERMINAL: &str = r#"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
os.waitpid(pid, 0)
"#;

fn on_terminal(arguments: &[&str]) -> String {
    told_by_terminal(arguments, &[("NO_COLOR", "1")])
}

/// What a terminal gets, where these variables are set and no other that has to do with colours.
fn told_by_terminal(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_zprof")]).args(arguments);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        python.env_remove(name);
    }
    python.env("TERM", "xterm").envs(variables.iter().copied());
    let output = python.output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The terminal puts a carriage return before each line break.
    String::from_utf8(output.stdout).expect("the command writes UTF-8").replace("\r\n", "\n")
}

/// Characters that may stand in output for people.
fn assert_harmless(text: &str, arguments: &[&str]) {
    let acting: Vec<char> = text.chars().filter(|c| !is_printable(*c) && !matches!(c, '\n' | '\t')).collect();
    assert_eq!(acting, Vec::<char>::new(), "{arguments:?}: {text:?}");
}

#[test]
fn names_of_a_profile_and_of_folders_do_not_act_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = of_runs(&[(EVIL, 10), ("=1+1", 5)]);
    let path = write(folder.path(), &format!("host {}.xplane.pb", EVIL.replace('/', "")), &profile);
    for run in ["a", "b"] {
        let run = folder.path().join("log/plugins/profile").join(format!("{run}{EVIL}"));
        fs::create_dir_all(&run).expect("is created");
        fs::write(run.join("h.xplane.pb"), &profile).expect("is written");
    }
    let log = folder.path().join("log");
    let log = log.to_str().expect("is UTF-8");
    for arguments in [
        &["summary", &path][..],
        &["summary", &path, "--csv"],
        &["summary", &path, "--json"],
        &["summary", &path, "--planes", "zzz"],
        &["summary", log],
        &["diff", &path, &path],
        &["diff", &path, &path, "--csv"],
        &["flame", "--folded", &path],
        // The terminal by its names.
        &["flame", "--folded", &path, "-o", "/dev/tty"],
        &["flame", "--folded", &path, "-o", "/dev/stdout"],
        &["check", &path],
        &["check", &path, "--json"],
        // Mistakes that name a file.
        &["summary", &format!("{path}{EVIL}")],
        &["summary", &path, &path],
        &["convert", &path, "-o", &path],
        &["flame", &path, "-o", &path],
    ] {
        let shown = on_terminal(arguments);
        assert!(!shown.is_empty(), "{arguments:?}");
        assert_harmless(&shown, arguments);
        if arguments.contains(&"/dev/tty") {
            continue;
        }
        // What is no data is for people wherever it goes.
        let (_, out, error) = run(arguments);
        assert_harmless(&error, arguments);
        let is_data = arguments.iter().any(|argument| ["--csv", "--json", "--folded"].contains(argument));
        assert!(is_data || out.chars().all(|c| is_printable(c) || c == '\n'), "{arguments:?}: {out:?}");
        let lines = |text: &str| text.lines().filter(|line| *line == "zprof: all is well").count();
        assert_eq!(lines(&error), 0, "{error}");
    }
}

#[test]
fn a_terminal_has_colours_that_names_cannot_add_to_and_pipes_have_none() {
    let folder = tempfile::tempdir().expect("a folder");
    // A name with a colour of its own, and one with a code that our styles have too.
    let names = [("\u{1b}[35mviolet\u{1b}[0m", 10_000), ("\u{1b}[31mred", 200_000), (EVIL, 50_000)];
    let path = write(folder.path(), "p.xplane.pb", &of_runs(&names));
    let other = write(folder.path(), "q.xplane.pb", &of_runs(&[("red", 100)]));
    for (arguments, expected) in [
        (&["summary", &path][..], "\u{1b}[1m\u{1b}[36m/host:CPU\u{1b}[0m\n"),
        (&["diff", &path, &other], "\u{1b}[1m\u{1b}[33mnew\u{1b}[0m\n"),
        (&["check", &path], ": \u{1b}[32msound\u{1b}[0m: 0 errors"),
        (&["doctor"], "  \u{1b}[32myes\u{1b}[0m  enable: built in\n"),
    ] {
        let coloured = told_by_terminal(arguments, &[]);
        assert!(coloured.contains(expected), "{arguments:?}: {coloured:?}");
        // Without our codes, it is what a terminal without colours gets.
        let plain = on_terminal(arguments);
        let mut stripped = coloured.clone();
        for code in ["0", "1", "2", "31", "32", "33", "36"] {
            stripped = stripped.replace(&["\u{1b}[", code, "m"].concat(), "");
        }
        assert_eq!(stripped, plain, "{arguments:?}");
        assert_harmless(&plain, arguments);
        for variables in [&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")][..], &[("CLICOLOR", "0")], &[("TERM", "dumb")]]
        {
            assert_eq!(told_by_terminal(arguments, variables), plain, "{arguments:?} {variables:?}");
        }
        let (_, piped, _) = run(arguments);
        assert!(!piped.contains('\u{1b}'), "{arguments:?}: {piped:?}");
        // Data has no colours, whatever is forced.
        if arguments[0] != "doctor" {
            let data = told_by_terminal(&[arguments, &["--json"]].concat(), &[("CLICOLOR_FORCE", "1")]);
            assert!(!data.contains('\u{1b}'), "{arguments:?}: {data:?}");
        }
    }
}

#[test]
fn piped_data_keeps_every_byte_of_a_name() {
    let folded = run_on(&of_runs(&[("a\u{1b}[31m\u{202e}", 10)]), &["flame", "--folded", "-"]);
    assert_eq!(folded, (0, "a\u{1b}[31m\u{202e} 10\n".to_owned(), String::new()));
    let (code, json, _) = run_on(&of_runs(&[(EVIL, 10)]), &["summary", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    assert_eq!((code, &json[0]["planes"][0]["scopes"][0]["name"]), (0, &EVIL.into()));
}

#[test]
fn a_spreadsheet_finds_no_formula_in_csv() {
    let profile = of_runs(&[("=HYPERLINK(\"http://x\")", 40), ("-2+3", 30), ("@SUM(1)", 20), ("-7", 10), ("a=b", 5)]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "p.xplane.pb", &profile);
    // In both, the third cell of a row is the name.
    for arguments in [&["summary", "--csv", "--sort", "total", "-"][..], &["diff", "--csv", "-", &path]] {
        let (code, csv, error) = run_on(&profile, arguments);
        assert_eq!(code, 0, "{error}");
        for line in csv.lines().skip(1) {
            let begins = |cell: &&str| cell.starts_with(['=', '+', '@', '-', '\t']) && cell.parse::<f64>().is_err();
            let formulas: Vec<&str> = line.split(',').map(|cell| cell.trim_start_matches('"')).filter(begins).collect();
            assert_eq!(formulas, Vec::<&str>::new(), "{line}");
        }
        let names = ["\"'=HYPERLINK(\"\"http://x\"\")\"", "'-2+3", "'@SUM(1)", "-7", "a=b"];
        for name in names {
            let found = csv.lines().any(|line| line.split(',').nth(2) == Some(name));
            assert!(found, "no `{name}` in\n{csv}");
        }
    }
}
