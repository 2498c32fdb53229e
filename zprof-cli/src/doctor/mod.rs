//! `zprof doctor`: what works here, and the cure for what does not.

mod permissions;
pub(crate) mod probe;
mod tools;

use std::fs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use zprof_runtime::display::printable;
use zprof_runtime::{__doctor as runtime, FEATURES};

use crate::output::{print, print_text};
use crate::style::{self, paint};
use crate::table;

/// Say what works on this machine, and the cure for what does not.
///
/// What does not work and is of no use here, such as the tool for an accelerator that this machine does not have, is left out.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  All of it, for people:
    zprof doctor
  What is missing, for a script:
    zprof doctor --json --strict")]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print also what nothing on this machine needs; JSON always has it.
    #[arg(long)]
    all: bool,
    /// Exit with 1 if anything is missing that this machine has use for.
    #[arg(long)]
    strict: bool,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    group: &'static str,
    name: String,
    works: bool,
    /// What was found.
    detail: String,
    /// What makes it work, where it does not.
    cure: Option<String>,
    /// Why it is of no use here, whether it works or not; `--strict` does not count it then.
    note: Option<String>,
}

impl Check {
    fn yes(group: &'static str, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { group, name: name.into(), works: true, detail: detail.into(), cure: None, note: None }
    }

    fn no(group: &'static str, name: impl Into<String>, detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { group, name: name.into(), works: false, detail: detail.into(), cure: Some(cure.into()), note: None }
    }

    /// It does not work, and need not.
    fn unneeded(
        group: &'static str,
        name: impl Into<String>,
        detail: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self { group, name: name.into(), works: false, detail: detail.into(), cure: None, note: Some(note.into()) }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut checks = features();
    checks.push(clock());
    checks.extend(probe::plugins());
    let tools = tools::all();
    let has = |name: &str| tools.iter().any(|tool| tool.name == name && (tool.works || tool.note.is_none()));
    let permissions = permissions::all(has("nsys"), ["nsys", "rocprofv3", "neuron-explorer"].into_iter().any(has));
    checks.extend(tools);
    checks.extend(permissions);
    if args.json {
        print(|out| out.write_all(json_text(&checks).as_bytes()))?;
    } else {
        // Lines stay whole in a pipe, where another program may look for one.
        let width = if io::stdout().is_terminal() { table::width() } else { usize::MAX };
        print_text(|out| out.write_all(plain_text(&checks, args.all, width).as_bytes()))?;
    }
    let fails = args.strict && checks.iter().any(|check| !check.works && check.note.is_none());
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Features of the runtime in this command. A program has its own.
fn features() -> Vec<Check> {
    let check = |(name, built): &(&str, bool)| {
        if *built {
            Check::yes("features of this command", *name, "built in")
        } else {
            let note = "nothing here needs it; for a program, `cargo tree -e features -i zprof` tells what it has";
            Check::unneeded("features of this command", *name, "not built in", note)
        }
    };
    FEATURES.iter().map(check).collect()
}

/// What scopes are timed by, and what the system itself uses.
fn clock() -> Check {
    const GROUP: &str = "clock";
    let source = runtime::clock_source();
    let kernel = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let kernel = kernel.map(|name| format!("; the kernel uses {}", name.trim())).unwrap_or_default();
    match source {
        "monotonic" => Check::no(
            GROUP,
            source,
            format!(
                "the processor's counter is not trusted here, so each scope pays for two system clock readings{kernel}"
            ),
            "profiles are right all the same; a virtual machine may offer the counter (`tsc`) by its settings, and \
             `dmesg | grep -i tsc` tells why the kernel took it off its list",
        ),
        counter => Check::yes(GROUP, counter, format!("the processor's own counter{kernel}")),
    }
}

/// The checks for people; those that are of no use here are named at the end, unless all are asked for.
fn plain_text(checks: &[Check], with_all: bool, width: usize) -> String {
    /// Where the text of a check begins.
    const INDENT: usize = 7;
    let mut text = String::new();
    let mut group = "";
    let (shown, left_out): (Vec<&Check>, Vec<&Check>) =
        checks.iter().partition(|check| with_all || check.note.is_none());
    for check in shown {
        if check.group != group {
            if !group.is_empty() {
                text.push('\n');
            }
            group = check.group;
            text.push_str(&format!("{}\n", paint(style::TITLE, group)));
        }
        let (mark, style) = match check {
            Check { works: true, .. } => ("yes", style::GOOD),
            Check { note: Some(_), .. } => ("no ", style::FAINT),
            _ => ("no ", style::BAD),
        };
        let found = format!("{}: {}", printable(&check.name), printable(&check.detail));
        text.push_str(&format!("  {}  {}\n", paint(style, mark), table::wrap(&found, width, INDENT)));
        for (what, why) in [("cure", &check.cure), ("note", &check.note)] {
            if let Some(why) = why {
                let indent = INDENT + what.len() + ": ".len();
                let blank = " ".repeat(INDENT);
                text.push_str(&format!("{blank}{}: {}\n", paint(style::NOTE, what), table::wrap(why, width, indent)));
            }
        }
    }
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|check| check.name.as_str()).collect();
        let told = format!("of no use here, and left out: {}; --all shows it", names.join(", "));
        text.push_str(&format!("\n{}\n", paint(style::FAINT, table::wrap(&printable(&told), width, 0))));
    }
    text
}

