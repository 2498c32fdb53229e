//! `zprof doctor`: what works here, and the cure for what does not.

mod permissions;
pub(crate) mod probe;
mod tools;

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use zprof_runtime::display::printable;
use zprof_runtime::{__doctor as runtime, FEATURES};

use crate::output::print;

/// Say what works on this machine, and the cure for what does not.
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
    /// Why it need not work here; `--strict` does not count it then.
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
    checks.extend(tools::all());
    checks.extend(permissions::all());
    let text = if args.json { json_text(&checks) } else { plain_text(&checks) };
    print(|out| out.write_all(text.as_bytes()))?;
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

fn plain_text(checks: &[Check]) -> String {
    let mut text = String::new();
    let mut group = "";
    for check in checks {
        if check.group != group {
            if !group.is_empty() {
                text.push('\n');
            }
            group = check.group;
            text.push_str(group);
            text.push('\n');
        }
        let mark = if check.works { "yes" } else { "no " };
        text.push_str(&format!("  {mark}  {}: {}\n", printable(&check.name), printable(&check.detail)));
        if let Some(cure) = &check.cure {
            text.push_str(&format!("       cure: {cure}\n"));
        }
        if let Some(note) = &check.note {
            text.push_str(&format!("       note: {note}\n"));
        }
    }
    text
}

/// `{"checks": [{"group", "name", "works", "detail", "cure", "note"}, …]}`; `cure` is null where nothing is to be done,
/// and `note` tells why, of what does not work.
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
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let checks = [
            Check::yes("tools", "nsys", "2022.4"),
            Check::no("tools", "xprof", "not found", "pip install xprof"),
            Check::yes("clock", "tsc", "good"),
            Check::unneeded("clock", "x", "none", "needs it not"),
        ];
        let text = "tools\n  yes  nsys: 2022.4\n  no   xprof: not found\n       cure: pip install xprof\n\nclock\n  yes  \
                    tsc: good\n  no   x: none\n       note: needs it not\n";
        assert_eq!(plain_text(&checks), text);
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
