//! Which PJRT plugins are here, and whether they can profile. Each is loaded in a process of its own, since a foreign
//! library may crash or never return.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use zprof_runtime::{__doctor as runtime, Platform};

use super::{Check, tools};
use crate::run::output_of;

const GROUP: &str = "plugins";

/// How long a plugin may take to be loaded.
const LIMIT: Duration = Duration::from_secs(30);

/// The word that makes this program a probing process. It is no command for people: help and completions do not have it.
const WORD: &str = "__probe-plugin";

/// The plugin to be loaded, if the command line is that of a probing process.
pub(crate) fn asked(arguments: &[OsString]) -> Option<&Path> {
    match arguments {
        [_, word, path] if word == WORD => Some(Path::new(path)),
        _ => None,
    }
}

/// What a probing process does: loads the plugin and prints what it is, as JSON on a line of its own, after whatever
/// the library prints.
pub(crate) fn run(path: &Path) -> Result<ExitCode> {
    let platform = Platform::load(path)?;
    let (major, minor) = platform.api_version().unwrap_or_default();
    let answer = json!({
        "version": format!("{major}.{minor}"),
        "profiles": platform.has_profiler(),
        "describe": platform.describe(),
    });
    println!("\n{answer}");
    Ok(ExitCode::SUCCESS)
}

/// Every plugin that `Platform::auto` would try.
pub(super) fn plugins() -> Vec<Check> {
    let candidates = runtime::plugin_candidates();
    if candidates.is_empty() {
        let cure = "for an accelerator, install its plugin (a `jax_plugins` or `libtpu` wheel, for example) or name it by \
                    PJRT_PLUGIN_LIBRARY_PATH; the host is profiled without";
        let make = if tools::has_accelerator() { Check::no } else { Check::unneeded };
        return vec![make(GROUP, "PJRT".to_owned(), "no plugin found".to_owned(), cure.to_owned())];
    }
    candidates.iter().map(|candidate| check(&candidate.path, &candidate.place)).collect()
}

fn check(path: &Path, place: &str) -> Check {
    let name = path.display().to_string();
    match probe(path) {
        Ok(Answer { version, profiles: true, .. }) => {
            Check::yes(GROUP, name, format!("PJRT {version}, can profile; found {place}"))
        }
        Ok(Answer { version, describe, .. }) => Check::no(
            GROUP,
            name,
            format!("PJRT {version}, {describe}; found {place}"),
            "a newer plugin may have the profiler extension; sessions with this one hold the host's part",
        ),
        Err(why) => Check::no(
            GROUP,
            name,
            format!("cannot be used: {why}; found {place}"),
            "install what it needs, or name another by PJRT_PLUGIN_LIBRARY_PATH",
        ),
    }
}

/// What a plugin has told.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    version: String,
    profiles: bool,
    /// Why it cannot profile, in words.
    describe: String,
}

/// Asks a process to load the plugin.
fn probe(path: &Path) -> Result<Answer, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let arguments = [OsString::from(WORD), path.into()];
    let printed = output_of(own.as_os_str(), &arguments, LIMIT).map_err(|error| error.to_string())?;
    if printed.status.success() {
        return parse(&printed.out).ok_or_else(|| "it ended the process before it could be asked".to_owned());
    }
    let told = printed.err.lines().rev().find_map(|line| line.strip_prefix("zprof: "));
    Err(told.map_or_else(|| format!("it ended the process that loaded it ({})", printed.status), str::to_owned))
}

fn parse(out: &str) -> Option<Answer> {
    let value: Value = serde_json::from_str(out.lines().last()?).ok()?;
    let describe = value["describe"].as_str()?;
    // "…, cannot profile: WHY; found …".
    let describe = describe.find("cannot profile").map_or(describe, |start| &describe[start..]);
    Some(Answer {
        version: value["version"].as_str()?.to_owned(),
        profiles: value["profiles"].as_bool()?,
        describe: describe.rsplit_once("; ").map_or(describe, |(why, _)| why).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_last_line() {
        let out = "chatter\n\n{\"version\":\"0.90\",\"profiles\":false,\"describe\":\"PJRT plugin `x`, PJRT 0.90, cannot \
                   profile: no extension; loaded\"}\n";
        let answer =
            Answer { version: "0.90".into(), profiles: false, describe: "cannot profile: no extension".into() };
        assert_eq!(parse(out), Some(answer));
        assert_eq!(parse("chatter"), None);
        assert_eq!(parse(""), None);
    }
}
