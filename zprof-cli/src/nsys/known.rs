//! What the installed nsys knows, as its help tells: names of options, and their values where it lists them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

use crate::run::output_of;

/// Options by their long names, each with its values, none where they are not listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    options: BTreeMap<String, Vec<String>>,
}

impl Known {
    /// Asks nsys; `None` if it does not tell, and then everything has to be tried.
    pub(super) fn ask(nsys: &OsStr) -> Option<Self> {
        let printed = output_of(nsys, &["profile", "--help"], Duration::from_secs(30)).ok()?;
        let known = Self::parse(&(printed.out + &printed.err));
        known.has("--trace").then_some(known)
    }

    /// Reads the help: an option stands on a line of its own, such as `-t, --trace=`, and its description, further in,
    /// may have a sentence that lists the values in quotes.
    pub(super) fn parse(help: &str) -> Self {
        let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut name = String::new();
        let mut listing = false;
        for line in help.lines() {
            let text = line.trim();
            if let Some(option) = option_of(text) {
                name = option;
                options.entry(name.clone()).or_default();
                listing = false;
            } else if let Some(values) = options.get_mut(&name) {
                listing |= text.starts_with("Possible values are");
                if listing {
                    // Every second piece stands in quotes.
                    values.extend(text.split('\'').skip(1).step_by(2).map(str::to_owned));
                    listing = !text.ends_with('.');
                }
            }
        }
        Self { options }
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.options.contains_key(option)
    }

    /// Whether the option is known and may have the value, or lists none.
    pub(super) fn has_value(&self, option: &str, value: &str) -> bool {
        let values = self.options.get(option);
        values.is_some_and(|values| values.is_empty() || values.iter().any(|known| known == value))
    }
}

/// The long name, if a line introduces an option.
fn option_of(line: &str) -> Option<String> {
    if !line.starts_with('-') {
        return None;
    }
    let long = line.split([' ', ',']).find(|word| word.starts_with("--"))?;
    Some(long.split(['=', '[']).next().unwrap_or(long).to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::defaults;
    use super::*;

    /// Option lines and lists of values in the form of nsys 2022.4, with what it has of the defaults.
    const HELP: &str = "
\t-b, --backtrace=

\t   Possible values are 'lbr', 'fp', 'dwarf', or 'none'.
\t   Default is 'lbr'.

\t--cuda-graph-trace=

\t   Possible values are 'graph' or 'node'.

\t--cuda-memory-usage=

\t   Possible values are 'true' or 'false'.

\t-n, --inherit-environment=

\t   Possible values are 'true' or 'false'.

\t--nvtx-domain-[include|exclude]=

\t   Values are domains; 'default' is one.

\t-o, --output=

\t-t, --trace=

\t   Possible values are 'cuda', 'nvtx', 'cublas', 'cublas-verbose', 'cusparse',\x20
\t   'cusparse-verbose', 'mpi', 'osrt', 'cudnn',\x20
\t   'vulkan-annotations' or 'none'.
\t   Of 'syscall' it knows nothing.
";

    #[test]
    fn an_old_nsys_knows_less() {
        let known = Known::parse(HELP);
        assert_eq!(known.options["--backtrace"], ["lbr", "fp", "dwarf", "none"]);
        assert_eq!(known.options["--cuda-graph-trace"], ["graph", "node"]);
        assert!(known.has("--nvtx-domain-"));
        assert!(known.has("--output") && known.has_value("--output", "anything"));
        let arguments = defaults(Some(&known));
        let expected = [
            "profile",
            "-t",
            "cuda,nvtx,cublas,cublas-verbose,cusparse,cusparse-verbose,cudnn,osrt",
            "--inherit-environment=true",
            "--cuda-memory-usage",
            "true",
            "--backtrace=dwarf",
            "--cuda-graph-trace=node",
        ];
        assert_eq!(arguments.words, expected.map(OsString::from));
        assert_eq!(arguments.left_out, ["-t syscall", "--cuda-event-trace=false"]);
    }

    #[test]
    fn a_help_without_lists_forbids_nothing() {
        let known = Known::parse("  -t, --trace <apis>\n      What to trace.\n  --backtrace=<kind>\n");
        assert!(known.has_value("--trace", "syscall") && known.has_value("--backtrace", "dwarf"));
        assert!(!known.has("--cuda-graph-trace") && !known.has_value("--cuda-graph-trace", "node"));
    }
}
