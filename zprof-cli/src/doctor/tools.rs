//! Which of the tools that show profiles, or take them, are here.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::Check;
use crate::run::{Missing, find, on_path, output_of};
use crate::{neuron, nsys, rocprofv3, xctrace};

const GROUP: &str = "tools";

/// The drivers of accelerators, where Linux shows that they are here.
const NVIDIA: &str = "/proc/driver/nvidia";
const AMD: &str = "/dev/kfd";
const NEURON: &str = "/dev/neuron0";
const TPU: &str = "/dev/accel0";

/// Whether the driver of a tool's accelerator is here.
fn has(driver: &str) -> bool {
    Path::new(driver).exists()
}

/// Whether the driver of any accelerator is here.
pub(super) fn has_accelerator() -> bool {
    [NVIDIA, AMD, NEURON, TPU].into_iter().any(has)
}

pub(super) fn all() -> Vec<Check> {
    vec![
        check(nsys::tool(), "--version", nsys::missing(), has(NVIDIA)),
        check(rocprofv3::tool().map(|tool| tool.path), "--version", rocprofv3::missing(), has(AMD)),
        check(neuron::tool(), "--version", neuron::missing(), has(NEURON)),
        check(find("xctrace", &[]), "version", xctrace::missing(), cfg!(target_os = "macos")),
        check(find("xprof", &[]), "--version", xprof_missing(), true),
    ]
}

fn xprof_missing() -> Missing {
    Missing { tool: "xprof", places: "PATH".to_owned(), cure: "`pip install xprof`, in a virtual environment" }
}

/// The tool and what it says of its version. What it is for may not be here, and then it is not missed.
fn check(found: Option<impl AsRef<OsStr>>, argument: &str, missing: Missing, is_for_here: bool) -> Check {
    let Some(tool) = found else {
        let make = if is_for_here { Check::no } else { Check::unneeded };
        return make(GROUP, missing.tool, format!("not found in {}", missing.places), missing.cure.to_owned());
    };
    let printed = output_of(tool.as_ref(), &[argument], Duration::from_secs(30));
    let version = printed.ok().filter(|printed| printed.status.success());
    let version = version.and_then(|printed| version_in(&format!("{}\n{}", printed.out, printed.err)));
    let version = version.unwrap_or_else(|| "version unknown".to_owned());
    let word = Path::new(tool.as_ref());
    let path = word.to_str().and_then(on_path).unwrap_or_else(|| word.to_owned());
    Check::yes(GROUP, missing.tool, format!("{version}, at {}", path.display()))
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
