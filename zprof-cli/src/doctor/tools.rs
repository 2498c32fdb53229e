//! Which of the tools that show profiles, or take them, are here.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::Check;
use crate::run::{Missing, find, output_of};
use crate::{neuron, nsys, rocprofv3, xctrace};

const GROUP: &str = "tools";

pub(super) fn all() -> Vec<Check> {
    vec![
        check(nsys::tool(), "--version", nsys::missing()),
        check(rocprofv3::tool().map(|tool| tool.path), "--version", rocprofv3::missing()),
        check(neuron::tool(), "--version", neuron::missing()),
        check(find("xctrace", &[]), "version", xctrace::missing()),
        check(find("xprof", &[]), "--version", xprof_missing()),
    ]
}

fn xprof_missing() -> Missing {
    Missing { tool: "xprof", places: "PATH".to_owned(), cure: "`pip install xprof`, in a virtual environment" }
}

/// The tool and what it says of its version.
fn check(found: Option<impl AsRef<OsStr>>, argument: &str, missing: Missing) -> Check {
    let Some(tool) = found else {
        return Check::no(GROUP, missing.tool, format!("not found in {}", missing.places), missing.cure);
    };
    let printed = output_of(tool.as_ref(), &[argument], Duration::from_secs(30));
    let version = printed.ok().filter(|printed| printed.status.success());
    let version = version.and_then(|printed| version_in(&format!("{}\n{}", printed.out, printed.err)));
    let version = version.unwrap_or_else(|| "version unknown".to_owned());
    Check::yes(GROUP, missing.tool, format!("{version}, at {}", Path::new(tool.as_ref()).display()))
}

/// The first line that holds a number.
fn version_in(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| line.contains(|letter: char| letter.is_ascii_digit()))?;
    Some(line.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_line_with_a_number() {
        assert_eq!(version_in("Tool\n  Version 1.2.3-a  \n2\n"), Some("Version 1.2.3-a".to_owned()));
        assert_eq!(version_in("none\n"), None);
    }
}