/// `{"checks": [{"group", "name", "works", "detail", "cure", "note"}, …]}`; `cure` is null where nothing is to be done,
/// and `note` says why the check is of no use here, or is null.
fn json_text(checks: &[Check]) -> String {
    let check = |check: &Check| {
        json!({
            "group": check.group,
            "name": check.name,
            "works": check.works,
            "detail": check.detail,
            "cure": check.cure,
            "note": check.note,
        })
    };
    let checks: Vec<Value> = checks.iter().map(check).collect();
    format!("{:#}\n", json!({ "checks": checks }))
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    #[test]
    fn a_long_text_is_wrapped_where_it_began() {
        let cure = "install what is missing, or name another one by the variable PJRT_PLUGIN_LIBRARY_PATH";
        let checks = [Check::no("plugins", "PJRT", "no plugin found though there is an accelerator", cure)];
        let text = "\
plugins
  no   PJRT: no plugin found though
       there is an accelerator
       cure: install what is
             missing, or name
             another one by the
             variable
             PJRT_PLUGIN_LIBRARY_PATH
";
        assert_eq!(strip_str(&plain_text(&checks, false, 36)).to_string(), text);
        let whole = plain_text(&checks, false, usize::MAX);
        assert_eq!(whole.lines().count(), 3, "{whole}");
    }

    #[test]
    fn both_forms_say_the_same() {
        let checks = [
            Check::yes("tools", "nsys", "2022.4"),
            Check::no("tools", "xprof", "not found", "pip install xprof"),
            Check::yes("clock", "tsc", "good"),
            Check::unneeded("clock", "x", "none", "needs it not"),
        ];
        let plain = |with_all: bool| strip_str(&plain_text(&checks, with_all, 80)).to_string();
        let needed = "tools\n  yes  nsys: 2022.4\n  no   xprof: not found\n       cure: pip install xprof\n\nclock\n  yes  \
                      tsc: good\n";
        assert_eq!(plain(false), format!("{needed}\nof no use here, and left out: x; --all shows it\n"));
        assert_eq!(plain(true), format!("{needed}  no   x: none\n       note: needs it not\n"));
        let value: Value = serde_json::from_str(&json_text(&checks)).expect("it is JSON");
        assert_eq!(
            value["checks"][1],
            json!({"group": "tools", "name": "xprof", "works": false, "detail": "not found", "cure": "pip install xprof",
                   "note": null})
        );
        assert_eq!(value["checks"][2]["cure"], Value::Null);
        assert_eq!((&value["checks"][3]["cure"], &value["checks"][3]["note"]), (&Value::Null, &json!("needs it not")));
    }
}
