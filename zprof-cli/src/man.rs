//! `zprof man`: manual pages, made from the definition of the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::output::Target;

/// Write the manual pages into a folder.
///
/// One page for zprof and one for each of its commands; `man zprof` looks for them in ~/.local/share/man/man1.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  For this user:
    zprof man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// The folder; it is made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    fs::create_dir_all(&args.folder).with_context(|| format!("failed to create `{}`", args.folder.display()))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write(command, &args.folder)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and those of its own commands.
fn write(command: Command, folder: &Path) -> Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write(inner.clone(), folder)?;
    }
    let command = command.subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND");
    let man = Man::new(command).source(concat!("zprof ", env!("CARGO_PKG_VERSION"))).manual("zprof manual");
    let path = folder.join(man.get_filename());
    let mut page = Vec::new();
    let rendered = man.render(&mut page).map_err(anyhow::Error::from);
    let page = rendered.and_then(|()| Ok(String::from_utf8(page)?)).context("failed to make a manual page")?;
    let page = polish(&page);
    Target::of(&path)?
        .write(|out| out.write_all(page.as_bytes()).with_context(|| format!("failed to write to `{}`", path.display())))
}

/// Makes a page of what is a help text in the clothes of one: words in backticks become bold, no line speaks of another
/// help text, examples have a heading, and the page's date, which it has none of, keeps its place in the title.
fn polish(page: &str) -> String {
    let page = page.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    let mut polished = String::new();
    for line in page.lines() {
        let line = line.trim_end().replace(" (see a summary with \\*(Aq\\-h\\*(Aq)", "");
        let line = match line.split_once(" 1  ") {
            Some((title, rest)) if title.starts_with(".TH ") => format!("{title} 1 \"\" {rest}"),
            _ => line,
        };
        // What stands between two backticks is every second piece; a last one without its partner stays.
        let mut pieces = line.split('`').peekable();
        let mut code = false;
        while let Some(piece) = pieces.next() {
            let closed = pieces.peek().is_some();
            match (code, closed) {
                (true, true) => polished.extend(["\\fB", piece, "\\fR"]),
                (true, false) => polished.extend(["`", piece]),
                (false, _) => polished.push_str(piece),
            }
            code = !code;
        }
        polished.push('\n');
    }
    polished
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_marks_of_a_help_text() {
        let page = ".TH zprof\\-x 1  \"zprof 1\" m\nthe `a b` and `\\-`, it`s \nPrint help (see a summary with \\*(Aq\\-h\\*(Aq)\n.SH EXTRA\nExamples:\n  x\n";
        let polished = ".TH zprof\\-x 1 \"\" \"zprof 1\" m\nthe \\fBa b\\fR and \\fB\\-\\fR, it`s\nPrint help\n.SH EXAMPLES\n  x\n";
        assert_eq!(polish(page), polished);
    }
}
