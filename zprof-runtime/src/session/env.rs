//! The variables of the environment that ask for a session: what each may be, and what it sets.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use super::files::XSPACE;
use super::options::{ProfilerOptions, SessionId};
use super::platform::Platform;
use crate::display::is_printable;
use crate::error::{Error, ErrorKind, Result};
use crate::record::directives::Directives;

/// The variable without which no other counts.
pub(super) const MAIN: &str = "ZPROF";

/// The variable that has directives, whose mistakes are told by their place.
const FILTER: &str = "ZPROF_FILTER";

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) options: ProfilerOptions,
    pub(super) device: Device,
    /// How long the plugin is waited for at the end.
    pub(super) plugin_limit: Duration,
    /// Whether nothing is said of where the profile is.
    pub(super) is_quiet: bool,
}

/// What to profile besides the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Device {
    /// The plugin that is found, if any.
    Any,
    /// The same, but there must be one.
    Some,
    /// None.
    None,
    /// The plugin of this library.
    Library(PathBuf),
}

/// How a variable's value is taken: `Err` says what it may be.
type Taken = std::result::Result<(), &'static str>;

/// Takes a variable's value.
type Take = fn(&mut Request, &OsStr) -> Taken;

/// All further variables, in the order in which they are read. A variable that is empty is not there.
const VARIABLES: &[(&str, Take)] = &[
    ("ZPROF_SESSION", session),
    ("ZPROF_LEVEL", level),
    ("ZPROF_BUFFER", buffer),
    ("ZPROF_KEEP", keep),
    ("ZPROF_KEEP_BYTES", keep_bytes),
    ("ZPROF_CLOCK", clock),
    ("ZPROF_PJRT", pjrt),
    ("ZPROF_PJRT_SECONDS", pjrt_seconds),
    ("ZPROF_QUIET", quiet),
    ("ZPROF_JSON", json),
];

/// Variables that the command `zprof` reads, and the programs that it starts see too.
const OF_THE_COMMAND: [&str; 3] = ["ZPROF_NO_SUDO", "ZPROF_NSYS_ARGS", "ZPROF_ROCPROFV3_ARGS"];

/// So many letters may differ between a variable and the one that was meant.
const NEAR: usize = 2;

/// What to say of variables whose names look like ours and are not.
pub(crate) fn unknown(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let known = || VARIABLES.iter().map(|(name, _)| *name).chain([FILTER]);
    let of_others = |name: &str| OF_THE_COMMAND.contains(&name);
    let names = variables.filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.to_string_lossy().into_owned());
    let mut unknown: Vec<String> = names.filter(|name| name.starts_with("ZPROF_")).collect();
    unknown.retain(|name| !known().any(|known| known == name) && !of_others(name));
    unknown.sort();
    let told = |name: String| {
        let given = name.to_ascii_uppercase();
        let nearest = known().map(|known| (distance(&given, known), known)).filter(|(far, _)| *far <= NEAR).min();
        let cure = nearest
            .map_or_else(|| "`init_from_env` documents all".to_owned(), |(_, known)| format!("is `{known}` meant?"));
        format!("the variable `{name}` is none of zprof's and changes nothing; {cure}")
    };
    unknown.into_iter().map(told).collect()
}

/// How many letters must go, come or change to make one text of the other. For texts whose lengths differ by more than
/// [`NEAR`], that difference, which is the least that it can be.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let apart = from.chars().count().abs_diff(to.len());
    if apart > NEAR {
        return apart;
    }
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (place, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[to.len()]
}

