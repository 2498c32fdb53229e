//! The file of calls, a line each.

use std::env;
use std::ffi::{CStr, c_char};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::OnceLock;

/// A call as it is written down; the crate's documentation has the keys.
#[derive(Default)]
pub(crate) struct Call<'a> {
    pub(crate) api: &'static str,
    pub(crate) call: &'static str,
    pub(crate) domain: Option<&'a str>,
    pub(crate) label: Option<&'a str>,
    pub(crate) registered: bool,
    pub(crate) color: Option<u32>,
    pub(crate) category: u32,
    pub(crate) id: Option<i64>,
}

impl Call<'_> {
    /// Appends the call's line; ends the process if that fails, so that no test takes a part for the whole.
    pub(crate) fn write(&self) {
        let Some(mut file) = file() else { return };
        let Call { api, call, domain, label, registered, color, category, id } = self;
        // SAFETY: gettid only asks the kernel.
        let tid = unsafe { libc::gettid() };
        let line = serde_json::json!({
            "api": api, "call": call, "pid": std::process::id(), "tid": tid, "domain": domain, "label": label,
            "registered": registered, "color": color, "category": category, "id": id,
        });
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            fail(&format!("failed to write a call: {error}"));
        }
    }
}

/// The file that `ZPROF_FAKE_TOOL_LOG` names, opened at the first call.
pub(crate) fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = env::var_os("ZPROF_FAKE_TOOL_LOG")?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Some(file.unwrap_or_else(|error| fail(&format!("failed to open {}: {error}", path.display()))))
    };
    FILE.get_or_init(open).as_ref()
}

/// Ends the process with a message.
pub(crate) fn fail(message: &str) -> ! {
    eprintln!("zprof-fake-tool: {message}");
    std::process::abort()
}

/// What a C string says.
///
/// # Safety
///
/// `text` is null or ends in NUL.
pub(crate) unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and ends in NUL by this function's own condition.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
