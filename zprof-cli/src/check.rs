//! `zprof check`: whether a profile is sound, and what readers would trip over.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use zprof_runtime::display::printable;
use zprof_runtime::export::{CheckOptions, Checked, Finding, FindingKind, Severity, check};

use crate::args::Input;
use crate::input;
use crate::output::{print_json, print_text};
use crate::style::{self, paint};
use crate::units::{count, counted};

/// Check whether a profile is sound.
///
/// Errors are what makes readers lose or refuse something: broken structure, ids that mean nothing, strings that are not
/// UTF-8, times that cannot be, sizes that libraries refuse. Warnings are what some viewer shows wrong. The exit code is
/// 0 for a sound profile, and 1 for errors or a profile that cannot be read; with --strict for warnings too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  In a script: 0 if nothing would go wrong anywhere:
    zprof check --strict vm.xplane.pb > /dev/null
  Every finding, for a program:
    zprof check --json --max-per-kind 1000000 vm.xplane.pb")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Take warnings for errors.
    #[arg(long)]
    strict: bool,
    /// Print at most N findings of each kind; all are counted.
    #[arg(long, value_name = "N", default_value_t = 5)]
    max_per_kind: usize,
}

/// What `--json` prints for a space.
#[derive(Serialize)]
struct Report<'c> {
    space: &'c str,
    sound: bool,
    errors: u64,
    warnings: u64,
    planes: u64,
    lines: u64,
    events: u64,
    flows_unchecked: bool,
    kinds: Vec<Kind>,
    findings: Vec<Found<'c>>,
}

#[derive(Serialize)]
struct Kind {
    kind: &'static str,
    severity: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Found<'c> {
    kind: &'static str,
    severity: &'static str,
    message: &'c str,
    plane: Option<&'c str>,
    line: Option<&'c str>,
    event: Option<u64>,
    at: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut options = CheckOptions::default();
    options.max_per_kind = args.max_per_kind;
    let mut checked = Vec::new();
    for space in input::open(&args.input.input)?.spaces {
        let found = check(space.bytes(), &options).with_context(|| format!("failed to read {}", space.name))?;
        checked.push((space, found));
    }
    if args.json {
        let reports = checked.iter().map(|(space, checked)| Report::new(&space.label, checked, args.strict));
        print_json(&reports.collect::<Vec<_>>())?;
    } else {
        print_text(|out| {
            let mut spaces = checked.iter();
            spaces.try_for_each(|(space, checked)| write_text(out, &space.name, checked, args.strict))
        })?;
    }
    let sound = checked.iter().all(|(_, checked)| is_sound(checked, args.strict));
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_sound(checked: &Checked, is_strict: bool) -> bool {
    checked.count(Severity::Error) == 0 && !(is_strict && checked.count(Severity::Warning) > 0)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// `warning[overlap]`, in the colour of its severity.
fn label(kind: FindingKind) -> String {
    let style = match kind.severity() {
        Severity::Error => style::BAD,
        Severity::Warning => style::NOTE,
    };
    paint(style, format_args!("{}[{}]", severity(kind.severity()), kind.name()))
}

fn write_text(out: &mut dyn Write, name: &str, checked: &Checked, is_strict: bool) -> io::Result<()> {
    let name = printable(name);
    for (kind, number) in &checked.counts {
        let shown: Vec<_> = checked.findings.iter().filter(|finding| finding.kind == *kind).collect();
        for finding in &shown {
            writeln!(out, "{}: {}", label(*kind), printable(&finding.message))?;
            writeln!(out, "  {}{}", name, place(finding))?;
        }
        let rest = number.saturating_sub(u64::try_from(shown.len()).unwrap_or(u64::MAX));
        if rest > 0 {
            writeln!(out, "{}: {} more like this", label(*kind), count(rest))?;
        }
    }
    if checked.flows_unchecked {
        writeln!(out, "note: too many producers and consumers to look for those that are alone")?;
    }
    let (errors, warnings) = (checked.count(Severity::Error), checked.count(Severity::Warning));
    let verdict =
        if is_sound(checked, is_strict) { paint(style::GOOD, "sound") } else { paint(style::BAD, "not sound") };
    writeln!(
        out,
        "{name}: {verdict}: {}, {} in {} on {} of {}",
        counted(errors, "error"),
        counted(warnings, "warning"),
        counted(checked.events, "event"),
        counted(checked.lines, "line"),
        counted(checked.planes, "plane")
    )
}

/// Where a finding is: `, plane /host:CPU, line main, event 3, byte 120`.
fn place(finding: &Finding) -> String {
    let mut place = String::new();
    let parts = [
        ("plane", finding.plane.clone()),
        ("line", finding.line.clone()),
        ("event", finding.event.map(|event| event.to_string())),
        ("byte", finding.at.map(|at| at.to_string())),
    ];
    for (what, which) in parts {
        if let Some(which) = which {
            place.push_str(&format!(", {what} {}", printable(&which)));
        }
    }
    place
}

impl<'c> Report<'c> {
    fn new(name: &'c str, checked: &'c Checked, is_strict: bool) -> Self {
        let kinds = checked.counts.iter().map(|(kind, count)| Kind {
            kind: kind.name(),
            severity: severity(kind.severity()),
            count: *count,
        });
        let findings = checked.findings.iter().map(|finding| Found {
            kind: finding.kind.name(),
            severity: severity(finding.kind.severity()),
            message: &finding.message,
            plane: finding.plane.as_deref(),
            line: finding.line.as_deref(),
            event: finding.event,
            at: finding.at,
        });
        Self {
            space: name,
            sound: is_sound(checked, is_strict),
            errors: checked.count(Severity::Error),
            warnings: checked.count(Severity::Warning),
            planes: checked.planes,
            lines: checked.lines,
            events: checked.events,
            flows_unchecked: checked.flows_unchecked,
            kinds: kinds.collect(),
            findings: findings.collect(),
        }
    }
}