/// What the environment asks for, as `get` gives its variables; `None` where it asks for nothing.
pub(crate) fn request(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Request>> {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    let Some(main) = get(MAIN).filter(|value| switch(value) != Some(false)) else { return Ok(None) };
    let mut request = Request {
        options: ProfilerOptions { is_from_env: true, ..ProfilerOptions::default() }.session_id(SessionId::Unique),
        device: Device::Any,
        plugin_limit: Duration::from_secs(60),
        is_quiet: false,
    };
    let wrong = |name: &str, value: &OsStr, allowed: &str| {
        let message = format!("no profile: `{name}` is `{}`; it may be {allowed}", value.to_string_lossy());
        Err(Error::new(ErrorKind::InvalidInput, message))
    };
    if let Err(allowed) = place(&mut request, &main) {
        return wrong(MAIN, &main, allowed);
    }
    for (name, take) in VARIABLES {
        let Some(value) = get(name) else { continue };
        if let Err(allowed) = take(&mut request, &value) {
            return wrong(name, &value, allowed);
        }
    }
    if let Some(value) = get(FILTER) {
        let Some(text) = value.to_str() else { return wrong(FILTER, &value, "directives in UTF-8") };
        Directives::parse(text).map_err(|error| error.context(format_args!("no profile: `{FILTER}` is wrong")))?;
        request.options.directives = text.to_owned();
    }
    Ok(Some(request))
}

/// Yes or no, in the words that people have for it.
fn switch(value: &OsStr) -> Option<bool> {
    match value.to_str()?.to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Where the profile goes.
fn place(request: &mut Request, value: &OsStr) -> Taken {
    const ALLOWED: &str = "`1` for a run's folder below `/tmp/xprof`, the path of another log directory, the path of a file \
                           that ends in `.xplane.pb`, or `0` for none; a path of digits alone is written `./7`";
    if switch(value) == Some(true) {
        return Ok(());
    }
    let text = value.to_string_lossy();
    let ends_as_file = [".pb", ".json", ".gz", ".pftrace"].iter().any(|end| text.ends_with(end));
    if text.ends_with(XSPACE) {
        request.options.file = Some(PathBuf::from(value));
    } else if ends_as_file || text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ALLOWED);
    }
    request.options.repository_path = PathBuf::from(value);
    Ok(())
}

fn session(request: &mut Request, value: &OsStr) -> Taken {
    let name = value.to_str().filter(|_| request.options.file.is_none());
    let name = name.ok_or("the name of a run's folder in UTF-8, where `ZPROF` names no file")?;
    if !name.chars().all(is_printable) {
        return Err("the name of a run's folder without control characters and invisible ones");
    }
    request.options.session_id = SessionId::Named(name.to_owned());
    Ok(())
}

fn level(request: &mut Request, value: &OsStr) -> Taken {
    let level = match value.to_str() {
        Some("critical") => Some(1),
        Some("info") => Some(2),
        Some("verbose") => Some(3),
        other => other.and_then(|number| number.parse::<u8>().ok()),
    };
    let level = level.ok_or("`critical`, `info`, `verbose`, or a number from 0, nothing of the host, to 255")?;
    request.options.host_tracer_level = level.into();
    Ok(())
}

fn buffer(request: &mut Request, value: &OsStr) -> Taken {
    let bytes = bytes(value).filter(|bytes| *bytes >= super::MIN_BUFFER_BYTES);
    request.options.max_buffer_bytes =
        bytes.ok_or("a number of bytes from 64K on, also with K, M or G behind it for powers of 1024")?;
    Ok(())
}

fn keep_bytes(request: &mut Request, value: &OsStr) -> Taken {
    let bytes = bytes(value).filter(|bytes| *bytes != 0);
    let bytes = bytes.ok_or("a number of bytes from 1 on, also with K, M or G behind it for powers of 1024")?;
    request.options.keep_last_bytes = Some(bytes);
    Ok(())
}

fn bytes(value: &OsStr) -> Option<usize> {
    let text = value.to_str()?;
    let (digits, unit) = match text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8)) {
        (digits, "K" | "k") => (digits, 10),
        (digits, "M" | "m") => (digits, 20),
        (digits, "G" | "g") => (digits, 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << unit)
}

fn keep(request: &mut Request, value: &OsStr) -> Taken {
    let time = value.to_str().and_then(|text| {
        let (number, unit_ms) = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]
            .iter()
            .find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, *ms)))?;
        number.parse::<u64>().ok()?.checked_mul(unit_ms)
    });
    let time = time.filter(|ms| *ms != 0).ok_or("a time such as `500ms`, `30s`, `10m` or `2h`")?;
    request.options.keep_last = Some(Duration::from_millis(time));
    Ok(())
}

fn json(request: &mut Request, value: &OsStr) -> Taken {
    request.options.trace_json = switch(value).ok_or("`on` to write the JSON beside the XSpace, or `off`")?;
    Ok(())
}

fn clock(request: &mut Request, value: &OsStr) -> Taken {
    request.options.system_clock = match value.to_str() {
        Some("system") => true,
        Some("auto") => false,
        _ => {
            return Err(
                "`auto` for the processor's counter where it can be trusted, or `system` for the system's clock",
            );
        }
    };
    Ok(())
}

fn pjrt(request: &mut Request, value: &OsStr) -> Taken {
    request.device = match switch(value) {
        Some(true) => Device::Some,
        Some(false) => Device::None,
        None => Device::Library(PathBuf::from(value)),
    };
    Ok(())
}

