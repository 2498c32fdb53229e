//! Variables of the environment that change what is run: ours, and ZML's under their names.

use std::ffi::OsString;

pub(crate) use zprof_runtime::environment::variable;

/// Whether a switch is on: set, and neither empty nor `0`.
pub(crate) fn is_set(names: &[&str]) -> bool {
    names.iter().any(|name| variable(name).is_some_and(|value| value != "0"))
}

/// What replaces a tool's default arguments, if `ZPROF_<key>_ARGS` or `ZML_<key>_ARGS` is set: ours wins. Ours is read
/// as a shell reads words, so that quotes keep blanks; ZML's is split at blanks, as ZML does.
pub(crate) fn replaced(key: &str) -> Option<Vec<OsString>> {
    let value = |prefix: &str| variable(&format!("{prefix}_{key}_ARGS"));
    value("ZPROF")
        .map(|words| shell_words(&words.to_string_lossy()))
        .or_else(|| value("ZML").map(|words| blank_words(&words.to_string_lossy())))
}

/// Words as a shell reads them; where quotes do not close, split at blanks.
fn shell_words(text: &str) -> Vec<OsString> {
    match shlex::split(text) {
        Some(words) => words.into_iter().map(OsString::from).collect(),
        None => blank_words(text),
    }
}

fn blank_words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_is_quoted() {
        assert_eq!(
            shell_words("profile -o 'my report' \"a b\"  c\n-t nvtx"),
            ["profile", "-o", "my report", "a b", "c", "-t", "nvtx"]
        );
        assert_eq!(shell_words("it's open"), ["it's", "open"], "quotes that do not close are letters");
        assert_eq!(blank_words(" -o 'a b' "), ["-o", "'a", "b'"]);
    }
}