fn pjrt_seconds(request: &mut Request, value: &OsStr) -> Taken {
    let seconds = value.to_str().and_then(|number| number.parse::<u32>().ok());
    let seconds = seconds.ok_or("a whole number of seconds")?;
    request.plugin_limit = Duration::from_secs(seconds.into());
    Ok(())
}

fn quiet(request: &mut Request, value: &OsStr) -> Taken {
    request.is_quiet = switch(value).ok_or("`1` or `0`")?;
    Ok(())
}

impl Request {
    /// What is to be profiled.
    pub(super) fn platform(&self) -> Result<Platform> {
        match &self.device {
            Device::Any => Platform::auto(),
            Device::None => Ok(Platform::host()),
            Device::Library(path) => Platform::load(path),
            Device::Some => {
                let platform = Platform::auto()?;
                if platform.plugin().is_none() {
                    let message = format!("`ZPROF_PJRT` is on, but there is {}", platform.describe());
                    return Err(Error::new(ErrorKind::Plugin, message));
                }
                Ok(platform)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(variables: &[(&str, &str)]) -> Result<Option<Request>> {
        request(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    fn usual() -> Request {
        Request {
            options: ProfilerOptions { is_from_env: true, ..ProfilerOptions::default() }.session_id(SessionId::Unique),
            device: Device::Any,
            plugin_limit: Duration::from_secs(60),
            is_quiet: false,
        }
    }

    #[test]
    fn nothing_is_asked_for_without_the_main_variable() {
        for value in ["", "0", "off", "OFF", "false", "no"] {
            let request = asked(&[("ZPROF", value), ("ZPROF_LEVEL", "nonsense")]).expect("it is not looked at");
            assert_eq!(request, None, "{value}");
        }
        assert_eq!(asked(&[("ZPROF_LEVEL", "info")]).expect("nothing is wrong"), None);
    }

    #[test]
    fn each_variable_sets_its_own() {
        for value in ["1", "on", "True", "yes"] {
            assert_eq!(asked(&[("ZPROF", value)]).expect("it is fine"), Some(usual()), "{value}");
        }
        let one = |name, value| asked(&[("ZPROF", "1"), (name, value)]).expect(value).expect("it is asked for");
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = usual();
            change(&mut request);
            request
        };
        assert_eq!(one("ZPROF_SESSION", "a"), with(&|request| request.options.session_id = "a".into()));
        for (value, level) in [("critical", 1), ("info", 2), ("verbose", 3), ("0", 0), ("255", 255)] {
            assert_eq!(one("ZPROF_LEVEL", value), with(&|request| request.options.host_tracer_level = level));
        }
        for (value, bytes) in [("65536", 1 << 16), ("64K", 1 << 16), ("3m", 3 << 20), ("2G", 2 << 30)] {
            assert_eq!(one("ZPROF_BUFFER", value), with(&|request| request.options.max_buffer_bytes = bytes));
        }
        for (value, device) in [("on", Device::Some), ("0", Device::None), ("/x.so", Device::Library("/x.so".into()))] {
            assert_eq!(one("ZPROF_PJRT", value), with(&|request| request.device = device.clone()));
        }
        let limited = with(&|request| request.plugin_limit = Duration::from_secs(7));
        assert_eq!(one("ZPROF_PJRT_SECONDS", "7"), limited);
        assert_eq!(one("ZPROF_QUIET", "on"), with(&|request| request.is_quiet = true));
        assert_eq!(one("ZPROF_QUIET", ""), usual());
        assert_eq!(one("ZPROF_JSON", "off"), with(&|request| request.options.trace_json = false));
        assert_eq!(one("ZPROF_JSON", "on"), usual());
        assert_eq!(one("ZPROF_CLOCK", "system"), with(&|request| request.options.system_clock = true));
        assert_eq!(one("ZPROF_CLOCK", "auto"), usual());
        for (value, ms) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000)] {
            let kept = with(&|request| request.options.keep_last = Some(Duration::from_millis(ms)));
            assert_eq!(one("ZPROF_KEEP", value), kept);
        }
        let kept = with(&|request| request.options.keep_last_bytes = Some(1 << 20));
        assert_eq!(one("ZPROF_KEEP_BYTES", "1M"), kept);
        let filtered = with(&|request| request.options.directives = "off,a::b=info".to_owned());
        assert_eq!(one("ZPROF_FILTER", "off,a::b=info"), filtered);
    }

    #[test]
    fn names_that_are_not_known_are_told_with_the_nearest() {
        let told = |names: &[&str]| unknown(names.iter().map(|name| (OsString::from(name), OsString::from("1"))));
        let all =
            VARIABLES.iter().map(|(name, _)| *name).chain(OF_THE_COMMAND).chain([MAIN, FILTER, "ZPROFILE", "PATH"]);
        assert_eq!(told(&all.collect::<Vec<_>>()), Vec::<String>::new());
        let found = told(&["ZPROF_FLITER", "ZPROF_OUTPUT", "ZPROF_level", "ZPROF_KEEP_BYTE", "ZPROF_"]);
        let is =
            |name: &str, cure: &str| format!("the variable `{name}` is none of zprof's and changes nothing; {cure}");
        let expected = [
            is("ZPROF_", "`init_from_env` documents all"),
            is("ZPROF_FLITER", "is `ZPROF_FILTER` meant?"),
            is("ZPROF_KEEP_BYTE", "is `ZPROF_KEEP_BYTES` meant?"),
            is("ZPROF_OUTPUT", "`init_from_env` documents all"),
            is("ZPROF_level", "is `ZPROF_LEVEL` meant?"),
        ];
        assert_eq!(found, expected);
        // One that is empty is not there.
        assert_eq!(unknown([("ZPROF_FLITER".into(), "".into())].into_iter()), Vec::<String>::new());
        for (from, to, far) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2), ("abc", "c", 2)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (far, far), "{from} {to}");
        }
    }

    #[test]
    fn a_path_is_a_log_directory_or_a_file() {
        let at = |value| asked(&[("ZPROF", value)]).expect(value).expect("it is asked for").options;
        let folder = usual().options.repository_path("some/folder");
        assert_eq!(at("some/folder"), folder);
        let mut file = usual().options.repository_path("some/run.xplane.pb");
        file.file = Some("some/run.xplane.pb".into());
        assert_eq!(at("some/run.xplane.pb"), file);
    }

    #[test]
    fn a_wrong_value_is_told_with_what_is_right() {
        for (name, value, allowed) in [
            ("ZPROF_LEVEL", "loud", "`critical`, `info`, `verbose`, or a number from 0, nothing of the host, to 255"),
            ("ZPROF_LEVEL", "256", "`critical`, `info`, `verbose`, or a number from 0, nothing of the host, to 255"),
            ("ZPROF_BUFFER", "1K", "a number of bytes from 64K on, also with K, M or G behind it for powers of 1024"),
            ("ZPROF_BUFFER", "ü", "a number of bytes from 64K on, also with K, M or G behind it for powers of 1024"),
            (
                "ZPROF_BUFFER",
                "99999999999G",
                "a number of bytes from 64K on, also with K, M or G behind it for powers of 1024",
            ),
            ("ZPROF_KEEP", "30", "a time such as `500ms`, `30s`, `10m` or `2h`"),
            ("ZPROF_KEEP", "0s", "a time such as `500ms`, `30s`, `10m` or `2h`"),
            ("ZPROF_KEEP_BYTES", "0", "a number of bytes from 1 on, also with K, M or G behind it for powers of 1024"),
            ("ZPROF_PJRT_SECONDS", "-1", "a whole number of seconds"),
            ("ZPROF_QUIET", "2", "`1` or `0`"),
            ("ZPROF_JSON", "no JSON", "`on` to write the JSON beside the XSpace, or `off`"),
        ] {
            let error = asked(&[("ZPROF", "1"), (name, value)]).expect_err(value);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_eq!(error.to_string(), format!("no profile: `{name}` is `{value}`; it may be {allowed}"));
        }
        let error = asked(&[("ZPROF", "1"), ("ZPROF_FILTER", "off,a=loud")]).expect_err("there is no such level");
        let expected = "no profile: `ZPROF_FILTER` is wrong: failed to read directive 2 of `off,a=loud`: `loud` in `a=loud` \
                        is no level; write `off`, `critical`, `info` or `verbose`";
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, expected));
        let error = asked(&[("ZPROF", "x.xplane.pb"), ("ZPROF_SESSION", "a")]).expect_err("there is no run's folder");
        let expected = "no profile: `ZPROF_SESSION` is `a`; it may be the name of a run's folder in UTF-8, where `ZPROF` \
                        names no file";
        assert_eq!(error.to_string(), expected);
        for value in ["2", "trace.json", "trace.json.gz", "x.pftrace", "x.pb"] {
            let error = asked(&[("ZPROF", value)]).expect_err(value);
            let expected = "it may be `1` for a run's folder below `/tmp/xprof`, the path of another log directory, the \
                            path of a file that ends in `.xplane.pb`, or `0` for none; a path of digits alone is written \
                            `./7`";
            assert_eq!(error.to_string(), format!("no profile: `ZPROF` is `{value}`; {expected}"));
        }
    }
}
